"""The budget report: what was promised, what is gone, how bad that is, and what to do about it.

Plain data; `report_schema.SCHEMA` describes its JSON form. The command line prints it as a table,
`voile.workflows.budget_html` as a page with the consumption curve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from voile.core.errors import VoileError
from voile.core.storage import Reader
from voile.ledger.accounts import Account
from voile.ledger.alerts import Risk
from voile.ledger.event_text import event_from, parts_of
from voile.ledger.ledger import Ledger
from voile.ledger.measures import Sums, consumed
from voile.ledger.reading import Forecast, Remaining, epsilon_spent, forecast, remaining
from voile.ledger.recomputing import Movement, Recomputation, movements_of, nothing_of
from voile.ledger.report_schema import FORMAT
from voile.ledger.tables import ALERTS, ENTRIES, Act, Entry
from voile.ledger.tree import Node, share_of
from voile.ledger.watch import Finding, watch
from voile.privacy.accounting import Basic
from voile.privacy.events import Composed, Parallel, PrivacyEvent, Repeated

MOST_POINTS: Final = 500
"""Of a consumption curve."""
COLLUSION: Final = (
    "Limits of single analysts are no guarantee against analysts who put their answers together: "
    "against them the root account's (ε, δ) holds, and nothing less."
)
DISJOINT: Final = (
    "The accounts below {name!r} are charged in parallel: no record is behind two of them. A "
    "person with records in two of them pays both."
)
READING: Final = (
    "Spent figures are readings of what was charged; the guarantee is the promise fixed at opening."
)


@dataclass(frozen=True)
class Point:
    """The consumed share of an account after an act."""

    time: float
    share: float
    act: str


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

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, as `SCHEMA` says."""
        content = asdict(self)
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
    accounts = {each.account.name: each.account for each in ledger.nodes(t)}
    entries = t.scan(ENTRIES, account.root)
    concerned = {name, *(each.account.name for each in below)}
    share = share_of(t, node)
    this_period = _since_renewal(entries, name, accounts)
    findings = watch(ledger, t, name) if custodian else None
    return BudgetReport(
        account=name,
        root=account.root,
        dataset=account.dataset,
        unit=account.unit.value,
        relation=account.relation.value,
        epsilon=account.epsilon,
        delta=account.delta,
        composition=account.composition,
        children=account.children.value,
        period=balance.period,
        time=max(ledger.now(), entries[-1].time),
        charges=sum(e.act == Act.CHARGED and e.account in concerned for e in this_period),
        consumed=share,
        epsilon_spent=epsilon_spent(node),
        basic_epsilon_spent=_basic(account, accounts, this_period),
        remaining=remaining(ledger, t, name),
        risk=Risk.of(share),
        lifetime=_lifetime(node, accounts, entries),
        forecast=forecast(ledger, t, name),
        alerts=tuple((a.threshold, a.time) for a in t.scan(ALERTS, name, balance.period)),
        accounts_below=tuple(_line(t, each) for each in below),
        assumptions=_assumptions(node, below),
        advice=_advice(share, node, below),
        curve=_curve(account, accounts, entries),
        findings=findings,
    )


def _line(t: Reader, node: Node) -> tuple[str, float, str]:
    share = share_of(t, node)
    return node.account.name, share, Risk.of(share).value


def _assumptions(node: Node, below: list[Node]) -> tuple[str, ...]:
    parallel = [each.account for each in (node, *below) if each.account.is_parallel]
    said = [DISJOINT.format(name=each.name) for each in parallel]
    if below or node.account.parent is not None:
        said.append(COLLUSION)
    return (*said, READING)


def _advice(share: float, node: Node, below: list[Node]) -> tuple[str, ...]:
    """Each of these lowers risk; spending more per answer never does."""
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
    return tuple(said) or ("Nothing to do: less than half of the budget is used.",)


# --- what was spent, over a period and over a lifetime --------------------------------------------


def _since_renewal(entries: list[Entry], name: str, accounts: dict[str, Account]) -> list[Entry]:
    """Entries since the account, or one above it, was last renewed."""
    above = {name}
    while (parent := accounts[name].parent) is not None:
        name = parent
        above.add(parent)
    renewals = [n for n, e in enumerate(entries) if e.act == Act.RENEWED and e.account in above]
    return entries[renewals[-1] + 1 :] if renewals else entries


def _basic(
    account: Account, accounts: dict[str, Account], entries: Iterable[Entry]
) -> float | None:
    """All events under basic composition; None where an event has no such reading."""
    event = _event(account.name, accounts, _counted(entries, accounts))
    if event is None:
        return 0.0
    try:
        return Basic().compose(event).epsilon(account.delta)
    except (VoileError, OverflowError):
        return None


def _counted(entries: Iterable[Entry], accounts: dict[str, Account]) -> dict[str, Counter[str]]:
    """For each account, its own charges by event. A plan below a filter counts when it is paid."""
    found: dict[str, Counter[str]] = {}
    for entry in entries:
        if entry.event and (entry.cost or accounts[entry.account].parent is None):
            found.setdefault(entry.account, Counter())[entry.event] += 1
    return found


def _event(
    name: str, accounts: dict[str, Account], counted: dict[str, Counter[str]]
) -> PrivacyEvent | None:
    """What one record can have met below an account, as one event."""
    account = accounts[name]
    mine = counted.get(name, Counter())
    own: list[PrivacyEvent] = [Repeated(event_from(text), n) for text, n in mine.items()]
    children = [each.name for each in accounts.values() if each.parent == name]
    below = [e for each in children if (e := _event(each, accounts, counted)) is not None]
    if below and account.is_parallel:
        below = [Parallel(tuple(below))]
    together = (*own, *below)
    return Composed(together) if together else None


def _lifetime(node: Node, accounts: dict[str, Account], entries: list[Entry]) -> Lifetime:
    account, periods = node.account, node.balance.period + 1
    epsilon: float | None = None
    if account.measure is not None and not account.is_plan:
        total = _forever(account, accounts, entries)
        epsilon = account.measure.epsilon(total, account.delta)
    return Lifetime(
        periods=periods,
        delta=account.delta,
        epsilon=epsilon,
        basic_epsilon=_basic(account, accounts, entries),
        promised_epsilon=periods * account.epsilon,
        promised_delta=min(1.0, periods * account.delta),
    )


def _forever(account: Account, accounts: dict[str, Account], entries: list[Entry]) -> Sums:
    """All charges as if nothing had ever been renewed."""
    again = Recomputation()
    for movement in movements_of(entries, accounts):
        if movement.act is not Act.RENEWED or movement.cost:
            kept = movement if movement.act is not Act.RENEWED else _paid_again(movement)
            again.apply(kept, nothing_of(accounts[kept.account]))
    return again.accounts[account.name].standing.spent


def _paid_again(movement: Movement) -> Movement:
    return Movement(act=Act.CHARGED, account=movement.account, cost=movement.cost)


def _curve(
    account: Account, accounts: dict[str, Account], entries: list[Entry]
) -> tuple[Point, ...]:
    """The consumed share after each act that moved it, thinned out evenly."""
    again, points = Recomputation(), [Point(account.opened, 0.0, Act.OPENED.value)]
    planned = parts_of(account.plan).total()
    for entry, movement in zip(entries, movements_of(entries, accounts), strict=True):
        again.apply(movement, nothing_of(accounts[movement.account]))
        if account.name not in again.accounts:
            continue
        mine = again.accounts[account.name]
        share = (
            mine.used.total() / planned
            if planned
            else consumed(mine.standing.spent, account.budgets)
        )
        if share != points[-1].share:
            points.append(Point(entry.time, share, entry.act))
    step = -(-len(points) // MOST_POINTS)
    return tuple(point for n, point in enumerate(points) if n % step == 0 or n == len(points) - 1)
