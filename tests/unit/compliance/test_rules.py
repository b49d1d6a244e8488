"""Rules as they are written: defaults of the published table, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from voile.compliance import Action, Metric, Per, Rule, RuleSet
from voile.core.errors import InvalidInput

GIVEN: dict[Metric, dict[str, Any]] = {
    Metric.BUDGET: {"account": "clinic 2026", "rate": "10/minute"},
    Metric.LOSS: {"account": "clinic 2026", "allowance": 1.0},
    Metric.QUALITY: {"alert": 0.2, "act": 0.4},
    Metric.LOAD: {"alert": 50, "act": 100},
    Metric.REQUESTS: {"alert": 60},
    Metric.REFUSALS: {"alert": 5},
    Metric.OVERLAP: {"account": "clinic 2026"},
}


def rule(metric: Metric, **changes: Any) -> Rule:
    return Rule(metric=metric, **(GIVEN[metric] | changes))


def test_the_rule_of_the_example() -> None:
    found = rule(Metric.BUDGET)
    assert (found.alert, found.act, found.action) == (0.75, 0.80, Action.LIMIT)
    assert (found.per, found.until, found.limit) == (Per.ACCOUNT, "renewed", (10, 60))


def test_an_allowance_is_told_of_at_nine_tenths_and_kept_at_the_whole() -> None:
    found = rule(Metric.LOSS)
    assert (found.alert, found.act, found.action) == (0.9, 1.0, Action.REFUSE)
    assert not found.reached(1.0, found.act)
    assert found.reached(1.0001, found.act)


@pytest.mark.parametrize("metric", Metric)
def test_a_rule_is_read_again_from_its_text(metric: Metric) -> None:
    found = rule(metric)
    assert RuleSet.from_texts([found.text]).rules == (found,)
    assert json.loads(found.text)["metric"] == metric.value
    assert len(found.name) == 12


def test_a_name_follows_from_the_text() -> None:
    """Written down: a stored rule must be found again by every later version."""
    assert rule(Metric.BUDGET).text == (
        '{"account":"clinic 2026","act":0.8,"action":"limit","alert":0.75,'
        '"metric":"budget.used","per":"account","rate":"10/minute","until":"renewed"}'
    )
    assert rule(Metric.BUDGET).name == "f14acf4fdbed"
    assert rule(Metric.BUDGET, alert=0.7).name != rule(Metric.BUDGET).name


@pytest.mark.parametrize(
    ("metric", "changes", "said"),
    [
        (Metric.BUDGET, {"account": None}, "needs account"),
        (Metric.BUDGET, {"rate": None}, "needs a rate"),
        (Metric.BUDGET, {"rate": "ten/minute"}, "rate"),
        (Metric.BUDGET, {"action": "stop"}, "and no other, needs a rate"),
        (Metric.BUDGET, {"action": "shed"}, "knows limit, approve, stop"),
        (Metric.BUDGET, {"alert": 0.9}, "lies above act"),
        (Metric.BUDGET, {"act": 1.5}, "at most 1"),
        (Metric.BUDGET, {"act": float("nan")}, "act"),
        (Metric.BUDGET, {"until": "tomorrow"}, "until is renewed, lifted"),
        (Metric.BUDGET, {"window": "day"}, "window does not belong"),
        (Metric.LOSS, {"allowance": None}, "needs allowance"),
        (Metric.LOSS, {"window": "fortnight"}, "window"),
        (Metric.QUALITY, {"act": None}, "needs act"),
        (Metric.LOAD, {"until": "1 hour"}, "until is below"),
        (Metric.REQUESTS, {"act": 70}, "act does not belong"),
        (Metric.OVERLAP, {"account": None}, "needs account"),
        (Metric.BUDGET, {"alarm": 0.5}, "alarm"),
        (Metric.BUDGET, {"account": "é" * 101}, "account"),
    ],
)
def test_what_contradicts_itself_is_refused(
    metric: Metric, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        rule(metric, **changes)


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ValidationError, match="metric"):
        Rule.model_validate({"metric": "latency", "alert": 1})


def test_the_same_rule_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="stands twice"):
        RuleSet((rule(Metric.LOAD), rule(Metric.LOAD)))


def test_rules_are_found_by_the_beginning_of_a_name() -> None:
    rules = RuleSet((rule(Metric.LOAD), rule(Metric.REFUSALS)))
    assert rules.find(rule(Metric.LOAD).name[:8]) == rule(Metric.LOAD)
    assert rules.find("") is None
    assert RuleSet().digest != rules.digest
