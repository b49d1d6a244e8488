"""Check first, charge last: what anybody refuses costs nobody anything, and locks nobody out."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.protecting import row_of
from tests.unit.app.federate.test_kinds import write_logistic
from tests.unit.app.federate.test_run import CHOSEN, agreed, party

from voile.app.budget import open_budget
from voile.app.budget.verification import Evidence, verify
from voile.app.federate import Accepts, Job, federate, open_node, origin_of, read_job
from voile.app.federate.run import run_server
from voile.app.report import check_log
from voile.core.errors import InvalidInput, Refused, VerificationFailed, VoileError
from voile.federation import Instruction, Joined, Joining, Node, Threads
from voile.records.audit_log import BudgetOpenedRecord, ParticipationRecord, decode_record
from voile.records.ledger import Account, Opening, PlannedSpending
from voile.records.vault import Vault, open_vault


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return read_job(write_logistic(tmp_path))


def books_of(job: Job, name: str) -> Any:
    return open_vault(party(job, name).folder, origin_of("study v1", name), signing=None)


def accounts(job: Job) -> dict[str, list[Account]]:
    found = {}
    for name in CHOSEN:
        with books_of(job, name) as books:
            nodes = books.storage.submit(books.ledger.nodes)
            found[name] = [node.account for node in nodes]
    return found


def records(books: Vault) -> list[Any]:
    return [decode_record(each) for each in books.storage.submit(books.log.records)]


def accepting(job: Job, name: str, accepts: Accepts | None) -> Job:
    return replace(
        job,
        parties=tuple(
            replace(each, accepts=accepts) if each.name == name else each for each in job.parties
        ),
    )


def open_unused(job: Job, name: str, epsilon: float) -> None:
    """An account of the federation that was opened and never charged."""
    plan = agreed(job, epsilon=epsilon).agreement.plan
    opening = Opening(
        name=f"study v1: {name}",
        protected=job.agreement.protected,
        epsilon=epsilon,
        delta=1e-4,
        spending=PlannedSpending(plan.participation_events),
    )
    with books_of(job, name) as books:
        open_budget(books.storage, books.ledger, books.log, opening, caller=name)


NOBODYS: dict[str, list[Account]] = {name: [] for name in CHOSEN}


def test_one_partys_refusal_costs_the_others_nothing(job: Job) -> None:
    """The agreement at 3 is refused by the last party; that at 1 is then what all accept."""
    careful = accepting(job, "harbour", Accepts(1.0, 1e-4))
    with pytest.raises(Refused, match="'harbour' accepts at most"):
        federate(careful)
    assert accounts(job) == NOBODYS
    assert federate(agreed(careful, epsilon=1.0)).artefact.guarantees[0].epsilon <= 1


def test_what_the_books_of_one_party_refuse_costs_the_others_nothing(job: Job) -> None:
    full = Opening(name="other", protected=row_of("other v1"), epsilon=3.0, delta=1e-6)
    with books_of(job, "harbour") as books:
        open_budget(books.storage, books.ledger, books.log, full, caller="custodian")
    with pytest.raises(
        Refused, match=r"not all parties take part.* nothing was .* charged: 'harbour': .*'other'"
    ):
        federate(job)
    found = accounts(job)
    assert [each.name for each in found.pop("harbour")] == ["other"]
    assert not any(found.values())


def test_what_the_servers_folder_refuses_costs_nobody_anything(job: Job, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    with open_vault(elsewhere, origin_of("another v1", "server"), signing=None):
        pass
    with pytest.raises(InvalidInput, match="belongs to 'another v1'"):
        federate(replace(job, server=replace(job.server, folder=elsewhere)))
    assert accounts(job) == NOBODYS


@dataclass
class Odd:
    """A node that does something else when it is asked to join."""

    inner: Node
    reply: Any

    @property
    def name(self) -> str:
        return self.inner.name

    def handle(self, message: object) -> Any:
        if type(message) is not Joining:
            return self.inner.handle(message)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Refused("not today"), "'coast': not today"),
        (RuntimeError("row 7"), "'coast': no answer"),
        (None, "'coast': has answered with something else"),
        (Joined("city", ""), "'coast': has answered with something else"),
        (Joined("coast", "0" * 64), "'coast': has answered with something else"),
    ],
)
def test_the_first_round_begins_when_everybody_has_joined(job: Job, reply: Any, said: str) -> None:
    with ExitStack() as stack:
        nodes = [stack.enter_context(open_node(each, job.agreement)) for each in job.parties]
        odd = [Odd(node, reply) if node.name == "coast" else node for node in nodes]
        with pytest.raises(Refused, match=said) as refused:
            run_server(job.agreement, job.server, Threads(odd))
    assert "row 7" not in str(refused.value)
    assert accounts(job) == NOBODYS


def test_joining_leaves_nothing_behind_and_belongs_to_an_agreement(job: Job) -> None:
    digest = job.agreement.digest
    with open_node(party(job, "city"), job.agreement) as node:
        assert node.handle(Joining(digest)) == Joined("city", digest)
        with pytest.raises(Refused, match="has agreed to"):
            node.handle(Joining())
    assert accounts(job) == NOBODYS
    with books_of(job, "city") as books:
        assert records(books) == []


@pytest.fixture
def begun(job: Job) -> Job:
    """The city has answered the first round."""
    (stage,) = job.agreement.plan.stages
    with open_node(party(job, "city"), job.agreement) as node:
        start = job.agreement.plan.start(stage.name)
        node.handle(Instruction(stage.name, 1, start, agreement=job.agreement.digest))
    return job


def test_the_first_charge_opens_the_account(begun: Job) -> None:
    with books_of(begun, "city") as books:
        assert [type(each) for each in records(books)] == [BudgetOpenedRecord, ParticipationRecord]
        assert verify(books.storage, books.ledger, books.log, Evidence()).failed is None


def test_a_first_charge_that_is_refused_opens_nothing(job: Job) -> None:
    other = agreed(job, epsilon=2.0).agreement.plan
    (stage,) = other.stages
    with open_node(party(job, "city"), job.agreement) as node:
        tasks = {stage.name: stage.task}
        louder = replace(node, client=replace(node.client, tasks=tasks))
        start = other.start(stage.name)
        with pytest.raises(Refused, match="was opened for a fixed list"):
            louder.handle(Instruction(stage.name, 1, start, agreement=job.agreement.digest))
    assert accounts(job) == NOBODYS
    with books_of(job, "city") as books:
        assert [type(each).__name__ for each in records(books)] == ["RefusalRecord"]
        assert verify(books.storage, books.ledger, books.log, Evidence()).failed is None


def test_an_account_that_was_never_charged_gets_the_terms_that_were_agreed_on(job: Job) -> None:
    """It was opened under other terms by an earlier version, or by hand."""
    for name in CHOSEN:
        open_unused(job, name, epsilon=3.0)
    careful = accepting(agreed(job, epsilon=1.0), "city", Accepts(1.0, 1e-4))
    artefact = federate(careful).artefact
    assert artefact.guarantees[0].epsilon <= 1
    with books_of(job, "city") as books:
        openings = [e for e in records(books) if isinstance(e, BudgetOpenedRecord)]
        assert [each.epsilon for each in openings] == [3.0, 1.0]
        assert verify(books.storage, books.ledger, books.log, Evidence()).failed is None


def test_an_account_that_was_charged_keeps_its_terms(begun: Job) -> None:
    before = accounts(begun)
    with pytest.raises(Refused, match="'city' has opened its account 'study v1: city' for"):
        federate(agreed(begun, epsilon=1.0))
    assert accounts(begun) == before


def test_a_stored_update_that_cannot_be_sent_is_found_before_anybody_is_charged(
    begun: Job, tmp_path: Path
) -> None:
    folder = party(begun, "city").folder
    for part in ("log.db", "replay.key"):
        (folder / part).rename(tmp_path / part)
    with pytest.raises(VerificationFailed, match="set back"):
        federate(begun)
    (folder / "audit.checkpoint").rename(tmp_path / "audit.checkpoint")
    with pytest.raises(Refused, match=r"'city' has an update .* books do not hold"):
        federate(begun)
    assert accounts(begun) == NOBODYS


def test_who_is_never_asked_hands_over_an_empty_log(job: Job) -> None:
    artefact = federate(agreed(job, rounds=2, participations=1)).artefact
    (absent,) = set(CHOSEN) - {row.client for row in artefact.history}
    assert (artefact.log_folder(absent) / "records.jsonl").read_bytes() == b""
    assert check_log(artefact, absent).failed is None
    assert not accounts(job)[absent]


def test_errors_of_parties_are_all_told(job: Job) -> None:
    for name in ("city", "coast"):
        full = Opening(name="other", protected=row_of("other v1"), epsilon=3.0, delta=1e-6)
        with books_of(job, name) as books:
            open_budget(books.storage, books.ledger, books.log, full, caller="custodian")
    with pytest.raises(VoileError, match=r"'city': .*; 'coast': "):
        federate(job)
