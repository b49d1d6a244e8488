"""The application: routes, what they share, and its beginning and end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from voile._version import __version__
from voile.app.dashboard import Dashboard
from voile.app.dashboard.evidence import EvidenceMaker
from voile.app.serving import ServedWorkspace
from voile.core.errors import VoileError
from voile.records.audit_log import Witness
from voile.records.audit_log.witness import LARGEST_REQUEST
from voile.server import (
    budgets,
    dashboard,
    explanations,
    inference,
    log,
    operations,
    witnessing,
)
from voile.server.answering import Service
from voile.server.edge import Edge
from voile.server.metrics import Metrics
from voile.server.problems import MEDIA_TYPE, answer_error
from voile.server.sign_in import SignIns

_OPEN: Final = frozenset(
    {"/healthz", "/readyz", "/v2", "/v2/health/live", "/v2/health/ready"}
    | {"/witness/add-checkpoint"}
)
_BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key (`voile keys add`), or a token of an OpenID Connect issuer.",
}
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def create_app(workspace: ServedWorkspace) -> FastAPI:
    """The service over an open workspace, for uvicorn or any other ASGI server.

    Args:
        workspace: stays open while the application is used.

    Promises that nothing a request holds appears in an error, a line of the log or a figure.
    """
    service, pages = Service.of_workspace(workspace), Dashboard(workspace)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        pages.start()
        yield
        pages.stop()
        service.leaving = True
        await service.gathering.drain()

    app = _with_routes(FastAPI(lifespan=lifespan, **_settings()))
    app.state.service, app.state.dashboard = service, pages
    app.state.sign_ins = SignIns(service.identities.issuers)
    app.state.evidence, app.state.witness = EvidenceMaker(pages), workspace.witness
    return _behind_edge(app, service.metrics, workspace.settings.largest_body)


def create_witness_app(witness: Witness) -> FastAPI:
    """The route of a witness by itself, with the limits and headers of the service."""
    app = FastAPI(**_settings())
    app.include_router(witnessing.router)
    app.state.witness = witness
    return _behind_edge(app, Metrics(), LARGEST_REQUEST)


def _behind_edge(app: FastAPI, metrics: Metrics, largest: int) -> FastAPI:
    for kind in (VoileError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer_error)
    app.add_middleware(Edge, metrics=metrics, largest=largest)
    return app


def describe() -> dict[str, Any]:
    """The interface (OpenAPI), whichever workspace is served; docs/openapi.json holds it."""
    return _with_routes(FastAPI(**_settings())).openapi()


def _described(app: FastAPI) -> dict[str, Any]:
    """The same of an application: who must say who they are, where nothing else says it."""
    found = FastAPI.openapi(app)
    found.setdefault("components", {})["securitySchemes"] = {"bearer": _BEARER}
    for path, methods in found["paths"].items():
        for operation in methods.values():
            operation["security"] = [] if path in _OPEN else [{"bearer": []}]
    return found


def _with_routes(app: FastAPI) -> FastAPI:
    for each in (explanations, inference, budgets, log, operations, dashboard):
        app.include_router(each.router)
    app.include_router(witnessing.router, prefix="/witness")
    app.openapi = partial(_described, app)  # type: ignore[method-assign]
    return app


def _settings() -> dict[str, Any]:
    """No pages of the framework's own: they load scripts from elsewhere."""
    content = {MEDIA_TYPE: {"schema": _PROBLEM}}
    return {
        "title": "voile",
        "version": __version__,
        "description": "Explanations of machine-learning models that are safe to publish.",
        "docs_url": None,
        "redoc_url": None,
        "openapi_url": None,
        "redirect_slashes": False,  # a redirect repeats what the request calls this host
        "responses": {"default": {"description": "A problem (RFC 9457)", "content": content}},
    }
