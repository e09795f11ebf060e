"""Verdicts that are kept with the package."""

import json

from studies.paper import recorded
from studies.paper.command import show_entries
from studies.paper.recorded import add_record, load_recorded, recorded_verdicts
from studies.paper.result import Result


def test_the_record_of_a_network_replaces_its_earlier_one(tmp_path):
    file = tmp_path / "recorded.json"
    yes = Result("table:speed", "Claim.", (), "supported", "Reason.")
    add_record(file, "patches", 3, {"table:speed": yes, "table:fgvc": None})
    add_record(file, "patches-norm", 3, {"table:speed": yes})
    add_record(file, "patches", 20, {"table:fgvc": None})
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "patches": {"seeds": 20, "verdicts": {"table:fgvc": "not measured"}},
        "patches-norm": {"seeds": 3, "verdicts": {"table:speed": "supported"}},
    }


def test_the_list_of_entries_has_them(monkeypatch, capsys):
    study = {"seeds": 3, "verdicts": {"table:speed": "supported"}}
    monkeypatch.setattr(recorded, "load_recorded", lambda: {"patches-norm": study})
    assert recorded_verdicts("table:speed") == {"with batch norm": "supported"}
    assert recorded_verdicts("table:fgvc") == {}
    show_entries(["table:speed"])
    assert "✓ supported, with batch norm" in capsys.readouterr().out


def test_what_is_recorded_has_entries():
    from studies.paper.entries import ENTRIES

    for study in load_recorded().values():
        assert set(study["verdicts"]) <= set(ENTRIES)
