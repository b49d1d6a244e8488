"""Running the application with uvicorn, until SIGTERM or Ctrl-C: what was asked is answered."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from voile.app.server_door import ServerAddress
from voile.app.serving import ServedWorkspace
from voile.core.errors import InvalidInput
from voile.records.audit_log import Witness
from voile.server.application import create_app, create_witness_app
from voile.server.edge import LOG, JsonLines

_BACKLOG: Final = 512
_KEEP_ALIVE: Final = 15
MOST_AT_ONCE = 1000
"""Connections; a new one takes the place of the oldest that is not being answered."""
_WITNESS_DRAIN: Final = 10.0
LONGEST_HEAD = 15.0
"""Seconds in which the head of a request has to arrive."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_TURN: Final = 0.0005
"""Seconds for which a thread that answers may go on while connections wait: Python's own 5 ms would
be the larger part of an answer's time."""


def run(
    workspace: ServedWorkspace,
    address: ServerAddress,
    started: Callable[[str], None],
    stop: threading.Event,
) -> str:
    """Serve; returns the address when everything was answered.

    Args:
        started: is told the address once connections are accepted.
        stop: ends it, as a signal does.
    """
    with _json_lines():
        app = create_app(workspace)
        _keep_what_is_loaded()
        sys.setswitchinterval(_TURN)
        return _run(app, address, started, stop, drain=workspace.settings.drain)


def run_witness(
    witness: Witness,
    address: ServerAddress,
    started: Callable[[str], None],
    stop: threading.Event,
) -> str:
    """The same for a witness alone. Only faults are logged: anybody may ask, and as often as they
    like."""
    with _json_lines(requests=logging.ERROR, server=logging.ERROR):
        app = create_witness_app(witness)
        return _run(app, address, started, stop, drain=_WITNESS_DRAIN)


def _run(
    app: FastAPI,
    address: ServerAddress,
    started: Callable[[str], None],
    stop: threading.Event,
    *,
    drain: float,
) -> str:
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
        timeout_graceful_shutdown=round(drain),
        limit_concurrency=MOST_AT_ONCE,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.private_key,
    )
    server = uvicorn.Server(config)
    listening = _listening(address)
    host, port = listening.getsockname()[:2]
    scheme = "http" if address.certificate is None else "https"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    with _ended_by_signals(server), _ended_by(stop, server):
        started(url)
        server.run(sockets=[listening])
    return url


def _keep_what_is_loaded() -> None:
    """Models and modules stay until the end: looking for garbage among them takes as long as a
    hundred answers, which would wait for it."""
    gc.collect()
    gc.freeze()


class PatientProtocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it; a connection has to bring the head of its request in time.

    uvicorn waits for ever. Where all places are taken, a new connection takes that of the oldest.
    Bodies have a limit of their own (`edge`), the pause between two requests has uvicorn's.
    """

    _waiting: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._wait()
        self._make_room()

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

    def _make_room(self) -> None:
        """uvicorn would refuse everybody while silent connections hold all places."""
        if len(self.connections) < MOST_AT_ONCE:
            return
        others = [
            each
            for each in self.connections
            if isinstance(each, PatientProtocol) and each is not self and not each._is_answered()
        ]
        if others:
            oldest = min(others, key=lambda each: each._since)
            self.connections.discard(oldest)
            oldest.transport.close()

    def _is_answered(self) -> bool:
        """Its request has arrived, the answer has not left."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(LONGEST_HEAD, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


@contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """uvicorn ends on SIGTERM and Ctrl-C, and then raises the signal again. By default that would
    end the process before the log is signed and the database is closed. A signal that comes before
    uvicorn listens to signals ends it as well.

    Signals belong to the main thread; a server in another one is ended otherwise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True

    before = {each: signal.signal(each, end) for each in _ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _ended_by(stop: threading.Event, server: uvicorn.Server) -> Iterator[None]:
    """Whoever set `stop` is obeyed; it is set when the server has ended."""

    def end_when_told() -> None:
        stop.wait()
        server.should_exit = True

    waiting = threading.Thread(target=end_when_told, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        stop.set()
        waiting.join()


def _listening(address: ServerAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {address.host} port {address.port}: {error.strerror}; choose "
            "another with --port"
        ) from error


@contextmanager
def _json_lines(*, requests: int = logging.INFO, server: int = logging.WARNING) -> Iterator[None]:
    """One line for each request, on standard error; afterwards all is logged as before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    levels = {LOG: requests, logging.getLogger("uvicorn"): server}
    before = {each: (each.handlers, each.level, each.propagate) for each in levels}
    for logger, level in levels.items():
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, (handlers, level, propagate) in before.items():
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
