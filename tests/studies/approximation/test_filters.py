"""What methods do to a spectrum."""

import math

import pytest
import torch

from studies.approximation.filters import spectral_response, usual_filters


def newton_schulz(a, steps):
    """On one number; the first factor is y, the second z."""
    y, z = a, 1.0
    for _ in range(steps):
        t = 1.5 - 0.5 * z * y
        y, z = y * t, z * t
    return y


def test_filters_by_numbers():
    lam = torch.tensor([4.0, 1.0, 0.01, 0.0], dtype=torch.float64)
    records = spectral_response(usual_filters(), lam)
    weights = {name: [r for r in records if r["run"] == name] for name in usual_filters()}
    assert all(len(found) == 3 for found in weights.values())  # the zero is left out
    for steps in (1, 5, 15):
        name = "1 iteration" if steps == 1 else f"{steps} iterations"
        for record in weights[name]:
            expected = newton_schulz(record["eigenvalue"], steps)
            assert record["value"] == pytest.approx(expected, rel=1e-12)
            assert record["share"] == pytest.approx(expected / math.sqrt(record["eigenvalue"]))
    assert [r["share"] for r in weights["square root"]] == pytest.approx([1, 1, 1])
    first, second, _ = weights["exponent 0.3"]
    ratio = (first["eigenvalue"] / second["eigenvalue"]) ** 0.3
    assert first["value"] / second["value"] == pytest.approx(ratio)
    assert sum(r["value"] ** 2 for r in weights["exponent 0.3"]) == pytest.approx(1)


@pytest.mark.parametrize("spectrum", [torch.zeros(3), torch.tensor([1.0, -0.1]), torch.ones(2, 2)])
def test_spectra_that_are_none(spectrum):
    with pytest.raises(
        ValueError, match="eigenvalues must be a vector of numbers that are not neg"
    ):
        spectral_response(usual_filters(), spectrum)
