"""Decompositions by torch itself, where its own derivative is right and takes half the time of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor
from torch.linalg import LinAlgError

from ._private import within_dual_level
from .checks import VECTOR_ADVICE, check_range, checks_enabled, is_concrete, is_finite
from .parallel import count_pieces
from .precision import is_inside_autocast

Known = tuple[Tensor, ...]  # the factors of a decomposition that need not be computed again


def decomposed(
    run: Callable[[Tensor], Sequence[Tensor]],
    A: Tensor,
    is_simple: Callable[[Sequence[Tensor]], bool],
    caller: str,
) -> tuple[Known | None, bool]:
    """The factors of ``A``, and whether torch's derivative of them will do: if they are simple.

    If not, they come without a graph. None where several threads are faster, where values cannot be looked
    at, and where something is wrong: others know what to do then.
    """
    # Inside autocast the backward of torch would multiply in half precision.
    left_alone = is_concrete(A) and not (within_dual_level() or is_inside_autocast())
    if not (left_alone and checks_enabled()) or A.is_complex() or A.numel() == 0:
        return None, False
    *lead, m, n = A.shape
    # Before any look at values, after which torch's threads would be in the way of our workers.
    if count_pieces(math.prod(lead), max(m, n), A.device) > 0:
        return None, False
    on_cpu = A.device.type == "cpu"  # elsewhere one look for all, as each makes the host wait
    if on_cpu and not is_finite(A.detach()):
        return None, False
    try:
        factors = run(A)
    except LinAlgError:
        return None, False
    known = tuple(factor.detach() for factor in factors)
    if not (is_finite(*known) if on_cpu else is_finite(A.detach(), *known)):
        return None, False
    if not is_simple(known):
        return known, False

    def look_for_overflow(
        gradients: Sequence[Tensor | None], upstream: Sequence[Tensor | None]
    ) -> None:
        """What our own backward does, too; it was asked for, or there would be no hook."""
        if gradients[0] is not None:
            sources = [g for g in upstream if g is not None]
            what = f"the gradient of {caller}"
            check_range(gradients[0], what, *sources, advice=VECTOR_ADVICE)

    node = factors[0].grad_fn
    assert node is not None  # the caller has asked whether a gradient is wanted
    node.register_hook(look_for_overflow)
    return tuple(factors), True
