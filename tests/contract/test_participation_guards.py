"""One suite for all books of a client: whatever is asked, nothing unpaid is ever sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.protecting import row_of
from tests.unit.federation.toys import START, Pull, rows_of
from voile.app.federate.books import ClientBooks, Promise
from voile.core.errors import Refused
from voile.federation import (
    Booking,
    Client,
    CountingGuard,
    Instruction,
    Participation,
    ParticipationGuard,
    SeededSources,
    digest_of_arrays,
)
from voile.privacy.events import PrivacyEvent
from voile.records.vault import open_vault

CAP = 2
EVENT: Any = Pull().cost(40)
PROMISE = Promise(row_of("study v1"), 30.0, 1e-5)
ROUND = Instruction("pull", 1, START)


@contextmanager
def in_memory(folder: Path) -> Iterator[ParticipationGuard]:  # noqa: ARG001
    yield CountingGuard(CAP)


@contextmanager
def ledger_and_log(folder: Path) -> Iterator[ParticipationGuard]:
    with open_vault(folder, "north.example/log") as books:
        yield ClientBooks(books, "north", PROMISE, (EVENT,) * CAP)


KINDS: dict[str, Callable[[Path], Any]] = {"in memory": in_memory, "ledger": ledger_and_log}


@pytest.fixture(params=KINDS)
def new_books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Opens books in a folder of this name."""
    opened: list[Any] = []

    def make(name: str) -> Any:
        opened.append(KINDS[request.param](tmp_path / name))
        return opened[-1].__enter__()

    yield make
    for each in reversed(opened):
        each.__exit__(None, None, None)


def participation(number: int = 1, event: PrivacyEvent = EVENT, stage: str = "pull") -> Any:
    return Participation("north", stage, number, event)


@dataclass
class Watched:
    """Vault that tell the order in which they are asked."""

    inner: Any
    told: list[str]

    def before_joining(self) -> None:
        self.inner.before_joining()

    def before_participation(self, asked: Participation) -> Booking:
        self.told.append("asked")
        found: Booking = self.inner.before_participation(asked)
        self.told.append("charged")
        return found

    def holds(self, asked: Participation, booking: Booking) -> bool:
        return bool(self.inner.holds(asked, booking))


class PowerCut(BaseException):
    """Stops a client between charging and storing."""


@dataclass(frozen=True)
class Training(Pull):
    """Tells when it is trained, and what lies on the disk then; may be cut off."""

    told: list[str] = field(default_factory=list)
    cut: list[bool] = field(default_factory=list)

    def fit(self, *arguments: Any) -> Any:
        self.told.append("trained")
        if self.cut:
            self.cut.pop()
            raise PowerCut
        return super().fit(*arguments)


def node(books: Any, folder: Path, task: Any = None, seed: int = 1) -> Client:
    tasks = {"pull": Pull() if task is None else task}
    return Client("north", 40, rows_of("north", 40), tasks, books, SeededSources(seed), folder)


def stored(folder: Path) -> list[Path]:
    return list(folder.rglob("*.safetensors"))


# --- what books do --------------------------------------------------------------------------------


def test_a_booking_is_held_for_its_participation_alone(new_books: Any) -> None:
    books = new_books("books")
    first, second = (books.before_participation(participation(n)) for n in (1, 2))
    assert first != second
    assert books.holds(participation(1), first)
    assert books.holds(participation(2), second)
    for asked, booking in (
        (participation(2), first),
        (participation(1, stage="other"), first),
        (participation(1, Pull(noise=9.0).cost(40)), first),  # type: ignore[arg-type]
        (participation(1), Booking("", first.account)),
        (participation(1), Booking("None", first.account)),
        (participation(1), Booking(first.name, "another account")),
    ):
        assert not books.holds(asked, booking)


def test_joining_books_nothing(new_books: Any) -> None:
    books = new_books("books")
    for _ in range(CAP + 1):
        books.before_joining()
    for number in range(CAP):
        assert books.holds(participation(number), books.before_participation(participation(number)))
    books.before_joining()  # whoever has taken part can be asked again, for a run that is resumed


def test_the_cap_is_kept_and_a_refusal_books_nothing(new_books: Any) -> None:
    books = new_books("books")
    for number in (1, 1):  # a repeat is a new participation
        books.before_participation(participation(number))
    with pytest.raises(Refused):
        books.before_participation(participation(2))


def test_bookings_of_other_books_are_not_held(new_books: Any) -> None:
    """Also not by books of the same name that were opened for the same promise."""
    first = new_books("books").before_participation(participation())
    others = new_books("others")
    others.before_participation(participation())
    assert not others.holds(participation(), first)


# --- what a client does with them -----------------------------------------------------------------


def test_it_charges_before_it_trains_and_stores_before_it_sends(
    new_books: Any, tmp_path: Path
) -> None:
    told: list[str] = []
    client = node(Watched(new_books("books"), told), tmp_path / "node", Training(told=told))
    update = client.answer(ROUND)
    assert told == ["asked", "charged", "trained"]
    assert len(stored(tmp_path / "node")) == 1
    again = client.answer(ROUND)
    assert (again.resent, again.event, again.account) == (True, update.event, update.account)
    assert digest_of_arrays(again.arrays) == digest_of_arrays(update.arrays)
    assert told == ["asked", "charged", "trained"]


def test_a_refused_client_trains_stores_and_sends_nothing_however_often_it_is_asked(
    new_books: Any, tmp_path: Path
) -> None:
    books, told = new_books("books"), list[str]()
    for number in range(CAP):
        books.before_participation(participation(number + 1))
    client = node(books, tmp_path / "node", Training(told=told))
    for _ in range(3):
        with pytest.raises(Refused):
            client.answer(ROUND)
        assert not stored(tmp_path / "node")
    assert told == []


def test_what_was_stored_without_a_charge_is_never_sent(new_books: Any, tmp_path: Path) -> None:
    """The mutant: train and store first, ask the books afterwards."""
    books = new_books("books")
    for number in range(CAP):
        books.before_participation(participation(number + 1))
    node(CountingGuard(1), tmp_path / "node").answer(ROUND)
    assert stored(tmp_path / "node")
    for _ in range(2):
        with pytest.raises(Refused, match="books do not hold"):
            node(books, tmp_path / "node").answer(ROUND)


def test_a_planted_update_is_not_sent_although_the_round_was_paid_for(
    new_books: Any, tmp_path: Path
) -> None:
    books = new_books("books")
    paying = node(books, tmp_path / "node")
    paying.answer(ROUND)
    (mine,) = stored(tmp_path / "node")
    node(new_books("others"), tmp_path / "elsewhere", seed=7).answer(ROUND)
    (foreign,) = stored(tmp_path / "elsewhere")
    mine.write_bytes(foreign.read_bytes())
    with pytest.raises(Refused, match="books do not hold"):
        paying.answer(ROUND)


def test_an_update_of_another_round_is_not_sent_for_this_one(
    new_books: Any, tmp_path: Path
) -> None:
    client = node(new_books("books"), tmp_path / "node")
    client.answer(ROUND)
    (first,) = stored(tmp_path / "node")
    first.rename(first.with_name(first.name.replace(".1.", ".2.")))
    with pytest.raises(Refused, match="books do not hold"):
        client.answer(Instruction("pull", 2, START))


def test_a_crash_after_the_charge_costs_a_participation_and_releases_nothing(
    new_books: Any, tmp_path: Path
) -> None:
    books = new_books("books")
    client = node(books, tmp_path / "node", Training(cut=[True]))
    with pytest.raises(PowerCut):
        client.answer(ROUND)
    assert not stored(tmp_path / "node")
    update = client.answer(ROUND)
    assert not update.resent
    assert client.answer(ROUND).resent
    with pytest.raises(Refused):  # both participations are gone
        client.answer(Instruction("pull", 2, START))
