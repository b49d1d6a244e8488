"""What people read about guarantees, explanations and budgets, in sentences.

A guarantee is told in the words of people who answer for data: whose records, what was at stake.
The formal line says the same in less room, and stays beneath. A figure in words is rounded so that
it never promises more than the formal one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from typing import Any, Final

from voile.core.description import Description, Uncertainty
from voile.core.explanation import Explanation
from voile.core.guarantee import (
    Guarantee,
    Protected,
    ProtectedUnit,
    Relation,
    declared_maximum,
    floored_delta,
)
from voile.records.ledger import BudgetReport, PlanUse, Remaining

SHOWN_RECORDS: Final = (2, 5)
"""How many records of one person are spelled out, where a record is what is protected."""
_SAYS_LITTLE: Final = 100.0
_WHETHER: Final = {
    Relation.BLANK_ONE: "whether it was there or had been blank",
    Relation.REPLACE_ONE: "whether it was there or another one in its place",
    Relation.ADD_OR_REMOVE_ONE: "whether or not it had been there",
}


@dataclass(frozen=True)
class PersonWithRecords:
    """What is left of a promise about single records for somebody who has several.

    Args:
        records: how many the person has.
        epsilon, delta: what then holds for all of them together; None if nothing does.
        declared: whether somebody has declared that nobody has more.
    """

    records: int
    epsilon: float | None
    delta: float | None
    declared: bool = False

    def __str__(self) -> str:
        count = f"{self.records} record{'' if self.records == 1 else 's'}"
        who = f"A person with {count}"
        if self.declared:
            who = f"A person, with at most {count} (declared, and checked by nobody)"
        if self.records == 1:
            return f"{who}: what is promised for a record is promised for the person."
        if self.epsilon is None or self.delta is None:
            return f"{who}: nothing is promised about all of them together."
        return (
            f"{who}: ε = {rounded_up(self.epsilon)}, δ = {rounded_up(self.delta)} for all of them "
            f"together, {_times(self.epsilon)}."
        )


def guarantee_in_words(guarantee: Guarantee) -> str:
    """One sentence for everybody, and against whom it holds."""
    bounded = ", as far as their computing power is bounded" if guarantee.computational else ""
    said = in_words(guarantee.protected, guarantee.epsilon, guarantee.delta)
    return f"{said} This holds against {' and '.join(guarantee.against)}{bounded}."


def in_words(protected: Protected, epsilon: float, delta: float) -> str:
    """What (epsilon, delta) means for one record of what is protected."""
    chance = f", but for a chance of {_chance(delta)}" if delta else ""
    return f"{_whose(protected)}: what is shown was {_times(epsilon)}{chance}."


def several_records(
    protected: Protected, epsilon: float, delta: float, records_per_person: int | None = None
) -> tuple[PersonWithRecords, ...]:
    """For the number that somebody has declared to be the most, else for those in `SHOWN_RECORDS`;
    nothing where a person's records are protected as one.

    Data sets that differ in k records are k steps apart. Each step costs a factor of e^epsilon, and
    the delta of a later step is multiplied by the factors of those before it.
    """
    if protected.unit not in (ProtectedUnit.ROW, ProtectedUnit.COLUMNS):
        return ()
    if records_per_person is None:
        return tuple(_together(epsilon, delta, records) for records in SHOWN_RECORDS)
    declared_maximum(protected, records_per_person)
    return (replace(_together(epsilon, delta, records_per_person), declared=True),)


def _together(epsilon: float, delta: float, records: int) -> PersonWithRecords:
    try:
        lost = floored_delta(delta) * math.fsum(math.exp(step * epsilon) for step in range(records))
    except OverflowError:
        lost = math.inf if delta else 0.0
    lost *= 1 + 1e-12  # of the sum's rounding
    if lost >= 1:
        return PersonWithRecords(records, None, None)
    return PersonWithRecords(records, records * epsilon, lost)


def _whose(protected: Protected) -> str:
    named, dataset = ", ".join(map(repr, protected.columns)), f"{protected.dataset!r}"
    match protected.unit:
        case ProtectedUnit.ROW:
            return f"For each record of {dataset}, {_WHETHER[protected.relation]}"
        case ProtectedUnit.COLUMNS:
            return f"For what {named} say in each record of {dataset}, whatever that is"
        case ProtectedUnit.USER:
            return f"For each person in {dataset}, with all records of that person"
        case ProtectedUnit.CLIENT:
            return f"For each party of {dataset}, with all its records"
        case ProtectedUnit.EXPLAINED_ROW:
            return "For the person whom this is about, whatever the explained record says"


def _times(epsilon: float) -> str:
    try:
        factor = math.exp(epsilon)
    except OverflowError:
        factor = math.inf
    if factor > _SAYS_LITTLE:
        return "up to more than 100 times as likely as otherwise, which promises little"
    return f"at most {rounded_up(factor, 3)} times as likely as otherwise"


def _chance(delta: float) -> str:
    """1 in so many, never fewer than it is."""
    return f"1 in {math.floor(1 / delta * (1 + 1e-12)):,}" if delta < 0.5 else rounded_up(delta)


def rounded_up(figure: float, digits: int = 4) -> str:
    """Never below the figure: a printed promise must not say more than is true."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(figure))
    return f"{float(rounded):g}"


# --- explanations ---------------------------------------------------------------------------------

KNOWN: Final = "± is a 95 % interval."
STUDIED: Final = "In a study it held what other noise would have given on average in 93 of 100 \
cases, but what training without noise would have given in 75 only; in fewer where parties have \
few rows."
"""Of an estimated ±: `results/stability_coverage.json`, which a test compares."""
ESTIMATED: Final = f"± is a rough estimate: twice as far as contributions typically moved when the \
model was trained again with other noise, on invented rows. {STUDIED}"
EXACT: Final = "No noise was added and nothing was sampled for this explanation: these are the \
contributions in this model, exactly. How sure the model itself is, is another question."
_UNCERTAINTY: Final = {
    Uncertainty.EXACT: EXACT,
    Uncertainty.INTERVAL: KNOWN,
    Uncertainty.ESTIMATE: ESTIMATED,
}
_VERDICTS: Final = {
    "refuted": "more is released than is promised. Do not rely on the promise above.",
    "not refuted": "an attack that finds out half of the noise found nothing. That is no proof "
    "that there is nothing to be found.",
    "blind": "the attack was too short to detect even half of the noise. Nothing follows from it.",
}
_LIMITS: Final = (
    "It says how the model came to its result, not what causes what: changing a value need not "
    "change anything for the person.",
    "It does not say that the result is right, or fair.",
    "Contributions depend on the rows that the model is compared with: over other rows they are "
    "other numbers.",
)
_OWN: Final = (
    "The values on this page are those of the person whom it is about, and no promise covers them: "
    "it is for this person."
)
_PARTLY_OWN: Final = (
    "Values that were missing were filled in, as in training, and are not those of the person: "
    "what they add says nothing about her or him. The others are, and no promise covers them: this "
    "page is for this person."
)
_HIDDEN: Final = (
    "What stands in the record, and what the model predicts for it, is not on this page: the "
    "record is what is protected."
)


def uncertainty_in_words(described: Description) -> str:
    """What ± means there, or why there is none."""
    return _UNCERTAINTY[described.uncertainty]


def verdict_word(verdict: str) -> str:
    """How people read a stored verdict."""
    return "inconclusive" if verdict == "blind" else verdict


def verdict_in_words(verdict: str) -> str:
    """What follows from an attack on a promise."""
    return _VERDICTS[verdict]


def limits_in_words(described: Description) -> tuple[str, ...]:
    """What one person's page does not say."""
    units = {each.protected.unit for each in described.guarantees}
    more = (_HIDDEN,) if ProtectedUnit.EXPLAINED_ROW in units else ()
    own = (_PARTLY_OWN if described.some_missing else _OWN,) if described.shows_values else ()
    return (*_LIMITS, *more, *own)


SHOWN_REASONS: Final = 3
"""Beside each recommendation."""


def reasons(explanation: Explanation, output: int) -> list[str]:
    """What adds most to one recommendation, strongest first."""
    values = explanation.values[0, :, output]
    order = sorted(range(len(values)), key=lambda place: -values[place])
    return [
        f"{explanation.feature_names[place]} ({values[place]:+.3g})"
        for place in order[:SHOWN_REASONS]
        if values[place] > 0
    ]


# --- budgets --------------------------------------------------------------------------------------

_ALIKE: Final = 0.02
"""Shares that lie nearer to each other puzzle nobody."""


def summary(report: BudgetReport) -> list[tuple[str, str]]:
    """The lines of a report, for people."""
    if report.plan is not None:
        return _of_plan(report, report.plan)
    life, ahead = report.lifetime, report.forecast
    return [
        ("promised", f"ε = {report.epsilon:g}, δ = {report.delta:g}"),
        ("composition", report.composition),
        ("period", f"{report.period} ({life.periods} so far)"),
        ("charges in this period", f"{report.charges:,}"),
        ("used, by the account's composition", _epsilon(report.epsilon_spent, report.delta)),
        ("used, by basic composition", _epsilon(report.basic_epsilon_spent, report.delta)),
        ("left", _left(report.remaining)),
        ("lifetime, all renewals", _epsilon(life.epsilon, life.delta)),
        ("lifetime, by basic composition", _epsilon(life.basic_epsilon, life.delta)),
        ("lifetime, promised", f"ε = {life.promised_epsilon:g}, δ = {life.promised_delta:g}"),
        ("answers like the last that still fit", f"{ahead.more:,}"),
        _used_up(report),
    ]


def two_readings(report: BudgetReport) -> str:
    """Why a share of the budget and a share of the ε differ, where they do; else nothing."""
    spent, share = report.epsilon_spent, report.consumed
    if not spent or abs(share - spent / report.epsilon) < _ALIKE:
        return ""
    measure = report.composition.removeprefix("filter: ")
    grows = "half of the ε is about a quarter of it" if measure == "zcdp" else "ε grows unevenly"
    return (
        f"{share:.1%} of the budget and ε = {spent:.2g} of {report.epsilon:g} are the same, and "
        f"both are right: the budget is counted in the account's own measure ({measure}), in which "
        f"{grows}."
    )


def _of_plan(report: BudgetReport, plan: PlanUse) -> list[tuple[str, str]]:
    """Nothing is added up: what the whole plan amounts to was computed when it was opened."""
    life, left = report.lifetime, plan.planned - plan.used
    promised = f"ε = {report.epsilon:g}, δ = {report.delta:g}"
    again = ("lifetime, promised", f"ε = {life.promised_epsilon:g}, δ = {life.promised_delta:g}")
    return [
        ("promised", promised),
        ("composition", report.composition),
        ("period", f"{report.period} ({life.periods} so far)"),
        ("the whole plan amounts to", f"at most {promised}, however much of it is used"),
        ("parts of the plan used", f"{plan.used:,} of {plan.planned:,}"),
        ("used up", "all of it" if left == 0 else f"no: {left:,} to come, and nothing else fits"),
        *([again] if life.periods > 1 else []),
    ]


def _left(left: Remaining) -> str:
    own = f"{left.share:.1%}"
    if left.limited_by == left.account:
        return own
    return f"{own}, limited to {left.available:.1%} by {left.limited_by}"


def _used_up(report: BudgetReport) -> tuple[str, str]:
    if round(report.consumed, 3) >= 1:  # it is shown as 100.0 %
        return "used up", "all of it"
    ends = report.forecast.exhausted_at
    return "used up at the rate of the last day", "not in sight" if ends is None else date_in_words(
        ends
    )


def _epsilon(value: float | None, delta: float) -> str:
    return "no such reading" if value is None else f"ε = {value:.4g} at δ = {delta:g}"


def date_in_words(seconds: float) -> str:
    """To the minute."""
    if not 0 <= seconds < 253402300800:  # beyond the year 9999
        return "beyond the calendar"
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def judged(quality: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """By what a trained model was judged: by its charged table, and on open rows if there are."""
    found = (("charged", quality["charged"]), ("held out", quality["held_out"]))
    return [(words, each) for words, each in found if each is not None]
