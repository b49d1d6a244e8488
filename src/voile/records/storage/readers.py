"""Connections that only read, kept from one snapshot to the next.

Opening one takes longer than most reads: 0.3 ms for a file, 15 ms for a server. One that is kept is
in no transaction: it holds up no writer, and each snapshot looks at a new moment.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from voile.core.errors import StorageFault
from voile.records.storage.session import Reader

MOST_IDLE: Final = 4
"""How many are kept while nobody reads."""


class ReadingSession(Reader, Protocol):
    """One connection."""

    def start(self) -> None:
        """Look at what is committed now, with nothing remembered."""

    def stop(self) -> None:
        """Look at it no longer."""

    def close(self) -> None:
        """Let go of the database."""


Connected = TypeVar("Connected", bound=ReadingSession)


class Readers(Generic[Connected]):
    """The reading connections of one session, for any thread; each is used by one at a time."""

    def __init__(self, connect: Callable[[], Connected]) -> None:
        self._connect = connect
        self._idle: list[Connected] = []
        self._gate = threading.Lock()
        self._closed = False
        self._lent = 0
        self.open: weakref.WeakSet[Connected] = weakref.WeakSet()

    @contextmanager
    def one(self) -> Iterator[Connected]:
        """A reader that looks at this moment; closed if anything goes wrong with it."""
        self._count(1)
        try:
            with self._lending() as reader:
                yield reader
        finally:
            self._count(-1)

    @property
    def in_use(self) -> bool:
        """Whether anybody looks through one of them, or is about to."""
        return self._lent > 0

    def close(self) -> None:
        """Close those that nobody uses; the others, when they are given back."""
        with self._gate:
            self._closed = True
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()

    def _count(self, change: int) -> None:
        with self._gate:
            self._lent += change

    @contextmanager
    def _lending(self) -> Iterator[Connected]:
        reader = self._started()
        try:
            yield reader
            reader.stop()
        except BaseException:
            reader.close()
            raise
        self._keep(reader)

    def _started(self) -> Connected:
        """One that was kept, if its connection still works (a server may have been restarted)."""
        while (kept := self._taken()) is not None:
            try:
                kept.start()
            except StorageFault:
                kept.close()
            else:
                return kept
        reader = self._connect()
        self.open.add(reader)
        try:
            reader.start()
        except BaseException:
            reader.close()
            raise
        return reader

    def _taken(self) -> Connected | None:
        with self._gate:
            return self._idle.pop() if self._idle else None

    def _keep(self, reader: Connected) -> None:
        with self._gate:
            keep = not self._closed and len(self._idle) < MOST_IDLE
            if keep:
                self._idle.append(reader)
        if not keep:
            reader.close()
