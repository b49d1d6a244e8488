"""What programs hold in their hands: one opening of a database."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from voile.core.errors import StorageFault
from voile.core.storage.group_commit import CLOSED, GroupCommit
from voile.core.storage.session import Reader, Transaction

Answer = TypeVar("Answer")
Command: TypeAlias = Callable[[Transaction], Answer]
"""Reads and writes records; must not wait for other threads, nor release anything to the world."""


class Storage:
    """A database that many threads may use at once.

    Whoever opens one SQLite file several times in a process holds as many of these, on one
    connection and one queue; the last to be closed closes them.
    """

    def __init__(self, commits: GroupCommit) -> None:
        self._commits = commits
        self._closed = not commits.join(self)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def submit(self, command: Command[Answer]) -> Answer:
        """Run `command` in a transaction; its answer, once its effects are durable."""
        if self._closed:
            raise StorageFault(CLOSED)
        return self._commits.submit(command)

    def read_snapshot(self, question: Callable[[Reader], Answer]) -> Answer:
        """Read what was committed up to one moment, for as long as it takes: nobody waits for it.

        For whatever reads more than a few records. What changes something is submitted.
        """
        if self._closed:
            raise StorageFault(CLOSED)
        return self._commits.read_snapshot(question)

    def close(self) -> None:
        """Let go of the database, after the commands that came before; harmless if repeated."""
        self._commits.leave(self)
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
