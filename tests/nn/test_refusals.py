"""What is refused, and with which words: features, options, values of methods."""

import functools
import math

import pytest
import torch
from torch import nn
from torch.linalg import LinAlgError

import matrices
from rootpool.nn import (
    METHODS,
    SVDPI,
    AdaptiveChannelDropout,
    AveragePool,
    BoxCox,
    BranchPool,
    BrownianDistance,
    CovariancePool,
    GroupWhitening,
    ISqrtCov,
    Length,
    LogCholesky,
    MatrixLog,
    MatrixPower,
    MinimaxRoot,
    NewtonWhitening,
    SparsePrecision,
    SVDNewton,
    SVDPade,
    SVDTaylor,
    SVDTopN,
    SVDTrunc,
    Whitening,
    covariance,
    covariance_pool,
    method_names,
    replace_batch_norm,
    resolve_method,
    resolve_pool,
)

X = matrices.random(3, 4, 5, dtype=torch.float32)
NAN, INTEGERS = torch.full((4, 6), torch.nan), torch.ones(4, 6, dtype=torch.int64)
BROKEN, LARGE = X.clone(), X.clone()
BROKEN[2, 1, 2] = torch.nan
LARGE[1] *= 1e25
MAPS = {"early": X, "late": X}


class OtherNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x) + x


def assign(layer, method):
    layer.method = method


def branches(*stages):
    return BranchPool([(stage, CovariancePool(4)) for stage in stages])


CALLS = [
    # Features
    (lambda: covariance(X[0, 0]), ValueError, r"covariance expects features .* got \(5,\)"),
    (lambda: covariance(X[..., :0]), ValueError, r"one channel and one position, got \(3, 4, 0\)"),
    (
        lambda: covariance(LARGE),
        LinAlgError,
        r"the covariance overflowed torch.float32 for features\[1\]; divide the",
    ),
    # Computed in float64, but float32 comes out.
    (lambda: covariance_pool(LARGE, "covariance"), LinAlgError, r"overflowed .* for features\[1\]"),
    (lambda: covariance_pool(BROKEN), ValueError, r"features\[2\] has NaN .* are broken, not the"),
    (lambda: CovariancePool(4)(BROKEN), ValueError, r"features\[2\] has NaN or infinite entries"),
    (lambda: covariance_pool(X[0]), ValueError, r"\(B, C, H, W\) or \(B, C, N\), got \(4, 5\)"),
    (
        lambda: covariance_pool(X[..., :0]),
        ValueError,
        r"at least one channel and one position, got",
    ),
    (lambda: covariance_pool(X.long()), TypeError, "floating-point features, got torch.int64"),
    (
        lambda: covariance_pool(X, output="vector"),
        ValueError,
        "of triangle, isometric, matrix, got",
    ),
    (
        lambda: covariance_pool(torch.tensor([[[3e38, -3e38]]]), compute_dtype=torch.float32),
        ValueError,
        r"differences of features are beyond the range of torch.f",
    ),
    (lambda: CovariancePool(3)(X), ValueError, r"expects 3 channels, .* got \(3, 4, 5\)"),
    (lambda: CovariancePool(4)(X[0, 0]), ValueError, "expects 4 channels"),
    # Poolings
    (lambda: CovariancePool(0), ValueError, "in_channels must be a positive integer, got 0"),
    (lambda: CovariancePool(4, reduction=2.5), ValueError, "must be a positive integer, got 2.5"),
    (lambda: CovariancePool(4, output="vector"), ValueError, "output must be one of triangle, iso"),
    (lambda: CovariancePool(4, "svd-padee"), ValueError, "'svd-padee'; did you mean svd-pade"),
    (
        lambda: CovariancePool(4, scaling=4.0),
        TypeError,
        r"must be a Scaling, such as Length\(4.0\)",
    ),
    *(
        (
            functools.partial(layer, 4, compute_dtype=torch.float16),
            ValueError,
            r"torch\.float32, torch\.float64 or None, got torch\.float16",
        )
        for layer in (CovariancePool, Whitening)
    ),
    (lambda: assign(CovariancePool(4), "gap"), ValueError, "'gap' averages features"),
    (lambda: assign(CovariancePool(4), "svd"), ValueError, "unknown method 'svd'"),
    (lambda: assign(AveragePool(4), "exact"), ValueError, "cannot change average pooling to exact"),
    (lambda: resolve_pool("gap", degree=3), ValueError, r"gap has no options, got {'degree': 3}"),
    (
        lambda: branches("early", "late")({"early": X}),
        ValueError,
        "'late', got a dictionary of 'ea",
    ),
    (lambda: branches("early")([X, X]), ValueError, "stage 'early', got a sequence of 2 maps"),
    (lambda: branches(2)([X, X]), ValueError, "stage 2, got a sequence of 2 maps"),
    (lambda: branches("early")(X), ValueError, "stage 'early', got Tensor; let the backbone"),
    (lambda: assign(branches("early"), "gap"), ValueError, "'gap' averages features"),
    (lambda: branches(), ValueError, r"at least one \(stage, pooling\) branch, got none"),
    (lambda: BranchPool([("early", nn.Flatten())]), TypeError, "a module with out_features"),
    (lambda: Length(0.0), ValueError, "Length.length must be positive and finite, got 0.0"),
    (lambda: Length(power=-1.0), ValueError, "Length.power must be positive and finite, got -1.0"),
    (lambda: AdaptiveChannelDropout(4), ValueError, "must be odd, got 4; the paper has 3"),
    (lambda: AdaptiveChannelDropout(0), ValueError, "kernel_size must be an integer >= 1, got 0"),
    (lambda: AdaptiveChannelDropout()(X[0]), ValueError, r"expects features .*got \(4, 5\)"),
    # Methods
    (lambda: method_names("papers"), ValueError, "unknown source 'papers'; did you mean paper"),
    (lambda: resolve_method("svd-padee"), ValueError, "method 'svd-padee'; did you mean svd-pade"),
    (lambda: resolve_method("gap"), ValueError, r"'gap' averages features .*use AveragePool"),
    (lambda: resolve_method(SVDTrunc), TypeError, "a name in METHODS or a Method, got <class"),
    (
        lambda: resolve_method("svd-trunc", degree=3),
        ValueError,
        r"options of svd-trunc are bound; got {'degree': 3}",
    ),
    (
        lambda: resolve_method(SVDTrunc(), bound=1e9),
        TypeError,
        "options go with the name of a method; SVDTrunc",
    ),
    (
        lambda: METHODS["minimax"]()(torch.diag(torch.tensor([1.0, -0.01]))),
        LinAlgError,
        r"eigenvalues below zero.*use isqrt-cov",
    ),
    (lambda: SVDTrunc(bound=-1), ValueError, "bound must be positive"),
    (lambda: SVDTaylor(degree=-1), ValueError, "degree must be an integer >= 0"),
    (lambda: SVDPade(degree=0), ValueError, "degree must be an integer >= 1"),
    (lambda: SVDPI(iterations=0), ValueError, "iterations must be an integer >= 1"),
    (lambda: SVDTopN(count=0), ValueError, "must be an integer >= 1, got 0"),
    (lambda: SVDNewton(iterations=0), ValueError, "SVDNewton.iterations must be an integer >= 1"),
    (lambda: MinimaxRoot(steps=0), ValueError, "Minimax.steps must be an integer >= 1, got 0"),
    (lambda: MinimaxRoot(lower=1.0), ValueError, "Minimax.lower must lie between 0 and 1, got 1.0"),
    (lambda: ISqrtCov(iterations=2.5), ValueError, "ISqrtCov.iterations must be an integer >= 1"),
    (lambda: MatrixLog(ridge=0), ValueError, "MatrixLog.ridge must be positive"),
    (lambda: MatrixPower(exponent=-0.5), ValueError, "MatrixPower.exponent must be positive"),
    (lambda: BoxCox(0), ValueError, r"which zero eigenvalues .*BoxCox\(0, ridge=1e-3\)"),
    (lambda: BoxCox(-1), ValueError, "BoxCox.exponent must not be negative, got -1"),
    (lambda: BoxCox(ridge=-1.0), ValueError, "BoxCox.ridge must not be negative, got -1.0"),
    (lambda: BoxCox(math.inf), ValueError, "BoxCox.exponent must be finite, got inf"),
    (lambda: LogCholesky(0), ValueError, "LogCholesky.ridge must be positive and finite, got 0"),
    (lambda: BrownianDistance(eps=0), ValueError, "BrownianDistance.eps must be positive"),
    (lambda: BrownianDistance(-1), ValueError, "BrownianDistance.temperature must be positive"),
    (
        lambda: SparsePrecision(iterations=0),
        ValueError,
        "SparsePrecision.iterations must be an int",
    ),
    (lambda: SparsePrecision(step=0), ValueError, "SparsePrecision.step must be positive"),
    (lambda: SparsePrecision(-0.1), ValueError, "sparsity must not be negative, got -0.1"),
    (lambda: SparsePrecision(ridge=0), ValueError, "SparsePrecision.ridge must be positive"),
    # Whitening
    (lambda: Whitening(3)(NAN), ValueError, r"Whitening expects \(B, 3, \*\), got \(4, 6\)"),
    (lambda: Whitening(6)(NAN[:1]), ValueError, "or more per channel while training, got 1"),
    (lambda: Whitening(6)(NAN), ValueError, "Whitening: the features have NaN"),
    *(
        (functools.partial(Whitening(6), INTEGERS.to(dtype)), TypeError, "expects floating-point")
        for dtype in (torch.uint8, torch.int64, torch.bool, torch.complex64)
    ),
    (lambda: Whitening(0), ValueError, "num_features must be a positive integer"),
    (lambda: Whitening(3, eps=0), ValueError, "eps must be positive, got 0"),
    (lambda: Whitening(3, momentum=0), ValueError, r"momentum must be in \(0, 1\] or None, got 0"),
    (lambda: Whitening(6, groups=4), ValueError, "must divide the channels, got 4 groups of 6"),
    (lambda: Whitening(8, method="newtn"), ValueError, "method 'newtn'; did you mean newton"),
    (lambda: Whitening(8, method=5), TypeError, "must be a name in WHITENING_METHODS or a value"),
    (lambda: NewtonWhitening(0), ValueError, "NewtonWhitening.iterations must be an integer >= 1"),
    (lambda: GroupWhitening(6, 0), ValueError, "groups must be an integer >= 1, got 0"),
    (lambda: GroupWhitening(6, 6)(NAN), ValueError, "or more per group and sample, got 1"),
    (lambda: GroupWhitening(3, 3)(NAN), ValueError, r"expects \(B, 3, \*\), got \(4, 6\)"),
    (lambda: GroupWhitening(6, 2)(NAN), ValueError, "GroupWhitening: the features have NaN"),
    (lambda: GroupWhitening(6, 2)(INTEGERS), TypeError, "GroupWhitening expects floating-point"),
    (
        lambda: replace_batch_norm(nn.Linear(3, 3)),
        ValueError,
        r"has no batch norm with a name like",
    ),
    (
        lambda: replace_batch_norm(nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False))),
        ValueError,
        "0 has no running statistics",
    ),
    (lambda: replace_batch_norm(nn.BatchNorm1d(3), 0), ValueError, "group_size must be a positive"),
    (
        lambda: replace_batch_norm(nn.Sequential(OtherNorm(3))),
        TypeError,
        "0 is a OtherNorm, a batch norm of another kind",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS, ids=[c[2] for c in CALLS])
def test_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("method", "dtype"), [("exact", torch.float64), ("log", torch.float32)])
def test_gradients_beyond_the_range(method, dtype):
    Y = (X.to(dtype) / 10).requires_grad_()
    pooled = covariance_pool(Y, method)
    with pytest.raises(LinAlgError, match=r"the (gradient|derivative) of"):
        pooled.backward(torch.full_like(pooled, torch.finfo(dtype).max))
