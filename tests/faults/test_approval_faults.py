"""kill -9 between request, approval and charge: no step is lost, none counts twice."""

from __future__ import annotations

import os
import random
import select
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.faults.forking import child, kill, lines
from tests.unit.app.budget_examples import House, drawn, request
from voile.app.budget import approve_request, change_policy, request_approval
from voile.privacy.events import Gaussian
from voile.records.audit_log import BudgetApprovalRecord, ReleaseRecord, decode_record
from voile.records.ledger import AccountPolicy, approvals_of

DEAR = Gaussian(20.0)


def walk_for_ever(place: str, folder: Path, name: str) -> Callable[[int], None]:
    """Asks, approves and spends again and again, and says what was answered."""

    def work(pipe: int) -> None:
        house = House.reopen(place, folder)
        own, number = house.vault, 0
        books = own.storage, own.ledger, own.log, "clinic"
        while True:
            step = request_approval(*books, DEAR, purpose="review", caller=name)
            approve_request(*books, step.row.number, caller="grace")
            asked = request(f"{name}/{number}", event=DEAR, caller=name)
            answer = house.service.answer_request(asked, drawn("noisy"))
            os.write(pipe, f"{answer.charge}\n".encode())
            number += 1

    return work


def test_kill_between_request_approval_and_charge(tmp_path: Path) -> None:
    place, chance, answered = str(tmp_path / "log.db"), random.Random(7), set[str]()
    house = House.create(place, tmp_path)
    house.open("clinic", epsilon=100.0)
    own = house.vault
    policy = AccountPolicy(approval=0.0)
    change_policy(own.storage, own.ledger, own.log, "clinic", policy, reason="x", caller="y")
    house.storage.close()
    for number in range(40):
        with child(walk_for_ever(place, tmp_path, f"ada {number}")) as (process, pipe):
            if number % 3:
                select.select([pipe], [], [], 10)
            time.sleep(chance.uniform(0, 0.01))
            kill(process)
            answered.update(lines(pipe))
    check(place, tmp_path, answered)


def check(place: str, folder: Path, answered: set[str]) -> None:
    house = House.reopen(place, folder)
    assert house.verify().verified
    rows = house.storage.submit(lambda t: approvals_of(t, "clinic"))
    contents = house.storage.submit(lambda t: house.vault.log.records(t, limit=10**6))
    records = [decode_record(content) for content in contents]
    charges = {record.charge for record in records if isinstance(record, ReleaseRecord)}
    steps = [record for record in records if isinstance(record, BudgetApprovalRecord)]
    said = Counter((record.request, record.step) for record in steps)
    assert set(said.values()) <= {1}, "no step is on record twice"
    spent = {record.charge for record in steps if record.step == "spent"}
    assert answered <= charges == spent == {row.charge for row in rows if row.charge}
    for row in rows:  # the table says what the log says
        assert said[row.number, "requested"] == 1
        assert said[row.number, "approved"] == bool(row.approver)
        assert said[row.number, "spent"] == bool(row.charge)
    assert len(answered) >= 20, "the children did something"
    house.storage.close()
