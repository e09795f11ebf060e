import pytest
import torch

from rootpool.machine import machine
from rootpool.nn import SVDPade
from studies.timing import time_methods


def test_a_record_says_what_was_timed_and_where():
    first, second = time_methods(
        (2, 6, 9), [SVDPade(degree=3), "exact"], rounds=1, compute_dtype=torch.float32
    )
    assert (first["method"], second["method"]) == ("SVDPade(degree=3)", "exact")
    assert first["total"] == first["forward"] + first["backward"]
    assert (first["batch"], first["shape"], first["compute_dtype"]) == (2, "2x6x9", "float32")
    assert machine().items() <= first.items()


def test_wrong_arguments():
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        time_methods((1, 2, 3), rounds=0)
