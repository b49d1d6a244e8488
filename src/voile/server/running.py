"""Running the application with uvicorn, until SIGTERM or Ctrl-C: what was asked is answered."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from voile.app.serving import ServedWorkspace
from voile.app.serving.handler import ServerAddress
from voile.core.errors import InvalidInput
from voile.server.application import create_app
from voile.server.edge import LOG, JsonLines

_BACKLOG: Final = 512
_KEEP_ALIVE: Final = 15
_MOST_AT_ONCE: Final = 1000
LONGEST_HEAD = 15.0
"""Seconds in which the head of a request has to arrive."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_TURN: Final = 0.0005
"""Seconds for which a thread that answers may go on while connections wait: Python's own 5 ms would
be the larger part of an answer's time."""


def run(workspace: ServedWorkspace, address: ServerAddress, started: Callable[[str], None]) -> str:
    """Serve; returns the address when everything was answered.

    Args:
        started: is told the address once connections are accepted.
    """
    _write_json_lines()
    app = create_app(workspace)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=round(workspace.settings.drain),
        limit_concurrency=_MOST_AT_ONCE,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.private_key,
    )
    listening = _listening(address)
    host, port = listening.getsockname()[:2]
    scheme = "http" if address.certificate is None else "https"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    _keep_what_is_loaded()
    sys.setswitchinterval(_TURN)
    with _outliving_signals():
        started(url)
        uvicorn.Server(config).run(sockets=[listening])
    return url


def _keep_what_is_loaded() -> None:
    """Models and modules stay until the end: looking for garbage among them takes as long as a
    hundred answers, which would wait for it."""
    gc.collect()
    gc.freeze()


class PatientProtocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it; a connection has to bring the head of its request in time.

    uvicorn waits for ever, and a thousand connections that say nothing would keep all others out.
    Bodies have a limit of their own (`edge`), the pause between two requests has uvicorn's.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(LONGEST_HEAD, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


@contextmanager
def _outliving_signals() -> Iterator[None]:
    """uvicorn ends on SIGTERM and Ctrl-C, and then raises the signal again. By default that would
    end the process before the log is signed and the database is closed."""
    before = {each: signal.signal(each, _end_quietly) for each in _ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _end_quietly(*_: object) -> None:
    """The server has ended, or has not begun to listen to signals."""


def _listening(address: ServerAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {address.host} port {address.port}: {error.strerror}; choose "
            "another with --port"
        ) from error


def _write_json_lines() -> None:
    """One line for each request, on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for logger, level in ((LOG, logging.INFO), (logging.getLogger("uvicorn"), logging.WARNING)):
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
