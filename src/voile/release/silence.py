"""Silence while protected rows are worked on: a warning that a row provokes would tell about it.

Silent are warnings and the logging module, in the thread that looks at protected rows and in every
thread that is started there meanwhile, until the silence ends. A process that is forked from such a
thread stays silent: it works for the model. All other threads and processes warn and log as ever.

Not covered are threads that a model keeps from earlier, processes that it starts anew, and what it
writes to its own files or straight to standard output and error: guarantees say so
(`MODEL_OUTPUT_UNPUBLISHED`).
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, Final, TypeVar

import numpy as np

T = TypeVar("T")

MODEL_OUTPUT_UNPUBLISHED: Final = (
    "what the model itself prints or writes to files of its own, or says in other processes or in "
    "threads from before, is not published"
)


class _Silence:
    """One stretch of silence; threads that were started in it look here whether it lasts."""

    lasts = True


class _Here(threading.local):
    silence: _Silence | None = None


_here = _Here()


def silent() -> bool:
    """Whether this thread must not warn or log."""
    return _here.silence is not None and _here.silence.lasts


def call_suppressed(ask: Callable[[], T]) -> T | None:
    """What `ask` says of a protected row; None if it fails, however it does.

    A call to leave the process and a panic of a library in another language are no `Exception`, and
    speak of the row as well. Only whoever sits at the keyboard may interrupt.
    """
    try:
        return ask()
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever a protected row provokes must not be seen
        return None


@contextmanager
def silenced() -> Iterator[None]:
    """No warning of anything inside is shown or raised, and nothing is logged."""
    _install()
    outer, mine = _here.silence, _Silence()
    _here.silence = mine
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        mine.lasts = False
        _here.silence = outer


# --- Hooks, put in place once and for all ---------------------------------------------------------
# Python has one list of warning filters, one class of loggers and one of threads for everybody. So
# each gets one hook that asks `silent()` and otherwise does what was done before: nothing has to be
# put back, and whatever others do to filters and loggers meanwhile stays as they did it.


class _OnlyHere:
    """Stands where a filter has the pattern of its message: fits every message of this thread.

    Whoever makes a filter of its own from the text of the pattern (scikit-learn does, for its
    workers) gets one that fits nothing.
    """

    pattern = "(?!)"

    def match(self, text: str) -> bool:  # noqa: ARG002
        return silent()


_IGNORED: Final[tuple[Any, ...]] = ("ignore", _OnlyHere(), Warning, None, 0)
_lock = Lock()
_installed = False


def _install() -> None:
    global _installed
    if not _installed:
        with _lock:
            if not _installed:
                _hook_warnings()
                _hook_logging()
                _hook_threads()
                _installed = True
    _put_first()


def _put_first() -> None:
    """The first filter that fits decides: behind one that says "error", ours comes too late."""
    found: Any = warnings.filters
    if found and found[0] is _IGNORED:
        return
    found.insert(0, _IGNORED)  # before the old one goes: no moment is without it
    for place in range(len(found) - 1, 0, -1):
        if found[place] is _IGNORED:
            del found[place]


def _hook_warnings() -> None:
    """Whoever changes filters, or brings back a list from before, says so in this function.

    It is the standard library's own, up to Python 3.13; without it, filters that another thread
    changes in the middle of a silence could come before ours.
    """
    module: Any = warnings
    told: Callable[[], None] | None = getattr(module, "_filters_mutated", None)
    if told is None:
        return

    def changed() -> None:
        _put_first()
        told()

    module._filters_mutated = changed


def _hook_logging() -> None:
    handled: Callable[[logging.Logger, logging.LogRecord], None] = logging.Logger.handle

    def handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if not silent():
            handled(self, record)

    logging.Logger.handle = handle  # type: ignore[method-assign]


def _hook_threads() -> None:
    started: Callable[[Thread], None] = Thread.start

    def start(self: Thread) -> None:
        silence = _here.silence
        if silence is not None and silence.lasts:
            self.run = partial(_run_in, silence, self.run)  # type: ignore[method-assign]
        started(self)

    Thread.start = start  # type: ignore[method-assign]


def _run_in(silence: _Silence, run: Callable[[], None]) -> None:
    """What such a thread dies of was provoked by a protected row, and would be printed."""
    _here.silence = silence
    with suppress(Exception):
        run()
