from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput, MissingDependency
from voile.core.schema import Feature, Numbers, Problem, Schema
from voile.datasets import read_protected_table, read_table, tables


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
        (b"a\n1\ncaf\xe9\n", "line 3: not UTF-8.*byte e9 is 'é' in Windows-1252"),
        (b"a;b\n1,5;2\n", "its columns are separated by semicolons, expected commas"),
        (b"a\tb\n1\t2\n", "its columns are separated by tabs"),
        ("a,b\n1,2\n".encode("utf-16"), "is in UTF-16"),
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
    assert table["n"].tolist() == [1, None, 3]
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


def test_cells_of_parquet_depend_on_no_other_row(tmp_path: Path) -> None:
    large = 2**53 + 1  # no float holds it
    for others in ([], [None]):
        path = tmp_path / "data.parquet"
        pq.write_table(pa.table({"n": [large, *others]}), path)
        assert read_table(path)["n"].tolist() == [large, *others]


def test_a_dictionary_with_as_many_texts_as_its_places_can_count(tmp_path: Path) -> None:
    texts = [f"t{number}" for number in range(128)]
    places = pa.array([*range(128), None], pa.int8())
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"c": pa.DictionaryArray.from_arrays(places, texts)}), path)
    assert read_table(path)["c"].tolist() == [*texts, None]


def damaged_text(*cells: bytes | None) -> pa.Array:
    """Text in which Arrow believes, whether it is UTF-8 or not."""
    raw = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())


def test_a_damaged_cell_of_parquet_is_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"s": damaged_text(b"caf\xe9", b"tea", None)}), path)
    assert read_protected_table(path)["s"].tolist() == [None, "tea", None]
    assert read_table(path)["s"].tolist() == [b"caf\xe9", "tea", None]


def test_what_no_schema_reads_is_neither_missing_nor_a_number(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    time, moment = pa.array([-5, 7], pa.time32("s")), pa.array([2**62, 7], pa.timestamp("us"))
    pq.write_table(pa.table({"time": time, "list": [[1], [2]], "moment": moment}), path)
    schema = Schema("s", tuple(Feature(n, Numbers(0, 9), 4.0) for n in ("time", "list", "moment")))
    report = schema.check(read_protected_table(path))
    assert [column.count(Problem.UNREADABLE) for column in report.features] == [2, 2, 2]


def test_a_small_file_that_decodes_to_a_large_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LARGEST_DECODED", 2**20)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"n": np.zeros(10**6)}), path)
    assert path.stat().st_size < 20_000
    for read in (read_table, read_protected_table):
        with pytest.raises(InvalidInput, match="decodes to more than the 1 MiB"):
            read(path)
    words = pa.array(["x" * 1000] * 20_000)
    pq.write_table(pa.table({"s": words}), path)
    assert read_table(path)["s"].tolist() == words.to_pylist()  # one text, kept once


def test_of_a_protected_container_only_that_is_told_what_it_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(5000))}), tmp_path / "data.parquet")
    content = bytearray((tmp_path / "data.parquet").read_bytes())
    content[40:80] = bytes(40)
    with pytest.raises(InvalidInput, match=r"not a Parquet file that can be read$"):
        read_protected_table(write(tmp_path, bytes(content), "data.parquet"))


# --- protected CSV -------------------------------------------------------------------------------

GOOD = [b"1,x", b'2,"y, z"', b"3,caf\xc3\xa9"]
DAMAGED = {
    "not UTF-8": b"caf\xe9,y",
    "extra cell": b"1,2,3",
    "cell lacking": b"1",
    "stray quote": b'1,"y',
    "text after a quote": b'1,"y"z',
    "quotes and bytes": b'\xff"1,"',
    "blank": b"",
    "carriage returns": b"1\r2,\r\r",
    "null bytes": b"\x00,\x00",
    "very long": b"1," + b"x" * 200_000,
    "very long in quotes": b'1,"' + b"x" * 200_000 + b'"',
    "another line end": "1\u2028,\x0b\x0c\x1c\x85".encode(),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_one_damaged_record_changes_one_record(tmp_path: Path, damage: bytes, end: bytes) -> None:
    whole = read_protected_table(write(tmp_path, end.join([b"n,s", *GOOD]) + end))
    assert whole["s"].tolist() == ["x", "y, z", "café"]
    for place in range(3):
        lines = [b"n,s", *GOOD]
        lines[1 + place] = damage
        table = read_protected_table(write(tmp_path, end.join(lines) + end))
        for name in ("n", "s"):
            others = [cell for row, cell in enumerate(table[name].tolist()) if row != place]
            assert others == [c for row, c in enumerate(whole[name].tolist()) if row != place]
            assert len(table[name]) == 3


def test_what_cannot_be_taken_apart_is_the_null_record(tmp_path: Path) -> None:
    lines = [b"n,s", b"1,2,3", b'1,"y', b"", b"1", b"\xff,\xff", b"7,\xff", b"8,y,,"]
    table = read_protected_table(write(tmp_path, b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n"))
    assert table["n"].tolist() == ["", "", "", "", "", "7", "8"]
    assert table["s"].tolist() == ["", "", "", "", "", "", "y"]
    assert read_protected_table(write(tmp_path, b"n,s\n"))["n"].tolist() == []
    assert read_protected_table(write(tmp_path, b"n,s\n\n"))["n"].tolist() == [""]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_blanked_last_record_is_still_counted(tmp_path: Path, end: bytes) -> None:
    """A file without a last line end would have one record fewer: such files are refused."""
    for last in (b"2", b"", b'"', b"\xff"):
        assert (
            len(read_protected_table(write(tmp_path, end.join([b"a", b"1", last, b""])))["a"]) == 2
        )
    for file in (b"a", b"a\n1\n2", b"a\n1\n\xff", b"a\r\n1\r\n\r"):
        with pytest.raises(InvalidInput, match=r"data\.csv: the last line must be ended"):
            read_protected_table(write(tmp_path, file))


def test_the_name_of_a_damaged_line_is_found_in_any_column(tmp_path: Path) -> None:
    lines = b'1,a,5\n"1, ""x""",b,5,7\n"1,c,5\n1,"d ""e""",5,7\n'
    path = write(tmp_path, b"value,id,other\n" + lines)
    assert read_protected_table(path, naming="id")["id"].tolist() == ["a", "b", "", 'd "e"']


@pytest.mark.parametrize(
    "data",
    [b"", b"\n1,2\n", b"n,\xff\n1,2\n", b'n,"s\n1,2\n', b"n,s\r1,2\r"],
)
def test_a_first_line_that_is_no_header_is_told(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"data\.csv: expected the column names"):
        read_protected_table(write(tmp_path, data))


@pytest.mark.parametrize("data", [b"n;s\n1;2\n", "n,s\n1,2\n".encode("utf-16")])
def test_the_form_of_another_program_shows_in_the_header(tmp_path: Path, data: bytes) -> None:
    """Which is public, unlike whatever stands below it."""
    with pytest.raises(InvalidInput, match=r"semicolons|UTF-16"):
        read_protected_table(write(tmp_path, data))


def test_a_protected_header_names_each_column_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"line 1: column names must differ.*'a'"):
        read_protected_table(write(tmp_path, b"a,a\n1,2\n"))


CELLS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=60)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_sound_files_read_alike(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([("a", "b"), *rows])
    path = write(tmp_path, text.getvalue().encode())
    strict, forgiving = read_table(path), read_protected_table(path)
    assert {n: c.tolist() for n, c in strict.items()} == {
        n: c.tolist() for n, c in forgiving.items()
    }


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, b"PAR1", "data.parquet")
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"voile\[explain\]"):
        read_table(path)
