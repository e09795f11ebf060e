import pytest
import torch
from torch import nn

from rootpool.nn import CovariancePool, Exact, ISqrtCov, covariance_pools, set_method
from rootpool.train.hybrid import HybridProtocol, HybridSchedule


def test_the_paper_s_schedules():
    alexnet = HybridSchedule(switch_epoch=19, warmup_epochs=1)
    assert [alexnet.stage(e) for e in range(30)] == ["start"] * 19 + ["warm-up"] + ["final"] * 10
    resnet = HybridSchedule(switch_epoch=43, warmup_epochs=2)
    assert [resnet.stage(e) for e in range(60)] == ["start"] * 43 + ["warm-up"] * 2 + ["final"] * 15
    none = HybridSchedule(switch_epoch=20, warmup_epochs=0)
    assert {none.stage(e) for e in range(30)} == {"start", "final"}


def test_impossible_schedules_are_refused():
    with pytest.raises(ValueError, match=r"switch_epoch must be at least 1, got 0; .* standalone"):
        HybridSchedule(switch_epoch=0)
    with pytest.raises(ValueError, match="warmup_epochs must not be negative, got -1"):
        HybridSchedule(switch_epoch=3, warmup_epochs=-1)
    with pytest.raises(ValueError, match="unknown method 'newton'"):
        HybridProtocol(HybridSchedule(switch_epoch=3, start="newton"))
    with pytest.raises(AttributeError):
        HybridSchedule(switch_epoch=3).switch_epoch = 4


def test_all_pools_of_a_model_switch_and_its_weights_stay():
    model = nn.ModuleList(
        [CovariancePool(8, "isqrt-cov", reduction=4), CovariancePool(4, "isqrt-cov")]
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    set_method(model, "exact")
    assert [pool.method for pool in covariance_pools(model).values()] == [Exact(), Exact()]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_without_pools_cannot_switch():
    with pytest.raises(ValueError, match="Linear has no CovariancePool"):
        set_method(nn.Linear(2, 2), "exact")


def test_final_method_may_be_any_value():
    assert HybridProtocol(HybridSchedule(2), final=ISqrtCov(iterations=7)).final == ISqrtCov(
        iterations=7
    )
