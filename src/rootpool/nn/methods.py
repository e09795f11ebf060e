"""The methods of the paper by name.

Each method is a frozen dataclass with the paper's defaults, and a function: ``SVDPade()(P)`` maps
``(..., d, d)`` to ``(..., d, d)``.
"""

from __future__ import annotations

from .method import Method
from .normalisations import (
    GlobalAverage,
    ISqrtCov,
    MatrixLog,
    MatrixPower,
    PlainCovariance,
    SignedSqrt,
)
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

__all__ = ["BASELINES", "METHODS", "resolve_method"]

METHODS: dict[str, type[Method]] = {
    "exact": Exact,
    "isqrt-cov": ISqrtCov,
    "mpn-cov": MPNCov,
    "svd-topn": SVDTopN,
    "svd-trunc": SVDTrunc,
    "svd-pi": SVDPI,
    "svd-newton": SVDNewton,
    "svd-taylor": SVDTaylor,
    "svd-pade": SVDPade,
}

# What the paper's comparisons rest on, besides: the vanilla head and other normalisations.
BASELINES: dict[str, type[Method]] = {
    "gap": GlobalAverage,
    "covariance": PlainCovariance,
    "log": MatrixLog,
    "power": MatrixPower,
    "signed-sqrt": SignedSqrt,
}


def resolve_method(method: str | Method) -> Method:
    """Return the method of that name with its defaults, or the method itself.

    >>> resolve_method("svd-trunc")
    SVDTrunc(bound=10000000000.0)
    >>> resolve_method(SVDTrunc(bound=1e8))
    SVDTrunc(bound=100000000.0)
    """
    known = METHODS | BASELINES
    if isinstance(method, str):
        if method not in known:
            raise ValueError(f"unknown method {method!r}; choose from {', '.join(known)}")
        return known[method]()
    if not isinstance(method, Method):
        raise TypeError(f"method must be one of {', '.join(known)} or a Method, got {method!r}")
    return method
