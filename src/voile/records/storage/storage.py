"""`Storage`, what programs hold in their hands: one opening of a database.

One writer per process: commands of many threads share a transaction and one forced write.

A thread that comes first runs its command itself, with nobody to hand it to. Whoever comes
meanwhile waits in a queue; the first of them leads next: it runs all commands in the queue, each
inside a savepoint, commits once, and only then hands out the answers. So a lone thread pays for
nothing but its own transaction, and sixty-four threads pay for one forced write together.

Guarantees
    1. `submit` returns only after the command's effects are durable.
    2. A command that raises leaves no effect, and does not disturb the others.
    3. If the commit fails, nothing of any command is kept, and every caller is told.
    4. No answer leaves before the commit, so nobody acts on what may still be undone.
    5. Ctrl-C in one thread, at whatever moment, leaves no other one and no later command waiting.
    6. Closing the last opening waits for the commands that came before it, and refuses those that
       come after it: no two threads ever use the session at once.

For 5: Python delivers Ctrl-C between a call and what follows it, never between two assignments nor
between an assignment and a call of something written in C. The few steps that must not be torn
apart are written that way, and what clears up does it again if it was interrupted.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from voile.core.errors import InvalidInput, OutcomeUnknown, StorageFault
from voile.records.storage.session import Reader, Session, Transaction

Answer = TypeVar("Answer")
Command: TypeAlias = Callable[[Transaction], Answer]
"""Reads and writes records; must not wait for other threads, nor release anything to the world."""
CLOSED: Final = "this storage was closed; open it again"


class _Ticket(Generic[Answer]):
    """A command in the queue, and what became of it."""

    __slots__ = ("_acquire", "answer", "command", "error", "leads", "owner", "release", "woken")

    def __init__(self, command: Callable[[Session], Answer], owner: int) -> None:
        self.command = command
        self.owner = owner
        self.answer: Answer
        self.error: BaseException | None = _interrupted(committing=False)  # until it is served
        self.leads = self.woken = False
        lock = threading.Lock()
        lock.acquire()
        self._acquire, self.release = lock.acquire, lock.release

    def wait(self) -> None:
        self._acquire()

    def wake(self) -> None:
        """Once; doing it again does nothing."""
        if not self.woken:
            self.woken = True
            self.release()


@dataclass(eq=False)
class SharedSession:
    """What all openings of one database in a process share: its session, and the queue to it.

    Args:
        leader: the thread that uses the session.
        over: why nobody may use it any more.
        holders: the openings; the last to be closed closes the session.
    """

    session: Session
    queue: deque[_Ticket[Any]] = field(default_factory=deque)
    gate: threading.Lock = field(default_factory=threading.Lock)
    leader: int | None = None
    over: str | None = None
    holders: weakref.WeakSet[Storage] = field(default_factory=weakref.WeakSet)

    def __post_init__(self) -> None:
        _OPEN.add(self)


class Storage:
    """A database that many threads may use at once.

    Whoever opens one SQLite file several times in a process holds as many of these, on one
    connection and one queue; the last to be closed closes them.
    """

    def __init__(self, shared: SharedSession) -> None:
        self._shared = shared
        with shared.gate:
            self._closed = shared.over is not None
            if not self._closed:
                shared.holders.add(self)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def submit(self, command: Command[Answer]) -> Answer:
        """Run `command` in a transaction; its answer, once its effects are durable."""
        self._check_open()
        ticket: _Ticket[Answer] | None = None
        shared, alone, me = self._shared, False, threading.get_ident()
        try:
            with shared.gate:
                self._check_open()
                if shared.leader is None:
                    shared.leader, alone = me, True
                else:
                    self._check_outside("submit another command")
                    ticket = _Ticket(command, me)
                    shared.queue.append(ticket)
            if ticket is None:
                return self._run_alone(command)
            ticket.wait()
            if ticket.leads:
                self._lead()
        except BaseException:
            if ticket is not None:
                self._withdraw(ticket)
            raise
        finally:
            if alone:
                try:
                    self._pass_on()
                except BaseException:
                    self._pass_on()
                    raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def read_snapshot(self, question: Callable[[Reader], Answer]) -> Answer:
        """Read what was committed up to one moment, for as long as it takes: nobody waits for it.

        What changes something is submitted.
        """
        self._check_open()
        self._check_outside("read a snapshot")
        with self._shared.session.snapshot() as reader:
            return question(reader)

    def close(self) -> None:
        """Let go of the database, after the commands that came before; harmless if repeated."""
        if self._shared.over is None:  # in a forked child the gate may be locked for ever
            self._leave()
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

    def _leave(self) -> None:
        """The last one closes the session, when its turn comes."""
        shared, last = self._shared, None
        with shared.gate:
            if shared.over is not None or shared.holders - {self}:
                shared.holders.discard(self)
                return
            self._check_outside("close its storage")
            shared.over = CLOSED
            if shared.leader is not None:
                last = _Ticket(lambda _: None, threading.get_ident())
                shared.queue.append(last)
        # Nobody comes after us any more: once we lead or were served, nobody uses the session.
        if last is not None:
            last.wait()
        shared.session.close()

    def _check_open(self) -> None:
        if self._closed or self._shared.over is not None:
            raise StorageFault(self._shared.over or CLOSED)

    def _check_outside(self, act: str) -> None:
        if self._shared.leader == threading.get_ident():
            raise InvalidInput(f"a command cannot {act}: it is in a transaction")

    def _withdraw(self, ticket: _Ticket[Any]) -> None:
        """Whoever waits no longer must not be the one to lead."""
        shared = self._shared
        with shared.gate:
            if ticket not in shared.queue:
                return  # taken by another leader, which will wake nobody
            shared.queue.remove(ticket)
        if ticket.leads:
            self._pass_on()

    def _run_alone(self, command: Callable[[Session], Answer]) -> Answer:
        """Nobody to share with: no ticket, no savepoint; if anything fails, everything goes."""
        session = self._shared.session
        try:
            session.begin()
            answer = command(session)
            session.commit()
        except BaseException:
            with suppress(StorageFault):  # the fault that brought us here is the one to tell
                session.rollback()
            raise
        return answer

    def _lead(self) -> None:
        """Run one batch, pass the lead on, and wake those who were served."""
        batch: deque[_Ticket[Any]] = deque()
        shared = self._shared
        try:
            with shared.gate:
                batch, shared.queue = shared.queue, batch
            self._run(batch)
        finally:
            try:
                self._end(batch)
            except BaseException:
                self._end(batch)
                raise

    def _end(self, batch: deque[_Ticket[Any]]) -> None:
        self._pass_on()
        for ticket in batch:
            ticket.wake()

    def _pass_on(self) -> None:
        """Let the first in the queue lead; nothing, if that was done already."""
        shared = self._shared
        with shared.gate:
            if shared.leader != threading.get_ident():
                return
            if not shared.queue:
                shared.leader = None
                return
            first = shared.queue[0]
            release = first.release
            first.leads = first.woken = True
            shared.leader = first.owner
            release()

    def _run(self, batch: deque[_Ticket[Any]]) -> None:
        session, committing = self._shared.session, False
        try:
            session.begin()
            for ticket in batch:
                self._run_one(ticket)
            committing = True
            session.commit()
        except StorageFault as fault:
            self._fail(batch, fault)
        except BaseException:  # Ctrl-C in the leading thread: the others must not wait for ever
            self._fail(batch, _interrupted(committing))
            raise

    def _undo(self, error: Exception) -> None:
        """Undo one command; if the database gave up the whole transaction, the batch fails."""
        try:
            self._shared.session.undo()
        except StorageFault as fault:
            raise (error if isinstance(error, StorageFault) else fault) from fault

    def _fail(self, batch: deque[_Ticket[Any]], fault: StorageFault) -> None:
        for ticket in batch:
            ticket.error = type(fault)(*fault.args)  # each thread raises one of its own
            ticket.error.__cause__ = fault
        with suppress(StorageFault):  # the fault that brought us here is the one to tell
            self._shared.session.rollback()

    def _run_one(self, ticket: _Ticket[Any]) -> None:
        session = self._shared.session
        session.savepoint()
        try:
            ticket.answer = ticket.command(session)
            ticket.error = None
        except Exception as error:
            ticket.error = error
            self._undo(error)
        else:
            session.release()


def _interrupted(committing: bool) -> StorageFault:
    if committing:
        return OutcomeUnknown("interrupted while committing; look before you repeat it")
    return StorageFault("the writing thread was interrupted; nothing was kept")


_OPEN: weakref.WeakSet[SharedSession] = weakref.WeakSet()


def _end_in_child() -> None:
    """A connection belongs to the process that opened it."""
    for shared in _OPEN:
        shared.over = "this storage was opened before a fork; open it again in the child"


os.register_at_fork(after_in_child=_end_in_child)
