"""Asks servers on this machine, so many clients at once, and tells how long each answer took.

A process of its own, so that its work is not counted as the server's. It reads a `Load` as JSON and
writes `Answers`. Each client has one connection and asks again as soon as it was answered.

It never leaves the loopback interface, and ends after the requests or the seconds it was given,
whichever is first.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Final

MOST_REQUESTS, MOST_SECONDS, MOST_CLIENTS = 100_000, 120.0, 128
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


@dataclass(frozen=True)
class Load:
    """What to ask.

    Args:
        ports: of the servers; clients are spread over them.
        requests: how many in all; the first `unmeasured` of them are not counted.
        body: of a request; `NUMBER` in it becomes the request's number, from `first` on.
    """

    ports: list[int]
    path: str
    headers: dict[str, str]
    body: str
    clients: int
    requests: int
    first: int = 0
    unmeasured: int = 0
    seconds: float = 60.0
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if not ipaddress.ip_address(self.host).is_loopback:
            raise ValueError(f"only this machine is asked, not {self.host}")
        if self.requests > MOST_REQUESTS or self.clients > MOST_CLIENTS:
            raise ValueError(f"at most {MOST_REQUESTS} requests and {MOST_CLIENTS} clients")
        if self.seconds > MOST_SECONDS:
            raise ValueError(f"at most {MOST_SECONDS} seconds")


@dataclass
class Answers:
    """What came back.

    Args:
        took: seconds of each answer.
        seconds: from the first measured request to the last answer.
        failed: how many had another status than 200.
    """

    took: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failed: int = 0


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._read += data
        if not _is_whole(self._read):
            return
        self._crowd.answered(self._read, self._asked, self._started)
        self._read = b""
        self._ask()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._crowd.left()

    def _ask(self) -> None:
        number = self._crowd.next()
        if number is None:
            self._transport.close()
            return
        self._asked, message = number, self._crowd.message(number)
        self._started = time.perf_counter()
        self._transport.write(message)


def _is_whole(read: bytes) -> bool:
    head, end, body = read.partition(_END)
    if not end:
        return False
    lines = [line for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH)]
    return len(body) >= int(lines[0].removeprefix(_LENGTH))


class Crowd:
    """All clients of a load."""

    def __init__(self, load: Load) -> None:
        self.load, self.found = load, Answers()
        self._next, self._connected = 0, load.clients
        self._before, _, self._after = load.body.partition("NUMBER")
        self._head = "".join(f"{name}: {value}\r\n" for name, value in load.headers.items())
        self._until = time.monotonic() + load.seconds
        self._started = 0.0
        self.done = asyncio.Event()

    def next(self) -> int | None:
        """Number of the next request; None once it was enough."""
        number = self._next
        if number >= self.load.requests or time.monotonic() > self._until:
            return None
        self._next += 1
        if number == self.load.unmeasured:
            self._started = time.perf_counter()
        return number

    def message(self, number: int) -> bytes:
        """One request."""
        body = f"{self._before}{self.load.first + number}{self._after}"
        return (
            f"POST {self.load.path} HTTP/1.1\r\nHost: {self.load.host}\r\n{self._head}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def answered(self, answer: bytes, number: int, started: float) -> None:
        """Note one answer."""
        now = time.perf_counter()
        self.found.failed += not answer.startswith(b"HTTP/1.1 200")
        if number >= self.load.unmeasured:
            self.found.took.append(now - started)
            self.found.seconds = now - self._started

    def left(self) -> None:
        """A connection ended; the last one ends it all."""
        self._connected -= 1
        if not self._connected:
            self.done.set()


async def ask(load: Load) -> Answers:
    """All of it."""
    loop, crowd = asyncio.get_running_loop(), Crowd(load)
    for number in range(load.clients):
        port = load.ports[number % len(load.ports)]
        await loop.create_connection(lambda: Client(crowd), load.host, port)
    await crowd.done.wait()
    return crowd.found


if __name__ == "__main__":
    json.dump(asdict(asyncio.run(ask(Load(**json.load(sys.stdin))))), sys.stdout)
