"""Commands as processes of their own that hear Ctrl-C; forked, because all they need is loaded."""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults.forking import child, exit_code
from voile import cli

REACHED = "reached the point to interrupt"
_PATIENCE = 60.0


@dataclass(frozen=True)
class Point:
    """A call in the middle of the work, in whatever thread it is made.

    Args:
        owner, name: the function.
        call: which one of its calls, counted from 1.
    """

    owner: Any
    name: str
    call: int = 1


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said to people."""

    code: int
    out: str
    errors: str

    @property
    def hint(self) -> list[str]:
        """The words of the command that goes on, as it was printed."""
        return shlex.split(self.errors.rstrip("\n").rpartition("\n")[2])


def command(arguments: Sequence[str], folder: Path, point: Point | None = None) -> Ended:
    """Type it in a folder; with a point, interrupt it there, once it has said that it is there."""
    with child(_typed(arguments, folder, point)) as (process, pipe):
        said = _until(pipe, REACHED if point is not None else None)
        if point is not None:
            os.kill(process, signal.SIGINT)
            said += _until(pipe, None)
        code = exit_code(process)
    return Ended(code, (folder / ".stdout").read_text(), said.replace(f"{REACHED}\n", ""))


def _typed(arguments: Sequence[str], folder: Path, point: Point | None) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        os.chdir(folder)
        os.dup2(pipe, 2)
        os.dup2(os.open(".stdout", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["voile", *arguments]
        try:
            with _waiting_at(point):
                cli.main()
        except SystemExit as left:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(left.code or 0))

    return work


def _waiting_at(point: Point | None) -> Any:
    """There the work waits until the process was interrupted, and then goes on."""
    heard, calls = threading.Event(), 0

    def hear(*_: object) -> None:
        heard.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hear)
    if point is None:
        return mock.patch.dict({})
    plain = getattr(point.owner, point.name)

    def waiting(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == point.call:
            os.write(2, f"{REACHED}\n".encode())
            heard.wait(_PATIENCE)
        return plain(*given, **named)

    return mock.patch.object(point.owner, point.name, waiting)


def _until(pipe: int, line: str | None) -> str:
    """What is said until this line, or until the end."""
    said = b""
    while line is None or line.encode() not in said:
        readable, _, _ = select.select([pipe], [], [], _PATIENCE)
        assert readable, f"waited in vain: {said.decode()}"
        part = os.read(pipe, 65536)
        if not part:
            assert line is None, f"ended before: {said.decode()}"
            break
        said += part
    return said.decode()
