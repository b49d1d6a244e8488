"""What the custodian demands beyond the budget: alerts, periods, allowances, a second person.

A policy never grants anything: each rule of it refuses more than the budget does, by public facts
(who asks, when, at what price). Rules of the accounts above hold as well:

1. *period*: with a calendar, nothing is granted after the period has ended. The next period opens
   by a renewal, after a cool-down if there is one.
2. *allowance*: what one caller is charged within one window of the calendar stays within a share of
   the budget.
3. *approval*: what takes more than a share of the budget needs somebody's approval of that price,
   for that caller, in this period; it is used up by the charge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.privacy.accounting.measures import Sums, consumed
from voile.records.ledger.event_text import packed, unpacked
from voile.records.ledger.tables import APPROVALS, POLICIES, USES, ApprovalRow, PolicyRow, UseRow
from voile.records.ledger.tree import AccountNode
from voile.records.storage import Reader, Transaction

THRESHOLDS: Final = (50, 75, 90)
"""Percent of a budget; reaching one is recorded exactly once for each account and period."""
_HOUR: Final = 3600.0
_MOST_KNOWN: Final = 10_000
_ROUNDING: Final = 1e-9
"""Of a share: an allowance is no bound on privacy, and sums are rounded up."""


class Calendar(StrEnum):
    """Spans of time that begin at a fixed moment, in UTC.

    >>> moment = datetime(2026, 11, 19, 21, 30, tzinfo=UTC).timestamp()
    >>> print(datetime.fromtimestamp(Calendar.MONTHLY.end(moment), UTC))
    2026-12-01 00:00:00+00:00
    """

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    YEARLY = "yearly"

    def begin(self, time: float) -> float:
        """When the span around a moment began."""
        day = datetime.fromtimestamp(time, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if self is Calendar.WEEKLY:
            day -= timedelta(days=day.weekday())
        if self in _MONTHS:
            months = _MONTHS[self]
            day = day.replace(day=1, month=1 + (day.month - 1) // months * months)
        return day.timestamp()

    def end(self, time: float) -> float:
        """When the next span begins."""
        begun = datetime.fromtimestamp(self.begin(time), UTC)
        days = {Calendar.DAILY: 1, Calendar.WEEKLY: 7}.get(self, 31 * _MONTHS.get(self, 1))
        # 31 days a month lead into the span that follows, and never over it.
        return self.begin((begun + timedelta(days=days)).timestamp())


_MONTHS: Final = {Calendar.MONTHLY: 1, Calendar.QUARTERLY: 3, Calendar.YEARLY: 12}


@dataclass(frozen=True)
class AccountPolicy:
    """The rules of one account.

    Args:
        thresholds: percents of the budget that are recorded when they are reached.
        renew: when a period ends; None for never.
        cool_down: hours between the end of a period and the next one, in which nothing is granted.
        allowance: the share of the budget that one caller may use in one window; None for all.
        window: of the allowance.
        approval: what takes more than this share of the budget needs approval; None for nothing.

    >>> AccountPolicy(thresholds=(60, 80), renew=Calendar.MONTHLY, approval=0.1).in_words
    'alerts at 60, 80 %; renewed monthly; approval above 10 % of the budget'
    """

    thresholds: tuple[int, ...] = THRESHOLDS
    renew: Calendar | None = None
    cool_down: float = 0.0
    allowance: float | None = None
    window: Calendar = Calendar.DAILY
    approval: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", tuple(self.thresholds))
        object.__setattr__(self, "window", Calendar(self.window))
        if self.renew is not None:
            object.__setattr__(self, "renew", Calendar(self.renew))
        inside = all(isinstance(each, int) and 0 < each <= 100 for each in self.thresholds)
        if not inside or any(a >= b for a, b in pairwise(self.thresholds)):
            raise InvalidInput(
                f"thresholds are whole percents in rising order, found {self.thresholds}"
            )
        for name in ("allowance", "approval"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise InvalidInput(f"{name} is a share of the budget from 0 to 1, found {share}")
        if not 0 <= self.cool_down <= 24 * 366:
            raise InvalidInput(f"a cool-down is a number of hours, found {self.cool_down}")
        if self.cool_down and self.renew is None:
            raise InvalidInput("a cool-down is for accounts that are renewed by the calendar")

    @property
    def in_words(self) -> str:
        """The rules, for the journal and for people."""
        said = [f"alerts at {', '.join(map(str, self.thresholds)) or 'no'} %"]
        if self.renew is not None:
            pause = f" after a cool-down of {self.cool_down:g} hours" if self.cool_down else ""
            said.append(f"renewed {self.renew}{pause}")
        if self.allowance is not None:
            said.append(f"{100 * self.allowance:g} % for each caller, {self.window}")
        if self.approval is not None:
            said.append(f"approval above {100 * self.approval:g} % of the budget")
        return "; ".join(said)

    @classmethod
    def from_row(cls, row: PolicyRow) -> AccountPolicy:
        return cls(
            tuple(map(int, row.thresholds.split())),
            Calendar(row.renew) if row.renew else None,
            row.cool_down,
            None if row.allowance < 0 else row.allowance,
            Calendar(row.span),
            None if row.approval < 0 else row.approval,
        )

    def to_row(self, account: str, since: float) -> PolicyRow:
        return PolicyRow(
            account,
            " ".join(map(str, self.thresholds)),
            "" if self.renew is None else str(self.renew),
            float(self.cool_down),
            -1.0 if self.allowance is None else float(self.allowance),
            str(self.window),
            -1.0 if self.approval is None else float(self.approval),
            since,
        )


USUAL: Final = AccountPolicy()


# --- reading --------------------------------------------------------------------------------------


def policy_of(t: Reader, account: str) -> AccountPolicy:
    """The rules of an account; the usual ones if it has none of its own."""
    row = _row(t, account)
    return USUAL if row is None else AccountPolicy.from_row(row)


def _row(t: Reader, account: str) -> PolicyRow | None:
    """Remembered while nobody else writes, also that there is none."""
    known: dict[str, PolicyRow | None] = t.memory.setdefault(POLICIES.name, {})
    if account not in known:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[account] = t.get(POLICIES, account)
    return known[account]


def due_accounts(t: Reader, now: float) -> list[str]:
    """Accounts whose period and cool-down are over."""
    return [row.account for row in t.scan(POLICIES) if _opens(row) <= now]


def _ends(row: PolicyRow) -> float:
    return Calendar(row.renew).end(row.since) if row.renew else float("inf")


def _opens(row: PolicyRow) -> float:
    return _ends(row) + _HOUR * row.cool_down


def begin_period(t: Transaction, accounts: Iterable[str], now: float) -> None:
    """After a renewal: periods of these accounts begin now."""
    for name in accounts:
        row = _row(t, name)
        if row is not None:
            t.replace(POLICIES, row._replace(since=now))


# --- deciding -------------------------------------------------------------------------------------


@dataclass
class Permissions:
    """What was permitted within one transaction so far.

    Args:
        used: by account, what the caller of these charges has used.
        approvals: that are used up.
        needed: whatever it costs, the charge needs one.
    """

    used: dict[tuple[str, str], Sums] = field(default_factory=dict)
    approvals: set[str] = field(default_factory=set)
    needed: bool = False


def permit(
    t: Reader,
    path: Sequence[AccountNode],
    price: tuple[str, Sums],
    caller: str,
    now: float,
    so_far: Permissions,
) -> ApprovalRow | None:
    """`BudgetExceeded` if a rule is broken; the approval that the charge uses up, if it needs one.

    Args:
        path: the account that is charged, and all above it.
        price: the event as text, and its cost.
    """
    rows = [(node, _row(t, node.account.name)) for node in path]
    ruled = [(node, row) for node, row in rows if row is not None]
    if not ruled and not so_far.needed:
        return None
    cost = price[1]
    needs = so_far.needed
    for node, row in ruled:
        _check_period(row, now)
        if cost:
            _check_allowance(t, node, row, cost, caller, now, so_far)
            needs |= 0 <= row.approval < consumed(cost, node.account.budgets)
    return _approval(t, path[0], price[0], caller, so_far) if needs else None


def _check_period(row: PolicyRow, now: float) -> None:
    if now >= _ends(row):
        opens = datetime.fromtimestamp(_opens(row), UTC)
        raise _refused(f"the period of account {row.account!r} is over; the next one opens {opens}")


def _check_allowance(
    t: Reader,
    node: AccountNode,
    row: PolicyRow,
    cost: Sums,
    caller: str,
    now: float,
    so_far: Permissions,
) -> None:
    if row.allowance < 0:
        return
    assert node.account.measure is not None
    key = row.account, caller
    used = so_far.used.get(key) or _used(t, row, caller, now) or node.account.measure.nothing
    after = so_far.used[key] = node.account.measure.plus(used, cost)
    share = consumed(after, node.account.budgets)
    if share > row.allowance + _ROUNDING:
        raise _refused(
            f"{caller!r} may use {row.allowance:.1%} of account {row.account!r} {row.span}, has "
            f"used {consumed(used, node.account.budgets):.1%}, and this would make it {share:.1%}"
        )


def _used(t: Reader, row: PolicyRow, caller: str, now: float) -> Sums | None:
    kept = t.get(USES, row.account, caller)
    if kept is None or kept.begun != Calendar(row.span).begin(now):
        return None
    return unpacked(kept.sums, 1)[0]


def record_use(
    t: Transaction, path: Sequence[AccountNode], cost: Sums, caller: str, now: float
) -> None:
    """Count a granted charge against the allowances of the caller."""
    for node in path:
        row, measure = _row(t, node.account.name), node.account.measure
        if row is None or row.allowance < 0 or not cost or measure is None:
            continue
        total = measure.plus(_used(t, row, caller, now) or measure.nothing, cost)
        write = t.insert if t.get(USES, row.account, caller) is None else t.replace
        write(USES, UseRow(row.account, caller, Calendar(row.span).begin(now), packed(total)))


def _approval(
    t: Reader, node: AccountNode, event: str, caller: str, so_far: Permissions
) -> ApprovalRow:
    """An approval of this very price that is not used up."""
    account, period = node.account.name, node.balance.period
    for row in t.scan(APPROVALS, account):
        asked = row.event, row.caller, row.period
        free = row.approver and not row.charge and row.number not in so_far.approvals
        if free and asked == (event, caller, period):
            so_far.approvals.add(row.number)
            return row
    raise _refused(
        f"this takes so much of account {account!r} that a second person approves it first: "
        f"`voile budget request DATABASE {account!r} --event '{event}' --caller {caller!r}`, then "
        "`voile budget approve`"
    )


def _refused(why: str) -> BudgetExceeded:
    return BudgetExceeded(
        f"Refused by the policy: {why}; nothing was charged", remaining=0.0, requested=1.0
    )
