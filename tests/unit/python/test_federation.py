"""`voile.federate`: a trial in one process, from tables to a model, explanations and a report."""

from __future__ import annotations

import atexit
import datetime
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voile
from voile.core.errors import InvalidInput, Refused, StorageBusy
from voile.core.schema import Schema
from voile.federation.progress import ProgressEvent
from voile.python.federation import FinishedFederation
from voile.python.round_bars import ProgressBars
from voile.records.audit_log import verify_receipt
from voile.records.checkpoints import read_policy
from voile.records.vault import Place, open_vault_at

SCHEMA = Schema({"age": (18, 90), "sex": ["f", "m"], "sick": ["no", "yes"]})
TERMS: dict[str, Any] = {"label": "sick", "schema": SCHEMA, "epsilon": 2, "delta": 1e-5}


def patients(count: int, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    age = draw.uniform(18, 90, count)
    sick = np.where(age > draw.uniform(18, 90, count), "yes", "no")
    return {"age": age, "sex": draw.choice(["f", "m"], count), "sick": sick}


NORTH, SOUTH = patients(900, 1), patients(700, 2)
TABLES = {"north": NORTH, "south": SOUTH}
NEW = {"age": [20.0, 88.0], "sex": ["f", "m"]}


def run(parties: Any = TABLES, **more: Any) -> FinishedFederation:
    found = voile.federate(parties, **{**TERMS, "progress": False, **more})
    assert isinstance(found, FinishedFederation)
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedFederation:
    return run(folder=tmp_path_factory.mktemp("made") / "trial")


# --- what comes of it -----------------------------------------------------------------------------


def test_the_model_predicts_as_people_of_scikit_learn_expect(finished: FinishedFederation) -> None:
    model = finished.model
    chances = model.predict_proba(NEW)
    assert model.classes_ is not None
    assert model.classes_.tolist() == ["no", "yes"]
    assert chances.shape == (2, 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert model.predict(NEW).tolist() == ["no", "yes"]
    assert set(model.curves) <= {"age", "sex"}
    assert model.curves["age"][0]["score"] < 0 < model.curves["age"][-1]["score"]


def test_explaining_is_free_and_on_record(finished: FinishedFederation) -> None:
    why = finished.explain(NEW)
    assert why.shape == (2, 2)
    assert why.released is not None
    assert why.released.charges == ()
    assert why.guarantee == finished.guarantee
    assert why.display_data.tolist() == [[20.0, "f"], [88.0, "m"]]
    policy = read_policy(finished.policy)
    (entry,) = why.released.entries
    assert verify_receipt(
        bytes(why.receipt), policy, query=entry.question, answer=entry.answer
    ).verified


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_any_table_is_taken(finished: FinishedFederation, kind: str) -> None:
    made = pytest.importorskip(kind)
    table = made.table(NEW) if kind == "pyarrow" else made.DataFrame(NEW)
    assert np.array_equal(finished.explain(table).values, finished.explain(NEW).values)
    assert np.array_equal(finished.model.predict(table), finished.model.predict(NEW))


def test_one_person_may_be_asked_about(finished: FinishedFederation) -> None:
    assert finished.explain({"age": 20.0, "sex": "f"}).shape == (1, 2)


def test_a_table_without_a_column_is_refused_by_its_name(finished: FinishedFederation) -> None:
    for ask in (finished.explain, finished.model.predict):
        with pytest.raises(InvalidInput, match="'age'"):
            ask({"Age": [20.0], "sex": ["f"]})


def test_what_is_promised_and_how_good_it_is_come_first(finished: FinishedFederation) -> None:
    lines = repr(finished).splitlines()
    assert lines[0] == str(finished.guarantee)
    assert lines[1].startswith("log-loss: ")
    assert "1,600 rows of 2 parties (north 900, south 700)" in lines[-1]
    assert finished.parties == {"north": 900, "south": 700}
    assert finished.quality["AUC"]["figure"] > 0.6
    assert finished.guarantee.epsilon == pytest.approx(2)
    assert repr(finished.model).startswith(str(finished.guarantee))


def test_a_report_replaces_a_page_of_voile_and_nothing_else(
    finished: FinishedFederation, tmp_path: Path
) -> None:
    page, mine = tmp_path / "report.html", tmp_path / "mine.html"
    assert finished.report(page) == page
    assert "trial" in page.read_text()
    mine.write_text("mine")
    with pytest.raises(InvalidInput, match="exists already"):
        finished.report(mine)
    assert mine.read_text() == "mine"
    page.write_bytes(page.read_bytes()[:500])
    finished.report(page)
    assert page.stat().st_size > 500


def test_a_number_is_predicted_between_public_bounds() -> None:
    tables = {
        name: {"age": table["age"], "days": table["age"] / 9} for name, table in TABLES.items()
    }
    schema = {"age": (18, 90)}
    found = run(tables, schema=schema, label="days", target_range=(0, 20))
    young, old = found.model.predict({"age": [19, 89]})
    assert 0 <= young < old <= 20
    assert found.model.classes_ is None
    with pytest.raises(InvalidInput, match="predicts a number"):
        found.model.predict_proba({"age": [19]})


# --- before anything is spent ---------------------------------------------------------------------


def test_a_preview_says_who_pays_what_and_writes_nothing(tmp_path: Path) -> None:
    found = voile.federate(TABLES, **TERMS, folder=tmp_path / "trial", preview=True)
    assert (
        "each party pays from its own budget, at most: ε = 2 at δ = 1e-05 by 'north', 'south'"
        in str(found)
    )
    assert repr(found) == str(found)
    assert list(tmp_path.iterdir()) == []


def test_a_small_federation_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    few = {"north": patients(20, 1), "south": patients(1, 2)}
    with pytest.raises(Refused, match=r"nothing was charged.*Too little signal.*insist=True"):
        run(few, folder=tmp_path / "trial")
    assert list(tmp_path.iterdir()) == []
    assert run(few, folder=tmp_path / "trial", insist=True).parties == {"north": 20, "south": 1}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"epsilon": None}, "epsilon: is missing"),
        ({"epsilon": -1}, "epsilon: expected a number above 0, found -1"),
        ({"delta": 2}, "delta: expected a number below 1"),
        ({"schema": None}, "schema: is missing"),
        ({"epsylon": 2}, "epsylon: there is no such field"),
        ({"model": "forest"}, "model must be one of"),
        ({"model": "images"}, "needs a federation.toml of its own"),
        ({"relation": "add or remove one"}, "sizes are public here"),
        ({"secure": "tuesday"}, "expected one of 'active', 'honest but curious'"),
        ({"superlink": "127.0.0.1:9091"}, "are all in this process"),
        ({"name": "a/b"}, "a federation has a name of 1 to 64"),
        ({"rounds": 3}, "leave `rounds` out"),
        ({"held_out": [1, 2]}, "held_out: expected a table with names of columns"),
        ({"schema": {"age": (18, 90)}, "classes": "no"}, "classes: expected all of them"),
        ({"schema": {"age": (18, 90)}, "classes": {"no", "yes"}}, "classes: expected all of them"),
    ],
)
def test_what_is_wrong_is_told_by_its_name(more: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidInput, Refused), match=said):
        run(**more)


# --- the label ------------------------------------------------------------------------------------

INPUTS = Schema({"age": (18, 90), "sex": ["f", "m"]})


def test_the_label_is_never_read_off_the_rows() -> None:
    with pytest.raises(InvalidInput, match=r"declares no column 'sick'.*Schema.*classes=") as told:
        run(schema=INPUTS)
    assert "target_range" in str(told.value)


def test_whole_numbers_may_be_a_label() -> None:
    schema = {"age": (18, 90), "days": range(0, 15)}
    tables = {name: {**rows, "days": rows["age"] // 7} for name, rows in TABLES.items()}
    terms = {**TERMS, "schema": schema, "label": "days"}
    assert "1,600 rows, 1 features" in str(voile.federate(tables, **terms, preview=True))


@pytest.mark.parametrize(
    ("schema", "more"),
    [
        (SCHEMA, {}),
        (INPUTS, {"classes": ["no", "yes"]}),
        (INPUTS, {"classes": np.array(["no", "yes"])}),
        (Schema({"age": (18, 90), "sex": ["f", "m"], "sick": ["no", "yes"]}, label="sick"), {}),
        ({"age": (18, 90), "sex": ["f", "m"], "sick": ["no", "yes"]}, {}),
    ],
)
def test_a_label_may_be_declared_in_many_ways(schema: Any, more: dict[str, Any]) -> None:
    found = voile.federate(TABLES, **{**TERMS, "schema": schema, **more}, preview=True)
    assert "1,600 rows, 2 features" in str(found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"label": None}, "say which column to predict"),
        ({"classes": ["no", "maybe"]}, "state it once"),
        ({"schema": INPUTS, "classes": [0, 1], "target_range": (0, 1)}, "not both"),
        (
            {"schema": Schema({"age": (18, 90), "sex": ["f", "m"]}, label="sex")},
            "is 'sex', and 'sick'",
        ),
    ],
)
def test_a_label_that_is_declared_otherwise_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        run(**more)


# --- the rows -------------------------------------------------------------------------------------


class Secretive:
    """Fails, with words that quote a row, whatever is done to it."""

    def __fail(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("the patient in room 7")

    __str__ = __repr__ = __float__ = __eq__ = __hash__ = __bool__ = __array__ = __iter__ = __fail


EDGE = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
FOREIGN = [
    Secretive(),
    EDGE,
    datetime.timedelta.max,
    Decimal("sNaN"),
    complex(1, 2),
    b"\xff",
    [1],
    {},
    object,
]


@pytest.mark.parametrize("kind", ["dict", "pandas"])
@pytest.mark.parametrize("cell", FOREIGN, ids=lambda cell: type(cell).__name__)
def test_a_value_that_cannot_be_read_is_missing_and_never_an_error(cell: Any, kind: str) -> None:
    """One that is missing makes the same: what is previewed and trained depends on no such cell."""
    table: Any = {name: np.array(column, dtype=object) for name, column in NORTH.items()}
    for name in ("age", "sick"):
        table[name][7:8] = np.fromiter([cell], dtype=object)
    if kind == "pandas":
        table = pytest.importorskip("pandas").DataFrame(table)
    records = _records({"north": table, "south": SOUTH})["north"]
    assert len(records) == 900
    assert np.isnan(records.labels[7])
    assert records.rows[7, 0] == SCHEMA.features[0].null_value
    assert np.isfinite(records.rows).all()


def _records(parties: Any) -> Any:
    from voile.app.commands.federate import NewFederation
    from voile.app.federate.founding import read_draft

    return read_draft(
        NewFederation.read({**TERMS, "parties": parties, "folder": "nowhere"})
    ).rows.parties


@pytest.mark.parametrize(
    ("parties", "said"),
    [
        ({}, "expected a table or a file for each by its name"),
        (NORTH["age"], "expected a table or a file for each by its name"),
        (NORTH, "party 'age': expected a table with names of columns"),
        ({"north": NORTH, "south": None}, "party 'south': expected a table with names"),
        ({"north": NORTH, "south": np.zeros((3, 3))}, "party 'south': expected a table with names"),
        ({"north": NORTH, 7: SOUTH}, "a party has a name of 1 to 64"),
        ({"north": NORTH, "server": SOUTH}, "no party may be called 'server'"),
        ({"north": NORTH, "south": {k: [] for k in SOUTH}}, "party 'south' has no rows"),
        ({"north": NORTH, "south": {"Age": [1]}}, r"party 'south': .*'age' \(is it 'Age'\?\)"),
        (
            {"north": NORTH, "south": {**SOUTH, "age": [1]}},
            "party 'south': columns must have one length",
        ),
        ({"north": NORTH, "south": "south.csv"}, "south.csv"),
        ("no such folder", "expected a folder with a file of each party"),
    ],
)
def test_parties_that_cannot_be_are_named(parties: Any, said: str) -> None:
    with pytest.raises(voile.VoileError, match=said):
        run(parties)


def test_a_table_with_more_columns_is_taken() -> None:
    found = voile.federate(
        {"north": {**NORTH, "name": ["x"] * 900}, "south": SOUTH}, **TERMS, preview=True
    )
    assert "1,600 rows, 2 features" in str(found)


def test_a_table_that_fails_as_a_whole_quotes_nothing() -> None:
    class Broken(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            raise RuntimeError("the patient in room 7")

        def items(self) -> Any:
            raise RuntimeError("the patient in room 7")

    with pytest.raises(InvalidInput, match=r"party 'south': the table cannot be read") as told:
        run({"north": NORTH, "south": Broken(SOUTH)})
    assert "room 7" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


def test_parties_without_a_readable_label_are_warned_about_first() -> None:
    tables = {name: {**rows, "sick": ["maybe"] * len(rows["age"])} for name, rows in TABLES.items()}
    found = run(tables)
    assert repr(found).startswith("Do not use it as it is. The model: ")
    assert "rows have a label" in repr(found).splitlines()[0]


def test_no_rows_belong_to_two_parties_or_are_public() -> None:
    with pytest.raises(Refused, match="party 'north' and party 'south' are the same table"):
        run({"north": NORTH, "south": NORTH})
    with pytest.raises(Refused, match="party 'south' and the held-out rows are the same table"):
        run(held_out=SOUTH)


# --- folders, files and going on ------------------------------------------------------------------


def test_without_a_folder_a_line_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    removed: list[Callable[[], None]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atexit, "register", removed.append)
        found = run(progress=True)
    place = found.folder.parent
    said = capsys.readouterr()
    assert f"{place}, which is removed when Python ends" in said.err
    assert said.out == ""
    assert place.is_dir()
    (remove,) = removed
    remove()
    assert not place.exists()


def test_a_refused_call_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InvalidInput):
        run(schema=INPUTS)
    assert list(tmp_path.iterdir()) == []


def test_the_same_call_gives_a_complete_result_again(
    finished: FinishedFederation, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.folder.parent
    again = run({"north": patients(900, 5), "south": SOUTH}, folder=folder, progress=True)
    assert again.agreement == finished.agreement
    assert again.model.curves == finished.model.curves
    assert "the rows that are handed over now are not used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"epsilon": 3}, "epsilon is 2 on record and 3 here"),
        ({"secure": True}, "secure is False on record and True here"),
        (
            {"parties": {**TABLES, "south": patients(701, 2)}},
            "'south' is 700 on record and 701 here",
        ),
        (
            {"parties": {**TABLES, "east": patients(700, 3)}},
            "'east' is not there on record and 700 here",
        ),
        (
            {"schema": Schema({"age": (0, 90), "sex": ["f", "m"], "sick": ["no", "yes"]})},
            "the schema is",
        ),
        ({"name": "other"}, "name is 'trial' on record and 'other' here"),
    ],
)
def test_other_figures_in_the_same_folder_are_refused_with_both(
    finished: FinishedFederation, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        run(**{"folder": finished.folder.parent, **more})


def test_two_calls_in_one_folder_at_once_do_not_mix(finished: FinishedFederation) -> None:
    from voile.app.federate.party import run_lock

    with run_lock(finished.folder.parent / "nodes" / "north"), pytest.raises(StorageBusy):
        run(folder=finished.folder.parent)


def test_a_call_that_is_interrupted_goes_on_with_its_folder_and_pays_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupted(event: ProgressEvent) -> None:
        if event.done and event.stage == "centred moments":
            raise KeyboardInterrupt

    kept: list[object] = []
    monkeypatch.setattr(atexit, "unregister", kept.append)
    with monkeypatch.context() as patch:
        patch.setattr(ProgressBars, "rounds", lambda *_: interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(progress=True)
    assert len(kept) == 1, "it would be removed when Python ends"
    (folder,) = tmp_path.iterdir()
    said = capsys.readouterr().err
    assert "interrupted: rounds that are done and what was charged for them are kept" in said
    assert f"folder={str(folder)!r}" in said
    before = _charges(folder / "nodes" / "north")
    assert run(folder=folder).parties == {"north": 900, "south": 700}
    after = _charges(folder / "nodes" / "north")
    assert before == after[: len(before)]
    assert len(after) == 3


def _charges(folder: Path) -> list[str]:
    with open_vault_at(Place.within(folder), signing=None) as vault:
        read = vault.storage.read_snapshot
        records = read(lambda t: [vault.log.record(t, n) for n in range(vault.log.head(t).size)])
    return [each.decode() for each in records if b'"kind":"release"' in each or b'"event"' in each]


def test_files_and_a_folder_of_files_are_parties(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    (tmp_path / "data").mkdir()
    for name, table in TABLES.items():
        pandas.DataFrame(table).to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    by_name = {name: tmp_path / "data" / f"{name}.csv" for name in TABLES}
    mixed = {"north": by_name["north"], "south": SOUTH}
    for parties in (by_name, mixed, tmp_path / "data"):
        found = voile.federate(parties, **TERMS, preview=True)
        assert "by 'north', 'south'" in str(found)
        assert "1,600 rows" in str(found)
    with pytest.raises(Refused, match="the same file"):
        run({"north": by_name["north"], "south": by_name["north"]})


def test_an_agreement_says_all_of_it(tmp_path: Path) -> None:
    """A trial of files is a federation like any other: the same call takes its federation.toml."""
    pandas = pytest.importorskip("pandas")
    for name, table in TABLES.items():
        pandas.DataFrame(table).to_csv(tmp_path / f"{name}.csv", index=False)
    made = run({name: tmp_path / f"{name}.csv" for name in TABLES}, folder=tmp_path / "trial")
    for place in (tmp_path / "trial", tmp_path / "trial" / "federation.toml"):
        again = voile.federate(place, progress=False)
        assert isinstance(again, FinishedFederation)
        assert again.agreement == made.agreement
    agreed = tmp_path / "trial" / "federation.toml"
    assert isinstance(voile.federate(agreed, **TERMS, progress=False), FinishedFederation)
    with pytest.raises(InvalidInput, match="epsilon is 2 there and 1 here"):
        voile.federate(agreed, epsilon=1)
    with pytest.raises(InvalidInput, match=r"held_out: federation\.toml and the files beside it"):
        voile.federate(agreed, held_out=NORTH)
    with pytest.raises(InvalidInput, match=r"server\.toml says where results go"):
        voile.federate(agreed, folder="elsewhere")
    with pytest.raises(InvalidInput, match=r"\[superlink\]"):
        voile.federate(agreed, superlink="127.0.0.1:9091")


def test_rows_that_were_handed_over_are_in_no_file(finished: FinishedFederation) -> None:
    with pytest.raises(InvalidInput, match="names no file with its rows"):
        voile.federate(finished.folder.parent)
    kept = [path for path in finished.folder.parent.rglob("*") if path.is_file()]
    assert not any(path.suffix in (".csv", ".parquet") and "nodes" in path.parts for path in kept)


# --- other ways to train --------------------------------------------------------------------------


def test_parties_that_keep_sums_secret_share_the_noise() -> None:
    parties = {name: patients(400, seed) for seed, name in enumerate("abcd")}
    found = run(parties, secure="honest but curious")
    assert found.parties == dict.fromkeys("abcd", 400)
    assert "noise is shared" in str(voile.federate(parties, **TERMS, secure=True, preview=True))


def test_a_network_is_judged_on_public_rows() -> None:
    with pytest.raises(InvalidInput, match="held_out="):
        run(model="network")
    found = voile.federate(
        TABLES, **TERMS, model="network", held_out=patients(300, 3), rounds=2, preview=True
    )
    assert "on 300 held-out rows" in str(found)
