"""What a party accepts is a cap on everything that its ledger has ever promised."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.protecting import row_of
from tests.unit.app.federate.test_joining import accounts, books_of
from tests.unit.app.federate.test_kinds import write_logistic
from tests.unit.app.federate.test_run import CHOSEN, agreed, party

from voile.app.budget import open_budget, renew_budget
from voile.app.federate import Accepts, Job, federate, open_node, read_job
from voile.core.errors import Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.federation import Instruction
from voile.records.ledger import Opening

LARGER = Accepts(6.0, 3e-4)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return read_job(write_logistic(tmp_path))


def open_besides(job: Job, protected: Protected, **promise: Any) -> None:
    """Another account in the city's ledger."""
    given: dict[str, Any] = {"name": "besides", "epsilon": 3.0, "delta": 1e-5} | promise
    with books_of(job, "city") as books:
        opening = Opening(protected=protected, **given)
        open_budget(books.storage, books.ledger, books.log, opening, caller="custodian")


def accepting(job: Job, accepts: Accepts) -> Job:
    return replace(job, parties=tuple(replace(each, accepts=accepts) for each in job.parties))


def test_rows_and_columns_of_the_same_rows_are_not_promised_by_one_ledger(job: Job) -> None:
    """What protects one column publishes the others exactly, and whole rows with them."""
    columns = Protected(ProtectedUnit.COLUMNS, Relation.REPLACE_ONE, "study v0", ("age",))
    open_besides(job, columns)
    with pytest.raises(Refused, match="different things about the same rows"):
        federate(accepting(job, LARGER))
    assert len(accounts(job)["city"]) == 1


@pytest.mark.parametrize("columns", [(), ("age",)])
def test_a_server_is_not_told_of_other_accounts(job: Job, columns: tuple[str, ...]) -> None:
    """Names and budgets of a party's other accounts concern its operator alone."""
    unit = ProtectedUnit.COLUMNS if columns else ProtectedUnit.ROW
    open_besides(job, Protected(unit, Relation.BLANK_ONE, "study v0", columns))
    with open_node(party(job, "city"), job.agreement) as node, pytest.raises(Refused) as refused:
        node.client.guard.before_joining()
    assert "'besides' (ε = 3, δ = 1e-05)" in str(refused.value)
    told = refused.value.to_others
    assert "'city' takes no part" in told
    assert not any(word in told for word in ("besides", "study v0", "3"))


@pytest.mark.parametrize(
    "protected",
    [
        Protected(ProtectedUnit.USER, Relation.BLANK_ONE, "study v1"),
        row_of("study v0"),
    ],
)
def test_it_counts_whatever_the_unit_the_data_set_and_the_name(
    job: Job, protected: Protected
) -> None:
    open_besides(job, protected)
    with pytest.raises(
        Refused, match=r"all that its ledger has promised.* would be \(ε = 6.*'besides' \(ε = 3"
    ):
        federate(job)
    assert len(accounts(job)["city"]) == 1
    assert federate(accepting(job, LARGER)).artefact.guarantees


def test_what_lies_below_a_root_is_within_its_promise(job: Job) -> None:
    besides = Protected(ProtectedUnit.USER, Relation.BLANK_ONE, "study v1")
    open_besides(job, besides)
    open_besides(job, besides, name="below", parent="besides")
    assert federate(accepting(job, LARGER)).artefact.guarantees


def test_a_renewal_promises_once_more(job: Job) -> None:
    """The second run would train on the same rows again, at the same price."""
    assert federate(job).artefact.guarantees
    for name in CHOSEN:
        with books_of(job, name) as books:
            renew_budget(
                books.storage, books.ledger, books.log, f"study v1: {name}", reason="again",
                caller="custodian",
            )  # fmt: skip
        shutil.rmtree(party(job, name).folder / "updates")
    shutil.rmtree(job.server.folder)
    with pytest.raises(Refused, match=r"would be \(ε = 6, δ = 0.0002\).*2 periods"):
        federate(job)
    assert federate(accepting(job, LARGER)).artefact.guarantees


def test_it_is_kept_at_every_charge_not_only_before_the_first(job: Job) -> None:
    """An account that is opened during the run counts from the next round on."""
    (stage,) = job.agreement.plan.stages
    start, digest = job.agreement.plan.start(stage.name), job.agreement.digest
    with open_node(party(job, "city"), job.agreement) as node:
        node.handle(Instruction(stage.name, 1, start, agreement=digest))
        open_besides(job, row_of("study v0"))
        with pytest.raises(Refused, match="all that its ledger has promised"):
            node.handle(Instruction(stage.name, 2, start, agreement=digest))
        again = node.handle(Instruction(stage.name, 1, start, agreement=digest))
        assert getattr(again, "resent", False)  # it was paid for


def test_figures_are_added_as_they_were_written(job: Job) -> None:
    """Three times 1e-5 is more than 3e-5 in floating point."""
    small = agreed(job, epsilon=0.1, delta=1e-5)
    open_besides(job, row_of("a"), name="a", epsilon=0.1)
    open_besides(job, row_of("b"), name="b", epsilon=0.1)
    assert 0.1 + 0.1 + 0.1 > 0.3
    assert federate(accepting(small, Accepts(0.3, 3e-5))).artefact.guarantees


def test_an_unused_account_can_be_given_a_smaller_promise(job: Job) -> None:
    open_besides(job, row_of("study v0"))
    with pytest.raises(Refused, match="--again"):
        federate(job)
    with books_of(job, "city") as books:
        smaller = Opening(name="besides", protected=row_of("study v0"), epsilon=0.5, delta=1e-5)
        open_budget(books.storage, books.ledger, books.log, smaller, caller="custodian", again=True)
    assert federate(accepting(job, Accepts(3.5, 2e-4))).artefact.guarantees
