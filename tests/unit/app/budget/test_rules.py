"""Rules beyond the budget in the walk of an answer: on record, renewed in time, verified."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.budget_examples import House

from voile.app.budget import approve_request, change_policy, request_approval
from voile.core.errors import BudgetExceeded
from voile.privacy.events import Gaussian
from voile.records.audit_log import (
    BudgetApprovalRecord,
    BudgetPolicyRecord,
    BudgetRenewedRecord,
    RefusalRecord,
    decode_record,
)
from voile.records.ledger import AccountPolicy, Calendar, Ledger
from voile.records.ledger.tables import APPROVALS
from voile.records.storage import open_storage

DEAR = Gaussian(8.0)


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House.create("memory:", tmp_path)
    made.open(epsilon=2.0)
    return made


def at(house: House, moment: str) -> None:
    time = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    house.vault.ledger._clock = lambda: time


def rules(house: House, **rules: Any) -> None:
    own = house.vault
    policy = AccountPolicy(**rules)
    change_policy(
        own.storage, own.ledger, own.log, "clinic", policy, reason="of 2026", caller="custodian"
    )


def records(house: House, kind: type[Any]) -> list[Any]:
    contents = house.storage.submit(lambda t: house.vault.log.records(t, limit=10**6))
    found = [decode_record(content) for content in contents]
    return [record for record in found if isinstance(record, kind)]


def test_request_approve_and_spend_are_three_records(house: House) -> None:
    own = house.vault
    rules(house, approval=0.05)
    with pytest.raises(BudgetExceeded, match="second person"):
        house.answer(event=DEAR)
    asked = {"purpose": "review", "caller": "ada"}
    step = request_approval(own.storage, own.ledger, own.log, "clinic", DEAR, **asked)
    number = step.row.number
    approve_request(own.storage, own.ledger, own.log, "clinic", number, caller="grace")
    answer = house.answer(event=DEAR)
    assert not answer.replayed
    said = records(house, BudgetApprovalRecord)
    assert [each.step for each in said] == ["requested", "approved", "spent"]
    assert {each.request for each in said} == {number}
    assert said[-1].charge == answer.charge
    assert house.answer(event=DEAR).replayed, "given again, at no cost"
    with pytest.raises(BudgetExceeded, match="second person"):
        house.answer("row 2", event=DEAR)
    assert house.verify().verified


def test_an_approval_that_was_changed_in_the_database_is_noticed(house: House) -> None:
    test_request_approve_and_spend_are_three_records(house)
    (row,) = house.storage.submit(lambda t: t.scan(APPROVALS))
    house.storage.submit(lambda t: t.replace(APPROVALS, row._replace(charge="")))
    assert not house.verify().verified


def test_several_charges_at_once_need_an_approval_each(house: House) -> None:
    """What is asked together is refused together before anything is drawn."""
    own = house.vault
    rules(house, approval=0.05)
    asked = {"purpose": "review", "caller": "ada"}
    step = request_approval(own.storage, own.ledger, own.log, "clinic", DEAR, **asked)
    approve_request(own.storage, own.ledger, own.log, "clinic", step.row.number, caller="grace")
    house.answer("row 1", event=DEAR)
    with pytest.raises(BudgetExceeded):
        house.answer("row 2", event=DEAR)


def test_each_change_of_the_rules_is_a_record(house: House) -> None:
    rules(house, thresholds=(60,))
    rules(house, thresholds=(60, 80), renew=Calendar.MONTHLY, cool_down=24.0)
    first, second = records(house, BudgetPolicyRecord)
    assert (first.thresholds, first.renew) == ("60", "")
    assert (second.thresholds, second.renew, second.cool_down) == ("60 80", "monthly", 24.0)
    assert house.verify().verified


def test_the_first_question_of_a_new_month_renews_the_account_on_record(house: House) -> None:
    at(house, "2026-11-19 12:00")
    rules(house, renew=Calendar.MONTHLY, cool_down=24.0)
    big = Gaussian(2.5)
    house.answer(event=big)
    with pytest.raises(BudgetExceeded):
        house.answer("row 2", event=big)
    at(house, "2026-12-01 12:00")
    with pytest.raises(BudgetExceeded, match="the next one opens 2026-12-02"):
        house.answer("row 2", event=Gaussian(50.0))
    assert records(house, BudgetRenewedRecord) == []
    at(house, "2026-12-02 00:00")
    house.answer("row 2", event=big)
    (renewed,) = records(house, BudgetRenewedRecord)
    assert (renewed.account, renewed.period) == ("clinic", "1")
    assert "calendar" in renewed.reason
    assert len(records(house, RefusalRecord)) == 2, "a question that was answered is no refusal"
    assert house.verify().verified


def test_an_allowance_refuses_before_anything_is_drawn(house: House) -> None:
    rules(house, allowance=0.1)
    house.answer("row 1", event=Gaussian(10.0))
    with pytest.raises(BudgetExceeded, match=r"'ada' may use 10.0%"):
        house.service.answer_request(
            request_of("row 2"), lambda: pytest.fail("something was drawn")
        )
    assert house.verify().verified


def request_of(content: str) -> Any:
    from tests.unit.app.budget_examples import request

    return request(content, event=Gaussian(4.0))


def test_a_database_of_before_gets_the_new_tables(tmp_path: Path) -> None:
    """Version 2 of the ledger had no rules; it opens, and may have them now."""
    import zipfile

    from tests.contract.stored.ledger.make import FOLDER

    from voile.records.ledger import PART

    with zipfile.ZipFile(FOLDER / "ledger.zip") as packed:
        packed.extractall(tmp_path)
    with open_storage(tmp_path / "ledger.db", [PART]) as storage:
        ledger = Ledger()
        names = storage.submit(lambda t: [node.account.name for node in ledger.nodes(t)])
        free = next(
            name
            for name in names
            if not storage.submit(lambda t, name=name: ledger.account(t, name)).is_plan  # type: ignore[misc]
        )
        storage.submit(
            lambda t: ledger.set_policy(t, free, AccountPolicy((10,)), caller="custodian")
        )
