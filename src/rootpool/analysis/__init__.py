"""Measures of covariances, smoothness and methods for your own models.

They return records, flat dicts of numbers and strings. The Lightning callbacks that measure during training
are in :mod:`rootpool.analysis.callbacks`, which is not imported here, so that the measures need only torch.
"""

from .records import Record, read_records, write_records
from .smoothness import effective_smoothness
from .spectrum import covariance_eigenvalues, spectrum_statistics
from .timing import machine, time_methods

__all__ = [
    "Record",
    "covariance_eigenvalues",
    "effective_smoothness",
    "machine",
    "read_records",
    "spectrum_statistics",
    "time_methods",
    "write_records",
]
