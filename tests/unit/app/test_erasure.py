"""Stored answers are erased, and everything that others rely on stays."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.examples import (
    BUDGET,
    MORE,
    OTHER_ROWS,
    PEOPLE,
    PEOPLES_BUDGET,
    ROWS,
    House,
    home,
    serving,
)
from typer.testing import CliRunner

from voile.app.calls import handle
from voile.app.commands.budget import VerifyBudgets
from voile.app.commands.vault import EraseAnswers
from voile.app.erasure import ErasureResult
from voile.cli.app import app
from voile.core.errors import InvalidInput
from voile.records.access import KEYS, RECIPIENTS, REPEATS, Duty
from voile.records.audit_log import Policy, verify_receipt
from voile.records.ledger.history import all_answers
from voile.records.storage import Reader
from voile.records.vault import Place, open_vault_at

ALL = f"""
[releases.everybody]
model = "approval"
schema = "approval"
background = "approval"
protect = "background"
account = "{BUDGET}"
epsilon = 0.25
"""


def now() -> str:
    return datetime.now(UTC).isoformat()


def erase(folder: Path, before: str, **more: Any) -> ErasureResult:
    found = handle(EraseAnswers(before=before, workspace=folder, sure=True, **more))
    assert isinstance(found, ErasureResult)
    return found


def check(folder: Path) -> str:
    """All steps hold; what is said of the answers."""
    report = handle(
        VerifyBudgets(database=str(folder / "log.db"), replay_key=folder / "replay.key")
    )
    steps = {each.name: each for each in report.steps}
    assert report.verified, [str(each) for each in steps.values()]
    return str(steps["answers"].detail)


def read(folder: Path, question: Callable[[Reader], Any]) -> Any:
    with open_vault_at(Place.within(folder), signing=None) as vault:
        return vault.storage.read_snapshot(question)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return home(tmp_path / "home", ALL + MORE)


def ask(house: House, key: str, **more: Any) -> Any:
    found = house.explain(key, **more)
    assert found.status_code == 200, found.text
    return found.json()


def test_old_answers_go_and_charges_log_and_receipts_stay(folder: Path) -> None:
    with serving(folder) as house:
        key = house.key(Duty.EXPLAIN)
        old = ask(house, key, headers={"Idempotency-Key": "order 17"}, saved=True)
        ask(house, key, release="people")
        house.workspace.vault.publish()
        receipt = house.ask("GET", f"/api/v1/receipts/{old['records'][0]}", key).content
    moment = now()
    with serving(folder) as house:
        new = ask(house, key, rows=OTHER_ROWS)
    contents = [each.answer for each in read(folder, lambda t: list(all_answers(t)))]
    found = erase(folder, moment)
    assert (found.answers, found.repeats, found.keys) == (2, 1, 0)
    assert check(folder).startswith("1 answers, each the one on record; 2 more were erased")
    kept = read(folder, lambda t: list(all_answers(t)))
    assert [f"{each.root}#{each.number}" for each in kept] == new["charges"]
    # Nothing of it is left in the files, and what is left is found by the same search.
    files = b"".join(path.read_bytes() for path in folder.glob("log.db*"))
    left = [content for content in contents if content[200:] in files]
    assert left == [each.answer for each in kept]
    # Whoever has answer and receipt can verify them all the same.
    import base64

    from voile.core.explanation import Explanation
    from voile.records.audit_log import explanation_bytes

    policy = Policy.parse((folder / "audit-policy.toml").read_text())
    entry = Explanation.from_bytes(base64.b64decode(old["entries"][0]["explanation"]))
    assert verify_receipt(receipt, policy, answer=explanation_bytes(entry)).verified
    with serving(folder) as house:
        # Asked again it is a new charge, also under the key against repetition of that time.
        again = ask(house, key, headers={"Idempotency-Key": "order 17"})
        assert not again["replayed"]
        assert again["charges"] == [f"{BUDGET}#3"]
        assert ask(house, key, rows=OTHER_ROWS)["replayed"]
        gone = house.ask("GET", f"/api/v1/receipts/{old['records'][0]}", key)
        assert gone.status_code in (404, 422)
        assert ask(house, key, release="people")["charges"] == [f"{PEOPLES_BUDGET}#3"]
    assert "2 more were erased" in check(folder)


def test_names_of_recipients_and_of_holders_of_ended_keys_go(folder: Path) -> None:
    with serving(folder) as house:
        key = house.key(Duty.EXPLAIN, caller="somebody who left")
        ask(house, key, release="open")
        admin = house.key(Duty.ADMINISTER)
        assert house.ask("DELETE", f"/api/v1/keys/{key[6:18]}", admin).status_code == 200
    found = erase(folder, now())
    assert (found.answers, found.recipients, found.keys) == (0, 1, 1)
    with serving(folder) as house:
        left = house.workspace.vault.storage.read_snapshot(
            lambda t: [*t.scan(KEYS), *t.scan(RECIPIENTS), *t.scan(REPEATS)]
        )
    assert len(left) == 1
    assert b"somebody who left" not in b"".join(p.read_bytes() for p in folder.glob("log.db*"))


def test_a_request_that_was_given_an_erased_answer_again_is_forgotten_too(folder: Path) -> None:
    with serving(folder) as house:
        key = house.key(Duty.EXPLAIN)
        ask(house, key)
    moment = now()
    with serving(folder) as house:
        assert ask(house, key, headers={"Idempotency-Key": "order 18"})["replayed"]
    assert erase(folder, moment).repeats == 1
    with serving(folder) as house:
        assert not ask(house, key, headers={"Idempotency-Key": "order 18"})["replayed"]


def test_what_is_missing_without_a_record_is_noticed(folder: Path) -> None:
    with serving(folder) as house:
        key = house.key(Duty.EXPLAIN)
        ask(house, key)
        ask(house, key, release="people")
    erase(folder, now())
    with serving(folder) as house:
        ask(house, key)
    check(folder)
    with sqlite3.connect(folder / "log.db") as database:
        database.execute("DELETE FROM ledger_answers")
    report = handle(VerifyBudgets(database=str(folder / "log.db")))
    failed = [str(each.detail) for each in report.steps if each.outcome == "failed"]
    assert failed == [f"{BUDGET}#2: charged, but its answer is not kept"]


def test_more_that_is_missing_than_was_erased_is_noticed(folder: Path) -> None:
    with serving(folder) as house:
        key = house.key(Duty.EXPLAIN)
        ask(house, key)
    moment = now()
    with serving(folder) as house:
        ask(house, key, rows=OTHER_ROWS)
    erase(folder, moment)
    erase(folder, moment)  # nothing more: no second record
    with sqlite3.connect(folder / "log.db") as database:
        database.execute("DELETE FROM ledger_answers")
        database.execute("UPDATE ledger_entries SET time = 0.5 WHERE number = 2")
    report = handle(VerifyBudgets(database=str(folder / "log.db")))
    failed = [str(each.detail) for each in report.steps if each.outcome == "failed"]
    assert "2 answers are not kept, 1 were erased on record" in failed


def test_a_preview_erases_nothing_and_nobody_erases_unasked(folder: Path) -> None:
    with serving(folder) as house:
        ask(house, house.key(Duty.EXPLAIN))
    done = erase(folder, now(), preview=True)
    assert (done.answers, done.kept, done.rewritten) == (1, None, False)
    with pytest.raises(InvalidInput, match="--yes"):
        handle(EraseAnswers(before=now(), workspace=folder))
    assert check(folder).startswith("1 answers")


def test_what_was_made_from_a_whole_data_set_stays(tmp_path: Path) -> None:
    """Models are compared with it whenever they are opened."""
    from tests.unit.app.workspace.examples import started

    from voile.app.budget import open_budget
    from voile.core.guarantee import Protected, ProtectedUnit, Relation
    from voile.records.ledger import AnswerRow, Opening, erase_answers, old_answers
    from voile.records.ledger.tables import ANSWERS

    folder = tmp_path / "home"
    started(folder)
    with open_vault_at(Place.within(folder), signing=None) as vault:
        rows = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "rows")
        account = Opening(name="rows", protected=rows, epsilon=1.0, delta=1e-6)
        open_budget(vault.storage, vault.ledger, vault.log, account, caller="custodian")
        made = AnswerRow(bytes(32), 1, "rows", "rows", 1.0, 0, b"moments", bytes(32), bytes(32))
        vault.storage.submit(lambda t: t.insert(ANSWERS, made))
        found = vault.storage.read_snapshot(lambda t: old_answers(t, 2.0))
        assert found.answers == ()
        told = made._replace(number=2, committed=b"\1" * 32)
        vault.storage.submit(lambda t: t.insert(ANSWERS, told))
        found = vault.storage.read_snapshot(lambda t: old_answers(t, 2.0))
        assert found.answers == ((bytes(32), 2),)
        assert vault.storage.submit(lambda t: erase_answers(t, found)) == 1


@pytest.mark.parametrize("before", ["yesterday", "2026-13-01", ""])
def test_dates_that_are_none_are_told(folder: Path, before: str) -> None:
    with pytest.raises(InvalidInput, match="2026-01-01"):
        erase(folder, before)


def test_a_date_in_the_future_is_refused(folder: Path) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(InvalidInput, match="not over yet"):
        erase(folder, later.date().isoformat())


def test_on_the_command_line(folder: Path) -> None:
    with serving(folder) as house:
        ask(house, house.key(Duty.EXPLAIN), rows=ROWS)
        ask(house, house.key(Duty.EXPLAIN), release="people", rows=PEOPLE)
    command = ["vault", "erase", "--before", now(), "--workspace", str(folder), "--json"]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InvalidInput)
    done = CliRunner().invoke(app, [*command, "--yes"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["answers"], told["erased"], told["file_rewritten"]) == (2, True, True)
