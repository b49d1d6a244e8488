"""Pages of the dashboard, in the order of its menu."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from voile.app.dashboard.budgets import account_page, budget_tree
from voile.app.dashboard.frame import BUDGETS, OVERVIEW, RECORDS
from voile.app.dashboard.overview import overview
from voile.app.dashboard.records import export_records, prove_record, search_records, show_record
from voile.app.serving import UnknownName
from voile.records.access import Duty
from voile.records.audit_log.publishing import latest_checkpoint
from voile.server import budgets
from voile.server.bodies import OpeningBody, RenewalBody
from voile.server.dashboard.door import (
    PageRoute,
    Visitor,
    as_body,
    as_file,
    find_session,
    frame_of,
    go,
    may,
    may_open,
    page,
    read_form,
    show,
)
from voile.views.assets import find_asset, offline_verifier

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Auditing = Annotated[Visitor, may_open(RECORDS)]
Observing = Annotated[Visitor, may_open(BUDGETS)]
Administering = Annotated[Visitor, may(Duty.ADMINISTER)]
Approving = Annotated[Visitor, may(Duty.APPROVE)]
Number = Annotated[int, Path(ge=0, le=2**62)]
Typed = Annotated[str, Query(max_length=300)]
_TEXT: Final = "text/plain; charset=utf-8"
_LINES: Final = "application/x-ndjson"
_EXPLANATIONS: Final = "/api/v1/explanations"


@router.get("/static/{name}")
async def show_asset(name: str) -> Response:
    """The stylesheet, scripts and the icon; all the same for everybody."""
    found = find_asset(name)
    if found is None:
        raise UnknownName("there is no such file")
    headers = {"Cache-Control": "public, max-age=300"}
    return Response(found.content, media_type=found.media_type, headers=headers)


# --- overview -------------------------------------------------------------------------------------


@router.get("/")
async def show_overview(visitor: Annotated[Visitor, may_open(OVERVIEW)]) -> Response:
    """Is all well, what is near its end, what happened."""
    p95 = visitor.service.metrics.quantile(0.95, _EXPLANATIONS)
    frame = visitor.frame(OVERVIEW.path)
    return await show(
        "overview", "Overview", frame, lambda: overview(visitor.dashboard, visitor.caller, p95)
    )


# --- budgets --------------------------------------------------------------------------------------


@router.get("/budgets")
async def show_budgets(
    visitor: Observing, find: Typed = "", first: Annotated[int, Query(ge=0, le=10**9)] = 0
) -> Response:
    """The tree of accounts."""
    dashboard, caller = visitor.dashboard, visitor.caller
    frame = visitor.frame(BUDGETS.path)
    return await show(
        "budgets", "Budgets", frame, lambda: budget_tree(dashboard, caller, find, first)
    )


@router.post("/budgets")
async def open_budget(request: Request, visitor: Administering) -> Response:
    """Open an account, on record."""
    fields = await read_form(request)
    body = as_body(OpeningBody, fields, empty=("parent",), flags=("parallel",))
    done = await budgets.open_account(body, visitor.service, visitor.caller)
    return go(f"/budgets/{done['account']}")


@router.get("/budgets/{account}")
async def show_account(visitor: Observing, account: str) -> Response:
    """One account: what is left, its forecast, what happened."""
    found = await asyncio.to_thread(account_page, visitor.dashboard, visitor.caller, account)
    frame = visitor.frame(BUDGETS.path)
    return page("account", found.line.share.account.name, frame, found)


@router.post("/budgets/{account}/renew")
async def renew_budget(request: Request, visitor: Administering, account: str) -> Response:
    """Start a new period, on record."""
    fields = await read_form(request)
    body = as_body(RenewalBody, fields)
    await budgets.renew_account(account, body, visitor.service, visitor.caller)
    return go(f"/budgets/{account}")


@router.post("/budgets/{account}/requests/{number}/approve")
async def approve_charge(
    request: Request, visitor: Approving, account: str, number: str
) -> Response:
    """Approve what somebody else asked for, on record."""
    await read_form(request)
    await budgets.approve_charge(account, number, visitor.service, visitor.caller)
    return go(f"/budgets/{account}")


# --- records --------------------------------------------------------------------------------------


@router.get("/records")
async def find_records(
    visitor: Auditing, q: Typed = "", before: Annotated[int | None, Query(ge=0, le=2**62)] = None
) -> Response:
    """Records of the log, by kind, account and date."""
    frame = visitor.frame(RECORDS.path)
    return await show(
        "records", "Records", frame, lambda: search_records(visitor.dashboard, q, before)
    )


@router.get("/records/export")
async def export(visitor: Auditing) -> Response:
    """All records that are signed, a line each."""
    lines = export_records(visitor.dashboard)
    return StreamingResponse(lines, media_type=_LINES, headers=as_file("records.jsonl"))


@router.get("/records/checkpoint")
async def show_checkpoint(visitor: Auditing) -> Response:
    """The latest signed checkpoint."""
    storage = visitor.service.workspace.vault.storage
    found = await asyncio.to_thread(latest_checkpoint, storage)
    if found is None:
        raise UnknownName("no checkpoint was signed yet")
    return Response(found, media_type=_TEXT, headers=as_file("checkpoint.txt"))


@router.get("/records/{number}")
async def show_one_record(visitor: Auditing, number: Number) -> Response:
    """One record with its proof."""
    frame = visitor.frame(RECORDS.path)
    return await show(
        "record", f"Record {number}", frame, lambda: show_record(visitor.dashboard, number)
    )


@router.get("/records/{number}/proof")
async def show_proof(visitor: Auditing, number: Number) -> Response:
    """The proof of one record, as a file."""
    found = await asyncio.to_thread(prove_record, visitor.dashboard, number)
    return Response(found, media_type=_TEXT, headers=as_file(f"record-{number}.tlog-proof"))


@router.get("/verify")
async def show_verifier(request: Request) -> Response:
    """Check a receipt in the browser; anybody may, and nothing is sent."""
    session = await asyncio.to_thread(find_session, request)
    return page("verify", "Check a receipt", frame_of(session), None)


@router.get("/verify/offline")
async def show_offline_verifier() -> Response:
    """The same as one file."""
    return Response(
        offline_verifier(), media_type="text/html", headers=as_file("check-receipt.html")
    )
