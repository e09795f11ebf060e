import json
import math
import os

import pytest

from rootpool.analysis import mean_by, read_records, write_records
from rootpool.analysis.records import read_json

RECORDS = [
    {"step": 0, "pool": "head, first", "rank": 12.5, "ratio": math.inf},
    {"step": 1, "pool": 'a "quoted"\nline', "rank": 1e-300, "ratio": -math.inf, "converged": True},
    {"step": 2, "pool": "é", "rank": 0.1 + 0.2, "converged": False},
]


@pytest.mark.parametrize("name", ["records.csv", "records.json", "new/folder/records.csv"])
def test_what_is_written_is_read(tmp_path, name):
    write_records(RECORDS, tmp_path / name)
    got = read_records(tmp_path / name)
    assert got == RECORDS
    assert [type(v) for v in got[1].values()] == [type(v) for v in RECORDS[1].values()]
    assert os.listdir((tmp_path / name).parent) == ["records" + (tmp_path / name).suffix]


@pytest.mark.parametrize("name", ["records.csv", "records.json"])
def test_nan_and_nothing(tmp_path, name):
    write_records([{"x": math.nan}], tmp_path / name)
    assert math.isnan(read_records(tmp_path / name)[0]["x"])
    write_records([], tmp_path / name)
    assert read_records(tmp_path / name) == []


def test_json_is_strict(tmp_path):
    write_records([{"x": math.nan, "y": None}], tmp_path / "r.json")

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    text = (tmp_path / "r.json").read_text()
    assert json.loads(text, parse_constant=refuse) == [{"x": "NaN", "y": None}]


def test_none_is_absent_in_csv(tmp_path):
    write_records([{"x": None, "y": 1}], tmp_path / "r.csv")
    assert read_records(tmp_path / "r.csv") == [{"y": 1}]


@pytest.mark.parametrize("name", ["r.csv", "r.json"])
def test_a_failed_write_leaves_the_old_file(tmp_path, name, monkeypatch):
    write_records(RECORDS, tmp_path / name)

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_records([], tmp_path / name)
    assert read_records(tmp_path / name) == RECORDS
    assert os.listdir(tmp_path) == [name]


def test_rights_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_records([], tmp_path / "r.csv")
    assert (tmp_path / "r.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_unknown_format(tmp_path):
    with pytest.raises(ValueError, match=r"records are in files .json or .csv, got 'r.xlsx'"):
        write_records([], tmp_path / "r.xlsx")
    with pytest.raises(ValueError, match=r"got 'r'"):
        read_records(tmp_path / "r")


def test_mean_by():
    records = [
        {"epoch": 0, "pool": "a", "rank": 1, "name": "x"},
        {"epoch": 0, "pool": "b", "rank": 2},
        {"epoch": 0, "pool": "a", "rank": 4, "extra": 7.0},
        {"epoch": 1, "pool": "a", "rank": math.inf},
    ]
    assert mean_by(records, "epoch", "pool") == [
        {"epoch": 0, "pool": "a", "rank": 2.5, "extra": 7.0},
        {"epoch": 0, "pool": "b", "rank": 2.0},
        {"epoch": 1, "pool": "a", "rank": math.inf},
    ]


DAMAGED = {"depth": "[" * 100_000, "cut": '[{"a": 1', "number": "3", "bytes": "\udcff\udcfe"}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_files_that_hold_something_else(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=r"result\.json holds no records \("):
        read_records(path)
    with pytest.raises(
        ValueError, match=r"result\.json is damaged .*; remove it, and it is made anew"
    ):
        read_json(path, "label")


def test_a_cell_of_a_megabyte(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "x" * 2**20)
    with pytest.raises(
        ValueError, match=r"a\.csv holds no records \(field larger than field limit"
    ):
        read_records(tmp_path / "a.csv")


def test_a_result_without_its_parts(tmp_path):
    (tmp_path / "result.json").write_text('{"label": "x"}')
    assert read_json(tmp_path / "result.json", "label") == {"label": "x"}
    with pytest.raises(ValueError, match="it has no curves, seconds"):
        read_json(tmp_path / "result.json", "curves", "label", "seconds")
