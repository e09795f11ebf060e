"""The precision of a layer, by device."""

import warnings

import pytest
import torch

from rootpool.nn import CovariancePool, covariance_pool, precision


def test_float64_is_the_default_where_there_is_one():
    X = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(0))
    for features, method in ((X.double(), "exact"), (X, "svd-pade")):
        default = covariance_pool(features, method)
        assert torch.equal(default, covariance_pool(features, method, compute_dtype=torch.float64))
        assert not torch.equal(
            default, covariance_pool(features, method, compute_dtype=torch.float32)
        )
    assert CovariancePool(4).working_dtype(torch.device("cpu")) == torch.float64


def test_devices_without_float64_compute_in_float32_and_say_so_once():
    precision._notice.cache_clear()
    device = torch.device("mps")  # a name; nothing is computed there
    with pytest.warns(UserWarning, match=r"mps has no float64, so covariances .* in float32 here"):
        assert CovariancePool(4).working_dtype(device) == torch.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CovariancePool(4).working_dtype(device) == torch.float32
        assert precision.working_dtype(torch.float32, device) == torch.float32
