"""Modules: covariances, their roots, covariance pooling and whitening."""

from .box_cox import BoxCox
from .branches import BranchPool
from .brownian import BrownianDistance
from .channel_dropout import AdaptiveChannelDropout
from .covariance import Covariance, covariance
from .factored import LogCholesky, SparsePrecision
from .group_whitening import GroupWhitening
from .kernel_roots import SVDPI, KernelRoot, MPNCov, SVDPade, SVDTaylor, SVDTopN, SVDTrunc
from .learned import LearnedFilter, LearnedMixture, LearnedPower
from .method import KernelBound, Method
from .newton_root import SVDNewton
from .newton_value import NewtonExact, NewtonFused
from .normalisations import (
    ISqrtCov,
    MatrixLog,
    MatrixPower,
    MinimaxRoot,
    PlainCovariance,
    SignedSqrt,
)
from .pooling import AveragePool, CovariancePool, covariance_pool, make_pool, resolve_pool
from .registry import METHODS, is_registered, method_names, register, resolve_method
from .replacing import replace_batch_norm
from .scaled_root import ScalingEigenBranch
from .scaling import Factor, Length, Scaling
from .spectral_roots import Exact, SpectralRoot
from .switching import (
    covariance_pools,
    learned_parameters,
    learned_values,
    set_method,
    using_method,
)
from .whitening import Whitening
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
    "SVDPI",
    "WHITENING_METHODS",
    "AdaptiveChannelDropout",
    "AveragePool",
    "BoxCox",
    "BranchPool",
    "BrownianDistance",
    "CholeskyWhitening",
    "Covariance",
    "CovariancePool",
    "Exact",
    "ExactWhitening",
    "Factor",
    "GroupWhitening",
    "ISqrtCov",
    "KernelBound",
    "KernelRoot",
    "LearnedFilter",
    "LearnedMixture",
    "LearnedPower",
    "Length",
    "LogCholesky",
    "MPNCov",
    "MatrixLog",
    "MatrixPower",
    "Method",
    "MinimaxRoot",
    "NewtonExact",
    "NewtonFused",
    "NewtonWhitening",
    "PlainCovariance",
    "SVDNewton",
    "SVDPade",
    "SVDTaylor",
    "SVDTopN",
    "SVDTrunc",
    "Scaling",
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
    "learned_parameters",
    "learned_values",
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
