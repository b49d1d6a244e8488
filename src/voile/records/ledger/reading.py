"""What is left, what something would cost, how long it will last: readings that change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.measures import Sums, consumed, largest_count
from voile.privacy.events import PrivacyEvent
from voile.records.ledger.accounts import check_relation
from voile.records.ledger.charging import effect_of, effect_or_offer
from voile.records.ledger.event_text import event_from
from voile.records.ledger.history import cost_of
from voile.records.ledger.ledger import Ledger
from voile.records.ledger.tables import ENTRIES, Act, Entry
from voile.records.ledger.tree import AccountNode, RunningTotals, share_of
from voile.records.storage import Reader

DAY: Final = 24 * 3600.0
_PAGE: Final = 500
_MOST_COUNTED: Final = 2**40


@dataclass(frozen=True)
class Remaining:
    """What is left of an account. The account that has least left on the way up is what counts.

    Args:
        share: what is left of this account by itself, between 0 and 1.
        available: what is left of the account that limits it.
        limited_by: that account.
        epsilon_spent: the sums of this period read as an epsilon at the account's delta; None for a
            plan, which was paid for when it was opened.
    """

    account: str
    share: float
    available: float
    limited_by: str
    epsilon_spent: float | None


@dataclass(frozen=True)
class WouldCost:
    """What a charge would do, without doing it.

    Args:
        fits: whether it would be granted now.
        refused_because: the refusal's message, empty if it fits.
        cost: in the measure of the tree.
        consumed: for each account on the way up, its consumed share before and after.
    """

    fits: bool
    refused_because: str
    cost: Sums
    consumed: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class Forecast:
    """How long an account lasts, if what comes is like what came.

    Args:
        more: how many more such events fit, one after the other, on the whole way up.
        hourly_rate: charges an hour over the window.
        hourly_share: consumed share of the budget an hour over the window.
        exhausted_at: seconds since 1970, or None if nothing was charged lately.
    """

    account: str
    more: int
    hourly_rate: float
    hourly_share: float
    exhausted_at: float | None


def remaining(ledger: Ledger, t: Reader, name: str) -> Remaining:
    """What is left of an account, and of those above it."""
    path = ledger.path(t, name)
    left = {node.account.name: 1 - share_of(t, node) for node in path}
    counted = path[:1] if path[0].account.is_plan else path  # a plan has paid those above it
    limit = min((node.account.name for node in counted), key=lambda each: left[each])
    return Remaining(name, left[name], left[limit], limit, epsilon_spent(path[0]))


def epsilon_spent(node: AccountNode) -> float | None:
    """This period's sums as an epsilon at the account's delta."""
    account = node.account
    if account.is_plan or account.measure is None:
        return None
    return account.measure.epsilon(node.standing.spent, account.delta)


def would_cost(ledger: Ledger, t: Reader, name: str, event: PrivacyEvent) -> WouldCost:
    """Whether an event would be granted, and what it would leave. Public facts only."""
    path = ledger.path(t, name)
    account = path[0].account
    check_relation(event, account.protected.relation)
    before = [share_of(t, node) for node in path]
    cost = () if account.is_plan or account.measure is None else account.measure.cost(event)
    try:
        effect = effect_or_offer(t, path, event)
    except BudgetExceeded as refused:
        return WouldCost(False, str(refused), cost, _moves(path, before, before))
    after = (
        [effect.used, *before[1:]] if account.is_plan else list(map(_share, path, effect.standings))
    )
    return WouldCost(True, "", cost, _moves(path, before, after))


def _share(node: AccountNode, standing: RunningTotals) -> float:
    return consumed(standing.spent, node.account.budgets)


def how_many(ledger: Ledger, t: Reader, name: str, event: PrivacyEvent) -> int:
    """How many more such events fit the account and all above it."""
    path = ledger.path(t, name)
    return largest_count(lambda many: _fit(t, path, many), event, _MOST_COUNTED)


def forecast(
    ledger: Ledger,
    t: Reader,
    name: str,
    event: PrivacyEvent | None = None,
    *,
    window: float = DAY,
) -> Forecast:
    """How many more events fit, and when the account is used up at the rate of the last day.

    Args:
        event: what will be asked; None takes the latest charge on the account or below it.
        window: seconds to look back.
    """
    if not 0 < window < float("inf"):
        raise InvalidInput(f"window must be a number of seconds above 0, found {window}")
    node = ledger.node(t, name)
    now = max(ledger.now(), ledger.node(t, node.account.root).balance.time)
    entries = recent_charges(ledger, t, name, since=now - window, at_least=1)
    if event is None and entries:
        event = event_from(entries[0].event)
    more = 0 if event is None else how_many(ledger, t, name, event)
    recent = [entry for entry in entries if entry.time >= now - window]
    hours = window / 3600
    hourly_share = share_of_charges(node, recent) / hours
    left = 1 - share_of(t, node)
    ends = now + 3600 * left / hourly_share if hourly_share > 0 else None
    return Forecast(name, more, len(recent) / hours, hourly_share, ends)


def recent_charges(
    ledger: Ledger, t: Reader, name: str, *, since: float, at_least: int = 0
) -> list[Entry]:
    """Charges on an account or below it, the latest first: since then, and at least that many."""
    root = ledger.node(t, name).account.root
    names = {name, *(node.account.name for node in ledger.below(t, name))}
    found: list[Entry] = []
    after: int | None = None
    while page := t.scan(ENTRIES, root, after=after, limit=_PAGE, descending=True):
        for entry in page:
            if entry.time < since and len(found) >= at_least:
                return found
            if entry.act == Act.CHARGED and entry.account in names:
                found.append(entry)
        after = page[-1].number
    return found


def share_of_charges(node: AccountNode, entries: Sequence[Entry]) -> float:
    """Of the account's budget, what these cost together; 0 for a plan."""
    account = node.account
    if account.is_plan or account.measure is None:
        return 0.0
    total = account.measure.nothing
    for entry in entries:  # below a parallel account this is more than it pays: a safe forecast
        total = account.measure.plus(total, cost_of(entry)) if entry.cost else total
    return consumed(total, account.budgets)


def _fit(t: Reader, path: list[AccountNode], event: PrivacyEvent) -> bool:
    try:
        effect_of(t, path, event)
    except BudgetExceeded:
        return False
    return True


def _moves(
    path: list[AccountNode], before: list[float], after: list[float]
) -> tuple[tuple[str, float, float], ...]:
    names = [node.account.name for node in path]
    return tuple(zip(names, before, after, strict=True))
