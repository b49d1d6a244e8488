"""The budget report: what was promised, what is gone, how bad that is, and what to do about it.

Plain data; `docs/budget-report.schema.json` describes its JSON form. The command line prints it as
a table, `voile.views` as a page with the consumption curve.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final

from voile.core.guarantee import Protected
from voile.privacy.mechanisms.parameters import weaknesses
from voile.records.ledger.charging import KEPT_DIGEST, Risk, charge_name
from voile.records.ledger.history import History, Point, entries_of
from voile.records.ledger.ledger import Ledger
from voile.records.ledger.reading import (
    DAY,
    Forecast,
    Remaining,
    epsilon_spent,
    forecast,
    recent_charges,
    remaining,
    share_of_charges,
)
from voile.records.ledger.tables import ALERTS, PLAN_PARTS, POPULATIONS, Entry
from voile.records.ledger.tree import AccountNode, share_of
from voile.records.storage import Reader

# --- The reconstruction watch: patterns in the journal that somebody should look at --------------
# For the custodian only. It never refuses anything, and nothing an analyst can see depends on it:
# a refusal that depended on which records were asked about would itself say something about them.
# What protects the records is the budget; the watch tells the custodian whom to talk to.
#
# Rules (all over the latest charges on an account and below it):
#
# 1. *overlap*: one caller asked at least `OVERLAP_TIMES` times about populations of which any two
#    have at least `OVERLAP_SHARE` of their records in common (of the smaller one).
# 2. *differencing*: two populations differ in at least one and at most `FEW_RECORDS` records: their
#    difference is about those few. By whichever callers.
# 3. *exhaustion*: more than `FAST_SHARE` of the budget was used within a day, or one caller alone
#    used more than half of what is gone, at least a quarter of the budget.
# 4. *averaging*: one question was answered with fresh noise at least `FRESH_TIMES` times.
#
# Populations are compared by keyed digests, which never leave the ledger; a finding names charges
# and callers, not records.

OVERLAP_TIMES: Final = 5
OVERLAP_SHARE: Final = 0.9
FEW_RECORDS: Final = 5
FAST_SHARE: Final = 0.25
FRESH_TIMES: Final = 3
MOST_POPULATIONS: Final = 200
"""Compared with each other; the latest ones."""
MOST_CHARGES: Final = 10_000


@dataclass(frozen=True)
class Finding:
    """Something a rule noticed."""

    rule: str
    callers: tuple[str, ...]
    charges: tuple[str, ...]
    detail: str


@dataclass(frozen=True)
class _Query:
    entry: Entry
    records: frozenset[bytes]


def watch(ledger: Ledger, t: Reader, account: str) -> tuple[Finding, ...]:
    """What the rules notice about an account and those below it."""
    node = ledger.node(t, account)
    charges = recent_charges(ledger, t, account, since=float("inf"), at_least=MOST_CHARGES)
    asked = [_Query(entry, _population(t, entry)) for entry in charges if entry.population]
    asked = [each for each in asked[:MOST_POPULATIONS] if each.records]  # some were erased
    return (
        *_overlap(asked),
        *_differencing(asked),
        *_exhaustion(node, charges, share_of(t, node), ledger.now()),
        *_averaging(charges),
    )


def _population(t: Reader, entry: Entry) -> frozenset[bytes]:
    row = t.get(POPULATIONS, entry.root, entry.number)
    content = b"" if row is None else row.records
    return frozenset(content[n : n + KEPT_DIGEST] for n in range(0, len(content), KEPT_DIGEST))


def _overlap(asked: Sequence[_Query]) -> Iterator[Finding]:
    """Rule 1: a greedy group around each caller's latest population."""
    by_caller: defaultdict[str, list[_Query]] = defaultdict(list)
    for each in asked:
        by_caller[each.entry.caller].append(each)
    for caller, mine in by_caller.items():
        group: list[_Query] = []
        for each in mine:
            if all(_common(each.records, other.records) >= OVERLAP_SHARE for other in group):
                group.append(each)
        if len(group) >= OVERLAP_TIMES:
            detail = f"asked {len(group)} times about nearly the same records"
            yield Finding("overlap", (caller,), _names(group), detail)


def _differencing(asked: Sequence[_Query]) -> Iterator[Finding]:
    """Rule 2."""
    for one, two in combinations(asked, 2):
        if abs(len(one.records) - len(two.records)) > FEW_RECORDS:
            continue
        differ = len(one.records ^ two.records)
        if 1 <= differ <= FEW_RECORDS:
            callers = tuple(sorted({one.entry.caller, two.entry.caller}))
            detail = f"two populations differ in {differ} record(s): their difference is about them"
            yield Finding("differencing", callers, _names([one, two]), detail)


def _exhaustion(
    node: AccountNode, charges: Sequence[Entry], share: float, now: float
) -> Iterator[Finding]:
    """Rule 3."""
    latest = max((entry.time for entry in charges), default=now)
    day = [entry for entry in charges if entry.time > max(now, latest) - DAY]
    used = share_of_charges(node, day)
    if used > FAST_SHARE:
        callers = tuple(sorted({entry.caller for entry in day}))
        detail = f"{used:.0%} of the budget was used within a day"
        yield Finding("exhaustion", callers, tuple(map(charge_name, day[:10])), detail)
    for caller in {entry.caller for entry in charges}:
        mine = [entry for entry in charges if entry.caller == caller]
        alone = share_of_charges(node, mine)
        if alone >= 0.25 and alone > share / 2 and len(mine) < len(charges):
            detail = f"one caller alone used {alone:.0%} of the budget"
            yield Finding("exhaustion", (caller,), tuple(map(charge_name, mine[:10])), detail)


def _averaging(charges: Sequence[Entry]) -> Iterator[Finding]:
    """Rule 4."""
    counts = Counter(entry.query for entry in charges)
    for query, count in counts.items():
        if count >= FRESH_TIMES:
            same = [entry for entry in charges if entry.query == query]
            callers = tuple(sorted({entry.caller for entry in same}))
            detail = f"one question was answered {count} times with fresh noise"
            yield Finding("averaging", callers, tuple(map(charge_name, same)), detail)


def _common(one: frozenset[bytes], two: frozenset[bytes]) -> float:
    return len(one & two) / max(1, min(len(one), len(two)))


def _names(asked: Sequence[_Query]) -> tuple[str, ...]:
    return tuple(charge_name(each.entry) for each in asked)


FORMAT: Final = "voile budget report v1"
"""Compatibility promise: a format keeps its name, fields and meaning; a change is a new name."""
COLLUSION: Final = (
    "Limits of single analysts are no guarantee against analysts who put their answers together: "
    "against them the root account's (ε, δ) holds, and nothing less."
)
DISJOINT: Final = (
    "The accounts below {name!r} are charged in parallel: no record is behind two of them. A "
    "person with records in two of them pays both."
)
PAID: Final = (
    "Nothing to do: the plan was counted as a whole when it was opened, and nothing but its parts "
    "is ever charged. Another plan for the same records adds to what is known about them."
)
_IDLE: Final = "Nothing to do: less than half of the budget is used."
READING: Final = (
    "Spent figures are readings of what was charged; the guarantee is the promise fixed at opening."
)


@dataclass(frozen=True)
class Lifetime:
    """Everything ever charged for the same data, over all periods.

    Args:
        periods: how many the account has had.
        epsilon: all of it, in the account's own composition, at `delta`; None for a plan.
        basic_epsilon: the same under basic composition; None where that has no reading.
        promised_epsilon, promised_delta: what the periods promised together.
    """

    periods: int
    delta: float
    epsilon: float | None
    basic_epsilon: float | None
    promised_epsilon: float
    promised_delta: float


@dataclass(frozen=True)
class PlanUse:
    """How many parts of a plan were used, of how many."""

    used: int
    planned: int


@dataclass(frozen=True)
class BudgetReport:
    """One account at one moment."""

    account: str
    root: str
    dataset: str
    unit: str
    relation: str
    epsilon: float
    delta: float
    composition: str
    children: str
    period: int
    time: float
    charges: int
    consumed: float
    epsilon_spent: float | None
    basic_epsilon_spent: float | None
    remaining: Remaining
    risk: Risk
    lifetime: Lifetime
    forecast: Forecast
    alerts: tuple[tuple[int, float], ...]
    accounts_below: tuple[tuple[str, float, str], ...]
    assumptions: tuple[str, ...]
    advice: tuple[str, ...]
    curve: tuple[Point, ...]
    findings: tuple[Finding, ...] | None
    """Of the reconstruction watch; None in a report that is not for the custodian."""
    plan: PlanUse | None = None
    """None for a filter; for people, not in the JSON form, which says it in `composition`."""

    @property
    def protected(self) -> Protected:
        """What the account is for."""
        return Protected.from_texts(self.unit, self.relation, self.dataset)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        content = asdict(self)
        del content["plan"]
        content["alerts"] = [{"threshold": n, "time": when} for n, when in self.alerts]
        content["accounts_below"] = [
            {"account": name, "consumed": share, "risk": risk}
            for name, share, risk in self.accounts_below
        ]
        for name in ("assumptions", "advice", "curve"):
            content[name] = list(content[name])
        if self.findings is not None:
            content["findings"] = [
                {**asdict(each), "callers": list(each.callers), "charges": list(each.charges)}
                for each in self.findings
            ]
        return {"format": FORMAT, **content, "risk": self.risk.value}


def budget_report(ledger: Ledger, t: Reader, name: str, *, custodian: bool = False) -> BudgetReport:
    """The report on an account.

    Args:
        custodian: add what the reconstruction watch noticed; not for analysts.
    """
    node = ledger.node(t, name)
    account, balance = node.account, node.balance
    below = ledger.below(t, name)
    tree = [ledger.node(t, account.root), *ledger.below(t, account.root)]
    accounts = {each.account.name: each.account for each in tree}
    history = History(account, accounts, frozenset(each.account.name for each in below))
    for entry in entries_of(t, account.root):
        history.take(entry)
    share = share_of(t, node)
    findings = watch(ledger, t, name) if custodian else None
    return BudgetReport(
        account=name,
        root=account.root,
        **account.protected.texts,
        epsilon=account.epsilon,
        delta=account.delta,
        composition=account.composition,
        children=account.children.value,
        period=balance.period,
        time=max(ledger.now(), history.last_time),
        charges=history.charges,
        consumed=share,
        epsilon_spent=epsilon_spent(node),
        basic_epsilon_spent=history.basic_epsilon,
        remaining=remaining(ledger, t, name),
        risk=Risk.from_spending(share, account.epsilon, account.delta),
        lifetime=_lifetime(node, history),
        forecast=forecast(ledger, t, name),
        alerts=tuple((a.threshold, a.time) for a in t.scan(ALERTS, name, balance.period)),
        accounts_below=tuple(_line(t, each) for each in below),
        assumptions=_assumptions(node, below),
        advice=_advice(share, node, below),
        curve=history.curve,
        findings=findings,
        plan=_plan_use(t, node),
    )


def _plan_use(t: Reader, node: AccountNode) -> PlanUse | None:
    if not node.account.is_plan:
        return None
    parts = t.scan(PLAN_PARTS, node.account.name)
    return PlanUse(sum(part.used for part in parts), sum(part.planned for part in parts))


def _line(t: Reader, node: AccountNode) -> tuple[str, float, str]:
    share, account = share_of(t, node), node.account
    return account.name, share, Risk.from_spending(share, account.epsilon, account.delta).value


def _assumptions(node: AccountNode, below: list[AccountNode]) -> tuple[str, ...]:
    parallel = [each.account for each in (node, *below) if each.account.is_parallel]
    said = [DISJOINT.format(name=each.name) for each in parallel]
    if below or node.account.parent is not None:
        said.append(COLLUSION)
    return tuple(said) if node.account.is_plan else (*said, READING)


def _advice(share: float, node: AccountNode, below: list[AccountNode]) -> tuple[str, ...]:
    """Each of these lowers risk; spending more per answer never does."""
    said: list[str] = [] if node.account.is_plan else _saving(share, node, below)
    said += [
        f"{weakness}. Open the next account with a smaller promise."
        for weakness in weaknesses(node.account.epsilon, node.account.delta)
    ]
    return tuple(said) or (PAID if node.account.is_plan else _IDLE,)


def _saving(share: float, node: AccountNode, below: list[AccountNode]) -> list[str]:
    said: list[str] = []
    if share >= 0.5:
        said += [
            "Give stored answers again instead of drawing fresh noise: they cost nothing.",
            "Answer at a coarser level, or with more noise: each answer then costs less.",
        ]
    if share > 0.75:
        said += [
            "Put questions together: one release about all features costs less than several.",
            "Explain a privately trained model over public reference rows: that is free.",
            "Before renewing, read the lifetime figure: a renewal adds to what is known about the "
            "same records.",
        ]
    if share > 0.75 and not node.account.is_parallel and len(below) > 1:
        said.append("Give analysts smaller accounts of their own below this one.")
    return said


def _lifetime(node: AccountNode, history: History) -> Lifetime:
    account, periods = node.account, node.balance.period + 1
    epsilon: float | None = None
    if account.measure is not None and not account.is_plan:
        epsilon = account.measure.epsilon(history.spent_ever, account.delta)
    return Lifetime(
        periods=periods,
        delta=account.delta,
        epsilon=epsilon,
        basic_epsilon=history.basic_epsilon_ever,
        promised_epsilon=periods * account.epsilon,
        promised_delta=min(1.0, periods * account.delta),
    )
