"""What is refused, and with which words: features, options, values of methods."""

import dataclasses
import functools
import math

import pytest
import torch
from torch import nn
from torch.linalg import LinAlgError

import matrices
from rootpool import linalg as la
from rootpool import nn as rn

X = matrices.random(3, 4, 5, dtype=torch.float32)
NAN, INTEGERS = torch.full((4, 6), torch.nan), torch.ones(4, 6, dtype=torch.int64)
BROKEN, LARGE = X.clone(), X.clone()
BROKEN[2, 1, 2] = torch.nan
LARGE[1] *= 1e25
MAPS = {"early": X, "late": X}


class OtherNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x) + x


def by_sample(*weights):
    return torch.tensor(weights)[:, None].expand(3, 5)


def assign(layer, method):
    layer.method = method


def branches(*stages):
    return rn.BranchPool([(stage, rn.CovariancePool(4)) for stage in stages])


VALUE_ERRORS = {
    r"covariance expects features .* got \(5,\)": lambda: rn.covariance(X[0, 0]),
    r"one channel and one position, got \(3, 4, 0\)": lambda: rn.covariance(X[..., :0]),
    r"features\[2\] has NaN .* are broken, not the": lambda: rn.covariance_pool(BROKEN),
    r"features\[2\] has NaN or infinite entries": lambda: rn.CovariancePool(4)(BROKEN),
    r"pool: all weights of the sample weights\[1\] are zero, so it has no covariance": lambda: (
        rn.covariance_pool(X, weights=by_sample(1, 0, 1))
    ),
    r"covariance: all weights of the sample weights\[0\]": lambda: rn.covariance(
        X, weights=by_sample(0, 0, 0)
    ),
    r"AveragePool: all weights of the sample weights\[2\]": lambda: rn.AveragePool(4)(
        X, by_sample(1, 1, 0)
    ),
    r"weights\[2\] has entries that are negative": lambda: rn.covariance(
        X, weights=by_sample(1, 0, -1)
    ),
    r"5 positions of 3 samples, got \(5,\)": lambda: rn.covariance(X, weights=X[0, 0]),
    r"3 samples, got \(3, 4\)": lambda: rn.covariance(X, weights=X[..., 0]),
    "channel while training, got weights that sum up to 0;": lambda: rn.Whitening(4)(
        X, by_sample(0, 0, 0)
    ),
    "per group and sample, got weights that sum up to 0;": lambda: rn.GroupWhitening(4, 2)(
        X, by_sample(1, 0, 1)
    ),
    r"\(B, C, H, W\) or \(B, C, N\), got \(4, 5\)": lambda: rn.covariance_pool(X[0]),
    r"at least one channel and one position, got": lambda: rn.covariance_pool(X[..., :0]),
    "of triangle, isometric, matrix, got": lambda: rn.covariance_pool(X, output="vector"),
    r"differences of features are beyond the range of torch.f": lambda: rn.covariance_pool(
        torch.tensor([[[3e38, -3e38]]]), compute_dtype=torch.float32
    ),
    r"expects 3 channels, .* got \(3, 4, 5\)": lambda: rn.CovariancePool(3)(X),
    "expects 4 channels": lambda: rn.CovariancePool(4)(X[0, 0]),
    "in_channels must be an integer >= 1, got 0": lambda: rn.CovariancePool(0),
    "must be an integer >= 1, got 2.5": lambda: rn.CovariancePool(4, reduction=2.5),
    "output must be one of triangle, iso": lambda: rn.CovariancePool(4, output="vector"),
    "'svd-padee'; did you mean svd-pade": lambda: rn.CovariancePool(4, "svd-padee"),
    "'gap' averages features": lambda: assign(rn.CovariancePool(4), "gap"),
    "unknown method 'svd'": lambda: assign(rn.CovariancePool(4), "svd"),
    "cannot change gap to exact": lambda: assign(rn.AveragePool(4), "exact"),
    r"gap has no options, got {'degree': 3}": lambda: rn.resolve_pool("gap", degree=3),
    "'late', got a dictionary of 'ea": lambda: branches("early", "late")({"early": X}),
    "stage 'early', got a sequence of 2 maps": lambda: branches("early")([X, X]),
    "stage 2, got a sequence of 2 maps": lambda: branches(2)([X, X]),
    "stage 'early', got Tensor; let the backbone": lambda: branches("early")(X),
    ".*'gap' averages features": lambda: assign(branches("early"), "gap"),
    r"at least one \(stage, pooling\) branch, got none": lambda: branches(),
    "must be odd, got 4; the paper has 3": lambda: rn.AdaptiveChannelDropout(4),
    "kernel_size must be an integer >= 1, got 0": lambda: rn.AdaptiveChannelDropout(0),
    r"expects features .*got \(4, 5\)": lambda: rn.AdaptiveChannelDropout()(X[0]),
    "unknown source 'papers'; did you mean paper": lambda: rn.method_names("papers"),
    "method 'svd-padee'; did you mean svd-pade": lambda: rn.resolve_method("svd-padee"),
    r"'gap' averages features .*use AveragePool": lambda: rn.resolve_method("gap"),
    r"options of svd-trunc are bound; got {'degree': 3}": lambda: rn.resolve_method(
        "svd-trunc", degree=3
    ),
    r"PolarRoot\.lower must be below 1, got 1": lambda: rn.PolarRoot(1),
    r"which zero eigenvalues .*BoxCox\(0, ridge=1e-3\)": lambda: rn.BoxCox(0),
    r"Whitening expects \(B, 3, \*\), got \(4, 6\)": lambda: rn.Whitening(3)(NAN),
    "or more per channel while training, got 1": lambda: rn.Whitening(6)(NAN[:1]),
    "Whitening: the features have NaN": lambda: rn.Whitening(6)(NAN),
    "num_features must be an integer >= 1": lambda: rn.Whitening(0),
    "eps must be positive, got 0": lambda: rn.Whitening(3, eps=0),
    r"momentum must be in \(0, 1\] or None, got 0": lambda: rn.Whitening(3, momentum=0),
    "must divide the channels, got 4 groups of 6": lambda: rn.Whitening(6, groups=4),
    "method 'newtn'; did you mean newton": lambda: rn.Whitening(8, method="newtn"),
    "groups must be an integer >= 1, got 0": lambda: rn.GroupWhitening(6, 0),
    "or more per group and sample, got 1": lambda: rn.GroupWhitening(6, 6)(NAN),
    r"expects \(B, 3, \*\), got \(4, 6\)": lambda: rn.GroupWhitening(3, 3)(NAN),
    "GroupWhitening: the features have NaN": lambda: rn.GroupWhitening(6, 2)(NAN),
    r"has no batch norm with a name like": lambda: rn.replace_batch_norm(nn.Linear(3, 3)),
    "0 has no running statistics": lambda: rn.replace_batch_norm(
        nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False))
    ),
    "group_size must be an integer >= 1": lambda: rn.replace_batch_norm(nn.BatchNorm1d(3), 0),
}
TYPE_ERRORS = {
    "expects weights as a tensor .* got list": lambda: rn.covariance(X, weights=[1.0]),
    "floating-point features, got torch.int64": lambda: rn.covariance_pool(X.long()),
    r"must be a function such as Length\(4.0\)": lambda: rn.CovariancePool(4, scaling=4.0),
    "a module with out_features": lambda: rn.BranchPool([("early", nn.Flatten())]),
    "a name in METHODS or a Method, got <class": lambda: rn.resolve_method(rn.SVDTrunc),
    "options go with the name of a method; SVDTrunc": lambda: rn.resolve_method(
        rn.SVDTrunc(), bound=1e9
    ),
    "must be a name in WHITENING_METHODS or a value": lambda: rn.Whitening(8, method=5),
    "GroupWhitening expects floating-point": lambda: rn.GroupWhitening(6, 2)(INTEGERS),
    "0 is a OtherNorm, a batch norm of another kind": lambda: rn.replace_batch_norm(
        nn.Sequential(OtherNorm(3))
    ),
}
LINALG_ERRORS = {
    r"the covariance overflowed torch.float32 for features\[1\]; divide the": lambda: rn.covariance(
        LARGE
    ),
    r"overflowed .* for features\[1\]": lambda: rn.covariance_pool(LARGE, "covariance"),
    r"eigenvalues below zero.*use isqrt-cov": lambda: rn.METHODS["minimax"]()(
        torch.diag(torch.tensor([1.0, -0.01]))
    ),
}
CALLS = [
    *((call, ValueError, message) for message, call in VALUE_ERRORS.items()),
    *((call, TypeError, message) for message, call in TYPE_ERRORS.items()),
    *((call, LinAlgError, message) for message, call in LINALG_ERRORS.items()),
    *(
        (
            functools.partial(layer, 4, compute_dtype=torch.float16),
            ValueError,
            r"torch\.float32, torch\.float64 or None, got torch\.float16",
        )
        for layer in (rn.CovariancePool, rn.Whitening)
    ),
    *(
        (
            functools.partial(rn.Whitening(6), INTEGERS.to(dtype)),
            TypeError,
            "expects floating-point",
        )
        for dtype in (torch.uint8, torch.int64, torch.bool, torch.complex64)
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS, ids=[c[2] for c in CALLS])
def test_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("method", "dtype"), [("exact", torch.float64), ("log", torch.float32)])
def test_gradients_beyond_the_range(method, dtype):
    Y = (X.to(dtype) / 10).requires_grad_()
    pooled = rn.covariance_pool(Y, method)
    with pytest.raises(LinAlgError, match=r"the (gradient|derivative) of"):
        pooled.backward(torch.full_like(pooled, torch.finfo(dtype).max))


KINDS = [*rn.METHODS.values(), *rn.WHITENING_METHODS.values(), *la.RULES.values(), la.Minimax]
PARAMETERS = {
    f"{kind.__name__}.{field.name}": (kind, field)
    for kind in (*KINDS, rn.Length)
    for field in dataclasses.fields(kind)
    if field.init and kind.__module__.startswith("rootpool.")
}
MAY_BE_ZERO = ("SVDTaylor", "Taylor", "BoxCox", "SparsePrecision.sparsity")


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_of_every_value_is_checked(name):
    kind, field = PARAMETERS[name]
    bad = [-1, math.nan, math.inf, *[2.5] * isinstance(field.default, int)]
    bad += [0] * (not name.startswith(MAY_BE_ZERO))
    for value in bad:
        with pytest.raises(ValueError, match=rf"({field.name}|keep_largest) must .*got {value}"):
            kind(**{field.name: value})
