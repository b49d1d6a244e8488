"""Beginning with one's own files, from the header alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from voile.app.federate import read_agreement, read_job, starting
from voile.app.federate.agreement import federation_of, origin_of
from voile.app.federate.starting import start_federation
from voile.app.starting import header
from voile.core.errors import InvalidInput, SchemaError, UnreadableFile
from voile.core.schema import Schema

HEADER = "age,blood pressure,readmitted"


def csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


def test_two_files_become_the_files_of_a_federation(tmp_path: Path) -> None:
    files = [csv(tmp_path / "north.csv", "1,2,yes"), csv(tmp_path / "south.csv")]
    started = start_federation(files, tmp_path, name="north v1")
    assert started.columns == ("age", "blood pressure", "readmitted")
    assert started.label == "readmitted"
    with pytest.raises(SchemaError, match="categories"):
        Schema.load(started.schema)
    with pytest.raises(InvalidInput, match=r"parties\.0\.rows"):
        read_agreement(started.config)
    filled = started.config.read_text().replace("rows = 0", "rows = 7")
    started.config.write_text(filled)
    fill(started.schema)
    agreement = read_agreement(started.config)
    assert agreement.sizes == {"north": 7, "south": 7}
    assert {key.name for key in agreement.keys.values()} == {
        "voile.invalid/north-20-v1/north",
        "voile.invalid/north-20-v1/south",
    }
    for name in ("north", "south"):
        own = tmp_path / "nodes" / name
        assert f"../../{name}.csv" in (own / "node.toml").read_text()
        assert (own / "audit.key").stat().st_mode & 0o777 == 0o600
        assert str(agreement.keys[name]) in (own / "audit-policy.toml").read_text()


def fill(schema: Path) -> None:
    text = schema.read_text().replace("categories = []", 'categories = ["no", "yes"]')
    text = text.replace('kind = ""', 'kind = "continuous"')
    schema.write_text(text.replace("bounds = []", "bounds = [0, 9]"))


def test_the_files_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    csv(home / "north.csv", "1,2,yes", "2,3,no")
    csv(home / "held-out.csv", "1,2,yes", "2,3,no")
    monkeypatch.chdir(home)
    started = start_federation([Path("north.csv")], Path())
    started.config.write_text(started.config.read_text().replace("rows = 0", "rows = 2"))
    fill(started.schema)
    monkeypatch.chdir(tmp_path)
    job = read_job(Path("home/federation.toml"))
    assert len(job.parties[0].records) == 2
    assert len(job.server.held_out) == 2


def test_a_federation_is_called_after_its_folder_or_as_somebody_says(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv")
    for folder, stated, called in (
        ("study 2026", None, "study 2026"),
        ("x" * 65, None, "federation"),
        ("c", "übung – v1", "übung – v1"),
    ):
        started = start_federation([file], tmp_path / folder, name=stated)
        assert f'name = "{called}"' in started.config.read_text().splitlines()
        policy = (tmp_path / folder / "output" / "audit-policy.toml").read_text()
        assert federation_of(origin_of(called, "server")) == called
        assert origin_of(called, "server") in policy
    for wrong in ("", "a/b", "a\nb", "x" * 65, "a\u200bb"):
        with pytest.raises(InvalidInput, match="has a name of 1 to 64"):
            start_federation([file], tmp_path / "d", name=wrong)
    assert not (tmp_path / "d").exists()


def test_parties_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = [csv(tmp_path / "a.csv"), csv(tmp_path / "other" / "a.csv")]
    with pytest.raises(InvalidInput, match="need different names"):
        start_federation(files, tmp_path)
    assert not (tmp_path / "nodes").exists()


def test_the_schema_loads_once_it_is_filled_in(tmp_path: Path) -> None:
    started = start_federation([csv(tmp_path / "a.csv")], tmp_path / "study", label="age")
    text = started.schema.read_text()
    text = text.replace("categories = []", 'categories = ["young", "old"]')
    text = text.replace('kind = ""', 'kind = "continuous"').replace(
        "bounds = []", "bounds = [0, 9]"
    )
    schema = Schema.loads(text)
    assert schema.feature_names == ("blood pressure", "readmitted")


def test_what_stands_below_the_header_changes_nothing(tmp_path: Path) -> None:
    one = start_federation([csv(tmp_path / "a.csv", "1,2,yes")], tmp_path / "one", name="v1")
    csv(tmp_path / "a.csv", "nan,1e308,no", "3,", "\x00")
    two = start_federation([tmp_path / "a.csv"], tmp_path / "two", name="v1")
    assert one.schema.read_bytes() == two.schema.read_bytes()
    without_keys = [
        [line for line in each.config.read_text().splitlines() if "key = " not in line]
        for each in (one, two)
    ]
    assert without_keys[0] == without_keys[1]


def test_parquet_has_a_header_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0], "b": ["x"]}), tmp_path / "a.parquet")
    assert header(tmp_path / "a.parquet") == ("a", "b")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv")
    start_federation([file], tmp_path)
    with pytest.raises(InvalidInput, match="exists already"):
        start_federation([file], tmp_path)


@pytest.mark.parametrize("step", range(8))
def test_a_start_that_was_broken_off_is_finished_by_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    files = [csv(tmp_path / "north.csv"), csv(tmp_path / "south.csv")]
    left = [step]

    def breaking(work: Callable[..., Any]) -> Callable[..., Any]:
        def some(*given: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return work(*given)

        return some

    with monkeypatch.context() as broken:
        for name in ("replace_file", "party_key"):
            broken.setattr(starting, name, breaking(getattr(starting, name)))
        with pytest.raises(KeyboardInterrupt):
            start_federation(files, tmp_path)
    keys = {path: path.read_bytes() for path in tmp_path.rglob("*.key")}
    assert bool(keys) == (step > 0)
    started = start_federation(files, tmp_path)
    assert {path: path.read_bytes() for path in keys} == keys
    assert started.config.read_text().count("[[parties]]") == 2
    assert (tmp_path / "nodes" / "south" / "node.toml").exists()


@pytest.mark.parametrize("name", ["schema.toml", "server.toml", "nodes/a/node.toml", "nodes/b"])
def test_what_another_start_began_is_not_overwritten(tmp_path: Path, name: str) -> None:
    file = csv(tmp_path / "a.csv")
    start_federation([file], tmp_path).config.unlink()
    if name == "nodes/b":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("# changed\n")
    with pytest.raises(InvalidInput, match="exists already"):
        start_federation([file], tmp_path)
    assert not (tmp_path / "federation.toml").exists()


def test_bad_headers_are_refused(tmp_path: Path) -> None:
    same, other = csv(tmp_path / "a.csv"), tmp_path / "b.csv"
    other.write_text("age,readmitted\n")
    with pytest.raises(InvalidInput, match="columns differ"):
        start_federation([same, other], tmp_path)
    with pytest.raises(InvalidInput, match="no column 'risk'"):
        start_federation([same], tmp_path, label="risk")
    with pytest.raises(InvalidInput, match="at least one"):
        start_federation([], tmp_path)
    for text in ("", "one\n", "a,a\n", "a,\n"):
        other.write_text(text)
        with pytest.raises(InvalidInput, match="expected a header"):
            header(other)
    other.write_bytes(b"\xff\xfe\n")
    with pytest.raises(InvalidInput, match="UTF-16"):
        header(other)
    other.write_bytes(b"\xff,\n")
    with pytest.raises(UnreadableFile, match="no header"):
        header(other)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        header(tmp_path / "missing.csv")
    (tmp_path / "c.parquet").write_bytes(b"no")
    with pytest.raises(UnreadableFile, match="Parquet"):
        header(tmp_path / "c.parquet")
