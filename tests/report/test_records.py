import json
import math
import os

import pytest

from rootpool.report.records import read_json, read_records, to_json, write_records

RECORDS = [
    {"step": 0, "pool": "head, first", "rank": 12.5, "ratio": math.inf},
    {"step": 1, "pool": 'a "quoted"\nline', "rank": 1e-300, "ratio": -math.inf, "converged": True},
    {"step": 2, "pool": "é", "rank": 0.1 + 0.2, "converged": False},
]


@pytest.mark.parametrize("name", ["records.csv", "new/folder/records.csv"])
def test_what_is_written_is_read(tmp_path, name):
    write_records(RECORDS, tmp_path / name)
    got = read_records(tmp_path / name)
    assert got == RECORDS
    assert [type(v) for v in got[1].values()] == [type(v) for v in RECORDS[1].values()]
    assert os.listdir((tmp_path / name).parent) == ["records.csv"]


def test_nan_nothing_and_none(tmp_path):
    write_records([{"x": math.nan}, {"x": None, "y": 1}], tmp_path / "r.csv")
    first, second = read_records(tmp_path / "r.csv")
    assert math.isnan(first["x"])
    assert second == {"y": 1}
    write_records([], tmp_path / "r.csv")
    assert read_records(tmp_path / "r.csv") == []


DAMAGED = {"depth": "[" * 100_000, "cut": '[{"a": 1', "number": "3", "bytes": "\udcff\udcfe"}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_files_that_hold_something_else(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=r"result\.json is corrupt .*; delete it and it will"):
        read_json(path, "label")


def test_a_damaged_table_is_named(tmp_path):
    (tmp_path / "r.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"r\.csv does not contain records \("):
        read_records(tmp_path / "r.csv")


def test_results_are_strict_json_and_keep_numbers_that_are_not_finite(tmp_path):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    result = {"label": "x", "curves": [{"loss": math.inf}, {"loss": -math.inf}], "seconds": None}
    text = to_json(result)
    assert json.loads(text, parse_constant=refuse)["curves"][0] == {"loss": "Infinity"}
    (tmp_path / "result.json").write_text(text)
    assert read_json(tmp_path / "result.json", "label") == result
    with pytest.raises(ValueError, match="it has no images, missed"):
        read_json(tmp_path / "result.json", "images", "label", "missed")
