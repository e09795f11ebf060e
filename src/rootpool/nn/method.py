"""What a method is: a normalisation of covariances that knows its name, source and use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .covariance import covariance

SOURCES = ("ours", "paper", "published", "released", "follow-up", "baseline")


@dataclass(frozen=True)
class Method(ABC):
    """A normalisation of covariances, ``(..., d, d)`` to ``(..., d, d)``.

    A subclass is a frozen dataclass whose fields are its parameters. It sets three class variables:

    * ``name``: how users, recipes and tables call it, such as ``"svd-pade"``;
    * ``source``: ``"ours"`` (introduced by this project), ``"paper"`` (studied in the paper),
      ``"published"`` (the same with the paper's own equations), ``"released"`` (as its authors' program
      computes it), ``"follow-up"`` (published after it) or ``"baseline"`` (a simpler normalisation to
      compare with);
    * ``use``: one line that says when to choose it.

    Two have defaults: ``centred`` is False if the method takes second moments, :math:`X X^T / N`, instead
    of covariances; poolings then compute those. ``low_precision_ok`` says whether a pooling may compute in
    the dtype of the features.

    :func:`rootpool.nn.register` adds it to ``METHODS``.

    >>> import torch
    >>> from rootpool.nn import resolve_method
    >>> resolve_method("exact")(4 * torch.eye(2))
    tensor([[2., 0.],
            [0., 2.]])
    """

    name: ClassVar[str]
    source: ClassVar[str]
    use: ClassVar[str]
    centred: ClassVar[bool] = True
    low_precision_ok: ClassVar[bool] = False

    def covariance(self, features: Tensor) -> Tensor:
        """What a pooling computes of features ``(B, C, N)`` and normalises."""
        return covariance(features, centred=self.centred)

    def of_features(self, features: Tensor) -> Tensor:
        """What a pooling computes of features ``(B, C, N)``."""
        return self(self.covariance(features))

    @abstractmethod
    def __call__(self, P: Tensor) -> Tensor:
        """Normalise covariances."""
