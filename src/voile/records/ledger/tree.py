"""Accounts: what they promised, where they stand, the way up, and what a charge moves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected
from voile.privacy.accounting.measures import Measure, Sums, consumed, larger
from voile.records.ledger.accounts import Account, Children
from voile.records.ledger.event_text import event_from, event_text, packed, unpacked
from voile.records.ledger.tables import (
    ACCOUNTS,
    BALANCES,
    CHILDREN,
    PLAN_PARTS,
    POLICIES,
    AccountRow,
    Balance,
    ChildRow,
)
from voile.records.storage import Reader, Table, Transaction
from voile.records.storage.tables import Key

# --- The arithmetic of a tree of accounts: pure functions over running sums ----------------------
# For each account four sums are kept:
#
# - *spent*: what its records can have met in this period. A sequential account adds up; a parallel
#   one has its own charges (*direct*) plus the largest that any account below carried up (*peak*).
# - *carried*: what the account has added to its parent in the parent's period. It outlives a
#   renewal of the account itself, because the parent has not been renewed.
#
# A charge walks from an account up to the root, and at each step says by how much *spent* grew:
# that is what the next account up is charged. A parallel account whose peak does not move
# therefore costs the accounts above it nothing. The proof is in docs/guarantees/ledger.md.
#
# Charging, verifying and drawing the curve of a report all use these functions, so totals
# recomputed from a journal or from the audit log are equal to the last bit.


class RunningTotals(NamedTuple):
    """The four running sums of one account."""

    spent: Sums
    direct: Sums
    peak: Sums
    carried: Sums

    @classmethod
    def fresh(cls, nothing: Sums) -> RunningTotals:
        return cls(nothing, nothing, nothing, nothing)

    @classmethod
    def unpack(cls, content: bytes) -> RunningTotals:
        return cls._make(unpacked(content, 4))

    def pack(self) -> bytes:
        spent, direct, peak, carried = self
        return packed(spent + direct + peak + carried)

    def renewed(self, *, carried: bool) -> RunningTotals:
        """After a renewal; what it carried is kept where only this account is renewed."""
        nothing = tuple(0.0 for _ in self.spent)
        return RunningTotals(nothing, nothing, nothing, self.carried if carried else nothing)


class Kind(Protocol):
    """What matters of an account here."""

    @property
    def is_plan(self) -> bool: ...

    @property
    def is_parallel(self) -> bool: ...


class AccountOnPath(Protocol):
    """One account on the way up."""

    @property
    def account(self) -> Kind: ...

    @property
    def standing(self) -> RunningTotals: ...


def charged(
    path: Sequence[AccountOnPath], cost: Sums, measure: Measure | None
) -> list[RunningTotals]:
    """Where all accounts on a path stand after a charge on its first; the last is the root.

    An account that is not reached keeps the very object.
    """
    after = [step.standing for step in path]
    if measure is None:  # a plan that is a root, whose parts are counted instead
        return after
    plus, growth = measure.plus, measure.growth
    grown = from_below = cost
    for place, step in enumerate(path):
        account = step.account
        spent, direct, peak, carried = before = after[place]
        if account.is_parallel:
            if place == 0:
                direct = plus(direct, cost)
                spent = plus(direct, peak)
            elif (higher := larger(peak, from_below)) != peak:
                peak, spent = higher, plus(direct, higher)
            grown = growth(before.spent, spent)
        elif not account.is_plan:  # a plan is paid whole by those above; its bound is its own list
            spent = plus(spent, grown)
        goes_up = place + 1 < len(path) and any(grown)
        if goes_up:
            carried = from_below = plus(carried, grown)
        standing = RunningTotals(spent, direct, peak, carried)
        if standing != before:
            after[place] = standing
        if not goes_up:
            break
    return after


# -------------------------------------------------------------------------------------------------


_MOST_KNOWN: Final = 10_000
_DEEPEST: Final = 16


class AccountNode(NamedTuple):
    """An account with its running sums."""

    account: Account
    balance: Balance
    standing: RunningTotals


class Tree:
    """Reads and writes accounts; remembers what they promised, which never changes.

    Terms carry a random name of their own. So what is remembered can be told from the terms of an
    account of the same name in another database, or of one whose opening was undone.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Account] = {}
        self._latest: dict[str, Account] = {}
        """As they were when they were last read, by name; the database may have others by now."""
        self.marks: dict[bytes, str] = {}
        """By terms: by which mark the records below an account were named when it was last seen."""

    def node(self, t: Reader, name: str) -> AccountNode:
        """One account; `InvalidInput` if there is none of this name."""
        if type(name) is not str:
            raise InvalidInput(f"an account's name is a text, found {name!r:.80}")
        known = _kept(t)
        node = known.get(name)
        if node is None:
            node = self._read(t, name)
            _keep(known, node)
        return node

    def remembered(self, name: str) -> Account | None:
        """An account as it was last read in this process; it may have got other terms since."""
        return self._latest.get(name)

    def rows(self, names: Iterable[str]) -> list[tuple[Table[Any], Key]]:
        """Which records these accounts and all above them are read from, as far as is known."""
        wanted: dict[str, None] = {}
        for name in names:
            above: str | None = name
            while above is not None and above not in wanted:
                wanted[above] = None
                account = self._latest.get(above)
                above = None if account is None else account.parent
        return [(table, (name,)) for name in wanted for table in (BALANCES, POLICIES)]

    def is_open(self, t: Reader, name: str) -> bool:
        """Whether there is an account of this name."""
        return name in _kept(t) or t.get(BALANCES, name) is not None

    def _read(self, t: Reader, name: str) -> AccountNode:
        balance = t.get(BALANCES, name)
        if balance is None:
            raise InvalidInput(f"there is no account {name!r}; `voile budget show` lists them")
        account = self._known.get(balance.terms)
        if account is None or self._latest.get(name) is not account:
            account = account or _account(balance, t.get(ACCOUNTS, balance.terms))
            self._remember(balance.terms, account)
        return AccountNode(account, balance, RunningTotals.unpack(balance.sums))

    def add(self, t: Transaction, node: AccountNode, row: AccountRow) -> None:
        """Write a new account; `DuplicateRecord` if there is one of its name."""
        known, name = _kept(t), node.account.name
        t.insert(BALANCES, node.balance)
        t.insert(ACCOUNTS, row)
        if node.account.parent is not None:
            _insert_child(t, node.account.parent, name)
        _keep(known, node)
        t.memory[BALANCES.name] = known
        self._remember(row.terms, node.account)  # if this is undone, nobody asks for its terms

    def replace(self, t: Transaction, nodes: Sequence[AccountNode]) -> None:
        """Write where accounts stand."""
        known = _kept(t)
        t.replace_all(BALANCES, [node.balance for node in nodes])
        for node in nodes:
            known[node.balance.account] = node
        t.memory[BALANCES.name] = known

    def path(self, t: Reader, name: str) -> list[AccountNode]:
        """The account and all accounts above it, the root last."""
        node = self.node(t, name)
        path = [node]
        while (above := node.account.parent) is not None:
            node = self.node(t, above)
            path.append(node)
        return path

    def below(self, t: Reader, name: str) -> list[AccountNode]:
        """All accounts below an account, parents before children."""
        found: list[AccountNode] = []
        for row in t.scan(CHILDREN, name):
            found.append(self.node(t, row.child))
            found += self.below(t, row.child)
        return found

    def nodes(self, t: Reader) -> list[AccountNode]:
        """All accounts, each tree from its root down."""
        promised = {row.terms: row for row in t.scan(ACCOUNTS)}
        nodes: dict[str | None, list[AccountNode]] = {}
        for balance in t.scan(BALANCES):
            account = _account(balance, promised.get(balance.terms))
            node = AccountNode(account, balance, RunningTotals.unpack(balance.sums))
            nodes.setdefault(account.parent, []).append(node)

        def from_here(node: AccountNode) -> Iterator[AccountNode]:
            yield node
            for child in nodes.get(node.account.name, ()):
                yield from from_here(child)

        found = [each for root in nodes.get(None, ()) for each in from_here(root)]
        if len(found) < sum(map(len, nodes.values())):
            lost = {each.account.name for each in itertools.chain(*nodes.values())}
            lost -= {each.account.name for each in found}
            raise InvalidInput(f"accounts without a parent: {', '.join(sorted(lost))}")
        return found

    def keep_mark(self, terms: bytes, mark: str | None) -> None:
        """Keep what was seen, for whoever looks."""
        if mark is not None:
            if len(self.marks) >= _MOST_KNOWN:
                self.marks.clear()
            self.marks[terms] = mark

    def _remember(self, terms: bytes, account: Account) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
            self._latest.clear()
        self._known[terms] = self._latest[account.name] = account


def _kept(t: Reader) -> dict[str, AccountNode]:
    """Accounts that were read or written while nobody else wrote."""
    known: dict[str, AccountNode] = t.memory.setdefault(BALANCES.name, {})
    return known


def _keep(known: dict[str, AccountNode], node: AccountNode) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[node.account.name] = node


def first_children(t: Reader) -> dict[tuple[str, str], str | None]:
    """By parent and name: the first account below the one that comes after the other."""
    known: dict[tuple[str, str], str | None] = t.memory.setdefault(CHILDREN.name, {})
    return known


def _insert_child(t: Transaction, parent: str, name: str) -> None:
    """Note that an account lies below another one."""
    known = first_children(t)
    t.insert(CHILDREN, ChildRow(parent, name))
    for (above, after), first in known.items():
        if above == parent and after < name and (first is None or name < first):
            known[above, after] = name
    t.memory[CHILDREN.name] = known


def _account(balance: Balance, row: AccountRow | None) -> Account:
    if row is None:
        raise InvalidInput(f"account {balance.account!r} has lost its terms")
    if row.name != balance.account:  # somebody changed the database by hand
        raise InvalidInput(f"account {balance.account!r} has the terms of {row.name!r}")
    try:
        return account_from(row)
    except (ValueError, Refused) as error:
        raise InvalidInput(f"the terms of account {row.name!r} cannot be read: {error}") from None


def check_depth(path: list[AccountNode]) -> None:
    """A charge rewrites every account on its way: trees are kept shallow."""
    if len(path) >= _DEEPEST:
        raise InvalidInput(f"accounts can be nested at most {_DEEPEST} deep")


def share_of(t: Reader, node: AccountNode) -> float:
    """The consumed share of an account: of its budget, or of the parts of its plan."""
    if not node.account.is_plan:
        return consumed(node.standing.spent, node.account.budgets)
    parts = t.scan(PLAN_PARTS, node.account.name)
    return sum(part.used for part in parts) / sum(part.planned for part in parts)


def account_from(row: AccountRow) -> Account:
    measure = Measure.from_name(row.measure) if row.measure else None
    return Account(
        name=row.name,
        protected=Protected.from_texts(row.unit, row.relation, row.dataset),
        epsilon=row.epsilon,
        delta=row.delta,
        measure=measure,
        plan=tuple(event_from(text) for text in json.loads(row.plan)) if row.plan else (),
        parent=row.parent,
        root=row.root,
        children=Children(row.children),
        opened=row.opened,
    )


def row_from(account: Account, terms: bytes) -> AccountRow:
    measure = account.measure
    return AccountRow(
        terms=terms,
        name=account.name,
        **account.protected.texts,
        epsilon=account.epsilon,
        delta=account.delta,
        measure="" if measure is None else measure.text,
        plan=json.dumps([event_text(event) for event in account.plan]) if account.plan else "",
        parent=account.parent,
        root=account.root,
        children=str(account.children),
        opened=account.opened,
    )
