"""A large table is explained block by block: as in one piece, with one record, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.training_examples import asked, table, write_people

from voile.app.calls import Context, handle
from voile.app.commands.audit import IssueReceipt, VerifyProof
from voile.app.commands.explain import Explain
from voile.app.explain import table as module
from voile.app.explain.table_parts import BlockList, read_part
from voile.app.explain_rows import TableResult
from voile.core.errors import InvalidInput, Refused, UnreadableFile, VerificationFailed
from voile.core.explanation import Explanation
from voile.engines import ENGINES
from voile.records.audit_log import PostProcessingRecord, decode_record
from voile.records.vault import Place, open_vault_at

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = 37


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_people(tmp_path_factory.mktemp("people"))
    handle(asked(folder))
    return folder


@pytest.fixture
def home(trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """With small blocks, and a table in three files beside the model."""
    monkeypatch.setattr(module, "BLOCK", 8)
    columns = table(ROWS, seed=5)
    columns.pop("ill")
    first = next(iter(columns))
    cells: list[Any] = list(columns[first])
    cells[20] = None  # filled in, and noted
    whole = pa.table({name: list(column) for name, column in (columns | {first: cells}).items()})
    (tmp_path / "big").mkdir()
    for number, (start, end) in enumerate([(0, 10), (10, 25), (25, ROWS)]):
        part = whole.slice(start, end - start)
        pq.write_table(part, tmp_path / "big" / f"{number}.parquet", row_group_size=4)
    pq.write_table(whole, tmp_path / "whole.parquet")
    monkeypatch.chdir(tmp_path)
    return trained


def explain(home: Path, **changes: Any) -> Any:
    stated = {
        "model": str(home / "model"),
        "data": "big/*.parquet",
        "save_as": "out",
        "database": str(home / "log.db"),
    }
    return handle(Explain.read(stated | changes), changes.pop("context", Context()))


def records(home: Path) -> list[PostProcessingRecord]:
    with open_vault_at(Place.within(home), signing=None) as vault:
        contents = vault.storage.submit(lambda t: vault.log.records(t, limit=10**6))
    return [r for r in map(decode_record, contents) if isinstance(r, PostProcessingRecord)]


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def blocks(folder: str = "out") -> list[Explanation]:
    return [read_part(Path(folder) / name) for name in BlockList.read(Path(folder)).files]


def test_blocks_are_the_explanation_in_one_piece(home: Path) -> None:
    before = len(records(home))
    result = explain(home)
    assert isinstance(result, TableResult)
    whole = explain(home, data="whole.parquet", save_as=None).explained
    found = blocks()
    assert [len(block) for block in found] == [8, 8, 8, 8, 5]
    for name, array in whole.explanation.arrays.items():
        together = np.concatenate([block.arrays[name] for block in found])
        assert np.array_equal(together, array), name
    assert found[0].guarantees == whole.explanation.guarantees
    (own, one_piece) = records(home)[before:]
    assert (own.rows, own.guarantees) == (ROWS, one_piece.guarantees)
    assert own.epsilon is not None
    strength = np.abs(whole.explanation.values).mean(axis=(0, 2))
    names = whole.explanation.feature_names
    assert result.answer.strength == pytest.approx(dict(zip(names, strength, strict=True)))


def test_the_answer_and_each_row_are_proved(home: Path) -> None:
    answer = explain(home).answer
    policy = home / "audit-policy.toml"
    assert handle(VerifyProof(proof=answer.receipt, answer=Path("out"), policy=policy)).verified
    for row in (1, 8, 21, ROWS):
        stated = {
            "charge": str(answer.record),
            "table": "out",
            "row": row,
            "out": f"{row}.row-proof",
        }
        handle(IssueReceipt.read(stated | {"database": str(home / "log.db")}))
        proof, saved = Path(f"{row}.row-proof"), Path(f"{row}.voile")
        assert handle(VerifyProof(proof=proof, answer=saved, policy=policy)).verified
        (noted,) = [
            str(note) for note in Explanation.load(saved).notes if "filled" in str(note)
        ] or [""]
        assert bool(noted) == (row == 21)
        other = Path("1.voile") if row > 1 else None
        if other is not None:
            assert not handle(VerifyProof(proof=proof, answer=other, policy=policy)).verified


def test_a_changed_cell_is_noticed(home: Path) -> None:
    answer, policy = explain(home).answer, home / "audit-policy.toml"
    path = Path("out/3.parquet")
    found = pq.read_table(path)
    column = found.column_names.index(next(n for n in found.column_names if n.startswith("value.")))
    cells = found.column(column).to_numpy().copy()
    cells[2] = np.nextafter(cells[2], 9)
    pq.write_table(found.set_column(column, found.column_names[column], pa.array(cells)), path)
    assert not handle(VerifyProof(proof=answer.receipt, answer=Path("out"), policy=policy)).verified
    stated = {"charge": str(answer.record), "table": "out", "row": 20}
    with pytest.raises(VerificationFailed, match="other rows than record"):
        handle(IssueReceipt.read(stated | {"database": str(home / "log.db")}))


def test_every_bit_of_text_and_numbers_is_read_again(tmp_path: Path) -> None:
    from voile.app.explain.table_parts import write_part

    numbers = np.random.default_rng(0).normal(size=(4, 2, 3))
    saved = Explanation(
        values=numbers,
        base_values=numbers[:, 0],
        feature_names=("a", "b.c"),
        output_names=("x", "y", "z"),
        data=np.array([["", "long text"], ["ä", "1"], ["b", "2"], ["c", "nan"]]),
        standard_errors=np.abs(numbers),
    )
    assert read_part(write_part(saved, tmp_path / "1.parquet", 0)) == saved
    again = write_part(saved, tmp_path / "2.parquet", 0)
    assert again.read_bytes() == (tmp_path / "1.parquet").read_bytes()


def test_a_folder_is_used_again_only_when_allowed(home: Path) -> None:
    explain(home)
    with pytest.raises(InvalidInput, match="exists already"):
        explain(home)
    pq.write_table(pq.read_table("big/0.parquet"), "small.parquet")
    explain(home, data="small.parquet", overwrite=True)
    assert names("out") == [
        "1.parquet",
        "2.parquet",
        "explanation.json",
        "receipt.tlog-proof",
    ]


def test_what_is_wrong_is_told_with_its_rows(home: Path) -> None:
    found = pq.read_table("big/2.parquet")
    name = found.column_names[-1]
    pq.write_table(
        found.set_column(len(found.column_names) - 1, name, pa.array(["?"] * len(found))),
        "big/2.parquet",
    )
    before = len(records(home))
    with pytest.raises(InvalidInput, match="rows 25 to 32"):
        explain(home)
    assert len(records(home)) == before
    assert names("out") == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no Parquet": ({"data": "rows.csv"}, "expected a Parquet file"),
    "a page": ({"page": "why.html"}, "goes with no --preview"),
    "a preview": ({"preview": True}, "goes with no --preview"),
    "an unknown engine": ({"engine": "abacus"}, "'local', 'ray', 'spark'"),
    "an engine for a file": ({"engine": "ray", "save_as": "why.voile"}, "--engine needs a folder"),
    "the folder of the table": ({"save_as": "big"}, "holds the table itself"),
    "a folder with other files": ({"save_as": "mine"}, "holds thesis"),
    "identifiers": ({"id_column": "id"}, "leave out --id-column"),
}


@pytest.mark.parametrize(("changes", "why"), REFUSED.values(), ids=list(REFUSED))
def test_it_is_refused_before_anything_is_computed(
    home: Path, changes: dict[str, Any], why: str
) -> None:
    Path("rows.csv").write_text("a\n1\n")
    Path("mine").mkdir()
    Path("mine/thesis").touch()
    before = len(records(home))
    with pytest.raises(InvalidInput, match=why):
        explain(home, **changes)
    assert len(records(home)) == before


def test_charged_explanations_stay_with_their_ledger(home: Path) -> None:
    pq.write_table(pq.read_table("whole.parquet"), "background.parquet")
    terms = {"protect": "background", "background": "background.parquet", "account": "people"}
    with pytest.raises(Refused, match="explanations that cost nothing"):
        explain(home, model=str(home / "model"), **terms)


def test_a_worker_with_another_model_is_noticed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the folder itself; here, after somebody has trained again."""

    def elsewhere(work: module.TableWork, parts: Any) -> Any:
        module._LOADED.clear()
        (home / "model").rename(home / "old")
        try:
            handle(asked(home, epsilon=0.5, sure=True))
            yield from map(work, parts)
        finally:
            subprocess.run(["rm", "-r", home / "model"], check=True)
            (home / "old").rename(home / "model")

    monkeypatch.setitem(module_engines(), "local", elsewhere)
    before = len(records(home))
    with pytest.raises(VerificationFailed, match="another model"):
        explain(home)
    assert len(records(home)) == before


def module_engines() -> Any:
    known: Any = ENGINES
    return known.own


def test_a_repeated_block_is_the_same_to_the_bit(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []

    def twice(work: Any, parts: Any) -> Any:
        for part in parts:
            one = work(part)
            written.append((work.folder / f"{part.number + 1}.parquet").read_bytes())
            other = work(part)
            assert (one.root, one.answer, one.question) == (
                other.root,
                other.answer,
                other.question,
            )
            yield other

    monkeypatch.setitem(module_engines(), "local", twice)
    before = len(records(home))
    explain(home)
    assert [Path(f"out/{n}.parquet").read_bytes() for n in range(1, 6)] == written
    assert len(records(home)) == before + 1


def test_killed_before_the_record_nothing_is_left_to_read(home: Path) -> None:
    code = (
        "import os, signal\n"
        "from voile.app.explain import table\n"
        "table.BLOCK = 8\n"
        "table.call_record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from voile.cli import main\n"
        "main()\n"
    )
    before = len(records(home))
    line = [str(home / "model"), "big/*.parquet", "--output", "out", "--database"]
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", *line, str(home / "log.db")], check=False
    )
    assert done.returncode == -9
    assert names("out") == [".unfinished"]
    with pytest.raises(UnreadableFile):
        BlockList.read(Path("out"))
    assert len(records(home)) == before
    explain(home)
    assert len(blocks()) == 5


def test_two_calls_do_not_share_a_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one would take away the files of the first."""

    def meanwhile(work: Any, parts: Any) -> Any:
        monkeypatch.setitem(module_engines(), "local", map)
        with pytest.raises(InvalidInput, match="another call writes there"):
            explain(home, overwrite=True)
        yield from map(work, parts)

    monkeypatch.setitem(module_engines(), "local", meanwhile)
    before = len(records(home))
    answer = explain(home).answer
    policy = home / "audit-policy.toml"
    assert handle(VerifyProof(proof=answer.receipt, answer=Path("out"), policy=policy)).verified
    assert len(records(home)) == before + 1


def test_a_list_of_blocks_is_read_strictly(tmp_path: Path) -> None:
    for content in ("", "[]", "{}", json.dumps({"format": "voile explanation in blocks"})):
        (tmp_path / "explanation.json").write_text(content)
        with pytest.raises((UnreadableFile, InvalidInput)):
            BlockList.read(tmp_path)
