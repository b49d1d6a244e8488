"""Each rule in the transaction of a charge: at its thresholds and above them, on record."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.app.budget_examples import guarantee, request
from tests.unit.app.compliance.examples import START, Ruled, rule

from voile.app.budget import approve_request, request_approval
from voile.app.compliance.enforcement import (
    CoarserOffered,
    MeasureInForce,
    lift,
    observe,
    put_in_force,
)
from voile.app.explain import NoisyAnswer
from voile.app.explain.charging import AccountQuestions, settle
from voile.compliance import Metric, Rule, RuleSet
from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.conversion import zcdp_budget
from voile.privacy.accounting.measures import consumed
from voile.privacy.events import Gaussian
from voile.records.audit_log import (
    AlertRecord,
    LiftRecord,
    MeasureRecord,
    ObservationRecord,
    RefusalRecord,
    ReleaseRecord,
    RuleRecord,
)
from voile.records.rule_book import OUTBOX

LIMIT = rule(metric="budget.used", account="clinic", rate="2/minute")
STOP = rule(metric="budget.used", account="clinic", action="stop")
OUTCOMES = (AlertRecord, MeasureRecord, LiftRecord)


def told(ruled: Ruled) -> list[str]:
    return [each.kind for each in ruled.records(*OUTCOMES)]


def used_up_to(ruled: Ruled, share: float, account: str = "clinic") -> None:
    """Charges until at least this share of the account is used."""
    number = 0
    while used(ruled, account) < share:
        ruled.ask(f"up to {share}: {number}", account=account)
        number += 1


def used(ruled: Ruled, account: str = "clinic") -> float:
    vault = ruled.vault
    node = vault.storage.read_snapshot(lambda t: vault.ledger.node(t, account))
    return consumed(node.standing.spent, node.account.budgets)


def check_replay(ruled: Ruled) -> None:
    """The log alone gives every outcome that is in it, and no other."""
    replay = ruled.replay()
    assert replay.problems == []
    assert [each.outcome.record for each in replay.found] == ruled.records(*OUTCOMES)


# --- budget used ---------------------------------------------------------------------------------


def exactly(share: float) -> Gaussian:
    """Noise by which one question uses this share of an account of zero-concentrated accounting."""
    return Gaussian((2 * share * zcdp_budget(1.0, 1e-5)) ** -0.5)


@pytest.mark.parametrize(
    ("share", "kinds"),
    [
        (0.7499, []),
        (0.7501, ["alert"]),
        (0.7999, ["alert"]),
        (0.8001, ["alert", "measure"]),
        (0.95, ["alert", "measure"]),
    ],
)
def test_a_share_of_a_budget_is_told_and_acted_on(
    tmp_path: Path, share: float, kinds: list[str]
) -> None:
    ruled = Ruled.create(tmp_path, STOP)
    ruled.ask("one", event=exactly(share))
    assert told(ruled) == kinds
    check_replay(ruled)


def test_a_threshold_is_reached_when_the_share_is_exactly_that(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path)
    ruled.ask("one")
    share = used(ruled)
    at = rule(metric="budget.used", account="clinic", action="stop", alert=share, act=share)
    other = Ruled.create(tmp_path, at)
    other.ask("one")
    assert told(other) == ["alert", "measure"]
    (tmp_path / "above").mkdir()
    above = rule(
        metric="budget.used", account="clinic", action="stop", alert=share + 1e-12, act=share + 1e-9
    )
    beyond = Ruled.create(tmp_path / "above", above)
    beyond.ask("one")
    assert told(beyond) == []


def test_a_limit_lets_so_many_through_each_minute(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, LIMIT)
    ruled.ask("one", event=exactly(0.8001))
    ruled.clock.time = START + 60
    for question in ("two", "three"):
        ruled.ask(question, event=Gaussian(500.0))
    with pytest.raises(MeasureInForce, match="2/minute") as refused:
        ruled.ask("four", event=Gaussian(500.0))
    assert refused.value.forbidden.seconds == 60
    assert ruled.ask("two", event=Gaussian(500.0)).replayed  # costs nothing, reveals nothing new
    ruled.clock.time = START + 120
    ruled.ask("four", event=Gaussian(500.0))
    assert len(ruled.records(RefusalRecord)) == 1
    check_replay(ruled)


def test_a_stop_ends_with_the_renewal(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, STOP)
    ruled.ask("one", event=exactly(0.85))
    with pytest.raises(MeasureInForce, match="stopped"):
        ruled.ask("two")
    ruled.renew("clinic")
    ruled.ask("two")
    assert told(ruled) == ["alert", "measure", "lift"]
    (lifted,) = ruled.records(LiftRecord)
    assert lifted.cause == "renewed"
    check_replay(ruled)


def test_a_renewal_above_counts_for_those_below(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, epsilon=3.0)
    ruled.open("ward", parent="clinic")
    ruled.put(rule(metric="budget.used", account="ward", action="stop"))
    ruled.ask("one", account="ward", event=exactly(0.85))
    with pytest.raises(MeasureInForce):
        ruled.ask("two", account="ward")
    ruled.renew("clinic")
    ruled.ask("two", account="ward")
    check_replay(ruled)


def test_a_measure_for_a_time_ends_with_it(tmp_path: Path) -> None:
    watching = rule(metric="budget.used", account="clinic", action="stop", until="2 hours")
    ruled = Ruled.create(tmp_path, watching)
    ruled.ask("one", event=exactly(0.85))
    ruled.clock.time = START + 7199
    with pytest.raises(MeasureInForce):
        ruled.ask("two", event=Gaussian(500.0))
    ruled.clock.time = START + 7200
    ruled.ask("two", event=Gaussian(500.0))
    assert told(ruled) == ["alert", "measure", "lift", "alert", "measure"]
    check_replay(ruled)


def test_approval_is_asked_for_and_used_up(tmp_path: Path) -> None:
    watching = rule(metric="budget.used", account="clinic", action="approve")
    ruled = Ruled.create(tmp_path, watching)
    ruled.ask("one", event=exactly(0.85))
    cheap, vault = Gaussian(500.0), ruled.vault
    with pytest.raises(BudgetExceeded, match="second person approves"):
        ruled.ask("two", event=cheap)
    books = (vault.storage, vault.ledger, vault.log, "clinic")
    asked = request_approval(*books, cheap, purpose="why", caller="ada")
    approve_request(*books, asked.row.number, caller="dpo")
    ruled.ask("two", event=cheap)
    with pytest.raises(BudgetExceeded, match="second person approves"):
        ruled.ask("three", event=cheap)
    check_replay(ruled)


def test_the_share_of_one_caller_is_what_their_charges_moved(tmp_path: Path) -> None:
    watching = rule(
        metric="budget.used", per="caller", account="clinic", action="stop", alert=0.2, act=0.3
    )
    ruled = Ruled.create(tmp_path, watching)
    for number in range(3):
        ruled.ask(f"ada {number}", caller="ada", event=exactly(0.1001))
        ruled.ask(f"bob {number}", caller="bob", event=exactly(0.05))
    with pytest.raises(MeasureInForce):
        ruled.ask("ada 3", caller="ada", event=exactly(0.01))
    ruled.ask("bob 3", caller="bob", event=exactly(0.01))
    assert told(ruled) == ["alert", "measure"]
    assert {each.caller for each in ruled.records(AlertRecord)} != {"ada"}  # nobody is named
    check_replay(ruled)


# --- privacy loss --------------------------------------------------------------------------------


def not_drawn() -> NoisyAnswer:
    raise AssertionError("it was drawn")


def test_a_question_beyond_its_allowance_is_refused_before_it_is_drawn(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, rule(metric="privacy.loss", account="clinic", allowance=0.5))
    ruled.ask("below", epsilon=0.45)
    assert told(ruled) == []
    ruled.ask("told", epsilon=0.46)
    assert told(ruled) == ["alert"]
    ruled.ask("at", epsilon=0.5)
    above = request("above", guarantees=(guarantee(epsilon=0.51),))
    with pytest.raises(MeasureInForce, match="allowance"):
        ruled.service.answer_request(above, not_drawn)
    assert told(ruled) == ["alert", "measure"]
    check_replay(ruled)


def test_all_questions_of_a_day_share_an_allowance(tmp_path: Path) -> None:
    watching = rule(metric="privacy.loss", account="clinic", allowance=1.0, window="day")
    ruled = Ruled.create(tmp_path, watching)
    for number in range(5):
        ruled.ask(str(number), epsilon=0.2)
    assert told(ruled) == ["alert"]
    with pytest.raises(MeasureInForce, match="in one day"):
        ruled.ask("more", epsilon=0.01)
    ruled.clock.time = START + 86_400
    ruled.ask("more", epsilon=0.01)
    assert told(ruled) == ["alert", "measure", "lift"]
    check_replay(ruled)


# --- quality -------------------------------------------------------------------------------------


def asked_with(ruled: Ruled, content: str, *, quality: float, coarser: bool = False) -> object:
    vault = ruled.vault
    found = AccountQuestions.to_account(vault, vault.account("clinic"), [request(content)])
    found = replace(found, quality=quality, coarser=coarser)
    return vault.storage.submit(lambda t: settle(vault, t, found, {0: NoisyAnswer(b"x")}))


def test_quality_is_looked_at_hourly_and_a_coarser_level_is_offered(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, rule(metric="explanation.quality", alert=0.2, act=0.4))
    asked_with(ruled, "one", quality=0.4)
    assert told(ruled) == []
    ruled.clock.time = START + 3600
    asked_with(ruled, "two", quality=0.1)
    assert told(ruled) == ["alert", "measure"]
    (seen,) = ruled.records(ObservationRecord)
    assert seen.value == 0.4
    assert isinstance(asked_with(ruled, "three", quality=0.1), CoarserOffered)
    assert not isinstance(asked_with(ruled, "three", quality=0.1, coarser=True), Exception)
    ruled.clock.time = START + 7200
    assert not isinstance(asked_with(ruled, "four", quality=0.1), Exception)
    assert told(ruled) == ["alert", "measure", "lift"]
    assert ruled.records(RefusalRecord) == []  # an offer is no refusal
    check_replay(ruled)


# --- load, and what callers do -------------------------------------------------------------------


def test_load_is_shed_until_it_is_below_the_alert(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, rule(metric="service.load", alert=50, act=100))
    steps = [(49.9, []), (50, ["alert"]), (100, ["measure"]), (60, []), (49, ["lift"]), (49, [])]
    for value, kinds in steps:
        found = observe(ruled.vault, Metric.LOAD, "service", float(value))
        assert [each.kind for each in found] == kinds, value
    check_replay(ruled)


def test_requests_and_refusals_of_one_caller_are_told_and_change_no_answer(tmp_path: Path) -> None:
    many = rule(metric="caller.requests", alert=3)
    row = rule(metric="caller.refusals", alert=2)
    ruled = Ruled.create(tmp_path, many, row)
    for number in range(2):
        ruled.ask(str(number))
        ruled.ask(str(number), caller="bob")
    assert told(ruled) == []
    ruled.ask("third")
    (alert,) = ruled.records(AlertRecord)
    assert (alert.rule, alert.value) == (many.name, 3)
    ruled.clock.time = START + 60
    for times in range(3):
        with pytest.raises(BudgetExceeded):
            ruled.ask(f"too much {times}", event=Gaussian(0.1))
    assert [each.rule for each in ruled.records(AlertRecord)][1:] == [row.name, many.name]
    ruled.ask("fourth")  # nothing is held against her
    check_replay(ruled)


# --- the rules themselves ------------------------------------------------------------------------


def test_rules_are_on_record_and_so_is_what_a_change_ends(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, STOP)
    ruled.ask("one", event=exactly(0.85))
    assert not put_in_force(ruled.vault, RuleSet((STOP,)))  # they are in force already
    ruled.put(LIMIT)
    first, second = ruled.records(RuleRecord)
    assert (first.rule, second.rule) == (STOP.text, LIMIT.text)
    assert ruled.records(LiftRecord)[0].cause == "rules changed"
    ruled.ask("two", event=Gaussian(500.0))
    assert told(ruled) == ["alert", "measure", "lift", "alert", "measure"]
    ruled.put()
    assert ruled.records(RuleRecord)[-1].count == 0
    ruled.ask("three", event=Gaussian(500.0))
    assert ruled.records(ReleaseRecord)[-1].caller is None
    check_replay(ruled)


def test_a_custodian_ends_a_measure_with_a_reason(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, STOP)
    ruled.ask("one", event=exactly(0.85))
    lift(ruled.vault, STOP.name, ("clinic", ""), "checked by hand")
    ruled.ask("two", event=Gaussian(500.0))
    assert told(ruled) == ["alert", "measure", "lift"]
    assert ruled.records(LiftRecord)[0].reason == "checked by hand"
    with pytest.raises(InvalidInput, match="no measure"):
        lift(ruled.vault, STOP.name, ("clinic", ""), "again")
    check_replay(ruled)


def test_without_rules_records_name_no_caller(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path)
    ruled.ask("one")
    assert ruled.records(ReleaseRecord)[0].caller is None


def test_every_outcome_is_left_to_be_sent(tmp_path: Path) -> None:
    ruled = Ruled.create(tmp_path, STOP)
    ruled.ask("one", event=exactly(0.85))
    left = ruled.vault.storage.read_snapshot(lambda t: t.scan(OUTBOX))
    assert [row.number for row in left] == [1, 2]
    assert not any(row.custodian for row in left)


# --- many at once --------------------------------------------------------------------------------


@pytest.mark.parametrize("watching", [STOP, LIMIT], ids=["stop", "limit"])
def test_of_64_clients_at_once_none_passes_after_the_measure(
    tmp_path: Path, watching: Rule
) -> None:
    ruled = Ruled.create(tmp_path, watching, place=str(tmp_path / "test.db"))
    start, outcomes = threading.Barrier(64), []

    def ask(number: int) -> None:
        start.wait()
        for turn in range(3):
            try:
                ruled.ask(f"{number}/{turn}", caller=f"client {number}", event=exactly(0.01))
                outcomes.append("granted")
            except MeasureInForce:
                outcomes.append("refused")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    allowed = 80 if watching is STOP else 82  # the clock stands still: two more in this minute
    assert outcomes.count("granted") == allowed
    assert outcomes.count("refused") == 192 - allowed
    kinds = [type(each) for each in ruled.records(ReleaseRecord, MeasureRecord)]
    assert kinds.index(MeasureRecord) == 80
    check_replay(ruled)
