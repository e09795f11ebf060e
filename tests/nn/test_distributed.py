"""Two CPU processes under DistributedDataParallel give the gradients of one."""

import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import matrices
from rootpool.nn import CovariancePool

METHODS = ("exact", "isqrt-cov")


def network(method):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), CovariancePool(6, method), nn.Linear(21, 2)
    ).double()


def gradients(model, X):
    model(X).square().mean().backward()
    return [p.grad.numpy() for p in model.parameters()]


def worker(rank, port, X, results):
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for method in METHODS:
        model = nn.parallel.DistributedDataParallel(network(method))
        results[rank, method] = gradients(model, X[rank * 4 : rank * 4 + 4])
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available(), reason="torch was built without distributed")
def test_gradients_of_two_halves_are_those_of_the_whole():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    X = matrices.random(8, 3, 4, 4)
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(worker, (port, X, results), nprocs=2)
        results = dict(results)
    for (rank, method), found in results.items():
        for got, expected in zip(found, gradients(network(method), X), strict=True):
            same = torch.allclose(torch.from_numpy(got), torch.from_numpy(expected), rtol=1e-10)
            assert same, (rank, method)
    assert len(results) == 2 * len(METHODS)
