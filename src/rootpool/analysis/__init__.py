"""Measures of covariances, gradients and methods that anyone can use on their own model.

Numbers in, records out: a record is a flat dict of numbers and strings. The Lightning callbacks that
take these measures during training are in :mod:`rootpool.analysis.callbacks`, which is not imported
here, so that the measures need torch alone.
"""

from .approximation import approximation_errors, kernel_error
from .bounds import UpperBound, bound_by_formula, bound_by_search, upper_bounds
from .gradients import gradient_statistics, kernel_statistics, tensor_statistics
from .pade import PadeApproximant, pade_coefficients
from .records import Record, mean_by, read_records, write_records
from .smoothness import effective_smoothness, smoothness_by_method, with_method
from .spectrum import covariance_eigenvalues, spectrum_statistics
from .timing import machine, time_methods

__all__ = [
    "PadeApproximant",
    "Record",
    "UpperBound",
    "approximation_errors",
    "bound_by_formula",
    "bound_by_search",
    "covariance_eigenvalues",
    "effective_smoothness",
    "gradient_statistics",
    "kernel_error",
    "kernel_statistics",
    "machine",
    "mean_by",
    "pade_coefficients",
    "read_records",
    "smoothness_by_method",
    "spectrum_statistics",
    "tensor_statistics",
    "time_methods",
    "upper_bounds",
    "with_method",
    "write_records",
]
