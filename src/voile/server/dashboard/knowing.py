"""Pages about models and federations."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response

from voile.app.dashboard.explaining import askable
from voile.app.dashboard.federations import federation_page
from voile.app.dashboard.frame import EVIDENCE, FEDERATION, MODEL
from voile.app.dashboard.models import model_page
from voile.server.dashboard.door import POLICY, PageRoute, Visitor, evidence_of, may_open, show
from voile.views.dashboard import part_html

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Explaining = Annotated[Visitor, may_open(MODEL)]
Observing = Annotated[Visitor, may_open(FEDERATION)]
Auditing = Annotated[Visitor, may_open(EVIDENCE)]


@router.get("/model")
async def show_models(visitor: Explaining) -> Response:
    """Releases, to choose one."""
    dashboard, caller = visitor.dashboard, visitor.caller
    return await show(
        "releases", "Models", visitor.frame(MODEL.path), lambda: askable(dashboard, caller)
    )


@router.get("/model/{release}")
async def show_model(
    visitor: Explaining, release: str, feature: Annotated[str | None, Query(max_length=300)] = None
) -> Response:
    """How good it is, what matters to it, what is promised."""
    dashboard, caller = visitor.dashboard, visitor.caller
    visitor.service.workspace.release(release, caller)
    return await show(
        "model",
        f"The model of {release}",
        visitor.frame(MODEL.path),
        lambda: model_page(dashboard, caller, release, feature),
    )


@router.get("/federation")
async def show_federation(visitor: Observing) -> Response:
    """Parties and rounds."""
    frame = visitor.frame(FEDERATION.path)
    return await show("federation", "Federation", frame, lambda: federation_page(visitor.dashboard))


@router.get("/evidence")
async def show_evidence(request: Request, visitor: Auditing) -> Response:
    """What log and models show for those who answer for them."""
    frame = visitor.frame(EVIDENCE.path)
    return await show("evidence", EVIDENCE.title, frame, evidence_of(request).page)


@router.get("/federation/rounds")
async def show_rounds(visitor: Observing) -> Response:
    """The part that changes while a federation runs."""
    found = await asyncio.to_thread(federation_page, visitor.dashboard)
    html = part_html("rounds", frame=visitor.frame(FEDERATION.path), page=found)
    return HTMLResponse(html, headers={"Content-Security-Policy": POLICY})
