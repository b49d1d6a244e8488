"""Every kind of charge has a receipt at any later time, from the database and the keys alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.contract.releases import CASES, PEOPLE, SCHEMA
from tests.unit.app.budget_examples import RULES, House
from tests.unit.records.audit_log.examples import LOG_KEY
from voile.app.budget import open_budget, renew_budget
from voile.app.explain import (
    LoggedAnswer,
    ReleaseService,
    RowsToExplain,
    paid_clusters,
    paid_synthetic_background,
)
from voile.core.errors import InvalidInput
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart
from voile.records.audit_log import CheckOutcome, Receipt, verify_receipt
from voile.records.checkpoints import Keeper, kept_checkpoint
from voile.records.ledger import Children, Opening

ROWS = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "people 1")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "log.db")
    return str(request.getfixturevalue("postgres_url"))


def signing(house: House) -> ReleaseService:
    """Where the signing key is."""
    keeper = Keeper(RULES, kept_checkpoint(house.key), LOG_KEY)
    return ReleaseService(replace(house.vault, keeper=keeper))


def open_payer(house: House, protected: Protected) -> None:
    opening = Opening(
        name="payer",
        protected=protected,
        epsilon=100.0,
        delta=1e-3,
        children=Children.PARALLEL
        if protected.unit is ProtectedUnit.EXPLAINED_ROW
        else Children.SEQUENTIAL,
    )
    vault = house.vault
    open_budget(vault.storage, vault.ledger, vault.log, opening, caller="custodian")


def check(receipt: Receipt, entry: LoggedAnswer) -> None:
    report = verify_receipt(bytes(receipt), RULES, query=entry.question, answer=entry.answer)
    assert report.verified, report.failed
    opened = [step.outcome for step in report.steps if step.name in ("query", "answer")]
    assert opened == [CheckOutcome.CHECKED] * 2


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_proved_after_a_restart(place: str, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    release, house = case.build(), House.create(place, tmp_path)
    rows, payer = RowsToExplain(case.rows), None
    if release.cost(case.count) is not None:
        payer = "payer"
        open_payer(house, release.guarantees(case.count)[0].protected)
        if release.part is RowPart.EXPLAINED:  # one has a name, the others have none
            rows = RowsToExplain(case.rows, identifiers=["ada", *[None] * (case.count - 1)])
    explained = house.service.answer(release, rows, payer=payer, caller="analyst")
    house.storage.close()
    again = House.reopen(place, tmp_path)
    for entry in explained.entries:
        service = signing(again)
        receipt = (
            service.receipt_of_call(entry.record)
            if entry.charge is None
            else service.receipt(entry.charge)
        )
        check(receipt, entry)
    again.storage.close()


def test_artefacts_are_proved_after_a_restart_and_a_renewal(place: str, tmp_path: Path) -> None:
    house = House.create(place, tmp_path)
    open_payer(house, ROWS)
    service = house.service
    made = [
        paid_synthetic_background(service, "payer", PEOPLE, SCHEMA, epsilon=1.0, delta=1e-6).charge,
        paid_clusters(service, "payer", PEOPLE, SCHEMA, epsilon=1.0, delta=1e-6, count=2).charge,
    ]
    vault = house.vault
    renew_budget(vault.storage, vault.ledger, vault.log, "payer", reason="a new year", caller="x")
    house.storage.close()
    again = House.reopen(place, tmp_path)
    for charge in made:
        assert charge is not None
        read = partial(vault.ledger.paid, charge=charge)
        receipt = signing(again).receipt(charge)
        stored = again.storage.submit(read).answer
        assert verify_receipt(bytes(receipt), RULES, answer=stored).verified
    again.storage.close()


def test_what_is_no_charge_or_no_free_call_is_refused(place: str, tmp_path: Path) -> None:
    house = House.create(place, tmp_path)
    open_payer(house, ROWS)
    for name in ("payer#7", "payer#1", "payer", "#", "payer#x"):
        with pytest.raises(InvalidInput, match="no charge"):
            signing(house).receipt(name)
    with pytest.raises(InvalidInput, match="record 0 is not that of a call"):
        signing(house).receipt_of_call(0)
    with pytest.raises(InvalidInput, match="no record 9"):
        signing(house).receipt_of_call(9)
    case = CASES["post-processed, public"]
    called = house.service.answer(case.build(), case.rows, caller="analyst")
    house.vault.place.replay_key.unlink()
    with pytest.raises(InvalidInput, match="replay key not found"):
        signing(house).receipt_of_call(called.records[0])
    house.storage.close()
