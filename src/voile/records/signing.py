"""Checkpoints by a schedule, while a process holds its log open.

What is newer than the last checkpoint is the unsigned tail: who sets the database back to a state
without it is not noticed. A process that answers for months keeps it short: a thread of its own
signs after so many records or so many seconds, and what is left is signed when the log is closed.

- Nobody waits for it: an append notes the new size, and no signature is made in a transaction.
- It stops nothing: what went wrong is written to Python's log, and tried again.
- Several processes may sign one log: who finds everything signed signs nothing.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from voile.core.errors import InvalidInput, VoileError
from voile.records.checkpoints import Kept

CLOSING: Final = 30.0
"""Seconds to wait for a signature that is under way: longer than witnesses are waited for."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SigningSchedule:
    """When a checkpoint is due: whatever comes first.

    Args:
        records: that are newer than the last one.
        seconds: since the first of them.
    """

    records: int = 100
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.records < 1 or not 0 < self.seconds < math.inf:
            raise InvalidInput(
                "expected a checkpoint after at least one record and a finite, positive number of "
                f"seconds, found {self.records} and {self.seconds}"
            )


class ScheduledSigning:
    """Signs a log whenever a checkpoint is due, until it is closed.

    The thread is started when something is unsigned for the first time: who only reads has none. A
    forked child has none either, and its log is closed.

    Args:
        sign: makes a checkpoint of all that is committed; says what went wrong.
        size: how many records the last checkpoint covers.
        clock: never goes back.
    """

    def __init__(
        self,
        schedule: SigningSchedule,
        sign: Callable[[], Kept],
        *,
        size: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schedule, self._sign, self._clock = schedule, sign, clock
        self._size = self._tried = size
        self._since: float | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process = os.getpid()

    def grew(self, size: int) -> None:
        """The log is to have so many records, once the transaction is committed."""
        with self._changed:
            if size <= self._size or self._closed:
                return
            self._size = size
            if self._since is None:
                self._since = self._clock()
                self._start()
            if self._due_in() <= 0:
                self._changed.notify()

    def due_in(self) -> float:
        """Seconds until a checkpoint is due; infinite while nothing is unsigned."""
        with self._changed:
            return self._due_in()

    def close(self) -> None:
        """Stop, and sign what is left."""
        if self._closed or os.getpid() != self._process:
            return
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSING)
        if self._since is not None:
            self._try()

    def _due_in(self) -> float:
        if self._since is None:
            return math.inf
        if self._size - self._tried >= self._schedule.records:
            return 0.0
        return self._since + self._schedule.seconds - self._clock()

    def _start(self) -> None:
        """Or wake the thread: it waits without end while nothing is unsigned."""
        if self._thread is not None:
            self._changed.notify()
            return
        thread = threading.Thread(target=self._run, name="voile signing", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: what is appended must not fail for that
            _log.warning("no checkpoint is signed before the log is closed: %s", error)
        else:
            self._thread = thread

    def _run(self) -> None:
        while self._wait():
            self._try()

    def _wait(self) -> bool:
        """Until a checkpoint is due; false when this is closed."""
        with self._changed:
            while not self._closed:
                left = self._due_in()
                if left <= 0:
                    return True
                self._changed.wait(None if left == math.inf else left)
        return False

    def _try(self) -> None:
        # Signing begins with a turn of the writer's. So a record that was told of before is in the
        # database by then, or was given up; one that is told of meanwhile may be in neither.
        with self._changed:
            told = self._size
        done = self._signed()
        with self._changed:
            self._tried = told
            again = not done or self._size > told
            self._since = self._clock() if again else None

    def _signed(self) -> bool:
        try:
            kept = self._sign()
        except VoileError as error:
            _log.warning("the log was not signed: %s", error)
            return False
        except Exception:
            _log.exception("the log was not signed; it is tried again")
            return False
        _log.log(logging.WARNING if kept.error or kept.missing else logging.DEBUG, "%s", kept)
        return kept.error is None
