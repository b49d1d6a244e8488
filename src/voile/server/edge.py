"""What every request passes on its way in and out.

A request gets an identifier of our own, never one that was sent. Its body has a limit. Every answer
has the headers that browsers heed. A line of the log and the figures name the route, the key by its
public name and the status: no address, no body and no value.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voile.server.metrics import Metrics
from voile.server.problems import Problem, of_status
from voile.server.tracing import RequestSpan, Tracing

LOG: Final = logging.getLogger("voile.server")
REQUEST_ID: Final = "x-request-id"
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "strict-transport-security": "max-age=31536000",
    "cache-control": "no-store",
}
LONGEST_BODY = 30.0
"""Seconds in which the body of a request has to arrive: who sends it slowly holds up a place."""
_FAULT: Final = Problem(500, "fault", "The service failed")
_NO_ROUTE: Final = "none"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _identifiers() -> Iterator[str]:
    """Random ones, drawn many at a time: each draw lets another thread run for a while."""
    while True:
        drawn = secrets.token_hex(_DRAWN * _BYTES)
        for first in range(0, len(drawn), 2 * _BYTES):
            yield drawn[first : first + 2 * _BYTES]


_DRAWN: Final = 512
_BYTES: Final = 8


class Edge:
    """Around the application.

    Args:
        largest: body of a request, in bytes.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, largest: int) -> None:
        self._app, self._metrics, self._largest = app, metrics, largest
        self._tracing = Tracing()
        # Of its own: several services may run in the threads of one process, and a generator that
        # one thread is in raises in another.
        self._identifiers = _identifiers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; what is no request, such as the start of the application, is passed on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passing = _Passing(scope, receive, send, self._largest, next(self._identifiers))
        with self._tracing.span(scope) as span:
            try:
                await self._answer(scope, passing)
            finally:
                self._told(scope, passing, span)

    async def _answer(self, scope: Scope, passing: _Passing) -> None:
        try:
            if passing.declared > self._largest:
                raise HTTPException(413)
            await self._app(scope, passing.receive, passing.send)
        except HTTPException as refused:
            await passing.instead(of_status(refused))
        except Exception as error:
            LOG.error("fault", extra={"facts": {"id": passing.identifier, **_place(error)}})
            await passing.instead(_FAULT)

    def _told(self, scope: Scope, passing: _Passing, span: RequestSpan) -> None:
        route = getattr(scope.get("route"), "path_format", _NO_ROUTE)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        seconds = time.perf_counter() - passing.arrived
        self._metrics.requests.labels(method, route, str(passing.status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        span.finish(f"{method} {route}", passing.status)
        facts = {
            "id": passing.identifier,
            "trace": span.trace,
            "method": method,
            "route": route,
            "status": passing.status,
            "ms": round(1000 * seconds, 1),
            "caller": scope.get("state", {}).get("caller", "nobody"),
        }
        LOG.info("request", extra={"facts": facts})


class _Passing:
    """One request on its way."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, largest: int, identifier: str
    ) -> None:
        self.identifier = identifier
        self.arrived = time.perf_counter()
        self.status = 0
        self.declared = _declared(scope)
        self._receive, self._send = receive, send
        self._left = largest
        self._until = asyncio.get_running_loop().time() + LONGEST_BODY
        self._whole = False

    async def receive(self) -> Message:
        """A part of the body; refused once there is too much of it, or it takes too long."""
        if self._whole:  # what comes now is that somebody hangs up
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408) from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413)
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Adds the headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers[REQUEST_ID] = self.identifier
        await self._send(message)

    async def instead(self, problem: Problem) -> None:
        """A problem, unless an answer was begun: then the connection just ends."""
        if self.status:
            return
        response = problem.response()
        start = {"status": problem.status, "headers": response.raw_headers}
        await self.send({"type": "http.response.start", **start})
        await self.send({"type": "http.response.body", "body": response.body})


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, what happened, and the facts beside it.

    Of other loggers only texts without arguments are written: an argument may be a value.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        own = record.name == LOG.name
        facts = getattr(record, "facts", {}) if own else {}
        told = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": str(record.msg),
            **facts,
        }
        return json.dumps(told)


def _declared(scope: Scope) -> int:
    found = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(found[0]) if found and found[0].isdigit() else 0


def _place(error: Exception) -> dict[str, Any]:
    """Where it happened; its message may hold a value, and is not written."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    places = [f"{frame.name}:{frame.lineno}" for frame in frames]
    return {"error": type(error).__name__, "at": places}
