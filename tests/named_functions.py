"""The matrix functions under test, by name; the names are those of ``oracles.MATRIX_FUNCTIONS``."""

import functools

import pytest

from rootpool.linalg import inv_sqrtm, logm, powm, sqrtm

OURS = {
    "sqrt": sqrtm,
    "inv_sqrt": inv_sqrtm,
    "log": logm,
    "power 0.3": functools.partial(powm, exponent=0.3),
    "power -0.7": functools.partial(powm, exponent=-0.7),
}
DEGREE = {"sqrt": 0.5, "inv_sqrt": -0.5, "log": 0.0, "power 0.3": 0.3, "power -0.7": -0.7}
SEMIDEFINITE = ["sqrt", "power 0.3"]
functions = pytest.mark.parametrize("name", OURS)
