"""Measures of covariances, gradients and methods that anyone can use on their own model.

Numbers in, records out: a record is a flat dict of numbers and strings. The Lightning callbacks that
take these measures during training are in :mod:`rootpool.analysis.callbacks`, which is not imported
here, so that the measures need torch alone.
"""

from .gradients import gradient_statistics, kernel_statistics, tensor_statistics
from .records import Record, mean_by, read_records, write_records
from .smoothness import effective_smoothness, smoothness_by_method, with_method
from .spectrum import covariance_eigenvalues, spectrum_statistics
from .timing import machine, time_methods

__all__ = [
    "Record",
    "covariance_eigenvalues",
    "effective_smoothness",
    "gradient_statistics",
    "kernel_statistics",
    "machine",
    "mean_by",
    "read_records",
    "smoothness_by_method",
    "spectrum_statistics",
    "tensor_statistics",
    "time_methods",
    "with_method",
    "write_records",
]
