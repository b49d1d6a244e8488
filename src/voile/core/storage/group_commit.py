"""One writer per process: commands of many threads share a transaction and one forced write.

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
    6. Closing waits for the commands that came before it, and refuses those that come after it: no
       two threads ever use the session at once.

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
from typing import Any, Final, Generic, TypeVar

from voile.core.errors import InvalidInput, OutcomeUnknown, StorageFault
from voile.core.storage.session import Reader, Session

Answer = TypeVar("Answer")
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


class GroupCommit:
    """The only user of a session, for all that hold a `Storage` on it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queue: deque[_Ticket[Any]] = deque()
        self._gate = threading.Lock()
        self._leader: int | None = None
        self._over: str | None = None
        self._holders: weakref.WeakSet[Any] = weakref.WeakSet()
        _OPEN.add(self)

    def join(self, holder: object) -> bool:
        """Keep the session open for one more; false if it is closed already."""
        with self._gate:
            if self._over is None:
                self._holders.add(holder)
            return self._over is None

    def leave(self, holder: object) -> None:
        """One fewer; the last one closes the session, when its turn comes."""
        if self._over is not None:
            return
        with self._gate:
            if self._over is not None or self._holders - {holder}:
                self._holders.discard(holder)
                return
            self._check_outside("close its storage")
            self._over, last = CLOSED, None
            if self._leader is not None:
                last = _Ticket(lambda _: None, threading.get_ident())
                self._queue.append(last)
        # Nobody comes after us any more: once we lead or were served, nobody uses the session.
        if last is not None:
            last.wait()
        self._session.close()

    def submit(self, command: Callable[[Session], Answer]) -> Answer:
        """Run `command` in a transaction; its answer, once its effects are durable."""
        if self._over is not None:
            raise StorageFault(self._over)
        ticket: _Ticket[Answer] | None = None
        alone, me = False, threading.get_ident()
        try:
            with self._gate:
                if self._over is not None:
                    raise StorageFault(self._over)
                if self._leader is None:
                    self._leader, alone = me, True
                else:
                    self._check_outside("submit another command")
                    ticket = _Ticket(command, me)
                    self._queue.append(ticket)
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
        """Read what was committed up to one moment, on a connection of its own."""
        if self._over is not None:
            raise StorageFault(self._over)
        self._check_outside("read a snapshot")
        with self._session.snapshot() as reader:
            return question(reader)

    def _check_outside(self, act: str) -> None:
        if self._leader == threading.get_ident():
            raise InvalidInput(f"a command cannot {act}: it is in a transaction")

    def _withdraw(self, ticket: _Ticket[Any]) -> None:
        """Whoever waits no longer must not be the one to lead."""
        with self._gate:
            if ticket not in self._queue:
                return  # taken by another leader, which will wake nobody
            self._queue.remove(ticket)
        if ticket.leads:
            self._pass_on()

    def _run_alone(self, command: Callable[[Session], Answer]) -> Answer:
        """Nobody to share with: no ticket, no savepoint; if anything fails, everything goes."""
        try:
            self._session.begin()
            answer = command(self._session)
            self._session.commit()
        except BaseException:
            with suppress(StorageFault):  # the fault that brought us here is the one to tell
                self._session.rollback()
            raise
        return answer

    def _lead(self) -> None:
        """Run one batch, pass the lead on, and wake those who were served."""
        batch: deque[_Ticket[Any]] = deque()
        try:
            with self._gate:
                batch, self._queue = self._queue, batch
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
        with self._gate:
            if self._leader != threading.get_ident():
                return
            if not self._queue:
                self._leader = None
                return
            first = self._queue[0]
            release = first.release
            first.leads = first.woken = True
            self._leader = first.owner
            release()

    def _run(self, batch: deque[_Ticket[Any]]) -> None:
        committing = False
        try:
            self._session.begin()
            for ticket in batch:
                self._run_one(ticket)
            committing = True
            self._session.commit()
        except StorageFault as fault:
            self._fail(batch, fault)
        except BaseException:  # Ctrl-C in the leading thread: the others must not wait for ever
            self._fail(batch, _interrupted(committing))
            raise

    def _undo(self, error: Exception) -> None:
        """Undo one command; if the database gave up the whole transaction, the batch fails."""
        try:
            self._session.undo()
        except StorageFault as fault:
            raise (error if isinstance(error, StorageFault) else fault) from fault

    def _fail(self, batch: deque[_Ticket[Any]], fault: StorageFault) -> None:
        for ticket in batch:
            ticket.error = type(fault)(*fault.args)  # each thread raises one of its own
            ticket.error.__cause__ = fault
        with suppress(StorageFault):  # the fault that brought us here is the one to tell
            self._session.rollback()

    def _run_one(self, ticket: _Ticket[Any]) -> None:
        self._session.savepoint()
        try:
            ticket.answer = ticket.command(self._session)
            ticket.error = None
        except Exception as error:
            ticket.error = error
            self._undo(error)
        else:
            self._session.release()


def _interrupted(committing: bool) -> StorageFault:
    if committing:
        return OutcomeUnknown("interrupted while committing; look before you repeat it")
    return StorageFault("the writing thread was interrupted; nothing was kept")


_OPEN: weakref.WeakSet[GroupCommit] = weakref.WeakSet()


def _end_in_child() -> None:
    """A connection belongs to the process that opened it."""
    for commits in _OPEN:
        commits._over = "this storage was opened before a fork; open it again in the child"


os.register_at_fork(after_in_child=_end_in_child)
