"""The witness over HTTP: `POST /add-checkpoint`, nothing else.

Put it behind whatever ends TLS for you; requests need no secrecy, their signature is what counts.
"""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from voile.audit_log.notes import LARGEST_NOTE
from voile.audit_log.witness import Reply, Witness
from voile.core.errors import StorageFault

PATH: Final = "/add-checkpoint"
_LARGEST_BODY: Final = LARGEST_NOTE + 64 * 64
_LENGTH = re.compile(r"[0-9]{1,7}", re.ASCII)
_PATIENCE: Final = 10.0
"""Seconds a connection may stay silent."""


class WitnessServer(ThreadingHTTPServer):
    """One thread a connection; all of them submit to one storage."""

    daemon_threads = True

    def __init__(self, witness: Witness, host: str, port: int) -> None:
        self.witness = witness
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"


def serve(witness: Witness, host: str = "127.0.0.1", port: int = 0) -> WitnessServer:
    """A server that is bound already; call `serve_forever()` on it."""
    return WitnessServer(witness, host, port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE
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
