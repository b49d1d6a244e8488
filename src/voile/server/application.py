"""The application: routes, what they share, and its beginning and end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from voile._version import __version__
from voile.app.serving import ServedWorkspace
from voile.core.errors import VoileError
from voile.server import budgets, explanations, inference, log, operations
from voile.server.answering import Service
from voile.server.edge import Edge
from voile.server.problems import MEDIA_TYPE, answer_error

_TITLE: Final = "voile"
_ABOUT: Final = "Explanations of machine-learning models that are safe to publish."
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
    service = Service.of_workspace(workspace)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.leaving = True
        await service.gathering.drain()

    app = FastAPI(
        title=_TITLE,
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        responses={"default": {"description": "A problem (RFC 9457)", "content": _problems()}},
    )
    app.state.service = service
    for each in (explanations, inference, budgets, log, operations):
        app.include_router(each.router)
    for kind in (VoileError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer_error)
    app.add_middleware(Edge, metrics=service.metrics, largest=workspace.settings.largest_body)
    return app


def _problems() -> dict[str, Any]:
    return {MEDIA_TYPE: {"schema": _PROBLEM}}
