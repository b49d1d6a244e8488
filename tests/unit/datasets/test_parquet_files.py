"""Stretches of rows of many Parquet files are what the files hold, one below the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voile.core.errors import InvalidInput, UnreadableFile
from voile.datasets.parquet_files import ParquetFiles

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(folder: Path, sizes: list[int], group: int) -> None:
    start = 0
    for number, size in enumerate(sizes):
        places = range(start, start + size)
        columns: dict[str, Any] = {
            "n": [None if each % 7 == 6 else each for each in places],
            "x": [each / 4 for each in places],
            "t": [f"text {each % 3}" for each in places],
        }
        table = pa.table(
            columns, schema=pa.schema([("n", "int64"), ("x", "double"), ("t", "string")])
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
        start += size


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any),
    group=st.integers(1, 5),
    data=st.data(),
)
def test_any_stretch_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], group: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("table")
    write(folder, sizes, group)
    found = ParquetFiles.find(str(folder))
    assert len(found) == sum(sizes)
    first = data.draw(st.integers(0, len(found) - 1))
    count = data.draw(st.integers(1, len(found) - first))
    read = found.read(first, count)
    places = list(range(first, first + count))
    assert read["x"].tolist() == [each / 4 for each in places]
    assert read["t"].tolist() == [f"text {each % 3}" for each in places]
    assert [None if cell is None else int(cell) for cell in read["n"].tolist()] == [
        None if each % 7 == 6 else each for each in places
    ]


def test_a_pattern_and_a_file_are_found(tmp_path: Path) -> None:
    write(tmp_path, [3, 4], 2)
    assert len(ParquetFiles.find(str(tmp_path / "*.parquet"))) == 7
    assert len(ParquetFiles.find(str(tmp_path / "1.parquet"))) == 4


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write(tmp_path, [3], 2)
    pq.write_table(pa.table({"other": [1]}), tmp_path / "9.parquet")
    with pytest.raises(InvalidInput, match=r"9\.parquet: has other columns"):
        ParquetFiles.find(str(tmp_path))
    (tmp_path / "9.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(UnreadableFile, match=r"9\.parquet: not a Parquet file"):
        ParquetFiles.find(str(tmp_path))


@pytest.mark.parametrize("named", ["nothing/*.parquet", "rows.csv", "empty"])
def test_other_names_are_refused(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("a\n1\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="expected a Parquet file"):
        ParquetFiles.find(named)


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, [3], 3)
    before = ParquetFiles.find(str(tmp_path)).read(0, 3)
    pq.write_table(
        pa.table({"n": [7, 8, 9], "x": [0.0, 1.0, 2.0], "t": ["a", "b", "c"]}),
        tmp_path / "0.parquet",
    )
    after = ParquetFiles.find(str(tmp_path)).read(0, 3)
    assert not np.array_equal(before["t"], after["t"])
