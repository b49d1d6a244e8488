"""The witness over HTTP: `POST /add-checkpoint`, nothing else.

Put it behind whatever ends TLS for you; requests need no secrecy, their signature is what counts.

Anybody may connect, so nobody may hold it up. A connection is closed `LIFETIME` seconds after it
was accepted, whatever it does; and a thousand that drip bytes or say nothing are no more than
`MOST` at a time, because a new one takes the place of the oldest. An honest request is answered
within milliseconds.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from voile.core.errors import StorageFault
from voile.records.audit_log.notes import LARGEST_NOTE
from voile.records.audit_log.witness import Reply, Witness

PATH: Final = "/add-checkpoint"
LIFETIME: Final = 10.0
"""Seconds of a connection, from being accepted to being closed."""
MOST: Final = 128
"""Connections at a time."""
_LARGEST_BODY: Final = LARGEST_NOTE + 64 * 64
_LENGTH = re.compile(r"[0-9]{1,7}", re.ASCII)

_Connection = socket.socket


class WitnessServer(ThreadingHTTPServer):
    """One thread a connection; all of them submit to one storage.

    `server_close` waits until every connection has ended, so that storage can be closed after it.
    """

    daemon_threads = False
    request_queue_size = MOST

    def __init__(self, witness: Witness, host: str, port: int) -> None:
        self.witness = witness
        self._since: dict[_Connection, float] = {}  # in order of being accepted
        self._changing = threading.Lock()
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    def serve_until_interrupted(self) -> None:
        """Serve; on Ctrl-C answer what has arrived, end all connections and let go of the port.

        The loop runs in a thread of its own, because Ctrl-C is delivered to the main thread: in the
        middle of accepting a connection it would leave one behind that nobody ends. Until the loop
        runs Ctrl-C is held back; after that the main thread looks up five times a second, because
        a signal that arrives just before it begins to wait does not end an endless wait.
        """
        loop = threading.Thread(target=self.serve_forever)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        loop.start()
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            while loop.is_alive():
                loop.join(0.2)
        finally:
            self.shutdown()
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A new connection, in a thread of its own; the oldest makes room for it."""
        with self._changing:
            self._since[request] = time.monotonic()
            oldest = list(self._since)[: max(0, len(self._since) - MOST)]
        self._end(oldest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Between connections, and twice a second: end those whose time is up."""
        now = time.monotonic()
        with self._changing:
            late = [each for each, since in self._since.items() if now - since > LIFETIME]
        self._end(late)

    def shutdown_request(self, request: Any) -> None:
        with self._changing:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        with self._changing:
            left = list(self._since)
        self._end(left, reading_only=True)  # what has arrived is answered
        super().server_close()

    def handle_error(self, *_: Any) -> None:
        """Whoever hangs up has gone; anything else is told in a line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            sys.stderr.write(f"voile: a request failed: {type(error).__name__}\n")

    def _end(self, connections: list[_Connection], *, reading_only: bool = False) -> None:
        """Wake the thread that waits for bytes: it sees the end of the stream, and ends."""
        for connection in connections:
            with self._changing, suppress(OSError):
                if connection in self._since:
                    connection.shutdown(socket.SHUT_RD if reading_only else socket.SHUT_RDWR)


def serve(witness: Witness, host: str = "127.0.0.1", port: int = 0) -> WitnessServer:
    """A server that is bound already; call `serve_until_interrupted()` on it."""
    return WitnessServer(witness, host, port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = LIFETIME  # of one read; what counts is the server's clock
    server: WitnessServer

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            self.close_connection = True
            self._send(Reply(400, b"expected a Content-Length and a body of moderate size\n"))
        elif self.path != PATH:
            self._send(Reply(404, b"only /add-checkpoint is here\n"))
        else:
            self._send(self._answer(body))

    def _answer(self, body: bytes) -> Reply:
        try:
            return self.server.witness.add_checkpoint(body)
        except StorageFault:
            # Nothing was stored for certain, so nothing is cosigned.
            return Reply(503, b"the witness cannot store its state at the moment\n")

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length) or int(length) > _LARGEST_BODY:
            return None
        body = self.rfile.read(int(length))
        return body if len(body) == int(length) else None

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the operator's proxy keeps the access log."""
