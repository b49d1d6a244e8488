"""A witness: cosigns that a log only grows (c2sp.org/tlog-witness), and answers over HTTP.

It keeps one row for each log, the latest checkpoint it cosigned. Comparing with that row and
replacing it happen in one storage command, durable before the cosignature exists: whatever happens,
this witness never cosigns two checkpoints of one log that do not share one history.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from voile.core.errors import InvalidInput, StorageFault
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.keys import SigningKey
from voile.records.audit_log.merkle import EMPTY_ROOT, is_consistent
from voile.records.audit_log.notes import (
    LARGEST_NOTE,
    BadSignature,
    Checkpoint,
    KeyKind,
    Note,
    VerifierKey,
    decimal,
    hash_from_base64,
    to_base64,
)
from voile.records.storage import Part, Storage, Table, Transaction

SIZE_TYPE: Final = "text/x.tlog.size"
MOST_HASHES: Final = 63


@dataclass(frozen=True)
class CosignedCheckpoint:
    """The latest checkpoint cosigned for a log."""

    origin: str
    size: int
    root: bytes


COSIGNED: Final = Table("witness_cosigned", CosignedCheckpoint, key=("origin",))
PART: Final = Part("witness", (COSIGNED,))


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class AddCheckpointRequest:
    """The body of `add-checkpoint`: `old SIZE`, a consistency proof, an empty line, a note."""

    old_size: int
    proof: tuple[bytes, ...]
    note: bytes

    def __bytes__(self) -> bytes:
        lines = [f"old {self.old_size}", *map(to_base64, self.proof)]
        return "".join(f"{line}\n" for line in lines).encode() + b"\n" + self.note

    @classmethod
    def parse(cls, body: bytes) -> Self:
        head, gap, note = body.partition(b"\n\n")
        old, *hashes = head.decode("ascii", errors="replace").split("\n")
        if not gap or not old.startswith("old ") or len(hashes) > MOST_HASHES:
            raise Malformed("expected `old SIZE`, at most 63 hashes, an empty line, a checkpoint")
        proof = tuple(hash_from_base64(line, "a hash of the proof") for line in hashes)
        return cls(decimal(old.removeprefix("old "), "an old size"), proof, note)


class Witness:
    """Cosigns checkpoints of the logs it knows.

    Args:
        storage: opened with this module's `PART`.
        key: a witness's signing key.
        logs: by origin, the keys that may sign for it.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        storage: Storage,
        key: SigningKey,
        logs: Mapping[str, tuple[VerifierKey, ...]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if key.kind is not KeyKind.WITNESS:
            raise InvalidInput(f"{key.name!r} is a log's key; a witness needs one of its own")
        self.key = key
        self._storage = storage
        self._logs = dict(logs)
        self._clock = clock

    def add_checkpoint(self, body: bytes) -> Reply:
        """Answer one request, in the order of the specification."""
        try:
            request = AddCheckpointRequest.parse(body)
            note = Note.parse(request.note)
            checkpoint = Checkpoint.parse(note.text)
        except Malformed as error:
            return _text(400, str(error))
        if checkpoint.origin not in self._logs:
            return _text(404, "this witness does not know the log")
        if not _is_signed(note, self._logs[checkpoint.origin]):
            return _text(403, "no signature of a key known for this log")
        if request.old_size > checkpoint.size:
            return _text(400, "the old size is larger than the checkpoint's")
        refused = self._storage.submit(lambda t: _advance(t, request, checkpoint))
        if refused is not None:
            return refused
        # Durable by now: nothing inconsistent with this checkpoint will ever be cosigned here.
        return Reply(200, str(self.key.cosign(note.text, int(self._clock()))).encode())


def _is_signed(note: Note, keys: tuple[VerifierKey, ...]) -> bool:
    try:
        return bool(note.signers(keys))
    except BadSignature:
        return False


def _advance(
    transaction: Transaction, request: AddCheckpointRequest, new: Checkpoint
) -> Reply | None:
    """Check against the latest cosigned checkpoint and replace it; a reply if it must not be."""
    latest = transaction.get(COSIGNED, new.origin)
    size, root = (0, EMPTY_ROOT) if latest is None else (latest.size, latest.root)
    known = Reply(409, b"%d\n" % size, SIZE_TYPE)
    if request.old_size != size:
        return known
    if new.size == size and new.root != root:
        return known
    if not is_consistent(size, new.size, request.proof, root, new.root):
        return _text(422, "the consistency proof does not hold")
    write = transaction.insert if latest is None else transaction.replace
    write(COSIGNED, CosignedCheckpoint(new.origin, new.size, new.root))
    return None


def _text(status: int, message: str) -> Reply:
    return Reply(status, f"{message}\n".encode())


# --- The witness over HTTP: `POST /add-checkpoint`, nothing else ---------------------------------
# Put it behind whatever ends TLS for you; requests need no secrecy, their signature is what counts.
#
# Anybody may connect, so nobody may hold it up. A connection is closed `LIFETIME` seconds after it
# was accepted, whatever it does; and a thousand that drip bytes or say nothing are no more than
# `MOST` at a time, because a new one takes the place of the oldest. An honest request is answered
# within milliseconds.


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
