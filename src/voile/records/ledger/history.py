"""What the journal of a tree says about one of its accounts, in one pass over the entries.

However long the journal is, what is kept grows with the number of accounts and of different events
only: a report on a million charges needs no more memory than one on a thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from voile.core.errors import VoileError
from voile.privacy.accounting import Basic
from voile.privacy.accounting.measures import Sums, consumed
from voile.privacy.events import Composed, Parallel, PrivacyEvent, Repeated
from voile.records.ledger.accounts import Account
from voile.records.ledger.event_text import event_from, parts_of
from voile.records.ledger.recomputing import Movement, Recomputation, movement_of, nothing_of
from voile.records.ledger.tables import Act, Entry

MOST_POINTS: Final = 500
"""Of a consumption curve."""
Counted: TypeAlias = dict[str, Counter[str]]
"""For each account, how often each event was charged to it."""


@dataclass(frozen=True)
class Point:
    """The consumed share of an account after an act."""

    time: float
    share: float
    act: str


class History:
    """Takes the entries of the journal in their order.

    Args:
        account: whose history.
        accounts: all accounts of the tree.
        below: names of those below the account.
    """

    def __init__(
        self, account: Account, accounts: Mapping[str, Account], below: frozenset[str]
    ) -> None:
        self._account = account
        self._accounts = accounts
        self._concerned = below | {account.name}
        self._renewing = _with_those_above(account, accounts)
        self._as_it_was, self._never_renewed = Recomputation(), Recomputation()
        self._this_period: Counted = {}
        self._ever: Counted = {}
        self._points = _Points(account)
        self.charges = 0
        """On the account and those below it, in this period."""
        self.last_time = account.opened

    def take(self, entry: Entry) -> None:
        movement = movement_of(entry, self._accounts)
        nothing = nothing_of(self._accounts[entry.account])
        self._as_it_was.apply(movement, nothing)
        if movement.act is not Act.RENEWED:
            self._never_renewed.apply(movement, nothing)
        elif movement.cost:  # a plan that is paid for once more
            paid = Movement(act=Act.CHARGED, account=movement.account, cost=movement.cost)
            self._never_renewed.apply(paid, nothing)
        self._points.take(entry, self._as_it_was)
        self.last_time = entry.time
        if movement.act is Act.RENEWED and entry.account in self._renewing:
            self._this_period, self.charges = {}, 0
            _count(entry, self._accounts, self._ever)
            return
        for counted in (self._this_period, self._ever):
            _count(entry, self._accounts, counted)
        self.charges += movement.act is Act.CHARGED and entry.account in self._concerned

    @property
    def spent_ever(self) -> Sums:
        """All charges as if nothing had ever been renewed."""
        return self._never_renewed.accounts[self._account.name].standing.spent

    @property
    def basic_epsilon(self) -> float | None:
        """This period under basic composition; None where an event has no such reading."""
        return self._basic(self._this_period)

    @property
    def basic_epsilon_ever(self) -> float | None:
        return self._basic(self._ever)

    @property
    def curve(self) -> tuple[Point, ...]:
        """The consumed share after acts that moved it, thinned out evenly."""
        return self._points.all()

    def _basic(self, counted: Counted) -> float | None:
        children: dict[str | None, list[str]] = {}
        for each in self._accounts.values():
            children.setdefault(each.parent, []).append(each.name)
        event = _met(self._account, self._accounts, children, counted)
        if event is None:
            return 0.0
        try:
            return Basic().compose(event).epsilon(self._account.delta)
        except (VoileError, OverflowError):
            return None


class _Points:
    """A curve of at most twice `MOST_POINTS`: when it is full, every second point goes."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._planned = parts_of(account.plan).total()
        self._kept = [Point(account.opened, 0.0, Act.OPENED.value)]
        self._latest = self._kept[0]
        self._every, self._seen = 1, 0

    def take(self, entry: Entry, so_far: Recomputation) -> None:
        mine = so_far.accounts.get(self._account.name)
        if mine is None:
            return
        if self._planned:
            share = mine.used.total() / self._planned
        else:
            share = consumed(mine.standing.spent, self._account.budgets)
        if share == self._latest.share:
            return
        self._latest = Point(entry.time, share, entry.act)
        self._seen += 1
        if self._seen % self._every == 0:
            self._kept.append(self._latest)
        if len(self._kept) > 2 * MOST_POINTS:
            self._kept, self._every = self._kept[::2], 2 * self._every

    def all(self) -> tuple[Point, ...]:
        step = -(-len(self._kept) // MOST_POINTS)
        points = self._kept[::step]
        return tuple(points if points[-1] == self._latest else [*points, self._latest])


def _with_those_above(account: Account, accounts: Mapping[str, Account]) -> frozenset[str]:
    names = {account.name}
    while account.parent is not None:
        account = accounts[account.parent]
        names.add(account.name)
    return frozenset(names)


def _count(entry: Entry, accounts: Mapping[str, Account], counted: Counted) -> None:
    """A plan below a filter counts when it is paid."""
    if entry.event and (entry.cost or accounts[entry.account].parent is None):
        counted.setdefault(entry.account, Counter())[entry.event] += 1


def _met(
    account: Account,
    accounts: Mapping[str, Account],
    children: Mapping[str | None, list[str]],
    counted: Counted,
) -> PrivacyEvent | None:
    """What one record can have met below an account, as one event."""
    mine = counted.get(account.name, Counter())
    own: list[PrivacyEvent] = [Repeated(event_from(text), n) for text, n in mine.items()]
    found = (
        _met(accounts[name], accounts, children, counted) for name in children.get(account.name, ())
    )
    below = [event for event in found if event is not None]
    if below and account.is_parallel:
        below = [Parallel(tuple(below))]
    together = (*own, *below)
    return Composed(together) if together else None
