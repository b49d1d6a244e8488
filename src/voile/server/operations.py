"""Routes for whoever runs the service: is it well, its figures, and its description."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, JSONResponse

from voile.app.rules import measures_and_waiting
from voile.core.errors import VoileError
from voile.server.answering import FOR_OPERATORS, OneService, Service, service_of
from voile.server.metrics import CONTENT_TYPE
from voile.views.pages import interface_html

router = APIRouter(tags=["operations"])


@router.get("/healthz")
@router.get("/v2/health/live")
async def is_alive() -> Response:
    """Whether the process answers."""
    return JSONResponse({"live": True})


@router.get("/readyz")
@router.get("/v2/health/ready")
async def is_ready(request: Request) -> Response:
    """Whether it can answer: the database is there, and it was not told to stop."""
    service = service_of(request)
    ready = not service.leaving and await asyncio.to_thread(_reads, service)
    return JSONResponse({"ready": ready}, 200 if ready else 503)


@router.get("/metrics", dependencies=[FOR_OPERATORS])
async def show_metrics(service: OneService) -> Response:
    """Figures for Prometheus."""
    unsigned = await asyncio.to_thread(lambda: service.workspace.vault.unsigned)
    service.metrics.unsigned.set(unsigned)
    measures, waiting = await asyncio.to_thread(measures_and_waiting, service.workspace)
    service.metrics.measures.set(measures)
    service.metrics.undelivered.set(waiting)
    service.metrics.load.set(service.load.now)
    service.metrics.shed.set(service.load.shed)
    return Response(service.metrics.exposition(), media_type=CONTENT_TYPE)


@router.get("/openapi.json", dependencies=[FOR_OPERATORS])
async def show_description(request: Request) -> dict[str, Any]:
    """This interface (OpenAPI)."""
    found: dict[str, Any] = request.app.openapi()
    return found


@router.get("/docs", dependencies=[FOR_OPERATORS])
async def show_page(request: Request) -> HTMLResponse:
    """This interface as a page without scripts."""
    return HTMLResponse(interface_html(request.app.openapi()))


def _reads(service: Service) -> bool:
    vault = service.workspace.vault
    try:
        vault.storage.read_snapshot(vault.log.head)
    except VoileError:
        return False
    return True
