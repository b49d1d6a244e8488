"""Routes for budgets: who observes them, and who opens and renews them; and for keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from voile.app.budget import approve_request, open_budget, renew_budget, request_approval
from voile.app.budgets import BudgetAct, budget_history
from voile.app.commands.serve import AddKey
from voile.app.keys import (
    all_facts,
    check_accounts,
    check_caller,
    check_may_grant,
    end,
    grants_of,
    issue,
    key_facts,
    may_grant,
)
from voile.app.serving import Caller, NotGranted, ServedWorkspace, UnknownName
from voile.core.errors import Refused
from voile.core.guarantee import Protected
from voile.privacy.events import from_dict
from voile.records.access import Duty, Grants, find_account, list_keys, registered_accounts
from voile.records.ledger import (
    AdaptiveSpending,
    Children,
    Opening,
    approvals_of,
    budget_report,
    forecast,
)
from voile.records.storage import Reader
from voile.server.answering import (
    Administering,
    Approving,
    Explaining,
    Observing,
    OneService,
    Owning,
)
from voile.server.bodies import ChargeBody, KeyBody, OpeningBody, RenewalBody

router = APIRouter(prefix="/api/v1")
_DAY = 86_400.0
_HOUR = 3600.0
Hours = Annotated[float, Query(gt=0, le=8784, allow_inf_nan=False)]


# --- observe -------------------------------------------------------------------------------------


@router.get("/budgets", tags=["budgets"])
async def list_budgets(service: OneService, caller: Observing) -> dict[str, Any]:
    """Accounts that this key covers, with the names they have in addresses."""
    found = await _read(service.workspace, registered_accounts)
    return {
        "budgets": [
            {"account": row.public, "name": row.account}
            for row in found
            if _sees(caller, row.account)
        ]
    }


@router.get("/budgets/{account}", tags=["budgets"])
async def show_budget(account: str, service: OneService, caller: Observing) -> dict[str, Any]:
    """What an account promises, and what is used and left."""
    report: dict[str, Any] = await _about(service.workspace, account, caller, _report)
    return {"account": account, **report}


@router.get("/reports/{account}", tags=["budgets"])
async def show_report(account: str, service: OneService, caller: Observing) -> dict[str, Any]:
    """The whole report: use, risk, and what would lower it."""
    found: dict[str, Any] = await _about(service.workspace, account, caller, _full_report)
    return found


@router.get("/budgets/{account}/forecast", tags=["budgets"])
async def show_forecast(
    account: str, service: OneService, caller: Observing, hours: Hours = 24.0
) -> dict[str, Any]:
    """How many more answers fit, and until when."""

    def find(workspace: ServedWorkspace, t: Reader, name: str) -> dict[str, Any]:
        return asdict(forecast(workspace.vault.ledger, t, name, None, window=_HOUR * hours))

    found: dict[str, Any] = await _about(service.workspace, account, caller, find)
    return found


@router.get("/budgets/{account}/history", tags=["budgets"])
async def show_history(
    account: str,
    service: OneService,
    caller: Owning,
    last: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """What happened to an account and those below it, oldest first; names callers."""

    def find(workspace: ServedWorkspace, t: Reader, name: str) -> list[BudgetAct]:
        return budget_history(workspace.vault.ledger, workspace.vault.log, t, name)

    acts = await _about(service.workspace, account, caller, find)
    shown = acts[-last:]
    return {"acts": [asdict(each) for each in shown], "left_out": len(acts) - len(shown)}


def _report(workspace: ServedWorkspace, t: Reader, name: str) -> dict[str, Any]:
    whole = _full_report(workspace, t, name)
    shown = ("epsilon", "delta", "unit", "relation", "dataset", "consumed", "period", "risk")
    return {key: whole[key] for key in shown if key in whole}


def _full_report(workspace: ServedWorkspace, t: Reader, name: str) -> dict[str, Any]:
    return budget_report(workspace.vault.ledger, t, name).to_dict()


def _sees(caller: Caller, account: str) -> bool:
    """Auditors see all budgets, others those of their accounts."""
    return Duty.AUDIT in caller.grants.duties or caller.grants.covers(account)


async def _about(
    workspace: ServedWorkspace,
    public: str,
    caller: Caller,
    find: Callable[[ServedWorkspace, Reader, str], Any],
) -> Any:
    """About an account, by its public name; one that is not covered is not there."""

    def read(t: Reader) -> Any:
        account = find_account(t, public)
        if account is None or not _sees(caller, account):
            raise UnknownName("there is no account of this name")
        return find(workspace, t, account)

    return await _read(workspace, read)


async def _read(workspace: ServedWorkspace, question: Callable[[Reader], Any]) -> Any:
    return await asyncio.to_thread(workspace.vault.storage.read_snapshot, question)


# --- administer ----------------------------------------------------------------------------------


@router.post("/budgets", tags=["administration"], status_code=201)
async def open_account(
    body: OpeningBody, service: OneService, caller: Administering
) -> dict[str, Any]:
    """Open an account, on record."""
    return await asyncio.to_thread(_open, service.workspace, body, caller)


@router.post("/budgets/{account}/renew", tags=["administration"])
async def renew_account(
    account: str, body: RenewalBody, service: OneService, caller: Administering
) -> dict[str, Any]:
    """Start a new period of an account and all below it, on record."""
    return await asyncio.to_thread(_renew, service.workspace, account, body, caller)


@router.get("/budgets/{account}/requests", tags=["approvals"])
async def show_requests(account: str, service: OneService, caller: Approving) -> dict[str, Any]:
    """Charges that were asked to be approved, with the approvals and the charges that used them."""

    def find(_: ServedWorkspace, t: Reader, name: str) -> list[dict[str, Any]]:
        return [row._asdict() | {"account": account} for row in approvals_of(t, name)]

    return {"requests": await _about(service.workspace, account, caller, find)}


@router.post("/budgets/{account}/requests", tags=["approvals"], status_code=201)
async def request_charge(
    account: str, body: ChargeBody, service: OneService, caller: Explaining
) -> dict[str, Any]:
    """Ask that a second person approve a charge, on record; the price must fit now."""
    return await asyncio.to_thread(_request, service.workspace, account, body, caller)


@router.post("/budgets/{account}/requests/{request}/approve", tags=["approvals"])
async def approve_charge(
    account: str, request: str, service: OneService, caller: Approving
) -> dict[str, Any]:
    """Approve what somebody else asked for, on record. The charge checks the price again."""
    return await asyncio.to_thread(_approve, service.workspace, account, request, caller)


@router.get("/keys", tags=["administration"])
async def show_keys(service: OneService, caller: Administering) -> dict[str, Any]:
    """Keys by their public names; of an administrator of some accounts, those of these accounts."""
    rows = await _read(service.workspace, list_keys)
    return {"keys": all_facts([row for row in rows if _may_end(caller, row.grants)])}


@router.post("/keys", tags=["administration"], status_code=201)
async def issue_key(body: KeyBody, service: OneService, caller: Administering) -> dict[str, Any]:
    """Issue a key, on record. Its secret is in this answer and nowhere else."""
    return await asyncio.to_thread(_issue, service.workspace, body, caller)


@router.delete("/keys/{key}", tags=["administration"])
async def revoke_key(key: str, service: OneService, caller: Administering) -> dict[str, Any]:
    """End a key at once, on record."""
    found = await asyncio.to_thread(_end, service.workspace, key, caller)
    service.identities.forget()
    return found


def _open(workspace: ServedWorkspace, body: OpeningBody, caller: Caller) -> dict[str, Any]:
    parent = None if body.parent is None else workspace.account(body.parent)
    if parent is None and not caller.grants.is_unlimited:
        raise NotGranted("only an administrator of all accounts opens a root")
    if parent is not None:
        caller.check_account(parent)
    opening = Opening(
        name=body.name,
        protected=Protected(body.unit, body.relation, body.dataset, tuple(body.columns)),
        epsilon=body.epsilon,
        delta=body.delta,
        spending=AdaptiveSpending.for_all_kinds(),
        parent=parent,
        children=Children.PARALLEL if body.parallel else Children.SEQUENTIAL,
    )
    vault = workspace.vault
    open_budget(vault.storage, vault.ledger, vault.log, opening, caller=caller.grants.caller)
    workspace.name_accounts(body.name)
    return {"account": workspace.public_name(body.name)}


def _renew(
    workspace: ServedWorkspace, public: str, body: RenewalBody, caller: Caller
) -> dict[str, Any]:
    vault = workspace.vault
    account = _covered(workspace, public, caller)
    who = caller.grants.caller
    done = renew_budget(
        vault.storage, vault.ledger, vault.log, account, reason=body.reason, caller=who
    )
    return {"account": public, "period": done.period}


def _covered(workspace: ServedWorkspace, public: str, caller: Caller) -> str:
    account = workspace.vault.storage.read_snapshot(lambda t: find_account(t, public))
    if account is None or not caller.grants.covers(account):
        raise UnknownName("there is no account of this name")
    return account


def _request(
    workspace: ServedWorkspace, public: str, body: ChargeBody, caller: Caller
) -> dict[str, Any]:
    account, vault = _covered(workspace, public, caller), workspace.vault
    done = request_approval(
        vault.storage,
        vault.ledger,
        vault.log,
        account,
        from_dict(body.event),
        purpose=body.purpose,
        caller=caller.grants.caller,
    )
    return {"account": public, "request": done.row.number, "share": done.share}


def _approve(
    workspace: ServedWorkspace, public: str, request: str, caller: Caller
) -> dict[str, Any]:
    account, vault = _covered(workspace, public, caller), workspace.vault
    who = caller.grants.caller
    done = approve_request(vault.storage, vault.ledger, vault.log, account, request, caller=who)
    return {"account": public, "request": request, "share": done.share}


def _issue(workspace: ServedWorkspace, body: KeyBody, caller: Caller) -> dict[str, Any]:
    stated = body.model_dump(exclude={"caller"}) | {"holder": body.caller}
    command = AddKey.from_request({}, {"workspace": workspace.file.path, **stated})
    grants = grants_of(command)
    try:
        check_may_grant(caller.grants, grants)
        check_caller(workspace.vault, caller.grants, grants)
    except Refused as refused:
        raise NotGranted(str(refused)) from None
    check_accounts(workspace.vault, grants)
    new = issue(workspace.vault, grants, seconds=_DAY * body.days, issuer=caller.name)
    return {"secret": new.text, **key_facts(new.row)}


def _end(workspace: ServedWorkspace, key: str, caller: Caller) -> dict[str, Any]:
    rows = workspace.vault.storage.read_snapshot(list_keys)
    row = next((each for each in rows if each.identifier == key), None)
    if row is None or not _may_end(caller, row.grants):
        raise UnknownName("there is no key of this name")
    return key_facts(end(workspace.vault, key, issuer=caller.name))


def _may_end(caller: Caller, grants: Grants) -> bool:
    """Whoever could have issued it."""
    return may_grant(caller.grants, grants)
