"""Reading accounts: what they promised, where they stand, and the way up to their root."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected
from voile.privacy.accounting.measures import Measure, consumed
from voile.records.ledger.accounts import Account, Children
from voile.records.ledger.balances import RunningTotals
from voile.records.ledger.event_text import event_from, event_text
from voile.records.ledger.tables import (
    ACCOUNTS,
    BALANCES,
    CHILDREN,
    PLAN_PARTS,
    AccountRow,
    Balance,
)
from voile.records.storage import Reader, Transaction

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

    def node(self, t: Reader, name: str) -> AccountNode:
        """One account; `InvalidInput` if there is none of this name."""
        if type(name) is not str:
            raise InvalidInput(f"an account's name is a text, found {name!r:.80}")
        known = _kept(t)
        node = known.get(name)
        if node is None:
            node = self._read(t, name)
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[name] = node
        return node

    def has(self, t: Reader, name: str) -> bool:
        """Whether there is an account of this name."""
        return name in _kept(t) or t.get(BALANCES, name) is not None

    def _read(self, t: Reader, name: str) -> AccountNode:
        balance = t.get(BALANCES, name)
        if balance is None:
            raise InvalidInput(f"there is no account {name!r}; `voile budget show` lists them")
        account = self._known.get(balance.terms) or self._promised(t, balance)
        return AccountNode(account, balance, RunningTotals.unpack(balance.sums))

    def replace(self, t: Transaction, nodes: Sequence[AccountNode]) -> None:
        """Write where accounts stand."""
        known = _kept(t)
        t.replace_all(BALANCES, [node.balance for node in nodes])
        for node in nodes:
            known[node.balance.account] = node
        t.memory[BALANCES.name] = known

    def path(self, t: Reader, name: str) -> list[AccountNode]:
        """The account and all accounts above it, the root last."""
        path = [self.node(t, name)]
        while (above := path[-1].account.parent) is not None:
            path.append(self.node(t, above))
        return path

    def below(self, t: Reader, name: str) -> list[AccountNode]:
        """All accounts below an account, parents before children."""
        found: list[AccountNode] = []
        for row in t.scan(CHILDREN, name):
            found.append(self.node(t, row.child))
            found += self.below(t, row.child)
        return found

    def all(self, t: Reader) -> list[AccountNode]:
        """All accounts of the ledger, each tree from its root down."""
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

    def _promised(self, t: Reader, balance: Balance) -> Account:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        account = _account(balance, t.get(ACCOUNTS, balance.terms))
        self._known[balance.terms] = account
        return account


def _kept(t: Reader) -> dict[str, AccountNode]:
    """Accounts that were read or written while nobody else wrote."""
    known: dict[str, AccountNode] = t.memory.setdefault(BALANCES.name, {})
    return known


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
    kind, _, orders = row.measure.partition(" ")
    measure = Measure(tuple(map(float, orders.split()))) if kind else None
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
    orders = () if account.measure is None else account.measure.orders
    kind = "" if account.measure is None else ("renyi" if orders else "zcdp")
    return AccountRow(
        terms=terms,
        name=account.name,
        **account.protected.texts,
        epsilon=account.epsilon,
        delta=account.delta,
        measure=" ".join([kind, *map(repr, orders)]),
        plan=json.dumps([event_text(event) for event in account.plan]) if account.plan else "",
        parent=account.parent,
        root=account.root,
        children=str(account.children),
        opened=account.opened,
    )
