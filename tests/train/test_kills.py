"""Processes that are killed at any moment, also while they write a file."""

import pytest

import kills


@pytest.mark.slow
def test_killed_jobs_end_as_if_nothing_had_been(tmp_path):
    found = kills.kill_often(3, tmp_path)
    assert [kill["problem"] for kill in found] == [""] * 3
    assert {kill["doing"] for kill in found} != {"nothing, it had ended"}
