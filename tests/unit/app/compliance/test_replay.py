"""A month of charges, refusals, renewals and decisions: the log alone tells what rules led to."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.app.budget_examples import House
from tests.unit.app.compliance.examples import Clock, Ruled, rule
from tests.unit.app.compliance.test_enforcement import OUTCOMES, check_replay
from tests.unit.app.explain.examples import ROWS, clipped, people

from voile.app.compliance.enforcement import lift, observe
from voile.app.explain import RowsToExplain
from voile.compliance import Metric, Replay, Rule, RuleSet
from voile.core.errors import InvalidInput, Refused
from voile.privacy.events import Gaussian, PureDp
from voile.records.audit_log import AlertRecord, MeasureRecord, ReleaseRecord

SETS: tuple[tuple[Rule, ...], ...] = (
    (
        rule(metric="budget.used", account="clinic", rate="3/hour"),
        rule(metric="budget.used", account="ward", action="stop", alert=0.3, act=0.5),
        rule(
            metric="budget.used",
            per="caller",
            account="clinic",
            action="approve",
            alert=0.3,
            act=0.5,
            until="6 hours",
        ),
        rule(metric="privacy.loss", account="ward", allowance=0.3),
        rule(metric="privacy.loss", account="clinic", allowance=4.0, window="day"),
        rule(metric="caller.requests", alert=3, window="hour"),
        rule(metric="caller.refusals", alert=2),
        rule(metric="service.load", alert=5, act=8),
    ),
    (
        rule(metric="budget.used", account="clinic", rate="3/hour"),
        rule(metric="budget.used", account="clinic", action="stop", alert=0.4, act=0.6),
    ),
    (),
)
ASKING = st.tuples(
    st.just("ask"),
    st.sampled_from(["clinic", "ward", "team"]),
    st.sampled_from(["ada", "bob"]),
    st.sampled_from([0.1, 0.25, 0.4]),
    st.sampled_from([5.0, 8.0, 12.0]),
)
STEPS = st.one_of(
    *(ASKING for _ in range(6)),  # most of a month is questions
    st.tuples(st.just("wait"), st.sampled_from([1, 60, 1800, 7200, 86_400])),
    st.tuples(st.just("renew"), st.sampled_from(["clinic", "ward"])),
    st.tuples(st.just("rules"), st.sampled_from(SETS)),
    st.tuples(st.just("load"), st.sampled_from([1.0, 5.0, 9.0])),
    st.tuples(st.just("lift"), st.sampled_from(["clinic", "ward"])),
)
MONTHS = st.lists(STEPS, min_size=20, max_size=60)


def live(ruled: Ruled, steps: list[Any]) -> None:
    """Whatever is refused is refused."""
    for number, (kind, *more) in enumerate(steps):
        with suppress(Refused, InvalidInput):
            if kind == "ask":
                account, caller, epsilon, noise = more
                event = PureDp(0.2) if noise == 5.0 and account == "team" else Gaussian(noise)
                ruled.ask(str(number), account=account, caller=caller, epsilon=epsilon, event=event)
            elif kind == "wait":
                ruled.clock.time += more[0]
            elif kind == "renew":
                ruled.renew(more[0])
            elif kind == "rules":
                ruled.put(*more[0])
            elif kind == "load":
                observe(ruled.vault, Metric.LOAD, "service", more[0])
            else:
                for each in SETS[0] + SETS[1]:
                    with suppress(InvalidInput):
                        lift(ruled.vault, each.name, (more[0], ""), "why not")


def month(folder: Path, steps: list[Any]) -> Ruled:
    ruled = Ruled.create(folder, *SETS[0])
    ruled.open("ward", parent="clinic", epsilon=0.5)
    ruled.open("team", parent="ward", epsilon=0.4)
    live(ruled, steps)
    return ruled


@settings(max_examples=60, deadline=None)
@given(MONTHS)
def test_the_log_alone_tells_every_outcome_of_a_random_month(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        check_replay(month(Path(folder), steps))


BUSY: list[Any] = [
    *([("ask", "ward", "ada", 0.25, 12.0), ("wait", 60)] * 12),
    *([("ask", "clinic", "bob", 0.4, 12.0), ("wait", 1800)] * 12),
    *([("ask", "clinic", "ada", 0.4, 30.0)] * 6),
    ("renew", "clinic"),
    ("load", 9.0),
    ("load", 1.0),
    *([("ask", "clinic", "ada", 0.25, 12.0)] * 12),
    ("rules", SETS[1]),
    *([("ask", "clinic", "ada", 0.25, 30.0)] * 12),
]


def test_a_busy_month_leads_to_every_kind_of_outcome(tmp_path: Path) -> None:
    """So that the property above is not about months in which nothing happens."""
    ruled = month(tmp_path, BUSY)
    kinds = {each.kind for each in ruled.records(*OUTCOMES)}
    assert kinds == {"alert", "measure", "lift"}
    assert len(ruled.records(*OUTCOMES)) > 10
    assert {each.action for each in ruled.records(MeasureRecord)} >= {"limit", "stop", "refuse"}
    check_replay(ruled)


def test_what_somebody_left_out_or_added_is_found(tmp_path: Path) -> None:
    records = month(tmp_path, BUSY).records()
    first = next(n for n, each in enumerate(records) if isinstance(each, AlertRecord))
    for changed, said in (
        (records[:first] + records[first + 1 :], "missing from the log"),
        (records[: first + 1] + records[first:], "nothing in the log leads to this alert"),
    ):
        replay = Replay()
        for number, record in enumerate(changed):
            replay.take(number, record)
        replay.finish()
        assert any(said in problem for problem in replay.problems)


def test_other_rules_are_tried_on_the_same_history(tmp_path: Path) -> None:
    ruled = month(tmp_path, BUSY)
    stricter = rule(metric="budget.used", account="clinic", action="stop", alert=0.05, act=0.1)
    tried = ruled.replay(RuleSet((stricter,)))
    assert tried.problems == []
    assert {each.outcome.rule for each in tried.found} == {stricter}
    assert ruled.replay(RuleSet()).found == []
    check_replay(ruled)  # trying changes nothing


def test_a_charge_past_the_rules_is_counted(tmp_path: Path) -> None:
    records = month(tmp_path, BUSY).records()
    replay = Replay()
    for number, record in enumerate(records):
        old = replace(record, caller=None) if isinstance(record, ReleaseRecord) else record
        replay.take(number, old)
    assert replay.without_rules > 0


@pytest.mark.parametrize("seed", range(3))
def test_protected_values_change_no_outcome(tmp_path: Path, seed: int) -> None:
    """The same questions, with other answers: rules never see one."""
    told = []
    for side in ("left", "right"):
        folder = tmp_path / side
        folder.mkdir()
        house = House.create("memory:", folder)
        ruled = Ruled.over(house, Clock(2e9))
        generator = np.random.default_rng([seed, side == "left"])
        people(house, epsilon=30.0)
        ruled.put(
            rule(metric="budget.used", account="people", alert=0.01, act=0.05, rate="4/minute"),
            rule(metric="privacy.loss", account="people", allowance=1.05),
            rule(metric="caller.requests", alert=2),
        )
        for number in range(8):
            ruled.clock.time += 7
            rows = ROWS[:1] + generator.uniform(-1, 1, ROWS[:1].shape)
            with suppress(Refused):
                ruled.service.answer(
                    clipped(),
                    RowsToExplain(rows, identifiers=[f"person {number % 6}"]),
                    payer="people",
                    caller="explainer",
                    fresh=number > 5,
                )
        told.append([(each.kind, each.time) for each in ruled.records(*OUTCOMES)])
        check_replay(ruled)
    assert told[0] == told[1]
    assert told[0]
