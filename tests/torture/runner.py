"""Run checks on groups of cases: forward, backward, one and two threads, in company and alone."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import ERROR, MUST, THRESHOLD, Batch, Check, Outputs, statuses
from .corpus import Group
from .function_checks import FUNCTION_CHECKS
from .linalg_checks import MATRIX_CHECKS, matrix_batch
from .nn_checks import FEATURE_CHECKS, feature_batch

FAMILY_CHECKS = {
    "matrix": (matrix_batch, MATRIX_CHECKS | FUNCTION_CHECKS),
    "features": (feature_batch, FEATURE_CHECKS),
}
# An item that may raise an error cannot go with others. To save time, so many of each group at most go
# alone, those of the most extreme scales; and threads and the rest of the batch are looked at in some sizes.
ALONE = 4
TOO_SMALL_FOR_COMPANY = (1, 2, 5, 13)
CLEAR_ERRORS = (LinAlgError, ValueError)  # ours; anything else is a fault


@dataclass(frozen=True)
class Finding:
    """One figure of one case, or what went wrong with it (then ``figure`` is infinite)."""

    case: str
    check: str
    measure: str
    figure: float
    message: str = ""

    @property
    def failed(self) -> bool:
        return not self.figure <= THRESHOLD


def examine(group: Group) -> list[Finding]:
    """All that is to be found out about a group; for a process that does nothing else."""
    torch.set_num_threads(1)
    return list(run_group(group))


def run_group(group: Group, only: str | None = None) -> Iterator[Finding]:
    """All findings of all checks on the cases of a group."""
    make, checks = FAMILY_CHECKS[group.family]
    batch = make(group)
    for name, check in checks.items():
        if only in (None, name):
            fits = None if check.applies is None else check.applies(batch).nonzero()[:, 0]
            chosen = batch if fits is None else batch.take(fits)
            if len(chosen):
                yield from _run_check(group, chosen, name, check)


def _run_check(group: Group, batch: Batch, name: str, check: Check) -> Iterator[Finding]:
    value, gradient = statuses(check, batch)
    sure = (value == MUST) & (gradient == MUST)
    together = batch.take(sure.nonzero()[:, 0]) if sure.any() else None
    if together is not None:
        findings = list(_try(group, together, name, check, MUST, MUST))
        if any(f.measure == "error" for f in findings):  # find the culprits
            for k in range(len(together)):
                yield from _try(group, together.take(torch.tensor([k])), name, check, MUST, MUST)
        else:
            yield from findings
            if check.company and batch.input.shape[-1] not in TOO_SMALL_FOR_COMPANY:
                yield from _company(group, together, name, check)
    unsure = (~sure).nonzero()[:, 0]
    extremes = batch.exponent[unsure].abs().argsort(descending=True, stable=True)
    for k in unsure[extremes[:ALONE]]:
        alone = batch.take(k.reshape(1))
        yield from _try(group, alone, name, check, int(value[k]), int(gradient[k]))


def _try(
    group: Group, batch: Batch, name: str, check: Check, value: int, gradient: int
) -> Iterator[Finding]:
    """Forward, backward, and what they give; an error only where one is due."""

    def finding(k: int, measure: str, figure: float, message: str = "") -> Finding:
        return Finding(group.name(int(batch.index[k])), name, measure, figure, message)

    stage, status = "forward", value
    try:
        outputs, graph_input = _forward(check, batch)
        if status == ERROR:
            yield finding(0, "error", torch.inf, "no error where the result does not exist")
            return
        yield from _judge(batch, finding, outputs, check.value if status == MUST else None, outputs)
        stage, status = "backward", max(gradient, value)
        upstream = _upstream(group, batch, outputs)
        Y = _backward(outputs, graph_input, upstream)
        if status == ERROR:
            yield finding(0, "error", torch.inf, "no error where the gradient overflows")
            return
    except CLEAR_ERRORS as error:
        if status == MUST:
            yield finding(0, "error", torch.inf, f"{stage}: {type(error).__name__}: {error}")
        else:
            yield finding(0, "clear error", 0.0, f"{stage}: {error}")
        return
    except Exception as error:
        yield finding(0, "error", torch.inf, f"{stage}: {type(error).__name__}: {error}")
        return
    # Near the ends of the range results need not be accurate, only finite.
    measure = check.gradient if status == MUST else None
    yield from _judge(batch, finding, (Y,), measure, outputs, upstream, Y)


def _judge(batch: Batch, finding, results: Outputs, measure, *arguments) -> Iterator[Finding]:
    part = "value" if len(arguments) == 1 else "gradient"
    finite = torch.stack([r.isfinite().flatten(1).all(1) for r in results]).all(0)
    for k in range(len(batch)):
        yield finding(k, f"finite {part}", 0.0 if finite[k] else torch.inf)
    if measure is None:
        return
    outputs = tuple(x.detach() for x in arguments[0])
    for what, figures in measure(batch, outputs, *arguments[1:]).items():
        for k in range(len(batch)):
            if finite[k]:
                yield finding(k, what, float(figures[k]))


def _forward(check: Check, batch: Batch) -> tuple[Outputs, Tensor]:
    graph_input = batch.input.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rule "degenerate" says when a loss has no gradient
        return check.call(batch, graph_input), graph_input


def _upstream(group: Group, batch: Batch, outputs: Outputs) -> list[Tensor]:
    """Gradients from above, the same for an item alone and in company."""
    return [
        torch.stack(
            [
                torch.randn(
                    x.shape[1:],
                    generator=group.generator(int(k), f"upstream {i}"),
                    dtype=torch.float64,
                )
                for k in batch.index
            ]
        ).to(x.dtype)
        for i, x in enumerate(outputs)
    ]


def _backward(outputs: Outputs, graph_input: Tensor, upstream: Sequence[Tensor]) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.autograd.grad(outputs, graph_input, upstream)[0]


def _company(group: Group, batch: Batch, name: str, check: Check) -> Iterator[Finding]:
    """All with two threads, and the last item alone with one: they keep the same promises.

    Not compared with each other, because another order of additions is allowed, and what it does to
    the gradient of an ill-conditioned matrix is known from the residuals alone.
    """
    with set_threads(2):
        yield from _try(group, batch, name, check, MUST, MUST)
    with set_threads(1):
        last = batch.take(torch.tensor([len(batch) - 1]))
        yield from _try(group, last, name, check, MUST, MUST)


@contextlib.contextmanager
def set_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
