"""Functions of tensors: decompositions and matrix functions whose gradients are right everywhere.

The names below are for users. Layers above may also import what is in ``__all__`` of the modules; modules
with an underscore belong to this package alone.
"""

from .checks import skip_checks
from .eigh import EighResult, eigh
from .functions import inv_sqrtm, logm, matrix_function, powm, sqrtm
from .iterations import Roots, newton_schulz
from .rules import (
    RULES,
    Degenerate,
    GradientRule,
    Lorentzian,
    Ordinary,
    Pade,
    PowerIteration,
    Rule,
    Taylor,
    Truncated,
    resolve_rule,
)
from .scalar import FUNCTIONS, Power, ScalarFunction
from .svd import SVDResult, svd
from .vectorize import from_triangle, to_triangle, triangle_size, triangle_weights

__all__ = [
    "FUNCTIONS",
    "RULES",
    "Degenerate",
    "EighResult",
    "GradientRule",
    "Lorentzian",
    "Ordinary",
    "Pade",
    "Power",
    "PowerIteration",
    "Roots",
    "Rule",
    "SVDResult",
    "ScalarFunction",
    "Taylor",
    "Truncated",
    "eigh",
    "from_triangle",
    "inv_sqrtm",
    "logm",
    "matrix_function",
    "newton_schulz",
    "powm",
    "resolve_rule",
    "skip_checks",
    "sqrtm",
    "svd",
    "to_triangle",
    "triangle_size",
    "triangle_weights",
]
