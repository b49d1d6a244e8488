"""Budgets: the tree of accounts, and one account with what happened to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from voile.app.dashboard.dashboard import Dashboard, sees
from voile.app.dashboard.overview import BurnDown, burn_down_of
from voile.app.dashboard.record_index import CHUNK, RecordQuery
from voile.app.dashboard.records import RecordLine, lines_of
from voile.app.explain.per_record import parent_of_record
from voile.app.serving import Caller, UnknownName
from voile.records.access import Duty, find_account
from voile.records.ledger import (
    AccountShare,
    ApprovalRow,
    Remaining,
    Subtree,
    approvals_of,
    latest_acts,
    remaining,
)
from voile.records.storage import Reader

MOST: Final = 100
"""Accounts on one page."""
_MOST_ACTS: Final = 40
_MOST_REFUSALS: Final = 10


@dataclass(frozen=True)
class BudgetLine:
    """An account in the tree.

    Args:
        public: its name in addresses.
        depth: how many accounts are above it.
    """

    share: AccountShare
    public: str
    depth: int


@dataclass(frozen=True)
class BudgetTree:
    """Accounts, a page of them.

    Args:
        asked: part of a name that was searched for.
        total: how many there are.
        people: how many accounts of single people there are below them; they are not listed.
        first: number of the first line, from 0.
        may_open: whether the reader may open accounts, below one of `parents`.
    """

    asked: str
    lines: tuple[BudgetLine, ...]
    total: int
    people: int
    first: int
    may_open: bool
    parents: tuple[str, ...]


@dataclass(frozen=True)
class AccountAct:
    """A line of the history.

    Args:
        caller, purpose: who and what for; only for those who may see it.
    """

    time: float
    act: str
    account: str
    caller: str
    purpose: str


@dataclass(frozen=True)
class AccountPage:
    """One account.

    Args:
        left: of it and of those above.
        acts: newest first.
        refusals: of the log, newest first.
        names_callers: whether the reader may see who.
        may_renew: whether the reader may start a new period.
        requests: charges that wait for somebody to approve them; for those who may see callers.
    """

    line: BudgetLine
    left: Remaining
    burn_down: BurnDown
    acts: tuple[AccountAct, ...]
    refusals: tuple[RecordLine, ...]
    below: tuple[BudgetLine, ...]
    names_callers: bool
    may_renew: bool
    requests: tuple[ApprovalRow, ...] = ()
    may_approve: bool = False


def budget_tree(
    dashboard: Dashboard, caller: Caller, asked: str = "", first: int = 0
) -> BudgetTree:
    """What this caller may see, parents before children."""
    shares = dashboard.vault.storage.read_snapshot(dashboard.shares)
    seen = dashboard.seen_by(caller, shares)
    found = [line for line in seen if asked.casefold() in line.account.name.casefold()]
    shown = found[first : first + MOST]
    administers = Duty.ADMINISTER in caller.grants.duties
    parents = [s.account.name for s in seen if not s.account.is_plan] if administers else []
    return BudgetTree(
        asked=asked,
        lines=tuple(_lines(dashboard, shown, seen)),
        total=len(found),
        people=sum(line.below for line in seen),
        first=first,
        may_open=administers,
        parents=tuple(parents[:MOST]),
    )


def _lines(
    dashboard: Dashboard, shown: Iterable[AccountShare], seen: Iterable[AccountShare]
) -> list[BudgetLine]:
    parents = {line.account.name: line.account.parent for line in seen}

    def depth(name: str | None) -> int:
        found = -1
        while name is not None and name in parents:
            name, found = parents[name], found + 1
        return max(found, 0)

    public = dashboard.workspace.public_name
    return [BudgetLine(s, public(s.account.name), depth(s.account.name)) for s in shown]


def account_page(dashboard: Dashboard, caller: Caller, public: str) -> AccountPage:
    """One account, by its name in addresses; one that is not covered is not there."""
    dashboard.index.follow(most=CHUNK)

    def read(t: Reader) -> tuple[list[AccountShare], str, Remaining, BurnDown, list[AccountAct]]:
        shares = dashboard.shares(t)
        name = _named(dashboard, t, shares, public)
        if name is None or not sees(caller, name):
            raise UnknownName("there is no account of this name")
        line = next(each for each in shares if each.account.name == name)
        left = remaining(dashboard.vault.ledger, t, name)
        tree = Subtree(name, shares, parent_of_record)
        acts = _acts(dashboard, t, tree, names_callers=_names_callers(caller, name))
        return shares, name, left, burn_down_of(dashboard, t, line, shares), acts

    shares, name, left, burnt, acts = dashboard.vault.storage.read_snapshot(read)
    seen = dashboard.seen_by(caller, shares)
    (line,) = _lines(dashboard, [burnt.line], seen)
    waiting = tuple(
        row
        for row in dashboard.vault.storage.read_snapshot(lambda t: approvals_of(t, name))
        if not row.approver and not row.charge
    )
    refused, _ = dashboard.index.search(RecordQuery("refusal", account=name), most=_MOST_REFUSALS)
    approves = Duty.APPROVE in caller.grants.duties and caller.grants.covers(name)
    return AccountPage(
        line=line,
        left=left,
        burn_down=burnt,
        acts=tuple(acts),
        refusals=tuple(lines_of(dashboard, refused)),
        below=tuple(_lines(dashboard, [s for s in seen if s.account.parent == name][:MOST], seen)),
        names_callers=_names_callers(caller, name),
        may_renew=Duty.ADMINISTER in caller.grants.duties and caller.grants.covers(name),
        requests=waiting if approves or _names_callers(caller, name) else (),
        may_approve=approves,
    )


def _named(dashboard: Dashboard, t: Reader, shares: list[AccountShare], public: str) -> str | None:
    """Also of an account that nobody has named yet: its public name follows from its own."""
    found = find_account(t, public)
    if found is not None:
        return found if any(s.account.name == found for s in shares) else None
    named = dashboard.workspace.public_name
    return next((s.account.name for s in shares if named(s.account.name) == public), None)


def _names_callers(caller: Caller, name: str) -> bool:
    return Duty.OBSERVE in caller.grants.duties and caller.grants.covers(name)


def _acts(
    dashboard: Dashboard, t: Reader, tree: Subtree, *, names_callers: bool
) -> list[AccountAct]:
    found = latest_acts(dashboard.vault.ledger, t, tree, most=1000, fewest=_MOST_ACTS)
    return [
        AccountAct(
            entry.time,
            entry.act,
            entry.account if parent_of_record(entry.account) is None else "one person",
            entry.caller if names_callers else "",
            entry.purpose if names_callers else "",
        )
        for entry in found[:_MOST_ACTS]
    ]
