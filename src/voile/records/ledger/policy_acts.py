"""Rules are set, approval is asked for and given: each an entry of the journal."""

from __future__ import annotations

from dataclasses import dataclass

from voile.core.errors import InvalidInput, Refused
from voile.privacy.accounting.measures import consumed
from voile.privacy.events import PrivacyEvent
from voile.records.ledger.accounts import check_relation
from voile.records.ledger.charging import check_words, effect_or_offer
from voile.records.ledger.event_text import event_from, event_text
from voile.records.ledger.opening import AccountChange, record_act
from voile.records.ledger.policies import AccountPolicy
from voile.records.ledger.tables import APPROVALS, POLICIES, Act, ApprovalRow
from voile.records.ledger.tree import AccountNode, Tree
from voile.records.storage import Reader, Transaction


@dataclass(frozen=True)
class ApprovalStep:
    """A step on the way to an expensive charge, with its entry in the journal.

    Args:
        row: the approval as it stands now.
        change: the entry.
        share: of the account's budget.
    """

    row: ApprovalRow
    change: AccountChange
    share: float

    @property
    def event(self) -> PrivacyEvent:
        return event_from(self.row.event)


def set_policy(
    t: Transaction,
    tree: Tree,
    account: str,
    policy: AccountPolicy,
    *,
    caller: str,
    now: float,
) -> AccountChange:
    """From now on the account has these rules. Its period goes on; a first calendar begins now."""
    path = tree.path(t, account)
    if path[0].account.is_plan:
        raise Refused(f"account {account!r} is a fixed plan: its rules are its list of events")
    before = t.get(POLICIES, account)
    going_on = before is not None and before.renew
    since = before.since if before is not None and going_on else now
    done = record_act(t, tree, path, Act.POLICY, policy.in_words, caller, now)
    write = t.insert if before is None else t.replace
    write(POLICIES, policy.to_row(account, since))
    return done


def request_approval(
    t: Transaction,
    tree: Tree,
    account: str,
    event: PrivacyEvent,
    *,
    purpose: str,
    caller: str,
    now: float,
) -> ApprovalStep:
    """Ask that a charge of this price be approved; refused if it would not fit now."""
    check_words("purpose", purpose)
    path = tree.path(t, account)
    check_relation(event, path[0].account.protected.relation)
    cost = effect_or_offer(t, path, event).cost
    done = record_act(t, tree, path, Act.REQUESTED, purpose, caller, now)
    number = done.entry.rpartition("#")[2]
    row = ApprovalRow(
        account, number, caller, event_text(event), purpose, done.period, done.time, "", ""
    )
    t.insert(APPROVALS, row)
    return ApprovalStep(row, done, _share(path[0], cost))


def approve(
    t: Transaction, tree: Tree, account: str, number: str, *, caller: str, now: float
) -> ApprovalStep:
    """Approve a request of somebody else; the price must still fit."""
    row, path = find_approval(t, account, number), tree.path(t, account)
    if row.caller == caller:
        raise Refused(f"{caller!r} asked for this, so a second person approves it")
    if row.approver:
        raise Refused(f"this was approved by {row.approver!r} already")
    if row.period != path[0].balance.period:
        raise Refused(f"account {account!r} was renewed since; ask again")
    cost = effect_or_offer(t, path, event_from(row.event)).cost
    done = record_act(t, tree, path, Act.APPROVED, f"request {number}", caller, now)
    row = row._replace(approver=caller)
    t.replace(APPROVALS, row)
    return ApprovalStep(row, done, _share(path[0], cost))


def find_approval(t: Reader, account: str, number: str) -> ApprovalRow:
    """A request of an account; `InvalidInput` if there is none."""
    row = t.get(APPROVALS, account, number)
    if row is None:
        raise InvalidInput(f"account {account!r} has no request {number!r}")
    return row


def approvals_of(t: Reader, account: str) -> list[ApprovalRow]:
    """All requests of an account, also those that were used."""
    return t.scan(APPROVALS, account)


def _share(node: AccountNode, cost: tuple[float, ...]) -> float:
    return consumed(cost, node.account.budgets)
