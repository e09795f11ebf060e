"""Modules: covariances, their roots, covariance pooling and whitening."""

from .branches import BranchPool
from .covariance import Covariance, covariance
from .method import Method
from .methods import BASELINES, METHODS, resolve_method
from .normalisations import (
    GlobalAverage,
    ISqrtCov,
    MatrixLog,
    MatrixPower,
    PlainCovariance,
    SignedSqrt,
)
from .pooling import CovariancePool, covariance_pool
from .root import covariance_root
from .scaling import Factor, Length, Scaling
from .spectral_roots import (
    SVDPI,
    Exact,
    MPNCov,
    SVDNewton,
    SVDPade,
    SVDTaylor,
    SVDTopN,
    SVDTrunc,
)
from .whitening import Whitening

__all__ = [
    "BASELINES",
    "METHODS",
    "SVDPI",
    "BranchPool",
    "Covariance",
    "CovariancePool",
    "Exact",
    "Factor",
    "GlobalAverage",
    "ISqrtCov",
    "Length",
    "MPNCov",
    "MatrixLog",
    "MatrixPower",
    "Method",
    "PlainCovariance",
    "SVDNewton",
    "SVDPade",
    "SVDTaylor",
    "SVDTopN",
    "SVDTrunc",
    "Scaling",
    "SignedSqrt",
    "Whitening",
    "covariance",
    "covariance_pool",
    "covariance_root",
    "resolve_method",
]
