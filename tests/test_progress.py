"""The display of long commands, where there is no terminal."""

import io

import pytest
from rich.console import Console

from rootpool import progress


def shown(*, quiet: bool = False) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=80)
    with progress.Display("birds", 4, quiet=quiet, console=console) as display:
        for done in (1, 2, 4):
            display.update(done, f"view {done}")
    assert quiet or out.getvalue().endswith("\n")
    return out.getvalue().splitlines()


def test_a_log_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(shown()) == 1  # of short work the last state
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    *lines, last = shown()
    assert [line.split(",")[0] for line in lines] == ["birds: 25 %", "birds: 50 %", "birds: 100 %"]
    assert [line.split(", ")[-1] for line in lines] == ["view 1", "view 2", "view 4"]
    assert "100%" in last
    assert shown(quiet=True) == []
