"""Functions of tensors: decompositions and matrix functions whose gradients are right everywhere.

The names below are for users. Layers above may also import from the modules what has no underscore.
"""

from .alignment import Alignment, align
from .checks import skip_checks
from .correlations import canonical_correlations
from .eigh import EighResult, eigh
from .functions import expm, inv_sqrtm, inverse_root, logm, matrix_function, powm, sqrtm
from .gaussians import bures_wasserstein, frechet_distance
from .generalized import affine_invariant_distance
from .iterations import Roots, newton_schulz
from .minimax import Minimax
from .polar import Polar, orthogonalize, polar, rotation
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
from .singular import (
    clip_singular_values,
    low_rank,
    singular_value_function,
    singular_value_threshold,
)
from .spectra import eigvalsh, svdvals
from .stable import stable
from .subspace import leading_projector, null_vectors, principal_subspace
from .svd import SVDResult, svd
from .topk import topk_eigh, topk_svd
from .vectorize import from_triangle, to_triangle, triangle_size, triangle_weights

__all__ = [
    "FUNCTIONS",
    "RULES",
    "Alignment",
    "Degenerate",
    "EighResult",
    "GradientRule",
    "Lorentzian",
    "Minimax",
    "Ordinary",
    "Pade",
    "Polar",
    "Power",
    "PowerIteration",
    "Roots",
    "Rule",
    "SVDResult",
    "ScalarFunction",
    "Taylor",
    "Truncated",
    "affine_invariant_distance",
    "align",
    "bures_wasserstein",
    "canonical_correlations",
    "clip_singular_values",
    "eigh",
    "eigvalsh",
    "expm",
    "frechet_distance",
    "from_triangle",
    "inv_sqrtm",
    "inverse_root",
    "leading_projector",
    "logm",
    "low_rank",
    "matrix_function",
    "newton_schulz",
    "null_vectors",
    "orthogonalize",
    "polar",
    "powm",
    "principal_subspace",
    "resolve_rule",
    "rotation",
    "singular_value_function",
    "singular_value_threshold",
    "skip_checks",
    "sqrtm",
    "stable",
    "svd",
    "svdvals",
    "to_triangle",
    "topk_eigh",
    "topk_svd",
    "triangle_size",
    "triangle_weights",
]
