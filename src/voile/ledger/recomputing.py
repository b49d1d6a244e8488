"""All balances again, from a list of acts: the journal's, or what the audit log says.

Uses the arithmetic of `balances` in the order of the acts, so the results must be equal to the last
bit. Nothing here reads a balance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from voile.core.errors import InvalidInput
from voile.core.storage import Reader
from voile.ledger.accounts import Account
from voile.ledger.balances import Standing, Step, charged
from voile.ledger.event_text import event_from, parts_of
from voile.ledger.measures import Measure, Sums, unpacked
from voile.ledger.tables import BALANCES, ENTRIES, PLAN_PARTS, Act, Entry
from voile.ledger.tree import Node


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

    @property
    def step(self) -> Step:
        return Step(self.is_plan, self.is_parallel, self.standing)


class Recomputation:
    """Balances that grow act by act; an act that cannot be is `InvalidInput`."""

    def __init__(self) -> None:
        self.accounts: dict[str, Recomputed] = {}
        self.entries: Counter[str] = Counter()

    def apply(self, movement: Movement, nothing: Sums) -> None:
        """One more act. `nothing` is the zero of the tree's measure."""
        if movement.act is Act.OPENED:
            if movement.account in self.accounts:
                raise InvalidInput(f"account {movement.account!r} was opened twice")
            self.accounts[movement.account] = Recomputed(
                movement.parent, movement.is_plan, movement.is_parallel, Standing.fresh(nothing)
            )
        path = self._path(movement.account)
        if movement.act is Act.RENEWED:
            self._renew(movement.account)
        if movement.cost:
            steps = [self.accounts[name].step for name in path]
            for name, standing in zip(path, charged(steps, movement.cost), strict=True):
                self.accounts[name].standing = standing
        elif movement.act is Act.CHARGED and movement.event:
            self.accounts[movement.account].used += parts_of([event_from(movement.event)])
        self.entries[path[-1]] += 1

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


def movements_of(entries: Iterable[Entry], accounts: dict[str, Account]) -> Iterator[Movement]:
    """The journal as acts."""
    for entry in entries:
        account = accounts[entry.account]
        yield Movement(
            act=Act(entry.act),
            account=entry.account,
            name=f"{entry.root}#{entry.number}",
            parent=account.parent,
            is_plan=account.is_plan,
            is_parallel=account.is_parallel,
            cost=unpacked(entry.cost, 1)[0] if entry.cost else (),
            event=entry.event,
        )


def nothing_of(account: Account) -> Sums:
    """The zero of an account's measure."""
    return (Measure() if account.measure is None else account.measure).nothing


def differences(t: Reader, nodes: Iterable[Node], found: Recomputation) -> list[str]:
    """Where stored balances are not what the acts make them; empty if all agree."""
    problems: list[str] = []
    stored = {node.account.name: node for node in nodes}
    for name in sorted(stored.keys() ^ found.accounts.keys()):
        problems.append(f"{name}: known to one side only")
    for name in sorted(stored.keys() & found.accounts.keys()):
        balance, again = t.get(BALANCES, name), found.accounts[name]
        assert balance is not None
        if balance.sums != again.standing.pack():
            sums, was = again.standing.spent, Standing.unpack(balance.sums).spent
            problems.append(f"{name}: the ledger says {was}, the acts add up to {sums}")
        if balance.period != again.period:
            problems.append(f"{name}: period {balance.period}, by the acts {again.period}")
        if stored[name].account.parent is None and balance.entries != found.entries[name]:
            problems.append(f"{name}: {balance.entries} entries, by the acts {found.entries[name]}")
        used = {row.event: row.used for row in t.scan(PLAN_PARTS, name) if row.used}
        if stored[name].account.is_plan and used != dict(again.used):
            problems.append(f"{name}: the parts used are not those of the acts")
    return problems


def check_journal(t: Reader, nodes: list[Node]) -> list[str]:
    """Whether all balances are what the journal makes them, and the journal has no gap."""
    accounts = {node.account.name: node.account for node in nodes}
    found, problems = Recomputation(), []
    for root in [each for each in accounts.values() if each.parent is None]:
        entries = t.scan(ENTRIES, root.name)
        if [entry.number for entry in entries] != list(range(len(entries))):
            problems.append(f"{root.name}: the journal has a gap")
        times = [entry.time for entry in entries]
        if times != sorted(times):
            problems.append(f"{root.name}: the journal runs back in time")
        for movement in movements_of(entries, accounts):
            found.apply(movement, nothing_of(accounts[movement.account]))
    return problems + differences(t, nodes, found)


__all__ = [
    "Movement",
    "Recomputation",
    "check_journal",
    "differences",
    "movements_of",
    "nothing_of",
]
