"""Budgets on record.

- open an account and give it a new budget: `open_budget`, `renew_budget`
- check the ledger against the log, and the log against what is kept elsewhere:
  `voile.app.budget.verification`
"""

from __future__ import annotations

from typing import Final

from voile.app.compliance.enforcement import after_renewal
from voile.core.once_each import once_each
from voile.privacy.accounting.measures import Sums
from voile.privacy.events import PrivacyEvent
from voile.records.audit_log import (
    AuditLog,
    BudgetApprovalRecord,
    BudgetOpenedRecord,
    BudgetPolicyRecord,
    BudgetRenewedRecord,
    Draft,
    Encoded,
)
from voile.records.ledger import (
    Account,
    AccountChange,
    AccountPolicy,
    ApprovalRow,
    ApprovalStep,
    Ledger,
    Opening,
)
from voile.records.ledger.event_text import event_for_log, written
from voile.records.storage import Storage, Transaction

__all__ = [
    "approve_request",
    "change_policy",
    "log_approval",
    "open_budget",
    "opened_child_record",
    "opened_record",
    "renew_budget",
    "renew_due",
    "request_approval",
]

CALENDAR_REASON: Final = "by the calendar of the account's policy"


# --- Open and renew accounts, on record ----------------------------------------------------------


def open_budget(
    storage: Storage,
    ledger: Ledger,
    log: AuditLog,
    opening: Opening,
    *,
    caller: str,
    again: bool = False,
    policy: AccountPolicy | None = None,
) -> AccountChange:
    """Open an account; the log says so in the same transaction.

    Args:
        again: it exists and was never used: give it these terms instead.
        policy: rules beyond the budget; the usual ones if None.
    """
    act = ledger.reopen if again else ledger.open

    def command(t: Transaction) -> AccountChange:
        done = act(t, opening, caller=caller)
        log.append(t, opened_record(done))
        if policy is not None:
            _change_policy(t, ledger, log, opening.name, policy, reason="opened", caller=caller)
        return done

    return storage.submit(command)


def renew_budget(
    storage: Storage, ledger: Ledger, log: AuditLog, account: str, *, reason: str, caller: str
) -> AccountChange:
    """Start a new period for an account and all below it, on record, with the reason."""

    def command(t: Transaction) -> AccountChange:
        done = ledger.renew(t, account, reason=reason, caller=caller)
        _log_renewal(t, ledger, log, done, reason)
        return done

    return storage.submit(command)


def renew_due(t: Transaction, ledger: Ledger, log: AuditLog) -> list[AccountChange]:
    """Renew, on record, what is due by the calendars of accounts."""
    done = ledger.renew_due(t)
    for change in done:
        _log_renewal(t, ledger, log, change, CALENDAR_REASON)
    return done


def _log_renewal(
    t: Transaction, ledger: Ledger, log: AuditLog, done: AccountChange, reason: str
) -> None:
    record = BudgetRenewedRecord(
        time=int(done.time),
        account=done.account.name,
        period=str(done.period),
        epsilon=done.account.epsilon,
        delta=done.account.delta,
        reason=reason,
        cost=written(done.cost) if done.cost else None,
    )
    log.append(t, record)
    after_renewal(ledger, log, t, record.account, time=record.time)


# --- Rules beyond the budget, on record -----------------------------------------------------------


def change_policy(
    storage: Storage,
    ledger: Ledger,
    log: AuditLog,
    account: str,
    policy: AccountPolicy,
    *,
    reason: str,
    caller: str,
) -> AccountChange:
    """Give an account other rules; the log says so in the same transaction."""
    return storage.submit(
        lambda t: _change_policy(t, ledger, log, account, policy, reason=reason, caller=caller)
    )


def _change_policy(
    t: Transaction,
    ledger: Ledger,
    log: AuditLog,
    account: str,
    policy: AccountPolicy,
    *,
    reason: str,
    caller: str,
) -> AccountChange:
    done = ledger.set_policy(t, account, policy, caller=caller)
    row = policy.to_row(account, 0.0)
    record = BudgetPolicyRecord(
        time=int(done.time),
        account=account,
        thresholds=row.thresholds,
        renew=row.renew,
        cool_down=row.cool_down,
        allowance=row.allowance,
        window=row.span,
        approval=row.approval,
        reason=reason,
    )
    log.append(t, record)
    return done


def log_approval(t: Transaction, log: AuditLog, row: ApprovalRow, step: str, time: float) -> None:
    """Say in the log that an approval was requested, given or spent."""
    record = BudgetApprovalRecord(
        time=int(time),
        account=row.account,
        request=row.number,
        step=step,
        event=event_for_log(row.event),
        charge=row.charge or None,
    )
    log.append(t, record)


def request_approval(
    storage: Storage,
    ledger: Ledger,
    log: AuditLog,
    account: str,
    event: PrivacyEvent,
    *,
    purpose: str,
    caller: str,
) -> ApprovalStep:
    """Ask, on record, that a charge be approved."""

    def command(t: Transaction) -> ApprovalStep:
        done = ledger.request(t, account, event, purpose=purpose, caller=caller)
        log_approval(t, log, done.row, "requested", done.change.time)
        return done

    return storage.submit(command)


def approve_request(
    storage: Storage, ledger: Ledger, log: AuditLog, account: str, number: str, *, caller: str
) -> ApprovalStep:
    """Approve, on record, what somebody else asked for."""

    def command(t: Transaction) -> ApprovalStep:
        done = ledger.approve(t, account, number, caller=caller)
        log_approval(t, log, done.row, "approved", done.change.time)
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
