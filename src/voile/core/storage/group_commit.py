"""One writer per process: commands of many threads share a transaction and one forced write.

Whoever comes first leads: it runs its own command and those that queued up meanwhile (each inside
a savepoint, if there are several), commits once, and only then hands out the answers. Whoever comes
while a leader is at work waits; one of those leads next. A lone thread therefore runs its command
itself, with nobody to hand it to, and sixty-four threads pay for one forced write together.

Guarantees
    1. `submit` returns only after the command's effects are durable.
    2. A command that raises leaves no effect, and does not disturb the others.
    3. If the commit fails, nothing of any command is kept, and every caller is told.
    4. No answer leaves before the commit, so nobody acts on what may still be undone.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from voile.core.errors import InvalidInput, OutcomeUnknown, StorageFault
from voile.core.storage.session import Reader, Session, Transaction

Answer = TypeVar("Answer")
Command: TypeAlias = Callable[[Transaction], Answer]
"""Reads and writes records; must not wait for other threads, nor release anything to the world."""

_LARGEST_BATCH = 256


class _Ticket(Generic[Answer]):
    """A command in the queue, and what became of it."""

    __slots__ = ("_woken", "answer", "command", "error", "leads")

    def __init__(self, command: Command[Answer]) -> None:
        self.command = command
        self.answer: Answer
        self.error: BaseException | None = None
        self.leads = False
        self._woken = threading.Lock()
        self._woken.acquire()

    def wait(self) -> None:
        self._woken.acquire()

    def wake(self) -> None:
        self._woken.release()


class Storage:
    """A database that many threads may use at once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._process = os.getpid()
        self._queue: deque[_Ticket[Any]] = deque()
        self._gate = threading.Lock()
        self._led = False
        self._leader: int | None = None
        self._closed = False

    def submit(self, command: Command[Answer]) -> Answer:
        """Run `command` in a transaction; its answer, once its effects are durable."""
        self._check_usable()
        ticket = _Ticket(command)
        with self._gate:
            self._queue.append(ticket)
            ticket.leads, self._led = not self._led, True
        if not ticket.leads:
            ticket.wait()
        if ticket.leads:
            self._lead()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def look(self, question: Callable[[Reader], Answer]) -> Answer:
        """Read what was committed up to one moment, for as long as it takes: nobody waits for it.

        For whatever reads more than a few records. What changes something is submitted.
        """
        self._check_usable()
        with self._session.snapshot() as reader:
            return question(reader)

    def close(self) -> None:
        """Let go of the database; harmless if repeated."""
        if not self._closed:
            self._closed = True
            self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise StorageFault("this storage was closed; open it again")
        if self._process != os.getpid():
            raise StorageFault("this storage was opened before a fork; open it again in the child")
        if self._leader == threading.get_ident():
            raise InvalidInput("a command cannot submit another command: it is in a transaction")

    def _lead(self) -> None:
        """Run one batch, pass the lead on, and wake those who were served."""
        with self._gate:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
        self._leader = threading.get_ident()
        try:
            self._run(batch)
        finally:
            self._leader = None
            self._pass_on()
            for ticket in batch:
                ticket.wake()

    def _pass_on(self) -> None:
        with self._gate:
            self._led = bool(self._queue)
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].wake()

    def _run(self, batch: list[_Ticket[Any]]) -> None:
        committing = False
        try:
            self._session.begin()
            if len(batch) == 1 and not self._runs_alone(batch[0]):
                return
            if len(batch) > 1:
                for ticket in batch:
                    self._run_one(ticket)
            committing = True
            self._session.commit()
        except StorageFault as fault:
            self._fail(batch, fault)
        except BaseException:  # Ctrl-C in the leading thread: the others must not wait for ever
            self._fail(batch, _interrupted(committing))
            raise

    def _runs_alone(self, ticket: _Ticket[Any]) -> bool:
        """A lone command needs no savepoint: if it fails, the whole transaction goes."""
        try:
            ticket.answer = ticket.command(self._session)
        except Exception as error:
            ticket.error = error
            self._session.rollback()
            return False
        return True

    def _undo(self, error: Exception) -> None:
        """Undo one command; if the database gave up the whole transaction, the batch fails."""
        try:
            self._session.undo()
        except StorageFault as fault:
            raise (error if isinstance(error, StorageFault) else fault) from fault

    def _fail(self, batch: list[_Ticket[Any]], fault: StorageFault) -> None:
        for ticket in batch:
            ticket.error = type(fault)(*fault.args)  # each thread raises one of its own
            ticket.error.__cause__ = fault
        with suppress(StorageFault):  # the fault that brought us here is the one to tell
            self._session.rollback()

    def _run_one(self, ticket: _Ticket[Any]) -> None:
        self._session.savepoint()
        try:
            ticket.answer = ticket.command(self._session)
        except Exception as error:
            ticket.error = error
            self._undo(error)
        else:
            self._session.release()


def _interrupted(committing: bool) -> StorageFault:
    if committing:
        return OutcomeUnknown("interrupted while committing; look before you repeat it")
    return StorageFault("the writing thread was interrupted; nothing was kept")
