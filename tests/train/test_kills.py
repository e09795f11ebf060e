"""Two of the kills that `python tests/kills.py` does many of."""

import shutil

import pytest
import torch

import kills

pytestmark = pytest.mark.slow


def test_killed_jobs_end_as_if_nothing_had_been(tmp_path):
    found = list(kills.kill_often(2, seed=0, folder=tmp_path))
    assert [kill.aim.activity for kill in found] == ["writing a checkpoint", "computing features"]
    assert [kill.problem for kill in found] == ["", ""]
    # With another end, the comparison says so.
    shutil.copytree(tmp_path / "0", tmp_path / "other")
    head = tmp_path / "other" / "head" / "last.ckpt"
    state = torch.load(head, weights_only=True)
    state["state_dict"]["model.classifier.bias"][0] += 1e-7
    torch.save(state, head)
    problem = kills.difference(tmp_path / "other", tmp_path / "reference")
    assert problem.startswith("head: state_dict/model.classifier.bias:")
