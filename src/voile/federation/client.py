"""The client's side: what a node does when it is asked, in an order that keeps its promises."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from voile.core import array_file
from voile.core.errors import InvalidInput, Refused
from voile.core.randomness import GeneratorSource, Seeded, StreamCipher
from voile.federation.arrays import Arrays, shapes_of
from voile.federation.history import event_as_text
from voile.federation.messages import Instruction, Update, check_name
from voile.federation.stored_text import file_stem, write_arrays
from voile.federation.task import FollowUp, Task
from voile.privacy.events import PrivacyEvent

# --- What a node asks before it takes part, and before it sends a stored update again ------------
# A federation knows no ledger: a node asks its `ParticipationGuard`, and `voile.app` joins that
# to the node's own ledger and log.


@dataclass(frozen=True)
class Participation:
    """A client is about to take part; `event` is what its update will release."""

    client: str
    stage: str
    round: int
    event: PrivacyEvent | None


class Booking(NamedTuple):
    """Where a participation stands in a client's books.

    Args:
        name: of this entry and no other in whatever books, by 128 random bits or more.
        account: what was charged; None in books that count and charge nothing.
    """

    name: str
    account: str | None = None


class ParticipationGuard(Protocol):
    """A client's own books: what it may do, whatever a server asks for."""

    def before_joining(self) -> None:
        """`Refused` if these books would grant no participation at all; books nothing.

        Asked before the first round, so that nobody is charged for a federation in which somebody
        else takes no part.
        """

    def before_participation(self, participation: Participation) -> Booking:
        """Charge it, durably, or raise `Refused`. A repeat is a new participation.

        This is where a client's own cap is kept.
        """

    def holds(self, participation: Participation, booking: Booking) -> bool:
        """Whether these very books hold this participation under this booking."""


@dataclass(frozen=True)
class NoGuard:
    """Grants everything and remembers nothing: for tasks that protect nobody."""

    def before_joining(self) -> None:
        """Nothing is refused."""

    def before_participation(self, participation: Participation) -> Booking:  # noqa: ARG002
        """Granted."""
        return Booking("")

    def holds(self, participation: Participation, booking: Booking) -> bool:  # noqa: ARG002
        """Nothing is kept, so no stored update is ever sent again."""
        return False


@dataclass(eq=False)
class CountingGuard:
    """Keeps a cap for each client and stage; charges nothing, and is lost with the process.

    Args:
        cap: how often one client may take part in one stage.
    """

    cap: int
    participations: list[Participation] = field(default_factory=list)
    _own: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    _booked: dict[str, Participation] = field(default_factory=dict, repr=False)
    _taken: Counter[tuple[str, str]] = field(default_factory=Counter, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def before_joining(self) -> None:
        """Nothing is refused before the cap is reached."""

    def before_participation(self, participation: Participation) -> Booking:
        with self._lock:
            who = participation.client, participation.stage
            if self._taken[who] >= self.cap:
                raise Refused(
                    f"{participation.client!r} has taken part in {participation.stage!r} "
                    f"{self.cap} times, which is its cap; nothing was trained or charged"
                )
            self._taken[who] += 1
            self.participations.append(participation)
            booking = Booking(f"{self._own}#{len(self.participations)}")
            self._booked[booking.name] = participation
            return booking

    def holds(self, participation: Participation, booking: Booking) -> bool:
        return booking.account is None and self._booked.get(booking.name) == participation


# --------------------------------------------------------------------------------------------------


# --- Where a client's randomness comes from: always its own machine, never a message -------------


class Sources(Protocol):
    """A source for each participation of a client."""

    def source(self, client: str, stage: str, round: int) -> GeneratorSource:
        """Randomness for one participation."""


@dataclass(frozen=True)
class FreshCiphers:
    """A stream cipher with a new key each time: asked twice for one round, noise differs."""

    def source(self, client: str, stage: str, round: int) -> GeneratorSource:  # noqa: ARG002
        return StreamCipher()


@dataclass(frozen=True)
class SeededSources:
    """Reproducible in every engine and after every restart. For tests and experiments only.

    What is made with it carries "no privacy guarantee (seeded noise)".
    """

    seed: int

    def source(self, client: str, stage: str, round: int) -> GeneratorSource:
        text = f"{self.seed}\0{client}\0{stage}\0{round}"
        return Seeded(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


# --------------------------------------------------------------------------------------------------


STORED: Final = "voile client update"
_KEPT: Final = "kept/"
_MOST_RECORDS: Final = 2**53
"""As a weight, in double precision, it is exact."""


class _LastAnswer(NamedTuple):
    """What a client keeps of its last answer for a stage."""

    round: int
    booking: Booking
    note: str | None
    arrays: Arrays


@dataclass(frozen=True, eq=False)
class Client:
    """What a node does with its own rows, randomness, books and disk.

    Asked for an update it

    1. refuses anything that is not exactly an `Instruction` of its agreement, for a stage it was
       set up for, with arrays of the shapes agreed on;
    2. sends the stored update, bit for bit, if it has one for this stage and round and its own
       books hold the participation that made it: a repeated question reveals nothing new, whatever
       arrays come with it; and what lies in the folder is not believed to be paid for;
    3. asks its guard, which charges the participation or refuses it (the cap is kept here);
    4. trains, with its own randomness;
    5. refuses to send anything that cost more than was charged;
    6. stores the update, durably, with the name of its booking and the note of its randomness, and
       only then sends it.

    A `FollowUp` trains and charges nothing: it is made from what was kept at 6 of an update of the
    same round, states that update's cost and booking, and is stored and sent again like any other.

    A refusal at 3 leaves nothing behind. A crash before 6 has cost a participation and released
    nothing; the repeat is charged again.

    Args:
        name: how it is called.
        size: how many records it declares in public.
        records: what its tasks train on; stays here.
        tasks: what it has agreed to run, by stage.
        guard: its own books.
        sources: its own randomness.
        folder: where updates are stored before they are sent; without one, a repeat is always a
            new participation.
        agreement: the digest of what it has agreed to.
    """

    name: str
    size: int
    records: Any = field(repr=False)
    tasks: Mapping[str, Task | FollowUp] = field(repr=False)
    guard: ParticipationGuard = field(repr=False)
    sources: Sources = field(default_factory=FreshCiphers)
    folder: Path | None = None
    agreement: str = ""
    _latest: dict[str, _LastAnswer] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_name("a client", self.name)
        check_size(self.name, self.size)

    def check_ready(self) -> None:
        """Before the first round: `Refused` for whatever would be refused in one of them anyway.

        What lies in its folder can be sent, and its books have nothing against the federation.
        """
        self.guard.before_joining()
        for stage in self.tasks:
            for number in self._stored_rounds(stage):
                self._stored(self._paid(stage, number), stage)

    def answer(self, instruction: Instruction) -> Update:
        task = self._task(instruction)
        if isinstance(task, FollowUp):
            return self._follow(task, instruction)
        stage, number = instruction.stage, instruction.round
        participation = self._paid(stage, number)
        stored = self._stored(participation, stage)
        if stored is not None:
            return stored
        booking = self.guard.before_participation(participation)
        source = self.sources.source(self.name, stage, number)
        fitted = task.fit(instruction, self.records, self.size, source)
        if fitted.event != participation.event:
            raise Refused(
                f"the task of {stage!r} released {fitted.event!r} where {participation.event!r} "
                "was charged; nothing was sent"
            )
        stated = event_as_text(fitted.event)
        note = None if source.note is None else str(source.note)
        update = Update(
            self.name, stage, number, dict(fitted.change), stated, booking.account, note,
            agreement=self.agreement,
        )  # fmt: skip
        self._store(update, booking, fitted.kept)
        return update

    def _follow(self, task: FollowUp, instruction: Instruction) -> Update:
        """Nothing is trained or charged: it is made from what was kept of an earlier answer."""
        number = instruction.round
        paid = self._paid(instruction.stage, number)
        stored = self._stored(paid, instruction.stage)
        if stored is not None:
            return stored
        found = self._kept(paid)
        made = dict(task.make(instruction, self.name, found.arrays))
        update = Update(
            self.name, instruction.stage, number, made, event_as_text(paid.event),
            found.booking.account, found.note, agreement=self.agreement,
        )  # fmt: skip
        self._store(update, found.booking, {})
        return update

    def _paid(self, stage: str, number: int) -> Participation:
        """The participation that pays for an answer of this stage."""
        task = self.tasks[stage]
        if isinstance(task, FollowUp):
            return self._paid(task.follows, number)
        return Participation(self.name, stage, number, task.cost(self.size))

    def _kept(self, paid: Participation) -> _LastAnswer:
        """Of this process, or from the disk of an earlier one."""
        found = self._latest.get(paid.stage)
        if found is None or found.round != paid.round:
            self._stored(paid, paid.stage)
            found = self._latest.get(paid.stage)
        if found is None or found.round != paid.round:
            raise Refused(
                f"{self.name!r} has made nothing for {paid.stage!r} in round {paid.round} that "
                "something could follow from"
            )
        return found

    def _task(self, instruction: Instruction) -> Task | FollowUp:
        if type(instruction) is not Instruction:  # a subclass could carry further fields
            raise InvalidInput(
                f"{self.name!r} takes an Instruction and nothing more, found "
                f"{type(instruction).__name__}"
            )
        if instruction.agreement != self.agreement:
            raise Refused(f"{self.name!r} has agreed to {self.agreement!r}, and to nothing else")
        task = self.tasks.get(instruction.stage)
        if task is None:
            raise Refused(
                f"{self.name!r} was not set up for {instruction.stage!r:.120}; it knows "
                f"{sorted(self.tasks)}"
            )
        found = shapes_of(instruction.arrays)
        if found != dict(task.shapes):
            raise InvalidInput(
                f"{instruction.stage!r} trains arrays of the shapes {dict(task.shapes)}, "
                f"found {found}"
            )
        return task

    # --- its own disk -------------------------------------------------------------------------

    def _stored(self, participation: Participation, stage: str) -> Update | None:
        """What was made for a stage, of the participation that paid for it."""
        number = participation.round
        path = self._path(stage, number)
        if path is None or not path.exists():
            return None
        held, label = array_file.read(path, STORED)
        arrays = {n: array for n, array in held.items() if not n.startswith(_KEPT)}
        stated = event_as_text(participation.event)
        if label.get("agreement", "") != self.agreement:
            raise Refused(
                f"{self.name!r} has an update for {stage!r}, round {number}, that was made under "
                "another agreement; it is not sent under this one"
            )
        if label.get("event") != stated:
            raise Refused(
                f"{self.name!r} has an update for {stage!r}, round {number}, that was charged "
                "under another promise; it is not sent under this one"
            )
        booking = Booking(str(label.get("booking")), label.get("account"))
        if not self.guard.holds(participation, booking):
            raise Refused(
                f"{self.name!r} has an update for {stage!r}, round {number}, that its books do "
                "not hold; it is not sent. Bring back the books that it belongs to, or move "
                f"{path.name} away"
            )
        if "note" not in label:
            raise Refused(f"{path.name} does not say with what randomness it was made; not sent")
        note = label["note"]
        kept = {n.removeprefix(_KEPT): a for n, a in held.items() if n not in arrays}
        self._latest[stage] = _LastAnswer(number, booking, note, kept)
        return Update(
            self.name, stage, number, arrays, stated, booking.account, note,
            resent=True, agreement=self.agreement,
        )  # fmt: skip

    def _store(self, update: Update, booking: Booking, kept: Arrays) -> None:
        self._latest[update.stage] = _LastAnswer(update.round, booking, update.note, kept)
        path = self._path(update.stage, update.round)
        if path is not None:
            label = {
                "client": update.client,
                "stage": update.stage,
                "round": update.round,
                "event": update.event,
                "booking": booking.name,
                "account": booking.account,
                "note": update.note,
                "agreement": update.agreement,
            }
            held = {f"{_KEPT}{name}": array for name, array in kept.items()}
            write_arrays(path, STORED, {**update.arrays, **held}, label)

    def _stored_rounds(self, stage: str) -> list[int]:
        first = self._path(stage, 1)
        found = () if first is None else first.parent.glob(first.name.replace(".1.", ".*."))
        numbers = (path.name.split(".")[1] for path in found)
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _path(self, stage: str, number: int) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / file_stem(self.name) / f"{file_stem(stage)}.{number}.safetensors"


def check_size(name: str, size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _MOST_RECORDS:
        raise InvalidInput(
            f"{name!r} must declare at least one record, and at most 2^53; found {size!r:.60}"
        )
