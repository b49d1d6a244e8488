"""Strangers share a look, a draw and a transaction, and never an outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.budget_examples import RULES, House
from tests.unit.app.explain.examples import (
    ROWS,
    Costly,
    balances,
    clipped,
    exact,
    free,
    house_in,
    people,
    records,
)
from tests.unit.records.audit_log.examples import LOG_KEY
from tests.unit.records.ledger.examples import DATASET

from voile.app.explain import (
    ExplanationRequest,
    ReleasedExplanation,
    ReleaseService,
    RowsToExplain,
)
from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart
from voile.records.audit_log import (
    BudgetOpenedRecord,
    PostProcessingRecord,
    RefusalRecord,
    ReleaseRecord,
    verify_receipt,
)
from voile.records.checkpoints import Keeper, kept_checkpoint
from voile.records.ledger.tables import ENTRIES
from voile.records.storage import Command, Reader, Transaction


@pytest.fixture
def house(tmp_path: Path) -> House:
    return house_in(tmp_path)


def asks(name: str | None, row: int = 0, caller: str = "ada", **changes: Any) -> ExplanationRequest:
    rows = RowsToExplain(ROWS[row : row + 1], identifiers=[name])
    return ExplanationRequest(rows=rows, caller=caller, **({"payer": "people"} | changes))


def explained(outcome: object) -> ReleasedExplanation:
    assert isinstance(outcome, ReleasedExplanation), outcome
    return outcome


def test_one_snapshot_one_draw_and_one_transaction_for_all(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    people(house)
    release, submitted, looked = Costly(clipped()), list[Any](), list[Any]()
    submit, read_snapshot = house.storage.submit, house.storage.read_snapshot

    def counted(command: Command[Any]) -> Any:
        submitted.append(command)
        return submit(command)

    def counted_looks(question: Callable[[Reader], Any]) -> Any:
        looked.append(question)
        return read_snapshot(question)

    monkeypatch.setattr(house.storage, "submit", counted)
    monkeypatch.setattr(house.storage, "read_snapshot", counted_looks)
    outcomes = house.service.answer_many(
        release, [asks(f"person {n}", n % 3, f"caller {n}") for n in range(8)]
    )
    assert release.drawn == 1
    assert (len(looked), len(submitted)) == (1, 1)
    assert len({explained(each).charges for each in outcomes}) == 8
    for number, each in enumerate(outcomes):
        again = house.service.answer(
            clipped(),
            RowsToExplain(ROWS[:1], identifiers=[f"person {number}"]),
            payer="people",
            caller=f"caller {number}",
        )
        assert again.replayed
        assert again.explanation == explained(each).explanation
    assert house.verify().verified


def test_looking_waits_for_no_writer(tmp_path: Path) -> None:
    """A question that was answered before is answered while somebody else writes."""
    house = House.create(str(tmp_path / "test.db"), tmp_path)
    people(house)
    asked = partial(
        house.service.answer,
        clipped(),
        RowsToExplain(ROWS[:1], ["ada"]),
        payer="people",
        caller="ada",
    )
    first, writing, may_end = asked(), threading.Event(), threading.Event()

    def slow(_: Transaction) -> None:
        writing.set()
        assert may_end.wait(30)

    writer = threading.Thread(target=lambda: house.storage.submit(slow))
    writer.start()
    assert writing.wait(30)
    again = asked()
    may_end.set()
    writer.join()
    assert again.replayed
    assert again.explanation == first.explanation
    house.storage.close()


def test_a_snapshot_that_is_older_than_the_kept_checkpoint_is_no_alarm(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have published between the snapshot and the look at the copy."""
    people(house)
    house.open("clinic")
    keeper = Keeper(RULES, kept_checkpoint(house.key), LOG_KEY)
    vault = replace(house.vault, log=keeper.knows(house.vault.log), keeper=keeper)
    read_snapshot = house.storage.read_snapshot

    def outrun(question: Callable[[Reader], Any]) -> Any:
        def late(t: Reader) -> Any:
            monkeypatch.undo()
            house.answer("row 1")
            house.keep()
            return question(t)

        return read_snapshot(late)

    monkeypatch.setattr(house.storage, "read_snapshot", outrun)
    rows = RowsToExplain(ROWS[:1], ["ada"])
    answered = ReleaseService(vault).answer(clipped(), rows, payer="people", caller="ada")
    assert not answered.replayed


def test_a_charge_that_is_refused_after_another_was_written_undoes_both(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether all fit is known beforehand; this is what happens if that were wrong."""
    people(house, epsilon=2.0)
    house.service.answer(clipped(), RowsToExplain(ROWS[:1], ["a"]), payer="people", caller="ada")
    before, size = balances(house), len(records(house))
    monkeypatch.setattr("voile.app.explain.charging.check_fits", lambda *_: None)
    greedy = RowsToExplain(np.repeat(ROWS[:1], 40, axis=0), identifiers=["a"] * 40)
    together = [
        ExplanationRequest(rows=greedy, payer="people", caller="bob", fresh=True),
        asks("b"),
    ]
    with pytest.raises(BudgetExceeded):
        house.service.answer_many(clipped(), together)
    assert balances(house) == before
    assert len(records(house)) == size
    assert house.verify().verified


def test_a_refusal_touches_nobody_else_and_leaves_no_account_behind(house: House) -> None:
    people(house, epsilon=2.0)
    house.service.answer(
        clipped(),
        RowsToExplain(ROWS[:1], identifiers=["spent"]),
        payer="people",
        caller="ada",
    )
    while True:  # until this record has nothing left
        try:
            house.service.answer(
                clipped(),
                RowsToExplain(ROWS[:1], identifiers=["spent"]),
                payer="people",
                caller="ada",
                fresh=True,
            )
        except BudgetExceeded:
            break
    before = set(balances(house))
    greedy = ExplanationRequest(  # a new record, named often enough to be too much
        rows=RowsToExplain(np.repeat(ROWS[:1], 40, axis=0), identifiers=["greedy"] * 40),
        payer="people",
        caller="bob",
        fresh=True,
    )
    outcomes = house.service.answer_many(
        clipped(),
        [
            asks("first"),
            asks("spent", fresh=True),
            greedy,
            asks("second", payer="nowhere"),
            asks("third", payer=None),
            ExplanationRequest(rows=ROWS[:0], payer="people", caller="eve"),  # type: ignore[arg-type]
            asks("last", caller="eve"),
        ],
    )
    kinds = [
        ReleasedExplanation,
        BudgetExceeded,
        BudgetExceeded,
        InvalidInput,
        Refused,
        InvalidInput,
    ]
    assert [type(each) for each in outcomes] == [*kinds, ReleasedExplanation]
    assert len(set(balances(house)) - before) == 2  # of "first" and of "last"
    told = records(house)
    assert sum(isinstance(each, BudgetOpenedRecord) for each in told) == len(before) + 2
    assert sum(isinstance(each, RefusalRecord) for each in told) == 3
    assert house.verify().verified


def test_what_is_spent_within_a_batch_counts_for_the_rest_of_it(house: House) -> None:
    """All fit when they are looked up; unnamed rows are everybody's, so together they do not."""
    people(house, epsilon=2.0)
    release = clipped(epsilon=0.7)
    unnamed = [asks(None, caller=f"caller {n}") for n in range(60)]
    outcomes = house.service.answer_many(release, [*unnamed, asks("ada", 1)])
    refused = [each for each in outcomes if isinstance(each, BudgetExceeded)]
    assert 0 < len(refused) < len(outcomes)
    assert isinstance(outcomes[0], ReleasedExplanation)
    assert isinstance(outcomes[-1], BudgetExceeded)
    assert list(balances(house)) == ["people"]  # no account was opened for what was refused
    told = records(house)
    assert sum(isinstance(each, BudgetOpenedRecord) for each in told) == 1
    assert sum(isinstance(each, RefusalRecord) for each in told) == len(refused)
    assert house.verify().verified


def test_one_record_asked_for_by_two_callers_is_two_questions(house: House) -> None:
    people(house, epsilon=30.0)
    ada, bob, again = house.service.answer_many(
        clipped(), [asks("x"), asks("x", caller="bob"), asks("x")]
    )
    assert explained(ada).charges != explained(bob).charges
    assert explained(again).charges == explained(ada).charges
    assert explained(again).explanation == explained(ada).explanation
    assert len([each for each in records(house) if isinstance(each, ReleaseRecord)]) == 2


def test_rows_that_cannot_be_stacked_are_drawn_one_by_one(house: House) -> None:
    people(house)
    table = {"income": [3], "debt": ["6"], "employed": ["no"]}
    release = Costly(clipped())
    requests = [
        asks("array"),
        ExplanationRequest(rows=RowsToExplain(table, ["table"]), payer="people", caller="ada"),
        ExplanationRequest(rows=RowsToExplain("text", ["text"]), payer="people", caller="ada"),
    ]
    one, two, three = house.service.answer_many(release, requests)
    assert explained(one).entries
    assert explained(two).entries
    assert isinstance(three, InvalidInput)
    tables = [
        dict(zip(table, ([cell] for cell in row), strict=True)) for row in ((3, 6, "no"), (9, 1, 0))
    ]
    release = Costly(clipped())
    both = house.service.answer_many(
        release,
        [
            ExplanationRequest(rows=RowsToExplain(each, [f"t{n}"]), payer="people", caller="ada")
            for n, each in enumerate(tables)
        ],
    )
    assert [len(explained(each).explanation) for each in both] == [1, 1]
    assert release.drawn == 1


def test_a_draw_that_fails_for_one_is_its_own_outcome(house: House) -> None:
    people(house)

    class Picky(Costly):
        def draw(self, rows: Any) -> Any:
            if (np.asarray(rows) == ROWS[1]).all(axis=1).any():
                raise RuntimeError("not this one")
            return super().draw(rows)

    first, second, third = house.service.answer_many(
        Picky(clipped()), [asks(f"p{n}", n) for n in range(3)]
    )
    assert isinstance(second, RuntimeError)
    assert explained(first).charges
    assert explained(third).charges
    assert sum("/" in name for name in balances(house)) == 2


def test_free_answers_share_a_transaction_too(house: House) -> None:
    requests = [ExplanationRequest(rows=RowsToExplain(ROWS[n : n + 1]), caller="a") for n in (0, 1)]
    empty = ExplanationRequest(rows=RowsToExplain(ROWS[:0]), caller="a")
    one, none, two = house.service.answer_many(free(), [requests[0], empty, requests[1]])
    assert isinstance(none, InvalidInput)
    told = records(house)
    for each, row in ((one, 0), (two, 1)):
        (entry,) = explained(each).entries
        assert isinstance(told[entry.record], PostProcessingRecord)
        assert np.allclose(entry.explanation.values, exact()(ROWS[row : row + 1]).values)


def test_a_receipt_at_any_later_time_from_the_charge_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "log.db")
    house = House.create(place, tmp_path)
    people(house)
    outcomes = house.service.answer_many(clipped(), [asks("ada"), asks("bob", 1)])
    house.storage.close()
    later = House.reopen(place, tmp_path)
    later.keep()
    for each in outcomes:
        (entry,) = explained(each).entries
        assert entry.charge is not None
        receipt = bytes(later.service.receipt(entry.charge))
        report = verify_receipt(receipt, RULES, query=entry.question, answer=entry.answer)
        assert report.verified, report.failed
    for wrong in ("people#0", "people#99", "nobody#1", "people", "people#x", "people#²"):
        with pytest.raises(InvalidInput, match="no charge"):
            later.service.receipt(wrong)
    later.storage.close()


def test_caller_and_purpose_are_said_with_each_call(house: House) -> None:
    house.open("clinic", relation=Relation.REPLACE_ONE, epsilon=9.0)
    protected = Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, DATASET)
    headline = replace(clipped().guarantees(1)[0], protected=protected)
    release = Costly(clipped(), part=RowPart.BACKGROUND, guarantees=lambda _: (headline,))
    for caller, purpose in (("ada", "review"), ("bob", "appeal")):
        house.service.answer(
            release, ROWS[:1], payer="clinic", caller=caller, purpose=purpose, fresh=True
        )
    entries = house.storage.read_snapshot(lambda t: t.scan(ENTRIES, "clinic"))[1:]
    assert [(each.caller, each.purpose) for each in entries] == [
        ("ada", "review"),
        ("bob", "appeal"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"purpose": "\ud800"},
        {"purpose": "a\0"},
        {"caller": "\ud800"},
        {"subject": "\ud800"},
        {"subject": "x" * 100_000},
        {"rows": RowsToExplain(ROWS[:1], ["eve"], notes=("\ud800",))},
    ],
)
def test_what_one_caller_writes_is_its_own_fault(house: House, wrong: dict[str, Any]) -> None:
    people(house)
    strange = replace(asks("eve"), **wrong)
    first, refused, last = house.service.answer_many(
        clipped(), [asks("ada"), strange, asks("bob", 1)]
    )
    assert isinstance(refused, Exception)
    assert isinstance(first, ReleasedExplanation)
    assert isinstance(last, ReleasedExplanation)
    assert house.verify().verified
