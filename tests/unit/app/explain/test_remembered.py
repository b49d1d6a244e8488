"""What a process remembers of accounts is never believed where it may have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.budget_examples import House
from tests.unit.app.explain.examples import ROWS, asking, balances, clipped, people, records
from tests.unit.records.ledger.examples import opening

from voile.app.budget import open_budget
from voile.app.explain import ExplanationRequest, ReleaseService, RowsToExplain
from voile.core.errors import BudgetExceeded, Refused, StorageFault
from voile.core.guarantee import ProtectedUnit, Relation
from voile.records.audit_log import ReleaseRecord
from voile.records.ledger import Children, Ledger, ReplayKey

PEOPLE: dict[str, Any] = {
    "unit": ProtectedUnit.EXPLAINED_ROW,
    "relation": Relation.REPLACE_ONE,
    "children": Children.PARALLEL,
    "delta": 1e-5,
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House.create(str(tmp_path / "test.db"), tmp_path)
    yield house
    house.storage.close()


def elsewhere(house: House, key: ReplayKey | None = None) -> House:
    """Another process, as far as the ledger knows, perhaps with another key."""
    vault = replace(house.vault, ledger=Ledger())
    if key is not None:
        vault.__dict__["key"] = key
    return House(ReleaseService(vault), house.folder)


def reopen(house: House, **changes: Any) -> None:
    vault = house.vault
    terms = opening("people", **(PEOPLE | changes))
    open_budget(vault.storage, vault.ledger, vault.log, terms, caller="x", again=True)


def releases(house: House) -> int:
    return sum(isinstance(each, ReleaseRecord) for each in records(house))


def persons(*names: str) -> list[ExplanationRequest]:
    return [
        ExplanationRequest(
            rows=RowsToExplain(ROWS[:1], identifiers=[name]), payer="people", caller="ada"
        )
        for name in names
    ]


def test_an_account_that_got_other_terms_elsewhere(house: House) -> None:
    people(house, epsilon=0.5)
    asked = asking(house, clipped(), "people")
    with pytest.raises(BudgetExceeded):
        asked(ROWS[:1], identifiers=["ada"])
    reopen(elsewhere(house), epsilon=3.0)
    assert asked(ROWS[:1], identifiers=["ada"]).charges


def test_an_account_whose_records_have_no_accounts_of_their_own_by_now(house: House) -> None:
    people(house, epsilon=0.5)
    asked = asking(house, clipped(), "people")
    with pytest.raises(BudgetExceeded):
        asked(ROWS[:1], identifiers=["ada"])
    reopen(elsewhere(house), epsilon=3.0, children=Children.SEQUENTIAL)
    asked(ROWS[:1], identifiers=["ada"])
    assert set(balances(house)) == {"people"}


def test_a_key_that_named_records_in_a_transaction_that_was_undone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered from it will do for a look, and never for writing."""
    people(house)
    session: Any = house.storage._shared.session
    commit: Callable[[], None] = session.commit

    def fails() -> None:
        monkeypatch.setattr(session, "commit", commit)
        raise StorageFault("the disk is full")

    monkeypatch.setattr(session, "commit", fails)
    with suppress(StorageFault):
        house.service.answer_many(clipped(), persons("a", "b"))
    assert house.vault.ledger.marks
    other = elsewhere(house, ReplayKey.generate())
    asking(other, clipped(), "people")(ROWS[:1], identifiers=["somebody"])
    with pytest.raises(Refused, match="another replay key"):
        asking(house, clipped(), "people")(ROWS[:1], identifiers=["a"])
    assert releases(house) == 1
