"""How much of every account is used, for somebody who looks often.

The terms of an account never change, and a share changes only with its sums. So whoever looks again
reads one row for each account and computes the shares of those that moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from voile.privacy.accounting.measures import consumed
from voile.records.ledger.accounts import Account
from voile.records.ledger.charging import Risk
from voile.records.ledger.event_text import unpacked
from voile.records.ledger.ledger import Ledger
from voile.records.ledger.tables import (
    ACCOUNTS,
    ALERTS,
    BALANCES,
    ENTRIES,
    PLAN_PARTS,
    Act,
    Balance,
    Entry,
)
from voile.records.ledger.tree import AccountNode, RunningTotals, account_from, share_of
from voile.records.storage import Reader

_PAGE: Final = 500


@dataclass(frozen=True)
class AccountShare:
    """An account, and how much of it is used.

    Args:
        below: how many accounts lie below it that are not listed.
        reserved: the share that was set aside and not used yet: of a plan, which is paid as a
            whole, the parts to come.
    """

    account: Account
    period: int
    share: float
    reserved: float
    below: int = 0

    @property
    def risk(self) -> Risk:
        """As in the budget report."""
        return Risk.from_spending(self.share, self.account.epsilon, self.account.delta)


class AccountShares:
    """Accounts with their shares, remembered between two looks.

    Args:
        folded: of an account that is counted and not listed, the one it is counted for.
    """

    def __init__(self, folded: Callable[[str], str | None]) -> None:
        self._folded = folded
        self._accounts: dict[bytes, Account] = {}
        self._shares: dict[str, tuple[bytes, float]] = {}
        self._counted: dict[str, str | None] = {}

    def look(self, t: Reader) -> list[AccountShare]:
        """All accounts that are listed, parents before children."""
        found: dict[str, AccountShare] = {}
        below: dict[str, int] = {}
        for balance in t.scan(BALANCES):
            name = balance.account
            if name not in self._counted:
                self._counted[name] = self._folded(name)
            counted = self._counted[name]
            if counted is None:
                found[name] = self._line(t, balance)
            else:
                below[counted] = below.get(counted, 0) + 1
        return [_with_below(each, below) for each in in_order(list(found.values()))]

    def _line(self, t: Reader, balance: Balance) -> AccountShare:
        account = self._account(t, balance)
        if account.is_plan:
            parts = t.scan(PLAN_PARTS, account.name)
            share = sum(part.used for part in parts) / sum(part.planned for part in parts)
            return AccountShare(account, balance.period, share, 1 - share)
        sums, share = self._shares.get(account.name, (b"", 0.0))
        if sums != balance.sums:
            share = consumed(RunningTotals.unpack(balance.sums).spent, account.budgets)
            self._shares[account.name] = (balance.sums, share)
        return AccountShare(account, balance.period, share, 0.0)

    def _account(self, t: Reader, balance: Balance) -> Account:
        found = self._accounts.get(balance.terms)
        if found is None:
            row = t.get(ACCOUNTS, balance.terms)
            assert row is not None, "an account has its terms"
            found = self._accounts[balance.terms] = account_from(row)
        return found


def _with_below(line: AccountShare, below: dict[str, int]) -> AccountShare:
    count = below.get(line.account.name, 0)
    if not count:
        return line
    return AccountShare(line.account, line.period, line.share, line.reserved, count)


def in_order(lines: list[AccountShare]) -> list[AccountShare]:
    """Parents before children, trees by name; an account without its parent begins a tree."""
    children: dict[str | None, list[AccountShare]] = {}
    names = {line.account.name for line in lines}
    for line in lines:
        parent = line.account.parent
        children.setdefault(parent if parent in names else None, []).append(line)
    found: list[AccountShare] = []
    waiting = sorted(children.get(None, []), key=lambda line: line.account.name, reverse=True)
    while waiting:
        line = waiting.pop()
        found.append(line)
        below = children.get(line.account.name, [])
        waiting += sorted(below, key=lambda line: line.account.name, reverse=True)
    return found


# --- the last charges of an account ---------------------------------------------------------------


@dataclass(frozen=True)
class SharePoint:
    """How much was used after a moment."""

    time: float
    share: float


@dataclass(frozen=True)
class RecentUse:
    """How the share of an account came about, as far back as was looked.

    Args:
        points: oldest first; the first is where looking began, the last is now.
        charges: so many charges lie between them.
        steps: what each charge took, oldest first.
        whole: whether the points go back to the beginning of the period.
        exact: false where only thresholds are known, because charges do not simply add up.
    """

    points: tuple[SharePoint, ...]
    charges: int
    steps: tuple[float, ...]
    whole: bool
    exact: bool


class Subtree:
    """An account and those below it, told from what was seen of all accounts: a tree may have many.

    Args:
        lines: parents before children.
        folded: of an account that is counted and not listed, the one it is counted for.
    """

    def __init__(
        self, name: str, lines: Sequence[AccountShare], folded: Callable[[str], str | None]
    ) -> None:
        self.name, self._folded = name, folded
        self.names = {name}
        self.adds_up = True
        for line in lines:
            account = line.account
            if account.name == name or account.parent in self.names:
                self.names.add(account.name)
                self.adds_up &= not account.is_parallel and not account.is_plan

    def __contains__(self, account: str) -> bool:
        return account in self.names or self._folded(account) in self.names


def recent_use(ledger: Ledger, t: Reader, tree: Subtree, *, most: int) -> RecentUse:
    """The last charges of an account, from at most so many lines of its tree's journal.

    Charges of a sequential account add up, so its earlier shares are its present one without the
    charges since. Of a parallel account and of a plan, only the thresholds it reached are known.
    """
    node = ledger.node(t, tree.name)
    now = SharePoint(max(ledger.now(), node.balance.time), share_of(t, node))
    if not tree.adds_up or node.account.measure is None:
        return _thresholds(t, node, now)
    entries, whole = _latest(t, node, tree, most)
    return _walked_back(node, now, entries, whole=whole)


def _thresholds(t: Reader, node: AccountNode, now: SharePoint) -> RecentUse:
    alerts = t.scan(ALERTS, node.account.name, node.balance.period)
    reached = [SharePoint(each.time, each.threshold / 100) for each in alerts]
    points = (SharePoint(node.account.opened, 0.0), *reached, now)
    return RecentUse(points, 0, (), whole=True, exact=False)


def _latest(t: Reader, node: AccountNode, tree: Subtree, most: int) -> tuple[list[Entry], bool]:
    """Charges of this period, newest first, and whether these are all."""
    found: list[Entry] = []
    after: int | None = None
    seen = 0
    while seen < most:
        page = t.scan(ENTRIES, node.account.root, after=after, limit=_PAGE, descending=True)
        for entry in page:
            if entry.act == Act.RENEWED and entry.account in (node.account.name, node.account.root):
                return found, True
            if entry.act == Act.CHARGED and entry.account in tree:
                found.append(entry)
        seen += len(page)
        if len(page) < _PAGE:
            return found, True
        after = page[-1].number
    return found, False


def _walked_back(
    node: AccountNode, now: SharePoint, entries: list[Entry], *, whole: bool
) -> RecentUse:
    account = node.account
    assert account.measure is not None
    left = node.standing.spent
    points, steps, share = [now], [], now.share
    for entry in entries:
        points.append(SharePoint(entry.time, share))
        cost = unpacked(entry.cost, 1)[0] if entry.cost else account.measure.nothing
        left = tuple(max(0.0, a - b) for a, b in zip(left, cost, strict=True))
        before = consumed(left, account.budgets)
        steps.append(share - before)
        share = before
        points.append(SharePoint(entry.time, share))
    if whole:
        points.append(SharePoint(min(account.opened, points[-1].time), share))
    return RecentUse(tuple(points[::-1]), len(entries), tuple(steps[::-1]), whole, exact=True)


def latest_charges(t: Reader, root: str, *, most: int) -> list[Entry]:
    """The last charges of a tree, newest first, from at most so many lines of its journal."""
    page = t.scan(ENTRIES, root, limit=most, descending=True)
    return [entry for entry in page if entry.act == Act.CHARGED]


def latest_acts(ledger: Ledger, t: Reader, tree: Subtree, *, most: int, fewest: int) -> list[Entry]:
    """What happened to an account and those below it, newest first.

    Args:
        most: lines of the journal that are read at most.
        fewest: when so many were found, no more are looked for.
    """
    root, seen = ledger.node(t, tree.name).account.root, 0
    found: list[Entry] = []
    after: int | None = None
    while seen < most and len(found) < fewest:
        page = t.scan(ENTRIES, root, after=after, limit=_PAGE, descending=True)
        found += [entry for entry in page if entry.account in tree]
        seen += len(page)
        if len(page) < _PAGE:
            break
        after = page[-1].number
    return found
