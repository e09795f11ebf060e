"""The table of methods by name. Everything that lists methods iterates over it."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from rootpool.suggest import unknown_name

from .follow_ups import BoxCox, BrownianDistance, LogCholesky, SparsePrecision
from .kernel_roots import SVDPI, MPNCov, SVDPade, SVDTaylor, SVDTopN, SVDTrunc
from .method import SOURCES, Method
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
from .published import FORMS
from .spectral_roots import Exact, ScalingEigenBranch

_METHODS: tuple[type[Method], ...] = (
    Exact,
    ISqrtCov,
    MPNCov,
    SVDTopN,
    SVDTrunc,
    SVDPI,
    SVDNewton,
    SVDTaylor,
    SVDPade,
    NewtonFused,
    MinimaxRoot,
    PolarRoot,
    *FORMS,
    ScalingEigenBranch,
    BoxCox,
    LogCholesky,
    BrownianDistance,
    SparsePrecision,
    PlainCovariance,
    MatrixLog,
    MatrixPower,
    SignedSqrt,
)
METHODS: dict[str, type[Method]] = {method.name: method for method in _METHODS}

M = TypeVar("M", bound=Method)


def register(method: type[M]) -> type[M]:
    """Add a method of your own to ``METHODS``; a class decorator.

    Its name then works wherever a method is named: ``CovariancePool``, ``create_model``, recipes, the
    command line and plots. Spectral roots also work under ``torch.compile``, ``torch.export`` and
    ``torch.vmap``, if their fields are numbers, booleans, strings or None.

    >>> @register
    ... @dataclasses.dataclass(frozen=True)
    ... class Shrunk(Method):
    ...     name = "shrunk"
    ...     source = "baseline"
    ...     use = "to damp large covariances"
    ...
    ...     factor: float = 0.5
    ...
    ...     def __call__(self, P):
    ...         return self.factor * P
    >>> resolve_method("shrunk", factor=0.1)
    Shrunk(factor=0.1)
    >>> del METHODS["shrunk"]
    """
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise TypeError(f"register expects a subclass of Method, got {method!r}")
    missing = [key for key in ("name", "source", "use") if not hasattr(method, key)]
    if missing:
        raise TypeError(
            f"{method.__name__} has no {', '.join(missing)}; write for example "
            f'name: ClassVar[str] = "{method.__name__.lower()}"'
        )
    if method.source not in SOURCES:
        raise ValueError(
            f"{method.__name__}.source must be one of {', '.join(SOURCES)}, got {method.source!r}"
        )
    if METHODS.get(method.name, method).__qualname__ != method.__qualname__:
        raise ValueError(
            f"the name {method.name!r} belongs to {METHODS[method.name].__name__} already"
        )
    METHODS[method.name] = method
    return method


def is_registered(method: Method) -> bool:
    """Whether ``METHODS`` has the class of a method under its name.

    >>> is_registered(SVDTrunc(bound=1e8))
    True
    """
    return METHODS.get(getattr(method, "name", "")) is type(method)


def method_names(*sources: str) -> list[str]:
    """Names of the methods from some sources, all of them by default, in the order of the table.

    >>> "exact" in method_names("ours"), "exact" in method_names("paper", "baseline")
    (True, False)
    """
    unknown = [source for source in sources if source not in SOURCES]
    if unknown:
        raise ValueError(unknown_name("source", unknown[0], SOURCES))
    return [name for name, method in METHODS.items() if not sources or method.source in sources]


def resolve_method(method: str | Method, **options: Any) -> Method:
    """Return the method of that name, with options instead of its defaults, or the method itself.

    >>> resolve_method("svd-trunc")
    SVDTrunc(bound=10000000000.0)
    >>> resolve_method("svd-trunc", bound=1e8)
    SVDTrunc(bound=100000000.0)
    >>> resolve_method(SVDTrunc(bound=1e8))
    SVDTrunc(bound=100000000.0)
    """
    if isinstance(method, Method):
        if options:
            raise TypeError(f"options go with the name of a method; {method} has its own already")
        return method
    if not isinstance(method, str):
        raise TypeError(f"method must be a name in METHODS or a Method, got {method!r}")
    if method == "gap":
        raise ValueError(
            "'gap' averages features and has no covariance to normalise; use AveragePool, or "
            "make_pool(channels, 'gap')"
        )
    if method not in METHODS:
        raise ValueError(unknown_name("method", method, METHODS))
    try:
        return METHODS[method](**options)
    except TypeError as error:
        takes = ", ".join(field.name for field in dataclasses.fields(METHODS[method])) or "none"
        raise ValueError(f"the options of {method} are {takes}; got {options!r:.200}") from error
