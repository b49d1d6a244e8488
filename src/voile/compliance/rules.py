"""Rules as people write them, in `[[rules]]` of `voile.toml`.

The metrics and default thresholds are those of the published table of compliance metrics (Table 5
of the recommender paper), with two changes: rules act on public facts only, and measured time,
which depends on protected rows, is left to the operator's own alerts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from voile.core.errors import InvalidInput

_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_RATE: Final = re.compile(r"([1-9][0-9]{0,6})/(second|minute|hour|day)")
_DURATION: Final = re.compile(r"([1-9][0-9]{0,4}) (minute|hour|day)s?")
_LONGEST: Final = 700
"""Bytes of a rule as text: a record of the log holds one."""


class Metric(StrEnum):
    """What is watched. Stored texts never change their meaning.

    >>> Metric("budget.used").value
    'budget.used'
    """

    BUDGET = "budget.used"
    """The share of an account that is used, by everybody or by one caller."""
    LOSS = "privacy.loss"
    """Epsilon of a question, or of all in a window, over an allowance."""
    QUALITY = "explanation.quality"
    """Half-width of a released value over the width of the output; more is worse."""
    LOAD = "service.load"
    """Requests in flight times their declared cost, the most within a second."""
    REQUESTS = "caller.requests"
    """Charged and refused questions of one caller in a window."""
    REFUSALS = "caller.refusals"
    """Refusals of one caller in a row."""
    OVERLAP = "caller.overlap"
    """Findings of the reconstruction watch. They depend on protected data: for the custodian."""


class Action(StrEnum):
    """What a measure does. Stored texts never change their meaning."""

    LIMIT = "limit"
    """At most so many charges in each window of the rate."""
    APPROVE = "approve"
    """Only what a second person has approved."""
    STOP = "stop"
    """No charges."""
    REFUSE = "refuse"
    """Not this question."""
    COARSER = "coarser"
    """Offer a coarser level."""
    SHED = "shed"
    """No new requests for now."""


class Per(StrEnum):
    """Whose charges count."""

    ACCOUNT = "account"
    CALLER = "caller"


_ACTIONS: Final[Mapping[Metric, tuple[Action, ...]]] = {
    Metric.BUDGET: (Action.LIMIT, Action.APPROVE, Action.STOP),
    Metric.LOSS: (Action.REFUSE,),
    Metric.QUALITY: (Action.COARSER,),
    Metric.LOAD: (Action.SHED,),
}
"""What a metric can lead to; the others notify only. The first is the default."""
_DEFAULTS: Final[Mapping[Metric, Mapping[str, Any]]] = {
    Metric.BUDGET: {"per": "account", "alert": 0.75, "act": 0.80, "until": "renewed"},
    Metric.LOSS: {"alert": 0.9, "act": 1.0},
    Metric.QUALITY: {"until": "1 hour"},
    Metric.LOAD: {"until": "below"},
    Metric.REQUESTS: {"window": "minute"},
}
_UNTIL: Final[Mapping[Metric, tuple[str, ...]]] = {
    Metric.BUDGET: ("renewed", "lifted"),
    Metric.QUALITY: ("below", "lifted"),
    Metric.LOAD: ("below",),
}
"""Besides a duration, which a load does not need."""
_OF_METRIC: Final[Mapping[str, tuple[Metric, ...]]] = {
    "account": (Metric.BUDGET, Metric.LOSS, Metric.OVERLAP),
    "per": (Metric.BUDGET,),
    "act": tuple(_ACTIONS),
    "action": tuple(_ACTIONS),
    "rate": (Metric.BUDGET,),
    "until": tuple(_UNTIL),
    "allowance": (Metric.LOSS,),
    "window": (Metric.LOSS, Metric.REQUESTS),
}
"""Which metrics a key belongs to; the others are for all."""
_NEEDED: Final[Mapping[Metric, tuple[str, ...]]] = {
    Metric.BUDGET: ("account",),
    Metric.LOSS: ("account", "allowance"),
    Metric.QUALITY: ("alert", "act"),
    Metric.LOAD: ("alert", "act"),
    Metric.REQUESTS: ("alert",),
    Metric.REFUSALS: ("alert",),
    Metric.OVERLAP: ("account",),
}
Threshold = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Rule(BaseModel):
    """One rule: a metric, a threshold to tell people at, one to act at, and what is done then.

    Args:
        account: whose use is watched.
        per: all charges together, or those of each caller by themselves.
        alert: from here on people are told, once.
        act: from here on the measure is in force.
        action: which measure; by default the first that the metric knows.
        rate: of the measure `limit`, such as "10/minute".
        until: what ends a measure: "renewed", "below" (the alert), "lifted" (by the custodian), or
            a time such as "1 hour".
        allowance: epsilon that a question, or all in a window, may cost.
        window: "minute", "hour" or "day" of the clock.

    >>> rule = Rule(metric="budget.used", account="clinic 2026", rate="10/minute")
    >>> rule.alert, rule.act, rule.action.value, rule.until
    (0.75, 0.8, 'limit', 'renewed')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: Metric
    account: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    per: Per | None = None
    alert: Threshold | None = None
    act: Threshold | None = None
    action: Action | None = None
    rate: Annotated[str, Field(pattern=rf"^{_RATE.pattern}$")] | None = None
    until: str | None = None
    allowance: Threshold | None = None
    window: Annotated[str, Field(pattern="^(minute|hour|day)$")] | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, stated: Any) -> Any:
        if not isinstance(stated, Mapping) or stated.get("metric") not in set(Metric):
            return stated
        metric = Metric(stated["metric"])
        actions = _ACTIONS.get(metric, ())
        usual = {**_DEFAULTS.get(metric, {}), **({"action": actions[0]} if actions else {})}
        return {**usual, **stated}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        _ = self.name
        if len(self.text.encode()) > _LONGEST:
            raise ValueError(f"a rule has at most {_LONGEST} bytes as text; shorten the account")
        return self

    def _problems(self) -> list[str]:
        found = [
            f"{key} does not belong to a rule about {self.metric}"
            for key, metrics in _OF_METRIC.items()
            if getattr(self, key) is not None and self.metric not in metrics
        ]
        found += [
            f"a rule about {self.metric} needs {key}"
            for key in _NEEDED[self.metric]
            if getattr(self, key) is None
        ]
        actions = _ACTIONS.get(self.metric, ())
        if self.action is not None and actions and self.action not in actions:
            found.append(f"{self.metric} knows {', '.join(actions)}, found {self.action}")
        if (self.action is Action.LIMIT) != (self.rate is not None):
            found.append("the action limit, and no other, needs a rate such as 10/minute")
        if self.alert is not None and self.act is not None and self.alert > self.act:
            found.append(f"alert ({self.alert:g}) lies above act ({self.act:g})")
        if self.metric is Metric.BUDGET and max(self.alert or 0.0, self.act or 0.0) > 1:
            found.append("a share of a budget is at most 1")
        ends = _UNTIL.get(self.metric, ())
        timed = self.metric is not Metric.LOAD and _DURATION.fullmatch(self.until or "")
        if self.until is not None and ends and self.until not in ends and not timed:
            found.append(f'until is {", ".join(ends)} or a time such as "1 hour"')
        return found

    @cached_property
    def text(self) -> str:
        """Canonical: what the log holds of it."""
        stated = self.model_dump(mode="json", exclude_none=True)
        return json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def name(self) -> str:
        """Follows from its text: another threshold is another rule."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @cached_property
    def least(self) -> float | None:
        """The lower of its thresholds."""
        return self.act if self.alert is None else self.alert

    @cached_property
    def limit(self) -> tuple[int, int]:
        """Of a rate: how many, and in how many seconds."""
        found = _RATE.fullmatch(self.rate or "")
        assert found is not None
        return int(found[1]), _SECONDS[found[2]]

    @cached_property
    def window_seconds(self) -> int:
        """How long a window lasts; 0 where every question stands alone."""
        return _SECONDS[self.window] if self.window else 0

    @cached_property
    def lasts(self) -> int | None:
        """Seconds that a measure is in force; None if something else ends it."""
        found = _DURATION.fullmatch(self.until or "")
        return int(found[1]) * _SECONDS[found[2]] if found else None

    def reached(self, value: float, threshold: float | None) -> bool:
        """Whether a figure has come to a threshold; an allowance itself may be used up."""
        if threshold is None:
            return False
        if self.metric is Metric.LOSS:
            return value > threshold * (1 + 1e-9)
        return value >= threshold


@dataclass(frozen=True)
class RuleSet:
    """All rules that are in force together.

    >>> RuleSet.from_texts([Rule(metric="caller.refusals", alert=5).text]).rules[0].alert
    5.0
    """

    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.rules):
            raise InvalidInput("the same rule stands twice in [[rules]]: remove one of them")

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> RuleSet:
        """As they were written down."""
        return _from_texts(tuple(texts))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """As they are written down."""
        return tuple(rule.text for rule in self.rules)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the rules, in their order."""
        return tuple(rule.name for rule in self.rules)

    @cached_property
    def digest(self) -> bytes:
        """Of all rules in their order."""
        return hashlib.sha256(json.dumps(self.texts).encode()).digest()

    @cached_property
    def _of_account(self) -> dict[str, tuple[Rule, ...]]:
        found: dict[str, tuple[Rule, ...]] = {}
        for rule in self.rules:
            if rule.account is not None and rule.metric in (Metric.BUDGET, Metric.LOSS):
                found[rule.account] = (*found.get(rule.account, ()), rule)
        return found

    @cached_property
    def _of_metric(self) -> dict[Metric, tuple[Rule, ...]]:
        return {
            metric: tuple(rule for rule in self.rules if rule.metric is metric) for metric in Metric
        }

    def of_account(self, account: str) -> tuple[Rule, ...]:
        """What is decided by charges of an account and those below it."""
        return self._of_account.get(account, ())

    def of_metric(self, metric: Metric) -> tuple[Rule, ...]:
        """All rules about one thing."""
        return self._of_metric[metric]

    def find(self, name: str) -> Rule | None:
        """The rule of this name, or of which this is the beginning."""
        found = [rule for rule in self.rules if rule.name.startswith(name)]
        return found[0] if len(found) == 1 else None


@lru_cache(maxsize=64)
def _from_texts(texts: tuple[str, ...]) -> RuleSet:
    return RuleSet(tuple(Rule.model_validate_json(text) for text in texts))
