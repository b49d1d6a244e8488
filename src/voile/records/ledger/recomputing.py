"""All balances again, from a list of acts: the journal's, or what the audit log says.

Uses the arithmetic of `balances` in the order of the acts, so the results must be equal to the last
bit. Nothing here reads a balance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from voile.core.errors import InvalidInput
from voile.privacy.accounting.measures import Measure, Sums
from voile.records.ledger.accounts import Account
from voile.records.ledger.balances import Standing, charged
from voile.records.ledger.charging import charge_name
from voile.records.ledger.event_text import event_from, parts_of
from voile.records.ledger.sums import unpacked
from voile.records.ledger.tables import ALERTS, CHILDREN, PLAN_PARTS, Act, Entry
from voile.records.ledger.tree import AccountNode
from voile.records.storage import Reader


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
class Recomputed:
    """One account as the acts make it."""

    parent: str | None
    is_plan: bool
    is_parallel: bool
    standing: Standing
    period: int = 0
    used: Counter[str] = field(default_factory=Counter)
    openings: int = 1

    @property
    def account(self) -> Recomputed:
        return self


class Recomputation:
    """Balances that grow act by act; an act that cannot be is `InvalidInput`."""

    def __init__(self) -> None:
        self.accounts: dict[str, Recomputed] = {}
        self.entries: Counter[str] = Counter()

    def apply(self, movement: Movement, nothing: Sums) -> None:
        """One more act. `nothing` is the zero of the tree's measure."""
        if movement.act is Act.OPENED:
            self._open(movement, nothing)
        path = self._path(movement.account)
        if movement.act is Act.RENEWED:
            self._renew(movement.account)
        if movement.cost:
            steps = [self.accounts[name] for name in path]
            for name, standing in zip(path, charged(steps, movement.cost), strict=True):
                self.accounts[name].standing = standing
        elif movement.act is Act.CHARGED and movement.event:
            self.accounts[movement.account].used += parts_of([event_from(movement.event)])
        self.entries[path[-1]] += 1

    def _open(self, movement: Movement, nothing: Sums) -> None:
        name, before = movement.account, self.accounts.get(movement.account)
        # A root may be opened again, as long as nothing else has happened in its tree.
        if before is not None and (movement.parent, self.entries[name]) != (None, before.openings):
            raise InvalidInput(f"account {name!r} was opened twice")
        if movement.parent is not None and movement.parent not in self.accounts:
            raise InvalidInput(f"account {name!r} was opened before its parent")
        self.accounts[name] = Recomputed(
            movement.parent,
            movement.is_plan,
            movement.is_parallel,
            Standing.fresh(nothing),
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
            self.found.apply(movement, nothing_of(self._accounts[entry.account]))
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


__all__ = [
    "JournalCheck",
    "Movement",
    "Recomputation",
    "cost_of",
    "differences",
    "forgotten_alerts",
    "misplaced",
    "movement_of",
    "nothing_of",
]
