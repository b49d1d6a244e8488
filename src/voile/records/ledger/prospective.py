"""Charges that are not made yet: do they fit, also on accounts that are not opened yet?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from voile.core.errors import Refused
from voile.records.ledger.accounts import Account, Children, Opening
from voile.records.ledger.balances import Standing
from voile.records.ledger.charging import Charge, check_charge, plan_parts_after, standings_after
from voile.records.ledger.ledger import Ledger
from voile.records.ledger.tree import AccountNode
from voile.records.storage import Reader


def check_fits(ledger: Ledger, t: Reader, parent: Account, charges: Iterable[Charge]) -> None:
    """`BudgetExceeded` unless all charges fit, one after the other. Nothing is written.

    Args:
        parent: the account that is charged, or above the accounts that are. One that is not opened
            yet counts as opened with the promise of its parent (`like_parent`).
    """
    standing: dict[str, Standing] = {}
    for charge in charges:
        path = [
            node._replace(standing=standing.get(node.account.name, node.standing))
            for node in _path(ledger, t, parent, charge.account)
        ]
        account = path[0].account
        check_charge(charge, account)
        if account.is_plan:
            plan_parts_after(t, account, charge.event)
            continue
        assert account.measure is not None
        after = standings_after(path, account.measure.cost(charge.event))
        standing.update(zip((node.account.name for node in path), after, strict=True))


def like_parent(parent: Account, name: str) -> Opening:
    """An account below another one, with the same promise."""
    return Opening(
        name=name,
        protected=parent.protected,
        epsilon=parent.epsilon,
        delta=parent.delta,
        parent=parent.name,
    )


def child_of(parent: Account, name: str) -> Account:
    """What `like_parent` will open."""
    return replace(parent, name=name, parent=parent.name, children=Children.SEQUENTIAL)


def _path(ledger: Ledger, t: Reader, parent: Account, name: str) -> list[AccountNode]:
    """The way up from an account, also if that is not opened yet."""
    if ledger.is_open(t, name):
        path = ledger.path(t, name)
        if name != parent.name and path[0].account.parent != parent.name:
            raise Refused(f"account {name!r} is there already, but not below {parent.name!r}")
        return path
    above = ledger.path(t, parent.name)
    assert parent.measure is not None
    fresh = Standing.fresh(parent.measure.nothing)
    return [AccountNode(child_of(parent, name), above[0].balance, fresh), *above]
