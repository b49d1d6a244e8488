"""What was written, and what the journal of a tree says about its accounts, in one pass.

However long the journal is, what is kept grows with the number of accounts and of different events
only: a report on a million charges needs no more memory than one on a thousand.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from voile.core.errors import InvalidInput, VoileError
from voile.privacy.accounting import Basic
from voile.privacy.accounting.measures import Measure, Sums, consumed
from voile.privacy.events import Composed, Parallel, PrivacyEvent, Repeated
from voile.records.ledger.accounts import Account
from voile.records.ledger.charging import charge_name
from voile.records.ledger.event_text import event_from, parts_of, unpacked
from voile.records.ledger.tables import (
    ALERTS,
    ANSWERS,
    CHILDREN,
    ENTRIES,
    PLAN_PARTS,
    Act,
    AnswerRow,
    Entry,
)
from voile.records.ledger.tree import AccountNode, RunningTotals, charged
from voile.records.storage import Reader, Table
from voile.records.storage.tables import Key

# --- What was written: the journal's entries and the stored answers, for whoever checks them -----

_PAGE: Final = 500
_PAGE_OF_ANSWERS: Final = 100


def entries_of(t: Reader, root: str) -> Iterator[Entry]:
    """The journal of a tree, a page at a time."""
    after: int | None = None
    while page := t.scan(ENTRIES, root, after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


def entry_at(t: Reader, root: str, number: int) -> Entry | None:
    """One entry of a tree's journal."""
    return t.get(ENTRIES, root, number)


def rows_of_charges(charges: Iterable[str]) -> list[tuple[Table[Any], Key]]:
    """Which records `entry_at` reads for these charges."""
    parts = [charge.rpartition("#") for charge in charges]
    return [(ENTRIES, (root, int(number))) for root, _, number in parts]


def answer_of(t: Reader, entry: Entry) -> AnswerRow | None:
    """The answer that is stored for a charge."""
    return t.get(ANSWERS, entry.query, entry.number)


def all_answers(t: Reader) -> Iterator[AnswerRow]:
    """A page at a time, also within one question that was answered many times."""
    page = t.scan(ANSWERS, limit=_PAGE_OF_ANSWERS)
    while page:
        yield from page
        query, number = page[-1].query, page[-1].number
        page = t.scan(ANSWERS, query, after=number, limit=_PAGE_OF_ANSWERS) or t.scan(
            ANSWERS, after=query, limit=_PAGE_OF_ANSWERS
        )


# --- All balances again, from a list of acts: the journal's, or what the audit log says ----------
# Uses the arithmetic of charges (`tree`) in the order of the acts, so the results must be equal to
# the last bit. Nothing here reads a balance.


@dataclass(frozen=True, kw_only=True)
class Movement:
    """One act, as far as sums are concerned.

    Args:
        account: which account.
        name: the ledger's name for the entry, `ROOT#NUMBER`; empty where the source has none.
        parent, is_plan, is_parallel: of an opening.
        cost: what it costs; empty for a part of a plan, and for an act that costs nothing.
        event: of a charge on a plan: which parts it uses.
    """

    act: Act
    account: str
    name: str = ""
    parent: str | None = None
    is_plan: bool = False
    is_parallel: bool = False
    cost: Sums = ()
    event: str = ""


@dataclass
class RecomputedBalance:
    """One account as the acts make it."""

    parent: str | None
    is_plan: bool
    is_parallel: bool
    standing: RunningTotals
    measure: Measure | None = None
    period: int = 0
    used: Counter[str] = field(default_factory=Counter)
    openings: int = 1

    @property
    def account(self) -> RecomputedBalance:
        return self


class Recomputation:
    """Balances that grow act by act; an act that cannot be is `InvalidInput`."""

    def __init__(self) -> None:
        self.accounts: dict[str, RecomputedBalance] = {}
        self.entries: Counter[str] = Counter()

    def apply(self, movement: Movement, measure: Measure | None) -> None:
        """One more act. `measure` is the tree's, which an opening needs."""
        if movement.act is Act.OPENED:
            self._open(movement, measure)
        path = self._path(movement.account)
        if movement.act is Act.RENEWED:
            self._renew(movement.account)
        if movement.cost:
            steps = [self.accounts[name] for name in path]
            after = charged(steps, movement.cost, steps[0].measure)
            for name, standing in zip(path, after, strict=True):
                self.accounts[name].standing = standing
        elif movement.act is Act.CHARGED and movement.event:
            self.accounts[movement.account].used += parts_of([event_from(movement.event)])
        self.entries[path[-1]] += 1

    def _open(self, movement: Movement, measure: Measure | None) -> None:
        name, before = movement.account, self.accounts.get(movement.account)
        # A root may be opened again, as long as nothing else has happened in its tree.
        if before is not None and (movement.parent, self.entries[name]) != (None, before.openings):
            raise InvalidInput(f"account {name!r} was opened twice")
        if movement.parent is not None and movement.parent not in self.accounts:
            raise InvalidInput(f"account {name!r} was opened before its parent")
        self.accounts[name] = RecomputedBalance(
            movement.parent,
            movement.is_plan,
            movement.is_parallel,
            RunningTotals.fresh((measure or Measure()).nothing),
            measure=measure,
            openings=1 if before is None else before.openings + 1,
        )

    def _path(self, name: str) -> list[str]:
        path = [name]
        while (account := self.accounts.get(path[-1])) is not None and account.parent is not None:
            path.append(account.parent)
        if path[-1] not in self.accounts:
            raise InvalidInput(f"account {path[-1]!r} was never opened")
        return path

    def _renew(self, name: str) -> None:
        account = self.accounts[name]
        account.period += 1
        account.used.clear()
        account.standing = account.standing.renewed(carried=True)
        if account.is_plan:
            return
        for each, below in self.accounts.items():
            if each != name and name in self._path(each):
                below.period += 0 if below.is_plan else 1
                below.standing = below.standing.renewed(carried=False)


def movement_of(entry: Entry, accounts: Mapping[str, Account]) -> Movement:
    """An entry of the journal as an act."""
    account = accounts.get(entry.account)
    if account is None:
        raise InvalidInput(f"account {entry.account!r} of {charge_name(entry)} is not there")
    return Movement(
        act=Act(entry.act),
        account=entry.account,
        name=charge_name(entry),
        parent=account.parent,
        is_plan=account.is_plan,
        is_parallel=account.is_parallel,
        cost=cost_of(entry),
        event=entry.event,
    )


def cost_of(entry: Entry) -> Sums:
    """What an entry says it cost."""
    return unpacked(entry.cost, 1)[0] if entry.cost else ()


def nothing_of(account: Account) -> Sums:
    """The zero of an account's measure."""
    return (Measure() if account.measure is None else account.measure).nothing


class JournalCheck:
    """Takes the entries of journals one by one: gaps, steps back in time, and what they add up to.

    Trees may be taken in turns; the entries of one tree come in its order.
    """

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._expected: dict[str, tuple[int, float]] = {}
        self.found = Recomputation()
        self.problems: list[str] = []

    def take(self, entry: Entry) -> None:
        number, time = self._expected.get(entry.root, (0, -math.inf))
        if entry.number != number:
            self.problems.append(f"{entry.root}: the journal has a gap before {entry.number}")
        if entry.time < time:
            self.problems.append(f"{charge_name(entry)}: the journal runs back in time")
        self._expected[entry.root] = entry.number + 1, max(time, entry.time)
        try:
            movement = movement_of(entry, self._accounts)
            self.found.apply(movement, self._accounts[entry.account].measure)
        except ValueError as error:  # InvalidInput is one
            self.problems.append(f"{charge_name(entry)}: {error}")


def misplaced(t: Reader, nodes: Iterable[AccountNode]) -> list[str]:
    """Accounts that are not listed where their terms say they belong."""
    terms = {(node.account.parent, node.account.name) for node in nodes if node.account.parent}
    listed = {(row.parent, row.child) for row in t.scan(CHILDREN)}
    return [f"{child}: is it below {parent!r}?" for parent, child in sorted(terms ^ listed)]


def forgotten_alerts(t: Reader, nodes: Iterable[AccountNode]) -> list[str]:
    """Accounts that remember another threshold than the last one recorded in their period."""
    recorded: dict[tuple[str, int], int] = {}
    for row in t.scan(ALERTS):
        place = row.account, row.period
        recorded[place] = max(row.threshold, recorded.get(place, 0))
    return [
        f"{balance.account}: alerted at {balance.alerted} %, on record {last} %"
        for _, balance, _ in nodes
        if balance.alerted != (last := recorded.get((balance.account, balance.period), 0))
    ]


def differences(t: Reader, nodes: Iterable[AccountNode], found: Recomputation) -> list[str]:
    """Where stored balances are not what the acts make them; empty if all agree."""
    stored = {node.account.name: node for node in nodes}
    problems = [
        f"{name}: known to one side only" for name in sorted(stored.keys() ^ found.accounts.keys())
    ]
    for name in sorted(stored.keys() & found.accounts.keys()):
        account, balance, standing = stored[name]
        again = found.accounts[name]
        if balance.sums != again.standing.pack():
            sums = again.standing.spent
            problems.append(f"{name}: the ledger says {standing.spent}, the acts add up to {sums}")
        if balance.period != again.period:
            problems.append(f"{name}: period {balance.period}, by the acts {again.period}")
        if account.parent is None and balance.entries != found.entries[name]:
            problems.append(f"{name}: {balance.entries} entries, by the acts {found.entries[name]}")
        if account.is_plan:
            used = {row.event: row.used for row in t.scan(PLAN_PARTS, name) if row.used}
            if used != dict(again.used):
                problems.append(f"{name}: the parts used are not those of the acts")
    return problems


# --------------------------------------------------------------------------------------------------


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
        measure = self._accounts[entry.account].measure
        self._as_it_was.apply(movement, measure)
        if movement.act is not Act.RENEWED:
            self._never_renewed.apply(movement, measure)
        elif movement.cost:  # a plan that is paid for once more
            paid = Movement(act=Act.CHARGED, account=movement.account, cost=movement.cost)
            self._never_renewed.apply(paid, measure)
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
