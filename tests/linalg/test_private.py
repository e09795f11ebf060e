"""Names that torch and Python do not promise to keep: each still does what it is used for.

(``interpreter_exits`` is tested in test_processes.py, by a daemon thread that has to leave.)
"""

import torch

from rootpool.linalg import _private


def test_wrapped_tensors_are_told_from_plain_ones():
    seen = []
    torch.vmap(lambda x: (seen.append(_private.is_wrapped(x)), x)[1])(torch.ones(2))
    assert seen == [True]
    assert not _private.is_wrapped(torch.ones(2))


def test_transformations_under_way_are_seen():
    seen = []
    torch.vmap(lambda x: (seen.append(_private.within_transform()), x)[1])(torch.ones(2))
    assert seen == [True]
    assert not _private.within_transform()


def test_autocast_of_any_device_is_seen_and_compilers_look_for_themselves():
    assert not _private.any_autocast()
    with torch.autocast("cpu"):
        assert _private.any_autocast()
        with torch.autocast("cpu", enabled=False):
            assert not _private.any_autocast()
    asked = torch.compile(lambda A: A + _private.any_autocast(), backend="eager", fullgraph=True)
    assert asked(torch.zeros(())) == 1
