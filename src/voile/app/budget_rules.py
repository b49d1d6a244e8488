"""Rules beyond the budget, approvals, and plans for a number of questions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from voile.app.budget import approve_request, change_policy, request_approval
from voile.app.budgets import BudgetResult, opened_records, policy_from, reading_ledger
from voile.app.calls import Context
from voile.app.commands.budget import (
    ApproveCharge,
    ListApprovals,
    PlanBudget,
    RequestCharge,
    SetBudgetPolicy,
)
from voile.app.output_check import check_outputs
from voile.core.atomic_file import replace_file
from voile.core.choices import chosen
from voile.core.errors import InvalidInput, Refused
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.allocation import HOUR, PublishedAllocation, Query, equal_noise
from voile.privacy.events import Composed, Gaussian, PrivacyEvent, PureDp, to_dict
from voile.records.ledger import (
    ApprovalRow,
    ApprovalStep,
    Ledger,
    approvals_of,
    policy_of,
    remaining,
    would_cost,
)
from voile.records.ledger.event_text import event_from
from voile.records.storage import Reader

EQUAL: Final = "equal"
PUBLISHED: Final = "algorithm-2"


def set_policy(command: SetBudgetPolicy, context: Context) -> BudgetResult:
    """Change the rules of an account, on record."""
    with opened_records(command, context) as vault:
        before = vault.storage.read_snapshot(lambda t: policy_of(t, command.account))
        policy = policy_from(command, before)
        done = change_policy(
            vault.storage,
            vault.ledger,
            vault.log,
            command.account,
            policy,
            reason=command.reason,
            caller=command.caller,
        )
        kept = vault.keep()
    facts = {"account": command.account, "policy": policy.in_words, "entry": done.entry}
    return BudgetResult(facts, kept)


def request_charge(command: RequestCharge, context: Context) -> BudgetResult:
    """Ask for approval, on record."""
    event = _priced(command)
    with opened_records(command, context) as vault:
        done = request_approval(
            vault.storage,
            vault.ledger,
            vault.log,
            command.account,
            event,
            purpose=command.purpose,
            caller=command.caller,
        )
        return BudgetResult(_facts(done), vault.keep())


def approve_charge(command: ApproveCharge, context: Context) -> BudgetResult:
    """Approve a request, on record."""
    with opened_records(command, context) as vault:
        done = approve_request(
            vault.storage,
            vault.ledger,
            vault.log,
            command.account,
            command.request,
            caller=command.caller,
        )
        return BudgetResult(_facts(done), vault.keep())


def list_approvals(command: ListApprovals, _context: Context) -> tuple[ApprovalRow, ...]:
    """Requests of an account, oldest first."""
    with reading_ledger(command.database) as storage:
        found = storage.read_snapshot(lambda t: _approvals(t, command.account))
    return tuple(sorted(found, key=lambda row: row.time))


def _approvals(t: Reader, account: str) -> list[ApprovalRow]:
    Ledger().account(t, account)  # is there
    return approvals_of(t, account)


def _priced(command: RequestCharge) -> PrivacyEvent:
    stated = [command.event, command.noise, command.epsilon]
    if sum(each is not None for each in stated) != 1:
        raise InvalidInput("state the price once: --event, --noise or --epsilon")
    if command.noise is not None:
        return Gaussian(command.noise)
    if command.epsilon is not None:
        return PureDp(command.epsilon)
    assert command.event is not None
    return event_from(command.event)


def _facts(done: ApprovalStep) -> dict[str, Any]:
    row = done.row
    facts = {"account": row.account, "request": row.number, "asked by": row.caller}
    facts |= {"event": row.event, "share": f"{done.share:.1%} of the budget"}
    return facts | ({"approved by": row.approver} if row.approver else {})


# --- plans ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allocation:
    """One way to spend what is left.

    Args:
        policy: its name.
        events: for each question; None where almost nothing is left for it.
        epsilons: of each answer by itself, at `delta`.
        used: the share of the account that all of them use; None if they do not fit together.
    """

    policy: str
    events: tuple[Gaussian | None, ...]
    epsilons: tuple[float, ...]
    used: float | None

    def within(self, noise: float) -> int:
        """How many questions get at most this noise."""
        found = (each.noise_multiplier for each in self.events if each is not None)
        return sum(each <= noise * (1 + 1e-9) for each in found)


@dataclass(frozen=True)
class BudgetPlan:
    """Ways to spend what is left of an account on so many questions; nothing is spent.

    Args:
        delta: at which each answer is read by itself: a share of the account's.
        saved: where the events of the chosen policy were written.
    """

    account: str
    questions: int
    delta: float
    allocations: tuple[Allocation, ...]
    saved: Path | None = None


def plan_budget(command: PlanBudget, context: Context) -> BudgetPlan:
    """Compare equal noise and Algorithm 2 on an account as it stands."""
    chosen({EQUAL: 0, PUBLISHED: 1}, command.policy, "policy")
    page = command.save_as
    if page is not None:
        check_outputs([page], [])
        context.check_overwriting([page], allowed=command.overwrite)
    with reading_ledger(command.database) as storage:
        found = storage.read_snapshot(lambda t: _plan(Ledger(), t, command))
    if page is not None:
        (kept,) = (each for each in found.allocations if each.policy == command.policy)
        events = [to_dict(each) for each in kept.events if each is not None]
        replace_file(page, json.dumps(events).encode())
    return found


def _plan(ledger: Ledger, t: Reader, command: PlanBudget) -> BudgetPlan:
    account = ledger.account(t, command.account)
    if account.delta == 0 or account.is_plan:
        raise Refused(
            "plans are for open budgets with a delta above 0: they propose Gaussian noise"
        )
    delta = account.delta / command.questions
    left = remaining(ledger, t, command.account).available * account.epsilon
    queries = [
        Query(n * command.hours * HOUR, command.kind, command.features)
        for n in range(command.questions)
    ]
    equal = equal_noise(
        lambda event: would_cost(ledger, t, command.account, event).fits, command.questions
    )
    published: list[Gaussian | None] = [None] * command.questions
    if left > 0:
        paper = PublishedAllocation(left, delta)
        published = [paper.event(query, queries[:n]) for n, query in enumerate(queries)]
    return BudgetPlan(
        command.account,
        command.questions,
        delta,
        (
            _allocation(ledger, t, command.account, EQUAL, [equal] * command.questions, delta),
            _allocation(ledger, t, command.account, PUBLISHED, published, delta),
        ),
        command.save_as,
    )


def _allocation(
    ledger: Ledger,
    t: Reader,
    account: str,
    policy: str,
    events: list[Gaussian | None],
    delta: float,
) -> Allocation:
    asked = tuple(each for each in events if each is not None)
    cost = would_cost(ledger, t, account, Composed(asked)) if asked else None
    epsilons = tuple(
        0.0 if each is None else gaussian_epsilon(each.noise_multiplier, delta) for each in events
    )
    used = cost.consumed[0][2] if cost is not None and cost.fits else None
    return Allocation(policy, tuple(events), epsilons, used)
