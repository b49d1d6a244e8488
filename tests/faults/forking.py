"""Child processes that start in a millisecond, because everything they need is loaded already."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """Run `work(write_end)` in a forked child; gives its process id and the pipe's read end."""
    read_end, write_end = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read_end)
        code = 1
        try:
            work(write_end)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write_end)
    try:
        yield process, read_end
    finally:
        os.close(read_end)
        kill(process)


def kill(process: int) -> None:
    """End a child for certain and wait until it is gone; harmless if it is already."""
    try:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def lines(read_end: int) -> list[str]:
    """Everything the child managed to say, line by line; a last unfinished line is dropped."""
    said = b""
    while part := os.read(read_end, 65536):
        said += part
    return said.decode().split("\n")[:-1]


def exit_code(process: int) -> int:
    """How a child ended by itself: 0, its code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
