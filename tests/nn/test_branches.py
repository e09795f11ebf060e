import copy

import pytest
import torch

import matrices
from rootpool.nn import AveragePool, BranchPool, CovariancePool, Length


def maps():
    return {
        "early": matrices.random(3, 6, 5, 5, dtype=torch.float32, seed=1),
        "blocks.4": matrices.random(3, 5, 3, 2, dtype=torch.float32, seed=2),
    }


def branches():
    return [
        ("early", CovariancePool(6, "isqrt-cov", reduction=4, scaling=Length(4.0))),
        ("blocks.4", CovariancePool(5, output="matrix")),
        ("early", AveragePool(6, scaling=Length(1.5, power=0.5))),
    ]


def test_a_backbone_that_returns_a_list():
    by_name = BranchPool(branches()).eval()
    by_index = copy.deepcopy(by_name)
    by_index.stages = (0, 1, 0)
    assert torch.equal(by_index(list(maps().values())), by_name(maps()))
    assert torch.equal(by_index(tuple(maps().values())), by_name(maps()))


def test_the_method_of_all_covariances_is_changed_together():
    pool = BranchPool(branches())
    with pytest.raises(ValueError, match="branches have 2 different methods"):
        pool.method  # noqa: B018
    pool.method = "svd-pade"
    assert [str(part.method) for part in pool.pools] == [
        "SVDPade(degree=100)",
        "SVDPade(degree=100)",
        "gap",
    ]
    assert str(pool.method) == "SVDPade(degree=100)"
