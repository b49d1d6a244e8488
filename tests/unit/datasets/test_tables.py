from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from voile.core.errors import InvalidInput, MissingDependency
from voile.datasets import read_table


def write(folder: Path, data: bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_csv_columns_are_text(tmp_path: Path) -> None:
    table = read_table(
        write(tmp_path, b'\xef\xbb\xbfage,name\r\n040,"a,\nb"\r\n\r\n,caf\xc3\xa9\r\n')
    )
    assert {name: column.tolist() for name, column in table.items()} == {
        "age": ["040", ""],
        "name": ["a,\nb", "café"],
    }
    assert table["age"].dtype == object


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    table = read_table(str(write(tmp_path, b"a,b\n")))
    assert {name: len(column) for name, column in table.items()} == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty; expected a header"),
        (b"\n\n", "empty; expected a header"),
        (b"a,b,a\n1,2,3\n", "line 1: column names must differ.*'a'"),
        (b"a,b\n1,2\n3\n", "line 3: expected 2 values, as in the header, found 1"),
        (b'a,b\n"1\n2",2\n3,4,5\n', "line 4: expected 2 values, as in the header, found 3"),
        (b"a\n1\ncaf\xe9\n", "line 3: not UTF-8"),
        (b'a,b\n1,2\n"3,4\n5,6\n', "line 3: not valid CSV"),
        (b"a\n" + b"x" * 200_000 + b"\n", "line 2: not valid CSV"),
    ],
)
def test_what_is_wrong_with_a_csv_file(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=rf"data\.csv: {message}"):
        read_table(write(tmp_path, data))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.csv", tmp_path):
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_table(path)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n1\n")))
    assert read_table("-")["a"].tolist() == ["1"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(InvalidInput, match="standard input: empty"):
        read_table("-")


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    category = pa.array(["x", "y", "x"]).dictionary_encode()
    columns = {"n": [1, None, 3], "s": ["a", None, "b"], "b": [True, False, None], "c": category}
    pq.write_table(pa.table(columns), path)
    table = read_table(path)
    np.testing.assert_array_equal(table["n"], [1, np.nan, 3])
    assert table["s"].tolist() == ["a", None, "b"]
    assert table["b"].tolist() == [True, False, None]
    assert table["c"].tolist() == ["x", "y", "x"]


def test_damaged_parquet(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a Parquet file"):
        read_table(write(tmp_path, b"PAR1 nonsense", "data.parquet"))
    path = tmp_path / "twice.pq"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(InvalidInput, match="'a'"):
        read_table(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, b"PAR1", "data.parquet")
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"voile\[explain\]"):
        read_table(path)
