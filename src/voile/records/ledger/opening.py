"""Opening and renewing accounts: one root for each data set and unit, everything else below it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from shlex import quote

from voile.core.errors import DuplicateRecord, InvalidInput, Refused
from voile.core.once_each import once_each
from voile.privacy.accounting.measures import Measure, Sums
from voile.privacy.events import Composed, PrivacyEvent
from voile.records.ledger.accounts import (
    Account,
    AdaptiveSpending,
    Opening,
    PlannedSpending,
    check_name,
)
from voile.records.ledger.charging import (
    Alert,
    charge_name,
    check_words,
    standings_after,
    write_act,
)
from voile.records.ledger.event_text import event_text, packed, parts_of
from voile.records.ledger.history import entries_of, nothing_of
from voile.records.ledger.policies import begin_period
from voile.records.ledger.tables import (
    ACCOUNTS,
    DATASETS,
    PLAN_PARTS,
    AccountRow,
    Act,
    Balance,
    DatasetRow,
    Entry,
    PlanPart,
)
from voile.records.ledger.tree import (
    AccountNode,
    RunningTotals,
    Tree,
    check_depth,
    row_from,
)
from voile.records.storage import Reader, Transaction


@dataclass(frozen=True)
class AccountChange:
    """An act on an account: its entry, what it cost the accounts above, alerts it caused."""

    account: Account
    entry: str
    period: int
    cost: Sums
    time: float
    alerts: tuple[Alert, ...]


def open_account(
    t: Transaction, tree: Tree, opening: Opening, caller: str, now: float
) -> AccountChange:
    """Open an account; a plan below a filter is charged whole to the accounts above it."""
    check_words("caller", caller)
    above = [] if opening.parent is None else tree.path(t, opening.parent)
    account = _account(opening, above, now)
    _claim_dataset(t, account, opening.shares_rows_with)
    terms = secrets.token_bytes(16)
    node = _insert(t, tree, account, row_from(account, terms))
    for text, count in parts_of(account.plan).items():
        t.insert(PLAN_PARTS, PlanPart(account.name, text, count, 0))
    return record_act(t, tree, [node, *above], Act.OPENED, "opened", caller, now)


def open_child(
    t: Transaction, tree: Tree, parent: Account, name: str, caller: str, now: float
) -> AccountChange:
    """Open an account with the promise of the one above it, a filter in its measure.

    So its terms are sound, and its data set belongs to the root already.
    """
    if parent.is_plan:
        raise _below_a_plan(parent)
    check_words("caller", caller)
    check_name("name", name)
    above = tree.path(t, parent.name)
    check_depth(above)
    account = parent.child(name, max(now, above[-1].balance.time))
    common = _row_of_children(parent)
    row = common._replace(terms=secrets.token_bytes(16), name=name, opened=account.opened)
    node = _insert(t, tree, account, row)
    return record_act(t, tree, [node, *above], Act.OPENED, "opened", caller, now)


@once_each
def _row_of_children(parent: Account) -> AccountRow:
    return row_from(parent.child(""), b"")


def _insert(t: Transaction, tree: Tree, account: Account, row: AccountRow) -> AccountNode:
    """A new account, of which nothing was charged yet."""
    standing = RunningTotals.fresh(nothing_of(account))
    balance = Balance(account.name, row.terms, 0, standing.pack(), 0, 0, 0.0)
    node = AccountNode(account, balance, standing)
    try:
        tree.add(t, node, row)
    except DuplicateRecord:
        raise InvalidInput(f"there is an account {account.name!r} already") from None
    return node


def reopen_account(
    t: Transaction, tree: Tree, opening: Opening, caller: str, now: float
) -> AccountChange:
    """Give a root other terms, for the same unit of the same data set, while it is unused.

    Its old terms have granted nothing to anybody, and grant nothing any more. Both openings stay in
    the journal.
    """
    check_words("caller", caller)
    old = tree.node(t, opening.name)
    if opening.parent is not None or not is_unused(t, old):
        raise Refused(
            f"account {opening.name!r} cannot get new terms: it was charged or renewed, or "
            "belongs to a tree"
        )
    before, after = old.account.protected.texts, opening.protected.texts
    if any(before[part] != after[part] for part in ("unit", "dataset")):
        raise Refused(
            f"account {opening.name!r} is for {old.account.protected.difference(opening.protected)}"
            ": other terms are for the same unit of the same data set"
        )
    account, terms = _account(opening, [], max(now, old.balance.time)), secrets.token_bytes(16)
    _claim_dataset(t, account, opening.shares_rows_with)
    standing = RunningTotals.fresh(nothing_of(account))
    balance = old.balance._replace(terms=terms, sums=standing.pack())
    t.insert(ACCOUNTS, row_from(account, terms))
    parts = parts_of(account.plan)
    for part in t.scan(PLAN_PARTS, account.name):
        t.replace(PLAN_PARTS, part._replace(planned=parts.pop(part.event, 0)))
    for text, count in parts.items():
        t.insert(PLAN_PARTS, PlanPart(account.name, text, count, 0))
    path = [AccountNode(account, balance, standing)]
    return record_act(t, tree, path, Act.OPENED, "opened again", caller, now)


def is_unused(t: Reader, node: AccountNode) -> bool:
    """Whether nothing ever happened to an account but being opened: it is a root, and there is no
    charge, no renewal and no account below it."""
    name = node.account.name
    return node.account.parent is None and all(
        (entry.act, entry.account) == (Act.OPENED, name) for entry in entries_of(t, name)
    )


def renew(
    t: Transaction, tree: Tree, name: str, *, reason: str, caller: str, now: float
) -> AccountChange:
    """Start a new period for an account and all below it. Somebody decides that, and says why.

    Accounts above are not renewed: they go on counting. A plan that is renewed runs once more, and
    is charged whole to the accounts above once more; a plan below a renewed filter was paid for
    already, and keeps the parts it has left.
    """
    check_words("reason", reason)
    check_words("caller", caller)
    path = tree.path(t, name)
    below = [] if path[0].account.is_plan else tree.below(t, name)
    first = _renewed(t, tree, path[0], carried=True)
    for node in below:
        _renewed(t, tree, node, carried=False)
    begin_period(t, [name, *(node.account.name for node in below)], now)
    return record_act(t, tree, [first, *path[1:]], Act.RENEWED, reason, caller, now)


def record_act(
    t: Transaction,
    tree: Tree,
    path: list[AccountNode],
    act: Act,
    purpose: str,
    caller: str,
    now: float,
) -> AccountChange:
    """Write the entry; a plan that is opened or renewed is charged to the accounts above it."""
    account, root = path[0].account, path[-1].balance
    paid = account.is_plan and len(path) > 1
    event: PrivacyEvent | None = Composed(account.plan) if paid else None
    cost: Sums = ()
    standings = [node.standing for node in path]
    if event is not None:
        assert account.measure is not None
        cost = account.measure.cost(event)
        standings = standings_after(path, cost)
    entry = Entry(
        root=root.account,
        number=root.entries,
        act=act.value,
        account=account.name,
        period=path[0].balance.period,
        time=max(root.time, now),
        clock_back=int(now < root.time),
        event="" if event is None else event_text(event),
        cost=packed(cost),
        purpose=purpose,
        part="",
        caller=caller,
        query=b"",
        population=0,
    )
    alerts = write_act(t, tree, path, standings, entry)
    return AccountChange(account, charge_name(entry), entry.period, cost, entry.time, alerts)


def _renewed(t: Transaction, tree: Tree, node: AccountNode, *, carried: bool) -> AccountNode:
    balance, plan = node.balance, node.account.is_plan
    standing = node.standing.renewed(carried=carried)
    fresh = not plan or carried  # a plan below what is renewed keeps its period
    alerted = 0 if fresh else balance.alerted
    period = balance.period + int(fresh)
    balance = balance._replace(period=period, sums=standing.pack(), alerted=alerted)
    renewed = AccountNode(node.account, balance, standing)
    tree.replace(t, [renewed])
    if plan and fresh:
        for part in t.scan(PLAN_PARTS, node.account.name):
            t.replace(PLAN_PARTS, PlanPart(part.account, part.event, part.planned, 0))
    return renewed


def _account(opening: Opening, above: list[AccountNode], now: float) -> Account:
    plan = opening.spending.events if isinstance(opening.spending, PlannedSpending) else ()
    spending = opening.spending
    measure = None if isinstance(spending, PlannedSpending) else spending.measure(opening.delta)
    if above:
        measure = _measure_below(opening, above)
    if measure is not None and not plan:
        _check_budget(measure, opening)
    return Account(
        name=opening.name,
        protected=opening.protected,
        epsilon=opening.epsilon,
        delta=opening.delta,
        measure=measure,
        plan=plan,
        parent=opening.parent,
        root=above[-1].account.name if above else opening.name,
        children=opening.children,
        opened=max(now, above[-1].balance.time) if above else now,
    )


def _check_budget(measure: Measure, opening: Opening) -> None:
    if max(measure.budgets(opening.epsilon, opening.delta)) <= 0:
        raise InvalidInput(
            f"in the measure {measure.name} nothing fits (ε = {opening.epsilon:g}, "
            f"δ = {opening.delta:g}): choose larger orders, fewer of them, or a larger epsilon"
        )


def _measure_below(opening: Opening, above: list[AccountNode]) -> Measure:
    """The tree's measure, if the account can be opened where it asks to be."""
    parent = above[0].account
    check_depth(above)
    here = opening.protected.in_dataset(parent.protected.dataset)
    if here != parent.protected:
        raise InvalidInput(
            f"accounts of one tree share the unit and the relation: {parent.name!r} is for "
            f"{parent.protected.difference(here)}"
        )
    if parent.is_plan:
        raise _below_a_plan(parent)
    assert parent.measure is not None
    if parent.measure.is_pure is not (opening.delta == 0):
        raise InvalidInput(
            f"accounts of one tree share the measure: {parent.name!r} has delta = {parent.delta:g},"
            f" this one asks for {opening.delta:g}, and delta is 0 for all of a tree or for none"
        )
    asked = opening.spending.orders if isinstance(opening.spending, AdaptiveSpending) else ()
    if asked and tuple(map(float, asked)) != parent.measure.orders:
        raise InvalidInput(
            f"accounts of one tree share the measure: {parent.name!r} counts in "
            f"{parent.measure.name}, this one asks for the orders {asked}"
        )
    return parent.measure


def _below_a_plan(parent: Account) -> Refused:
    return Refused(
        f"{parent.name!r} is a fixed plan, so no account can be opened below it; open the "
        "root without a plan, and the plan below it"
    )


def _claim_dataset(t: Transaction, account: Account, shares_rows_with: tuple[str, ...]) -> None:
    """Every version that has rows in common with another belongs to the same root.

    So do all declared columns of a data set: what is charged for some of them may tell of others,
    and two roots would not add it up.
    """
    unit = str(account.protected.unit)
    versions = dict.fromkeys((account.protected.dataset, *shares_rows_with))
    owned = [t.get(DATASETS, version, unit) for version in versions]
    for row in owned:
        if row is not None and row.root != account.root:
            raise Refused(
                f"{row.dataset!r} has a root account for the unit {unit!r} already, {row.root!r}, "
                f"and one record must not be charged to two: open {account.name!r} below it "
                f"(--parent {quote(row.root)}; in Python, parent={row.root!r})"
            )
    for version, row in zip(versions, owned, strict=True):
        if row is None:
            t.insert(DATASETS, DatasetRow(version, unit, account.root))
