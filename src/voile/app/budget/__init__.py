"""Budgets on record.

- open an account and give it a new budget: `open_budget`, `renew_budget`
- check the ledger against the log, and the log against what is kept elsewhere:
  `voile.app.budget.verification`
"""

from __future__ import annotations

from voile.app.compliance.enforcement import after_renewal
from voile.core.once_each import once_each
from voile.privacy.accounting.measures import Sums
from voile.records.audit_log import (
    AuditLog,
    BudgetOpenedRecord,
    BudgetRenewedRecord,
    Draft,
    Encoded,
)
from voile.records.ledger import Account, AccountChange, Ledger, Opening
from voile.records.ledger.event_text import written
from voile.records.storage import Storage, Transaction

__all__ = ["open_budget", "opened_child_record", "opened_record", "renew_budget"]


# --- Open and renew accounts, on record ----------------------------------------------------------


def open_budget(
    storage: Storage,
    ledger: Ledger,
    log: AuditLog,
    opening: Opening,
    *,
    caller: str,
    again: bool = False,
) -> AccountChange:
    """Open an account; the log says so in the same transaction.

    Args:
        again: it exists and was never used: give it these terms instead.
    """
    act = ledger.reopen if again else ledger.open

    def command(t: Transaction) -> AccountChange:
        done = act(t, opening, caller=caller)
        log.append(t, opened_record(done))
        return done

    return storage.submit(command)


def renew_budget(
    storage: Storage, ledger: Ledger, log: AuditLog, account: str, *, reason: str, caller: str
) -> AccountChange:
    """Start a new period for an account and all below it, on record, with the reason."""

    def command(t: Transaction) -> AccountChange:
        done = ledger.renew(t, account, reason=reason, caller=caller)
        record = BudgetRenewedRecord(
            time=int(done.time),
            account=account,
            period=str(done.period),
            epsilon=done.account.epsilon,
            delta=done.account.delta,
            reason=reason,
            cost=written(done.cost) if done.cost else None,
        )
        log.append(t, record)
        after_renewal(ledger, log, t, account, time=record.time)
        return done

    return storage.submit(command)


def opened_record(done: AccountChange) -> BudgetOpenedRecord:
    """What the log says about an opening."""
    return _opened_record(done.account, done.time, done.cost)


def opened_child_record(parent: Account, done: AccountChange) -> Encoded:
    """The same of an account that has the promise of the one above it."""
    draft = _draft_of_children(parent)
    return draft.filled(time=int(done.time), account=done.account.name)


@once_each
def _draft_of_children(parent: Account) -> Draft:
    return Draft(_opened_record(parent.child(""), 0.0, ()), "time", "account")


def _opened_record(account: Account, time: float, cost: Sums) -> BudgetOpenedRecord:
    return BudgetOpenedRecord(
        time=int(time),
        account=account.name,
        epsilon=account.epsilon,
        delta=account.delta,
        **account.protected.texts,
        parent=account.parent,
        composition=account.composition,
        children=account.children.value,
        cost=written(cost) if cost else None,
    )
