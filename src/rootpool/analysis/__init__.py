"""Measures of covariances, gradients and methods that anyone can use on their own model.

Numbers in, records out: a record is a flat dict of numbers and strings. The Lightning callbacks that
take these measures during training are in :mod:`rootpool.analysis.callbacks`, which is not imported
here, so that the measures need torch alone.
"""

from .gradients import gradient_statistics, kernel_statistics, tensor_statistics
from .spectrum import covariance_eigenvalues, spectrum_statistics

__all__ = [
    "covariance_eigenvalues",
    "gradient_statistics",
    "kernel_statistics",
    "spectrum_statistics",
    "tensor_statistics",
]
