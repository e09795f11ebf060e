import pytest
import torch

from rootpool.analysis import machine, time_methods
from rootpool.nn import METHODS, SVDPade


def test_every_method_has_a_record_with_the_machine():
    records = time_methods((2, 6, 3, 3), rounds=1)
    assert [r["method"] for r in records] == list(METHODS)
    for record in records:
        assert record["forward"] > 0
        assert record["backward"] > 0
        assert record["total"] == record["forward"] + record["backward"]
        assert (record["batch"], record["shape"]) == (2, "2x6x3x3")
        assert record["compute_dtype"] == "float64"
        assert machine().items() <= record.items()


def test_more_work_takes_more_time():
    small, large = (
        time_methods((batch, 32, 49), ["exact"], rounds=3)[0]["total"] for batch in (1, 64)
    )
    assert large > 4 * small


def test_methods_as_values_and_averages():
    records = time_methods((2, 6, 9), [SVDPade(degree=3), "gap"], compute_dtype=torch.float32)
    assert [r["method"] for r in records] == ["SVDPade(degree=3)", "gap"]
    assert records[0]["compute_dtype"] == "float32"


def test_machine():
    found = machine()
    assert found["threads"] == torch.get_num_threads()
    assert found["torch"] == torch.__version__
    assert found["device"]


def test_wrong_arguments():
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        time_methods((1, 2, 3), rounds=0)
