"""A method that a user defines: it appears everywhere, and no other file changes."""

from dataclasses import dataclass
from typing import ClassVar
from unittest import mock

import pytest
import torch

import matrices
from matrices import relative_error, value_and_gradient
from rootpool.linalg import GradientRule, Lorentzian
from rootpool.nn import (
    METHODS,
    CovariancePool,
    Exact,
    KernelRoot,
    Method,
    covariance,
    covariance_pool,
    register,
)


@dataclass(frozen=True)
class SVDLorentz(KernelRoot):
    """The kernel of a root, broadened."""

    name: ClassVar[str] = "svd-lorentz"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to test how methods are added"

    width: float | None = 1e-12
    label: str = "it's"
    exactly: bool = False

    @property
    def rule(self) -> GradientRule:
        return Lorentzian(self.width or 1e-12)


@pytest.fixture
def registered():
    with mock.patch.dict(METHODS):
        yield register(SVDLorentz)


@pytest.mark.parametrize("shape", [(3, 4, 9), (3, 6, 4)])
def test_it_rides_the_fused_path_without_being_registered(shape, monkeypatch):
    X, method = matrices.random(*shape), SVDLorentz()
    G = matrices.random(3, shape[1], shape[1], seed=1)
    _, by_covariance = value_and_gradient(lambda X: method(covariance(X)), X, G)
    monkeypatch.setattr(SVDLorentz, "__call__", None)  # nothing else is left
    _, fused = value_and_gradient(lambda X: covariance_pool(X, method, output="matrix"), X, G)
    assert relative_error(fused, by_covariance) < 1e-6
    assert relative_error(covariance_pool(X, method), covariance_pool(X)) < 1e-7


def test_tracers_know_it_once_it_is_registered(registered):
    method = SVDLorentz(None, 'a "quoted" label', True)
    X = matrices.random(2, 5, 4)
    program = torch.export.export(CovariancePool(5, method), (X,))
    assert torch.allclose(program.module()(X), covariance_pool(X, method))


def test_tracers_ask_for_it_to_be_registered():
    with pytest.raises(TypeError, match=r"need the name of SVDLorentz.*rootpool\.nn\.register"):
        torch.export.export(CovariancePool(5, SVDLorentz()), (matrices.random(2, 5, 4),))


def test_tracers_ask_for_fields_that_text_can_say(registered):
    method = SVDLorentz(label=("a", "tuple"))
    with pytest.raises(TypeError, match=r"fields of numbers, booleans, text or None"):
        torch.export.export(CovariancePool(5, method), (matrices.random(2, 5, 4),))


def test_what_cannot_be_registered():
    @dataclass(frozen=True)
    class Nameless(Method):
        def __call__(self, P):
            return P

    with pytest.raises(TypeError, match=r'Nameless has no name, source, use; .*"nameless"'):
        register(Nameless)
    with pytest.raises(TypeError, match="a subclass of Method, got Exact"):
        register(Exact())

    class Taken(Exact):
        pass

    with pytest.raises(ValueError, match="the name 'exact' belongs to Exact already"):
        register(Taken)

    class Elsewhere(SVDLorentz):
        source = "elsewhere"

    with pytest.raises(ValueError, match=r"source must be one of ours, paper, .*got 'elsewhere'"):
        register(Elsewhere)
    assert register(Exact) is Exact  # again, as when a notebook cell is run twice
