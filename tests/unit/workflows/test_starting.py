"""Beginning with one's own files, from the header alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from voile.core.errors import InvalidInput, SchemaError, UnreadableFile
from voile.core.schema import Schema
from voile.workflows.federate.config import read_config
from voile.workflows.starting import header, start

HEADER = "age,blood pressure,readmitted"


def csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


def test_two_files_become_a_config_and_a_schema_to_fill_in(tmp_path: Path) -> None:
    files = [csv(tmp_path / "north.csv", "1,2,yes"), csv(tmp_path / "south.csv")]
    started = start(files, tmp_path)
    assert started.columns == ("age", "blood pressure", "readmitted")
    assert started.label == "readmitted"
    with pytest.raises(SchemaError, match="categories"):
        Schema.load(started.schema)
    with pytest.raises(InvalidInput, match=r"clients\.0\.rows"):
        read_config(started.config)
    filled = started.config.read_text().replace("rows = 0", "rows = 7")
    started.config.write_text(filled)
    config = read_config(started.config)
    assert [client.name for client in config.clients] == ["north", "south"]
    assert [client.data for client in config.clients] == files
    assert config.schema_file == started.schema


def test_the_schema_loads_once_it_is_filled_in(tmp_path: Path) -> None:
    started = start([csv(tmp_path / "a.csv")], tmp_path / "study", label="age")
    text = started.schema.read_text()
    text = text.replace("categories = []", 'categories = ["young", "old"]')
    text = text.replace('kind = ""', 'kind = "continuous"').replace(
        "bounds = []", "bounds = [0, 9]"
    )
    schema = Schema.loads(text)
    assert schema.feature_names == ("blood pressure", "readmitted")


def test_what_stands_below_the_header_changes_nothing(tmp_path: Path) -> None:
    one = start([csv(tmp_path / "a.csv", "1,2,yes")], tmp_path / "one")
    csv(tmp_path / "a.csv", "nan,1e308,no", "3,", "\x00")
    two = start([tmp_path / "a.csv"], tmp_path / "two")
    assert one.schema.read_bytes() == two.schema.read_bytes()
    assert one.config.read_bytes() == two.config.read_bytes()


def test_parquet_has_a_header_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0], "b": ["x"]}), tmp_path / "a.parquet")
    assert header(tmp_path / "a.parquet") == ("a", "b")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv")
    start([file], tmp_path)
    with pytest.raises(InvalidInput, match="exists already"):
        start([file], tmp_path)


def test_bad_headers_are_refused(tmp_path: Path) -> None:
    same, other = csv(tmp_path / "a.csv"), tmp_path / "b.csv"
    other.write_text("age,readmitted\n")
    with pytest.raises(InvalidInput, match="columns differ"):
        start([same, other], tmp_path)
    with pytest.raises(InvalidInput, match="no column 'risk'"):
        start([same], tmp_path, label="risk")
    with pytest.raises(InvalidInput, match="at least one"):
        start([], tmp_path)
    for text in ("", "one\n", "a,a\n", "a,\n"):
        other.write_text(text)
        with pytest.raises(InvalidInput, match="expected a header"):
            header(other)
    other.write_bytes(b"\xff\xfe\n")
    with pytest.raises(UnreadableFile, match="no header"):
        header(other)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        header(tmp_path / "missing.csv")
    (tmp_path / "c.parquet").write_bytes(b"no")
    with pytest.raises(UnreadableFile, match="Parquet"):
        header(tmp_path / "c.parquet")
