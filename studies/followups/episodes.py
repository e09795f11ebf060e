r"""Few-shot classification from inner products alone: episodes, nearest means, logistic regression.

An episode has some classes, a few labelled images of each (its support) and others to name (its queries).
Both classifiers need nothing of the vectors but their inner products, so that all episodes are computed from
one Gram matrix, side by side.

Logistic regression minimises, over the weights :math:`w_c` and biases :math:`b_c` of the classes,

.. math:: C \sum_i -\log \mathrm{softmax}(W x_i + b)_{y_i} + \tfrac12 |W|^2 .

The biases are free, so the vectors may be centred. The eigenvectors :math:`U` of their Gram matrix
:math:`U \Lambda U^T` then give coordinates :math:`\Phi = U \Lambda^{1/2}` that are orthogonal to each other
and to a column of ones. The Hessian of the sum is below one half of :math:`\Phi^T \Phi = \Lambda` (Bohning
1992), a diagonal matrix: steps with it never raise the loss, and no system is solved.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Episodes", "draw_episodes", "logistic_answers", "nearest_mean_answers"]

STEPS = 2000  # far more than it takes
PIECE = 250  # episodes at a time


@dataclass(frozen=True)
class Episodes:
    """Images by number: ``support`` is ``(episodes, ways, shots)``, ``queries`` the same with more images."""

    support: Tensor
    queries: Tensor

    def __len__(self) -> int:
        return len(self.support)

    @property
    def labels(self) -> Tensor:
        """The right answers to the queries of any episode, ``(ways * queries,)``."""
        ways, queries = self.queries.shape[1:]
        return torch.arange(ways).repeat_interleave(queries)

    def correct(self, answers: Tensor) -> Tensor:
        """How many queries of each episode are answered correctly, ``(episodes,)``."""
        return (answers == self.labels).sum(1)


def draw_episodes(
    labels: Tensor,
    count: int,
    *,
    shots: int,
    ways: int = 5,
    queries: int = 15,
    seed: int = 0,
) -> Episodes:
    """Episodes of images drawn without replacement; the same for the same labels and seed.

    Args:
        labels: ``(n,)``, of all images that may be drawn.
        count: episodes.
        shots: labelled images of each class.
        ways: classes of an episode.
        queries: images of each class to name.
        seed: of the draw.
    """
    members = [torch.nonzero(labels == label).flatten() for label in labels.unique()]
    fewest = min((len(images) for images in members), default=0)
    if len(members) < ways or fewest < shots + queries:
        raise ValueError(
            f"an episode needs {ways} classes of {shots + queries} images each ({shots} shots and {queries} "
            f"queries); there are {len(members)} classes, the smallest with {fewest} images"
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.stack(
        [
            torch.stack(
                [
                    members[c][
                        torch.randperm(len(members[c]), generator=generator)[: shots + queries]
                    ]
                    for c in torch.randperm(len(members), generator=generator)[:ways]
                ]
            )
            for _ in range(count)
        ]
    )
    return Episodes(drawn[..., :shots], drawn[..., shots:])


def nearest_mean_answers(gram: Tensor, episodes: Episodes) -> Tensor:
    """The class whose mean is nearest to each query, ``(episodes, ways * queries)``.

    Args:
        gram: inner products of all images, ``(n, n)``.
        episodes: which of them.
    """
    ways, shots = episodes.support.shape[1:]
    within, across = _blocks(gram, episodes)
    across = across.unflatten(2, (ways, shots)).mean(-1)
    means = within.unflatten(2, (ways, shots)).unflatten(1, (ways, shots)).mean((2, 4))
    # |q - m|^2 without |q|^2, which is the same for all classes
    return (means.diagonal(dim1=1, dim2=2).unsqueeze(1) - 2 * across).argmin(-1)


def logistic_answers(gram: Tensor, episodes: Episodes, C: float) -> Tensor:
    """The answers of multinomial logistic regression, ``(episodes, ways * queries)``.

    Args:
        gram: inner products of all images, ``(n, n)``.
        episodes: which of them.
        C: the weight of the data against the penalty's.
    """
    pieces = zip(episodes.support.split(PIECE), episodes.queries.split(PIECE), strict=True)
    return torch.cat([_logits(gram, Episodes(*piece), C).argmax(-1) for piece in pieces])


def _blocks(gram: Tensor, episodes: Episodes) -> tuple[Tensor, Tensor]:
    """Inner products within the support, and of queries with it, in float64."""
    support, queries = episodes.support.flatten(1), episodes.queries.flatten(1)
    return (
        gram[support.unsqueeze(2), support.unsqueeze(1)].double(),
        gram[queries.unsqueeze(2), support.unsqueeze(1)].double(),
    )


def _logits(gram: Tensor, episodes: Episodes, C: float) -> Tensor:
    ways, shots = episodes.support.shape[1:]
    within, across = _blocks(gram, episodes)
    n = ways * shots
    # Centred at the mean of the support.
    rows = within.mean(2, keepdim=True)
    total = rows.mean(1, keepdim=True)
    centred = within - rows - rows.mT + total
    across = across - across.mean(2, keepdim=True) - rows.mT + total
    lam, U = torch.linalg.eigh(centred)
    there = lam > n * torch.finfo(gram.dtype).eps * lam[:, -1:]
    root = torch.where(there, lam, 1).sqrt().unsqueeze(1)
    kept = there.unsqueeze(1)
    train = torch.where(kept, U * root, 0)
    test = torch.where(kept, across @ (U / root), 0)
    target = torch.eye(ways, dtype=lam.dtype).repeat_interleave(shots, 0)
    W = lam.new_zeros(len(lam), n, ways)
    b = lam.new_zeros(len(lam), 1, ways)
    stiffness = (torch.where(there, lam, 0) / 2 + 1 / C).unsqueeze(2)
    for _ in range(STEPS):
        excess = (train @ W + b).softmax(-1) - target
        step = (train.mT @ excess + W / C) / stiffness
        shift = excess.mean(1, keepdim=True) * 2
        W, b = W - step, b - shift
        if max(step.abs().max(), shift.abs().max()) < 1e-5 * (1 + W.abs().max()):
            break
    return test @ W + b
