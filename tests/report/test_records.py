import math
import os

import pytest

from rootpool.report.records import read_records, write_records

RECORDS = [
    {"step": 0, "pool": "head, first", "rank": 12.5, "ratio": math.inf},
    {"step": 1, "pool": 'a "quoted"\nline', "rank": 1e-300, "ratio": -math.inf, "converged": True},
    {"step": 2, "pool": "é", "rank": 0.1 + 0.2, "converged": False},
]


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new" / "folder" / "records.csv"
    write_records(RECORDS, path)
    got = read_records(path)
    assert got == RECORDS
    assert [type(v) for v in got[1].values()] == [type(v) for v in RECORDS[1].values()]
    assert os.listdir(path.parent) == ["records.csv"]
    write_records([{"x": math.nan}, {"x": None, "y": 1}], path)
    first, second = read_records(path)
    assert math.isnan(first["x"])
    assert second == {"y": 1}
    write_records([], path)
    assert read_records(path) == []
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"records\.csv does not contain records \("):
        read_records(path)
