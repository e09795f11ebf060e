"""Pooling and whitening over two CPU processes give the numbers of one."""

import functools
import socket
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import matrices
from rootpool.nn import WHITENING_METHODS, CovariancePool, Whitening

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not dist.is_available(), reason="torch was built without distributed"),
]
SHARES = ((3, 5), (8, 0), (1, 7))  # samples of each process
LAYERS = [
    {"method": method, "groups": groups, "affine": groups > 1}
    for method in WHITENING_METHODS
    for groups in (1, 2)
]


def step(X, weight, **options):
    """Output, gradients and running statistics of one training step."""
    layer = Whitening(4, **options).double()
    X = X.clone().requires_grad_()
    Y = layer(X)
    (Y.sin() * weight).sum().backward()
    parameters = [p.grad for p in layer.parameters()]
    return [Y.detach(), X.grad], parameters, list(layer.buffers())


def penalty(X, weight, group=None):
    """The gradient of a gradient."""
    X = X.clone().requires_grad_()
    Y = Whitening(4, process_group=group)(X)
    (g,) = torch.autograd.grad((Y.sin() * weight).sum(), X, create_graph=True)
    g.square().sum().backward()
    return X.grad


HEADS = {
    "flat": (nn.Flatten, 24),
    **{name: (functools.partial(CovariancePool, 6, name), 21) for name in ("exact", "isqrt-cov")},
}


def network(head):
    torch.manual_seed(0)
    pool, features = HEADS[head]
    layers = nn.Conv2d(3, 6, 3), Whitening(6, groups=2, affine=True), nn.ReLU(), pool()
    return nn.Sequential(*layers, nn.Linear(features, 2)).double()


def gradients(model, X):
    model(X).square().mean().backward()
    return [p.grad for p in model.parameters()]


def as_lists(value):
    """Tensors as NumPy arrays: a manager would share their memory otherwise."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    return [as_lists(v) for v in value]


def worker(rank, port, X, weight, images, results):
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for sizes in SHARES:
        share = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], 8)
        for k, options in enumerate(LAYERS):
            results[rank, sizes, k] = as_lists(step(X[share], weight[share], **options))
    share = slice(4 * rank, 4 * rank + 4)
    results[rank, "penalty"] = as_lists(penalty(X[share], weight[share]))
    both, alone = dist.new_group([0, 1]), [dist.new_group([r]) for r in (0, 1)]
    results[rank, "both"] = as_lists(step(X[share], weight[share], process_group=both))
    results[rank, "alone"] = as_lists(step(X[share], weight[share], process_group=alone[rank]))
    try:
        step(X[share], weight[share], process_group=alone[1 - rank])
    except ValueError as error:
        results[rank, "stranger"] = str(error)
    for head in HEADS:
        model = nn.parallel.DistributedDataParallel(network(head))
        results[rank, head] = as_lists(gradients(model, images[share]))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def data():
    shape = (8, 4, 3, 3)
    return matrices.random(*shape), matrices.random(*shape, seed=1), matrices.random(8, 3, 4, 4)


@pytest.fixture(scope="module")
def results(data):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(worker, (port, *data, results), nprocs=2)
        return dict(results)


def close(got, expected):
    return torch.allclose(torch.as_tensor(got), expected, rtol=1e-10, atol=1e-12)


def joined(first, second):
    return torch.cat([torch.from_numpy(first), torch.from_numpy(second)])


def check(results, expected, key):
    """Two shares together are the whole."""
    first, second = (results[(rank, *key)] for rank in (0, 1))
    for k, whole in enumerate(expected[0]):  # of samples
        assert close(joined(first[0][k], second[0][k]), whole)
    for k, whole in enumerate(expected[1]):  # of parameters: each process has its own part
        assert close(first[1][k] + second[1][k], whole)
    for k, whole in enumerate(expected[2]):  # of statistics: both have all
        assert close(first[2][k], whole)
        assert close(second[2][k], whole)


@pytest.mark.parametrize("layer", range(len(LAYERS)), ids=str)
def test_two_shares_give_the_numbers_of_the_whole(data, results, layer):
    X, weight, _ = data
    expected = step(X, weight, **LAYERS[layer])
    for sizes in SHARES:
        check(results, expected, (sizes, layer))


def test_second_derivatives_cross_processes(data, results):
    X, weight, _ = data
    assert close(joined(*(results[r, "penalty"] for r in (0, 1))), penalty(X, weight))


def test_a_process_group_says_who_shares(data, results):
    X, weight, _ = data
    check(results, step(X, weight), ("both",))
    for rank in (0, 1):
        share = slice(4 * rank, 4 * rank + 4)
        own = step(X[share], weight[share])
        for got, expected in zip(results[rank, "alone"][0], own[0], strict=True):
            assert close(got, expected)
        assert "is not in the given process group" in results[rank, "stranger"]


@pytest.mark.parametrize("head", HEADS)
def test_gradients_of_a_network_under_ddp(data, results, head):
    expected = gradients(network(head), data[2])
    for rank in (0, 1):
        for got, whole in zip(results[rank, head], expected, strict=True):
            assert close(got, whole)
