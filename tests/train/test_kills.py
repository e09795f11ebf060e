"""Two of the kills that `python tests/kills.py` does many of."""

import pytest

import kills

pytestmark = pytest.mark.slow


def test_killed_jobs_end_as_if_nothing_had_been(tmp_path):
    found = list(kills.kill_often(2, seed=0, folder=tmp_path))
    assert [kill.aim.activity for kill in found] == ["writing a checkpoint", "computing features"]
    assert [kill.problem for kill in found] == ["", ""]
    # With another end, the comparison says so.
    (block, *_) = (tmp_path / "0" / "cache").rglob("*.npy")
    content = bytearray(block.read_bytes())
    content[-1] ^= 1
    block.write_bytes(content)
    problem = kills.difference(tmp_path / "0", tmp_path / "reference")
    assert problem == "the cache has other features"
