import inspect
import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import matrices
import oracles
from rootpool import linalg as la

ALL_RULES = [rule() for rule in la.RULES.values()]
rules = pytest.mark.parametrize("rule", ALL_RULES, ids=list(la.RULES))


def check_contract(rule, lam):
    K = rule(lam)
    assert K.shape == (*lam.shape, lam.shape[-1])
    assert K.dtype == lam.dtype
    assert torch.equal(K, -K.mT)
    assert (K.diagonal(dim1=-2, dim2=-1) == 0).all()
    assert K.isfinite().all()
    null = (lam.unsqueeze(-1) == 0) & (lam.unsqueeze(-2) == 0)
    assert (K[null] == 0).all()
    # Neither the company of eigenvalues nor, but for the sign at ties, their order matters.
    both = rule(torch.stack([lam, lam.flip(-1)]))
    apart = lam.unsqueeze(-1) != lam.unsqueeze(-2)
    for other in (both[0], both[1].flip(-2, -1)):
        assert torch.allclose(other[apart], K[apart], rtol=1e-6, atol=0)
    assert rule(lam.expand(2, 0, *lam.shape)).shape == (2, 0, *K.shape)


@rules
def test_contract(rule):
    for kind, dtype in itertools.product(matrices.SPECTRA, matrices.DTYPES):
        check_contract(rule, matrices.spectrum(kind, dtype))
    # Gaps and eigenvalues whose reciprocals overflow.
    check_contract(rule, torch.tensor([0.0, 5e-324, 1e-310, 2e-310], dtype=torch.float64))


@settings(max_examples=200, deadline=None)
@given(
    rule=st.sampled_from(ALL_RULES),
    values=st.lists(st.floats(0, allow_infinity=False), min_size=0, max_size=6),
    signs=st.booleans(),
)
def test_contract_holds_for_any_finite_spectrum(rule, values, signs):
    lam = torch.tensor(values, dtype=torch.float64)
    if signs:
        lam = lam * (-1.0) ** torch.arange(len(values))
    check_contract(rule, lam)


@pytest.mark.parametrize("rule", [rule for rule in ALL_RULES if rule != la.Truncated()])
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_scaling_law(rule, factor):
    for kind in ("separated", "clustered", "repeated", "rank-deficient", "graded"):
        lam = matrices.spectrum(kind)
        assert torch.allclose(rule(factor * lam) * factor, rule(lam), rtol=1e-14)


@rules
def test_tends_to_the_true_kernel_as_gaps_grow(rule):
    lam = torch.tensor([1.0, 1e3, 1e6], dtype=torch.float64)
    K = rule(lam)
    for i, j in itertools.permutations(range(3), 2):
        assert K[i, j] == pytest.approx(float(1 / (lam[i] - lam[j])), rel=2e-6)


@pytest.mark.parametrize(
    "rule",
    [*ALL_RULES, la.Truncated(1e6), la.Taylor(7), la.Pade(7), la.PowerIteration(7)],
    ids=repr,
)
def test_value_at_a_tie_is_the_documented_one(rule):
    (formula,) = re.findall(r"Ties: `*([^.,`]+)", inspect.getdoc(rule))
    at_tie = eval(formula, {"lam_i": 2.0, **vars(rule)})
    K = rule(torch.tensor([2.0, 2.0], dtype=torch.float64))
    assert K.tolist() == [[0, -at_tie], [at_tie, 0]]


def test_truncated_keeps_its_bound_in_every_dtype():
    tie = torch.ones(2, dtype=torch.float64)
    assert la.Truncated(1e39)(tie)[1, 0] == 1e39
    assert la.Truncated(1e39)(tie.float())[1, 0] == torch.finfo(torch.float32).max


# Rule, two eigenvalues, and the kernel between the second and the first: as documented, or exactly.
KNOWN = [
    (la.Pade(), [1.0, 1 + 2**-52], 2.0**52),
    (la.Lorentzian(broadening=1e-6), [0.0, 1.0], 1 / (1 + 1e-6)),
    (la.Lorentzian(broadening=1e-4), [0.99, 1.0], 0.01 / (0.01**2 + 1e-4)),
    (la.Taylor(100), [-3.0, 1.0], 1 / 4),  # the series converges whatever the signs
]


@pytest.mark.parametrize(("rule", "lam", "expected"), KNOWN)
def test_known_values(rule, lam, expected):
    K = rule(torch.tensor(lam, dtype=torch.float64))
    assert K[1, 0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["separated", "clustered", "repeated", "graded"])
@pytest.mark.parametrize("terms", [1, 2, 3, 6, 101])
def test_series_and_their_derivatives_also_at_ties(kind, terms):
    lam = matrices.spectrum(kind).requires_grad_()
    b, a = lam[1], lam[5]
    expected = sum(b**k / a ** (k + 1) for k in range(terms))
    (slope,) = torch.autograd.grad(expected, lam)
    for rule in (la.Taylor(terms - 1), la.PowerIteration(terms)):
        got = rule(lam)[5, 1]
        assert torch.allclose(got, expected, rtol=1e-13, atol=0)
        assert torch.allclose(torch.autograd.grad(got, lam)[0], slope, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"rule": "degenerate"}])
@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (lambda lam, U: U[0, 0] + U[1, 2], "on individual eigenvectors of a rep"),
        (lambda lam, U: ((U * (lam * lam.new_tensor([1, 2, 3]))) @ U.mT).sum(), "on individual"),
        (lambda lam, U: lam[0] + (U @ U.mT).sum(), "the copies of a repeated eigenvalue diff"),
    ],
)
def test_a_loss_that_depends_on_the_basis_is_reported(loss, what, options):
    lam, U = la.eigh(torch.eye(3, dtype=torch.float64, requires_grad=True), **options)
    with pytest.warns(UserWarning, match=what):
        loss(lam, U).backward()


def test_degenerate_is_silent_and_right_for_a_loss_that_does_not():
    A = matrices.matrix("repeated").requires_grad_()
    _, U = la.eigh(A, rule=la.Degenerate(tolerance=1e-10))
    weight = matrices.random_symmetric(6, 6, seed=5)
    projector = U[:, :3] @ U[:, :3].mT  # onto the whole eigenspace of 1
    (projector * weight).sum().backward()

    def f(A):
        U = torch.linalg.eigh(A)[1][:, :3]
        return (U @ U.mT * weight).sum()

    direction = matrices.random_symmetric(6, 6, seed=6)
    expected = oracles.central_difference(f, A.detach(), direction)
    assert (A.grad * direction).sum() == pytest.approx(float(expected), rel=1e-7)


def test_resolve_rule():
    assert la.resolve_rule("taylor") == la.Taylor(degree=100)
    assert [la.resolve_rule(name) for name in la.RULES] == ALL_RULES
    custom = la.Truncated(bound=3)
    assert la.resolve_rule(custom) is custom
    assert la.resolve_rule(torch.outer) is torch.outer
