"""Modules: covariances, their roots, covariance pooling and whitening."""

from .branches import Branch, BranchPool
from .covariance import covariance
from .follow_ups import (
    AdaptiveChannelDropout,
    BoxCox,
    BrownianDistance,
    LogCholesky,
    SparsePrecision,
)
from .kernel_roots import SVDPI, KernelRoot, MPNCov, SVDPade, SVDTaylor, SVDTopN, SVDTrunc
from .method import Method
from .newton_root import NewtonFused, SVDNewton
from .normalisations import (
    ISqrtCov,
    MatrixLog,
    MatrixPower,
    MinimaxRoot,
    PlainCovariance,
    SignedSqrt,
)
from .polar_root import PolarRoot
from .pooling import POOLS, AveragePool, CovariancePool, covariance_pool, make_pool, resolve_pool
from .registry import METHODS, is_registered, method_names, register, resolve_method
from .replacing import covariance_pools, replace_batch_norm, set_method, using_method
from .scaling import Length
from .spectral_roots import Exact, ScalingEigenBranch, SpectralRoot
from .whitening import GroupWhitening, Whitening
from .whitening_methods import (
    WHITENING_METHODS,
    CholeskyWhitening,
    ExactWhitening,
    NewtonWhitening,
    WhiteningMethod,
    resolve_whitening,
)

__all__ = [
    "METHODS",
    "POOLS",
    "SVDPI",
    "WHITENING_METHODS",
    "AdaptiveChannelDropout",
    "AveragePool",
    "BoxCox",
    "Branch",
    "BranchPool",
    "BrownianDistance",
    "CholeskyWhitening",
    "CovariancePool",
    "Exact",
    "ExactWhitening",
    "GroupWhitening",
    "ISqrtCov",
    "KernelRoot",
    "Length",
    "LogCholesky",
    "MPNCov",
    "MatrixLog",
    "MatrixPower",
    "Method",
    "MinimaxRoot",
    "NewtonFused",
    "NewtonWhitening",
    "PlainCovariance",
    "PolarRoot",
    "SVDNewton",
    "SVDPade",
    "SVDTaylor",
    "SVDTopN",
    "SVDTrunc",
    "ScalingEigenBranch",
    "SignedSqrt",
    "SparsePrecision",
    "SpectralRoot",
    "Whitening",
    "WhiteningMethod",
    "covariance",
    "covariance_pool",
    "covariance_pools",
    "is_registered",
    "make_pool",
    "method_names",
    "register",
    "replace_batch_norm",
    "resolve_method",
    "resolve_pool",
    "resolve_whitening",
    "set_method",
    "using_method",
]
