"""One suite for every storage: what memory does in a few readable lines, the databases do too."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from voile.core.errors import (
    DuplicateRecord,
    InvalidInput,
    MissingRecord,
    NewerDatabase,
    StorageFault,
    StorageReadOnly,
)
from voile.records.storage import (
    Migrator,
    Part,
    Reader,
    Session,
    Storage,
    Table,
    Transaction,
    storage_on,
)
from voile.records.storage.memory import MemoryDatabase, MemorySession
from voile.records.storage.session import grouped_writes
from voile.records.storage.storage import _Ticket
from voile.records.storage.tables import Key


@dataclass(frozen=True)
class Item:
    name: str
    number: int
    weight: float | None
    payload: bytes


@dataclass(frozen=True)
class Total:
    name: str
    value: int


@dataclass(frozen=True)
class Seat:
    row: int
    place: int


class TotalTuple(NamedTuple):
    name: str
    value: int


TUPLES = Table("totals", TotalTuple, key=("name",))
ITEMS = Table("items", Item, key=("name", "number"))
TOTALS = Table("totals", Total, key=("name",))
SEATS = Table("seats", Seat, key=("row", "place"))
PART = Part("shop", (ITEMS, TOTALS, SEATS))

NewSession = Callable[[], Session]


@pytest.fixture
def storage(new_session: NewSession) -> Iterator[Storage]:
    with storage_on(new_session(), [PART]) as opened:
        yield opened


def item(name: str = "a", number: int = 1, weight: float | None = 0.5) -> Item:
    return Item(name, number, weight, b"\x00\xff")


def add(record: Item) -> Callable[[Transaction], None]:
    return lambda t: t.insert(ITEMS, record)


def all_items(storage: Storage) -> list[Item]:
    return storage.submit(lambda t: t.scan(ITEMS))


class TestRecords:
    def test_an_inserted_record_comes_back_equal(self, storage: Storage) -> None:
        storage.submit(add(item()))
        assert storage.submit(lambda t: t.get(ITEMS, "a", 1)) == item()

    def test_an_absent_record_is_none(self, storage: Storage) -> None:
        assert storage.submit(lambda t: t.get(ITEMS, "a", 1)) is None

    def test_a_taken_key_is_refused_and_the_first_record_stays(self, storage: Storage) -> None:
        storage.submit(add(item(weight=1.0)))
        with pytest.raises(DuplicateRecord) as caught:
            storage.submit(add(item(weight=2.0)))
        assert caught.value.key == ("a", 1)
        assert all_items(storage) == [item(weight=1.0)]

    def test_replace_overwrites_one_record_only(self, storage: Storage) -> None:
        storage.submit(add(item("a")))
        storage.submit(add(item("b")))
        storage.submit(lambda t: t.replace(ITEMS, item("a", weight=None)))
        assert all_items(storage) == [item("a", weight=None), item("b")]

    def test_replace_of_nothing_is_refused(self, storage: Storage) -> None:
        with pytest.raises(MissingRecord):
            storage.submit(lambda t: t.replace(ITEMS, item()))
        assert all_items(storage) == []

    def test_deleted_records_are_gone_and_the_others_stay(self, storage: Storage) -> None:
        for name in "abc":
            storage.submit(add(item(name)))
        keys: list[Key] = [("a", 1), ("c", 1), ("x", 1)]
        assert storage.submit(lambda t: t.delete_all(ITEMS, keys)) == 2
        assert all_items(storage) == [item("b")]
        assert storage.submit(lambda t: t.delete_all(ITEMS, [])) == 0
        storage.submit(add(item("a", weight=2.0)))
        assert all_items(storage) == [item("a", weight=2.0), item("b")]

    def test_a_deletion_is_undone_with_its_command(self, storage: Storage) -> None:
        storage.submit(add(item("a")))
        storage.submit(add(item("b")))

        def delete_and_fail(t: Transaction) -> None:
            t.delete_all(ITEMS, [("a", 1)])
            assert t.get(ITEMS, "a", 1) is None
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            storage.submit(delete_and_fail)
        assert all_items(storage) == [item("a"), item("b")]

    def test_a_deletion_sees_what_was_kept_until_the_end(self, storage: Storage) -> None:
        def command(t: Transaction) -> list[Item]:
            with grouped_writes(t) as grouped:
                grouped.insert(ITEMS, item("a"))
                grouped.insert(ITEMS, item("b"))
                assert grouped.delete_all(ITEMS, [("a", 1)]) == 1
                assert grouped.get(ITEMS, "a", 1) is None
                return grouped.scan(ITEMS)

        assert storage.submit(command) == [item("b")] == all_items(storage)

    def test_a_record_that_is_all_key_can_be_replaced(self, storage: Storage) -> None:
        storage.submit(lambda t: t.insert(SEATS, Seat(1, 2)))
        storage.submit(lambda t: t.replace(SEATS, Seat(1, 2)))
        with pytest.raises(MissingRecord):
            storage.submit(lambda t: t.replace(SEATS, Seat(1, 3)))

    @settings(max_examples=30)
    @given(
        name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        number=st.integers(-(2**63), 2**63 - 1),
        weight=st.floats(allow_nan=False) | st.none(),
        payload=st.binary(),
    )
    @example(name="", number=0, weight=-0.0, payload=b"")
    def test_every_value_comes_back_bit_for_bit(
        self, storage: Storage, name: str, number: int, weight: float | None, payload: bytes
    ) -> None:
        record = Item(name, number, weight, payload)

        def write_and_read(t: Transaction) -> Item | None:
            if t.get(ITEMS, name, number) is None:
                t.insert(ITEMS, record)
            else:
                t.replace(ITEMS, record)
            return t.get(ITEMS, name, number)

        found = storage.submit(write_and_read)
        assert repr(found) == repr(record)  # repr tells 0.0 from -0.0

    @pytest.mark.parametrize(
        "bad",
        [
            item(number=2**63),
            item(number=True),
            item(weight=float("nan")),
            item(name="a\0b"),
            item(name="\ud800"),
            replace(item(), payload="text"),  # type: ignore[arg-type]
            replace(item(), name=None),  # type: ignore[arg-type]
            item(weight=1),
        ],
    )
    def test_what_a_database_would_refuse_or_change_is_refused(
        self, storage: Storage, bad: Item
    ) -> None:
        with pytest.raises(InvalidInput):
            storage.submit(add(bad))
        assert all_items(storage) == []

    def test_a_key_of_wrong_length_or_type_is_refused(self, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="key"):
            storage.submit(lambda t: t.get(ITEMS, "a"))
        with pytest.raises(InvalidInput):
            storage.submit(lambda t: t.get(ITEMS, "a", "1"))


class TestSeveralRecords:
    def test_all_are_overwritten(self, storage: Storage) -> None:
        for name in ("a", "b", "c"):
            storage.submit(add(item(name)))
        changed = [item("c", weight=3.0), item("a", weight=None)]
        storage.submit(lambda t: t.replace_all(ITEMS, changed))
        assert all_items(storage) == [item("a", weight=None), item("b"), item("c", weight=3.0)]
        assert storage.submit(lambda t: t.get(ITEMS, "c", 1)) == item("c", weight=3.0)

    def test_one_that_is_not_there_is_named_and_none_is_overwritten(self, storage: Storage) -> None:
        storage.submit(add(item("a")))
        changed = [item("a", weight=2.0), item("b")]
        with pytest.raises(MissingRecord) as caught:
            storage.submit(lambda t: t.replace_all(ITEMS, changed))
        assert caught.value.key == ("b", 1)
        assert storage.submit(lambda t: t.get(ITEMS, "a", 1)) == item("a")

    def test_several_are_added_at_once_or_none(self, storage: Storage) -> None:
        storage.submit(lambda t: t.insert_all(ITEMS, [item("b"), item("a")]))
        assert all_items(storage) == [item("a"), item("b")]
        for added in (
            [item("c"), item("b", weight=9.0)],  # there before
            [item("c"), item("d"), item("d", weight=9.0)],  # twice among them
        ):
            with pytest.raises(DuplicateRecord) as caught:
                storage.submit(lambda t, added=added: t.insert_all(ITEMS, added))  # type: ignore[misc]
            assert caught.value.key == (added[-1].name, 1)
            assert all_items(storage) == [item("a"), item("b")]

    def test_no_record_is_none(self, storage: Storage) -> None:
        storage.submit(lambda t: t.replace_all(ITEMS, []))
        storage.submit(lambda t: t.insert_all(ITEMS, []))
        storage.submit(lambda t: t.put_all(ITEMS, []))
        assert storage.submit(lambda t: t.get_all([])) == []
        assert storage.submit(lambda t: t.last_all(ITEMS, [])) == []

    @pytest.mark.parametrize("count", [1, 2, 3, 64, 600])
    def test_however_many_there_are(self, storage: Storage, count: int) -> None:
        items = [item("a", number) for number in range(count)]
        storage.submit(lambda t: t.insert_all(ITEMS, items))
        assert all_items(storage) == items
        keys = [(ITEMS, (each.name, each.number)) for each in items]
        assert storage.submit(lambda t: t.get_all(keys)) == items
        seats = [Seat(number, number) for number in range(count)]
        storage.submit(lambda t: t.insert_all(SEATS, [*seats, Seat(0, -1)]))
        rows = list(range(-1, count))
        assert storage.submit(lambda t: t.last_all(SEATS, rows)) == [None, *seats]
        again = [*items[:-1], item("a", count), item("b")]
        storage.submit(lambda t: t.put_all(ITEMS, [replace(each, weight=9.0) for each in again]))
        assert {each.weight for each in all_items(storage) if each in again} == set()
        assert len(all_items(storage)) == count + 2
        with pytest.raises(DuplicateRecord) as caught:
            storage.submit(lambda t: t.insert_all(ITEMS, [item("c", n) for n in range(count)] * 2))
        assert caught.value.key[0] == "c"
        assert len(all_items(storage)) == count + 2

    def test_some_are_added_and_some_overwritten(self, storage: Storage) -> None:
        storage.submit(lambda t: t.insert_all(ITEMS, [item("a"), item("b", weight=None)]))
        storage.submit(lambda t: t.put_all(ITEMS, [item("c"), item("a", weight=-0.0)]))
        assert repr(all_items(storage)) == repr(
            [item("a", weight=-0.0), item("b", weight=None), item("c")]
        )
        storage.submit(lambda t: t.put_all(SEATS, [Seat(1, 2)]))
        storage.submit(lambda t: t.put_all(SEATS, [Seat(1, 2), Seat(1, 3)]))
        assert storage.submit(lambda t: t.scan(SEATS)) == [Seat(1, 2), Seat(1, 3)]

    def test_records_of_several_tables_are_read_at_once(self, storage: Storage) -> None:
        storage.submit(
            lambda t: t.insert_all(ITEMS, [item("a", weight=-0.0), item("b", weight=None)])
        )
        storage.submit(lambda t: t.insert_all(TUPLES, [TotalTuple("a", 2**62)]))
        storage.submit(lambda t: t.insert(SEATS, Seat(1, 2)))
        wanted: list[tuple[Table[Any], Any]] = [
            (ITEMS, ("b", 1)),
            (TUPLES, ("a",)),
            (SEATS, (2, 2)),
            (ITEMS, ("a", 1)),
            (SEATS, (1, 2)),
            (ITEMS, ("a", 2)),
            (TUPLES, ("a",)),
        ]
        total = TotalTuple("a", 2**62)
        expected = [
            item("b", weight=None),
            total,
            None,
            item("a", weight=-0.0),
            Seat(1, 2),
            None,
            total,
        ]
        found = storage.submit(lambda t: t.get_all(wanted))
        assert repr(found) == repr(expected)
        assert type(found[1]) is TotalTuple
        assert storage.read_snapshot(lambda t: t.get_all(wanted)) == expected
        with pytest.raises(InvalidInput, match="key"):
            storage.submit(lambda t: t.get_all([(ITEMS, ("a",))]))

    def test_the_last_of_each_prefix(self, storage: Storage) -> None:
        some = [item("a", 3), item("a", -1), item("b", 7, weight=None)]
        storage.submit(lambda t: t.insert_all(ITEMS, some))
        names = ["b", "none", "a", "b"]
        expected = [some[2], None, some[0], some[2]]
        assert storage.submit(lambda t: t.last_all(ITEMS, names)) == expected
        assert storage.read_snapshot(lambda t: t.last_all(ITEMS, names)) == expected
        with pytest.raises(InvalidInput, match="name"):
            storage.submit(lambda t: t.last_all(ITEMS, [1]))


NAMES = ("a", "b", "c")


def told_by_acts(t: Transaction, draw: random.Random) -> list[object]:
    """Reads and writes as commands make them, many of them about the same few records."""
    # What was read is known to be there, or not.
    told: list[object] = []
    for name, number in itertools.product(NAMES, range(3)):
        found: Item | None = t.get(ITEMS, name, number)
        told.append(found)
    for _ in range(30):
        name, number = draw.choice(NAMES), draw.randrange(3)
        record = Item(name, number, draw.random(), b"")
        reading: dict[str, Any] = {
            "after": draw.choice((None, number)),
            "limit": draw.choice((None, 1, 2)),
            "descending": draw.random() < 0.5,
        }
        choices: list[Callable[[], object]] = [
            partial(t.insert, ITEMS, record),
            partial(t.replace, ITEMS, record),
            partial(t.insert_all, ITEMS, [record]),
            partial(t.replace_all, ITEMS, [record]),
            partial(t.put_all, ITEMS, [record, replace(record, number=number + 1)]),
            partial(t.get, ITEMS, name, number),
            partial(t.get_all, [(ITEMS, (each, number)) for each in NAMES]),
            partial(t.last_all, ITEMS, [name, NAMES[0]]),
            partial(t.scan, ITEMS, name, **reading),
            partial(t.scan, ITEMS, limit=4),
            partial(t.scan, ITEMS, after=name),
        ]
        try:
            told.append(draw.choice(choices)())
        except (DuplicateRecord, MissingRecord) as error:
            told.append(type(error))
    return told


class TestGroupedWrites:
    """Whoever reads and writes cannot tell it from the transaction, nor can anybody afterwards."""

    @pytest.mark.parametrize("seed", range(6))
    def test_all_of_it_is_as_if_written_at_once(self, storage: Storage, seed: int) -> None:
        def grouped(t: Transaction, draw: random.Random) -> list[object]:
            with grouped_writes(t) as g:
                return told_by_acts(g, draw)

        one, other = random.Random(seed), random.Random(seed)
        with storage_on(MemorySession(MemoryDatabase()), [PART]) as plain:
            for _ in range(4):
                expected = plain.submit(lambda t: told_by_acts(t, one))
                assert storage.submit(lambda t: grouped(t, other)) == expected
                assert all_items(storage) == all_items(plain)

    def test_what_was_not_read_is_told_at_the_end_and_nothing_is_kept(
        self, storage: Storage
    ) -> None:
        storage.submit(add(item("a")))
        for act, error in (
            (lambda t: t.insert(ITEMS, item("a", weight=2.0)), DuplicateRecord),
            (lambda t: t.replace(ITEMS, item("x")), MissingRecord),
        ):

            def command(t: Transaction, act: Any = act) -> None:
                with grouped_writes(t) as g:
                    g.insert(TOTALS, Total("n", 1))
                    act(g)

            with pytest.raises(error):
                storage.submit(command)
        assert all_items(storage) == [item("a")]
        assert storage.submit(lambda t: t.get(TOTALS, "n")) is None

    def test_nothing_is_written_if_something_is_raised(self, storage: Storage) -> None:
        def command(t: Transaction) -> None:
            with suppress(ValueError), grouped_writes(t) as g:
                g.insert(TOTALS, Total("n", 1))
                g.memory[TOTALS.name] = "as it would have been"
                raise ValueError
            assert t.memory == {}

        storage.submit(command)
        assert storage.submit(lambda t: t.get(TOTALS, "n")) is None

    def test_what_was_kept_in_memory_since_outlasts_the_writing(self, storage: Storage) -> None:
        def command(t: Transaction) -> object:
            with grouped_writes(t) as g:
                g.insert(TOTALS, Total("n", 1))
                g.memory[TOTALS.name] = "as it is now"
                g.insert(SEATS, Seat(1, 2))
            assert SEATS.name not in t.memory
            return t.memory.get(TOTALS.name)

        assert storage.submit(command) == "as it is now"

    def test_nothing_is_read_twice(self, storage: Storage) -> None:
        def command(t: Transaction) -> None:
            with grouped_writes(t) as g:
                wanted: list[tuple[Table[Any], Any]] = [(TOTALS, ("n",)), (SEATS, (1, 2))]
                assert g.get_all(wanted) == [None, None]
                assert g.last_all(SEATS, [1, 2]) == [None, None]
                g._reader = None  # type: ignore[assignment]
                assert (g.get(TOTALS, "n"), g.get(SEATS, 1, 2)) == (None, None)
                g.insert_all(SEATS, [Seat(1, 2), Seat(2, 9), Seat(1, 1)])
                assert g.get_all(wanted) == [None, Seat(1, 2)]
                assert g.last_all(SEATS, [1, 2]) == [Seat(1, 2), Seat(2, 9)]

        storage.submit(command)
        assert len(storage.submit(lambda t: t.scan(SEATS))) == 3

    def test_memory_is_gone_when_the_table_is_written(self, storage: Storage) -> None:
        def command(t: Transaction) -> None:
            with grouped_writes(t) as g:
                g.memory[TOTALS.name] = 1
                g.insert(TOTALS, Total("n", 1))
                assert TOTALS.name not in g.memory
                g.memory[TOTALS.name] = 2
                g.replace(TOTALS, Total("n", 2))
                assert TOTALS.name not in g.memory

        storage.submit(command)
        assert storage.submit(lambda t: t.get(TOTALS, "n")) == Total("n", 2)


class TestReadingAgain:
    """A session may remember what it read: nobody may notice."""

    def test_what_another_session_wrote_is_seen(self, new_session: NewSession) -> None:
        with storage_on(new_session(), [PART]) as one, storage_on(new_session(), [PART]) as two:
            one.submit(lambda t: t.insert(TOTALS, Total("n", 0)))
            for value in range(1, 6):
                assert two.submit(lambda t: t.get(TOTALS, "n")) == Total("n", value - 1)
                writer = one if value % 2 else two
                writer.submit(lambda t, value=value: t.replace(TOTALS, Total("n", value)))  # type: ignore[misc]
                assert one.submit(lambda t: t.get(TOTALS, "n")) == Total("n", value)

    def test_what_was_undone_is_forgotten(self, storage: Storage) -> None:
        def fail(t: Transaction) -> None:
            t.replace(TOTALS, Total("n", 7))
            assert t.get(TOTALS, "n") == Total("n", 7)
            raise RuntimeError("undone")

        storage.submit(lambda t: t.insert(TOTALS, Total("n", 0)))
        with pytest.raises(RuntimeError):
            storage.submit(fail)
        assert storage.submit(lambda t: t.get(TOTALS, "n")) == Total("n", 0)

    def test_what_was_undone_in_company_is_forgotten(self, new_session: NewSession) -> None:
        session = new_session()
        storage_on(session, [PART])
        session.begin()
        session.savepoint()
        session.insert(TOTALS, Total("n", 0))
        session.release()
        session.savepoint()
        session.replace_all(TOTALS, [Total("n", 7)])
        session.undo()
        assert session.get(TOTALS, "n") == Total("n", 0)
        session.commit()
        session.close()


class TestMemory:
    """What is kept between transactions is gone as soon as it may be wrong."""

    def test_it_holds_within_a_transaction(self, storage: Storage) -> None:
        def keep(t: Transaction) -> object:
            t.memory[TOTALS.name] = 1
            t.insert(ITEMS, item("a"))
            return t.memory.get(TOTALS.name)

        assert storage.submit(keep) == 1

    @pytest.mark.parametrize(
        "write",
        [
            lambda t: t.insert(TUPLES, TotalTuple("m", 1)),
            lambda t: t.replace(TOTALS, Total("n", 1)),
            lambda t: t.replace_all(TOTALS, [Total("n", 1)]),
            lambda t: t.put_all(TOTALS, [Total("n", 1)]),
        ],
    )
    def test_it_is_gone_when_the_table_is_written(
        self, storage: Storage, write: Callable[[Transaction], None]
    ) -> None:
        def keep_and_write(t: Transaction) -> bool:
            t.insert(TOTALS, Total("n", 0))
            t.memory[TOTALS.name] = 1
            write(t)
            return TOTALS.name in t.memory

        assert not storage.submit(keep_and_write)

    def test_it_is_gone_when_another_session_has_written(self, new_session: NewSession) -> None:
        with storage_on(new_session(), [PART]) as one, storage_on(new_session(), [PART]) as two:
            one.submit(lambda t: t.memory.update({TOTALS.name: 1}))
            two.submit(lambda t: t.insert(TOTALS, Total("n", 0)))
            assert one.submit(lambda t: dict(t.memory)) == {}

    def test_it_is_gone_when_something_was_undone(self, storage: Storage) -> None:
        def fail(t: Transaction) -> None:
            t.memory[TOTALS.name] = 1
            raise RuntimeError("undone")

        with pytest.raises(RuntimeError):
            storage.submit(fail)
        assert storage.submit(lambda t: dict(t.memory)) == {}

    def test_it_is_gone_when_something_was_undone_in_company(self, new_session: NewSession) -> None:
        session = new_session()
        storage_on(session, [PART])
        session.begin()
        session.savepoint()
        session.memory[TOTALS.name] = 1
        session.undo()
        assert session.memory == {}
        session.commit()
        session.close()

    def test_it_is_gone_when_tables_change(self, new_session: NewSession) -> None:
        session = new_session()
        storage_on(session, [PART])
        session.begin()
        session.insert(TOTALS, Total("n", 0))
        changes: list[Callable[[], None]] = [
            lambda: session.rename(TOTALS, "totals_1"),
            lambda: session.create(TOTALS),
            lambda: session.drop(TOTALS),
        ]
        for change in changes:
            session.memory[TOTALS.name] = 1
            change()
            assert session.memory == {}
        session.rollback()
        session.close()

    def test_a_snapshot_has_one_of_its_own(self, storage: Storage) -> None:
        storage.submit(lambda t: t.memory.update({TOTALS.name: 1}))
        assert storage.read_snapshot(lambda t: dict(t.memory)) == {}


class TestNamedTuples:
    def test_they_are_records_like_others(self, storage: Storage) -> None:
        storage.submit(lambda t: t.insert(TUPLES, TotalTuple("a", 1)))
        storage.submit(lambda t: t.insert(TUPLES, TotalTuple("b", 2)))
        storage.submit(lambda t: t.replace(TUPLES, TotalTuple("b", 3)))
        found = storage.submit(lambda t: t.scan(TUPLES))
        assert found == [("a", 1), ("b", 3)]
        assert {type(each) for each in found} == {TotalTuple}
        assert type(storage.submit(lambda t: t.get(TUPLES, "a"))) is TotalTuple

    def test_they_are_checked_like_others(self, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="value"):
            storage.submit(lambda t: t.insert(TUPLES, TotalTuple("a", True)))
        with pytest.raises(InvalidInput, match="dataclass or a named tuple"):
            Table("plain", tuple, key=("a",))


class TestScan:
    NAMES = ("B", "Z", "a", "b", "é", "中", "\U0001f600")  # in the order of code points

    @pytest.fixture
    def filled(self, storage: Storage) -> Storage:
        for name in reversed(self.NAMES):
            for number in (10, 2, -1):
                storage.submit(add(item(name, number)))
        return storage

    def test_scan_follows_the_key_with_text_by_code_point(self, filled: Storage) -> None:
        keys = [(found.name, found.number) for found in all_items(filled)]
        assert keys == [(name, number) for name in self.NAMES for number in (-1, 2, 10)]

    def test_a_prefix_chooses_and_descending_reverses(self, filled: Storage) -> None:
        found = filled.submit(lambda t: t.scan(ITEMS, "a", descending=True))
        assert [record.number for record in found] == [10, 2, -1]

    def test_after_and_limit_page_through(self, filled: Storage) -> None:
        seen: list[int] = []
        page = filled.submit(lambda t: t.scan(ITEMS, "a", limit=2))
        while page:
            seen += [record.number for record in page]
            last = page[-1].number
            page = filled.submit(lambda t, last=last: t.scan(ITEMS, "a", after=last, limit=2))  # type: ignore[misc]
        assert seen == [-1, 2, 10]

    def test_after_while_descending_means_before(self, filled: Storage) -> None:
        found = filled.submit(lambda t: t.scan(ITEMS, "a", after=10, descending=True))
        assert [record.number for record in found] == [2, -1]

    def test_after_without_prefix_uses_the_first_key_column(self, filled: Storage) -> None:
        found = filled.submit(lambda t: t.scan(ITEMS, after="中"))
        assert {record.name for record in found} == {"\U0001f600"}


class TestTransactions:
    def test_a_command_that_raises_leaves_nothing(self, storage: Storage) -> None:
        def fails(t: Transaction) -> None:
            t.insert(ITEMS, item("a"))
            t.insert(ITEMS, item("b"))
            raise RuntimeError("changed my mind")

        storage.submit(add(item("c")))
        with pytest.raises(RuntimeError, match="changed my mind"):
            storage.submit(fails)
        assert all_items(storage) == [item("c")]

    def test_a_failed_insert_inside_a_command_can_be_survived(self, storage: Storage) -> None:
        def tries_twice(t: Transaction) -> None:
            t.insert(ITEMS, item("a"))
            with pytest.raises(DuplicateRecord):
                t.insert(ITEMS, item("a"))
            t.insert(ITEMS, item("b"))

        storage.submit(tries_twice)
        assert [record.name for record in all_items(storage)] == ["a", "b"]

    def test_a_command_sees_its_own_changes(self, storage: Storage) -> None:
        def count(t: Transaction) -> int:
            t.insert(ITEMS, item())
            return len(t.scan(ITEMS))

        assert storage.submit(count) == 1

    def test_commands_of_one_batch_fail_and_succeed_by_themselves(self, storage: Storage) -> None:
        """While the first command holds the lead, the others queue up and share a transaction."""
        started, go_on = threading.Event(), threading.Event()
        outcomes: dict[int, str] = {}

        def slow(t: Transaction) -> None:
            started.set()
            assert go_on.wait(60)
            t.insert(TOTALS, Total("slow", 0))

        def one(number: int) -> None:
            def command(t: Transaction) -> None:
                t.insert(ITEMS, item("batch", number))
                if number % 3 == 0:
                    raise RuntimeError("no")

            try:
                storage.submit(command)
                outcomes[number] = "done"
            except RuntimeError:
                outcomes[number] = "refused"

        leader = threading.Thread(target=lambda: storage.submit(slow))
        leader.start()
        assert started.wait(60)
        followers = [threading.Thread(target=one, args=(n,)) for n in range(30)]
        for thread in followers:
            thread.start()
        go_on.set()
        for thread in [leader, *followers]:
            thread.join(30)
        expected = {n: "refused" if n % 3 == 0 else "done" for n in range(30)}
        assert outcomes == expected
        kept = [record.number for record in all_items(storage)]
        assert kept == [n for n in range(30) if n % 3]

    def test_no_increment_is_lost_between_threads(self, storage: Storage) -> None:
        storage.submit(lambda t: t.insert(TOTALS, Total("n", 0)))

        def increment(t: Transaction) -> int:
            found = t.get(TOTALS, "n")
            assert found is not None
            t.replace(TOTALS, Total("n", found.value + 1))
            return found.value + 1

        answers: list[int] = []
        threads = [
            threading.Thread(
                target=lambda: answers.extend(storage.submit(increment) for _ in range(10))
            )
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(answers) == list(range(1, 161))
        assert storage.submit(lambda t: t.get(TOTALS, "n")) == Total("n", 160)

    def test_two_storages_on_one_database_exclude_each_other(
        self, new_session: NewSession, storage: Storage
    ) -> None:
        storage.submit(lambda t: t.insert(TOTALS, Total("n", 0)))

        def increment(t: Transaction) -> None:
            found = t.get(TOTALS, "n")
            assert found is not None
            t.replace(TOTALS, Total("n", found.value + 1))

        with storage_on(new_session(), [PART]) as other:
            threads = [
                threading.Thread(target=lambda s=s: [s.submit(increment) for _ in range(50)])
                for s in (storage, other)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        assert storage.submit(lambda t: t.get(TOTALS, "n")) == Total("n", 100)

    def test_a_command_inside_a_command_is_refused(self, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="cannot submit another"):
            storage.submit(lambda _: storage.submit(add(item())))
        storage.submit(add(item()))  # and the storage goes on

    def test_an_interrupted_leader_keeps_nothing_and_frees_the_others(
        self, storage: Storage
    ) -> None:
        def interrupted(t: Transaction) -> None:
            t.insert(ITEMS, item("lost"))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            storage.submit(interrupted)
        storage.submit(add(item("kept")))
        assert [record.name for record in all_items(storage)] == ["kept"]

    @pytest.mark.parametrize("leads", [False, True])
    def test_whoever_is_interrupted_while_waiting_holds_nobody_up(
        self, storage: Storage, leads: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Before its turn has come, or when it was just made the next leader."""
        inside, go_on = threading.Event(), threading.Event()

        def slow(_: Transaction) -> None:
            inside.set()
            go_on.wait(60)

        def interrupted(ticket: _Ticket[object]) -> None:
            if leads:
                go_on.set()
                waits(ticket)
            raise KeyboardInterrupt

        waits = _Ticket.wait
        at_work = threading.Thread(target=lambda: storage.submit(slow))
        at_work.start()
        assert inside.wait(60)
        with monkeypatch.context() as patch:
            patch.setattr(_Ticket, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                storage.submit(add(item("never")))
        go_on.set()
        at_work.join(60)
        done: list[bool] = []
        later = threading.Thread(target=lambda: done.append(_added(storage, "kept")), daemon=True)
        later.start()
        later.join(60)
        assert done == [True]
        assert [record.name for record in all_items(storage)] == ["kept"]

    @pytest.mark.parametrize("entry", [1, 2])
    def test_ctrl_c_on_the_way_in_or_out_holds_nobody_up(
        self, storage: Storage, entry: int
    ) -> None:
        gate = InterruptingGate(storage, entry)
        with pytest.raises(KeyboardInterrupt):
            storage.submit(add(item("a")))
        assert gate.entries >= entry
        done: list[bool] = []
        later = threading.Thread(target=lambda: done.append(_added(storage, "b")), daemon=True)
        later.start()
        later.join(60)
        assert done == [True]

    @pytest.mark.parametrize("entry", [2, 3])
    def test_ctrl_c_in_the_thread_that_leads_holds_nobody_up(
        self, storage: Storage, entry: int
    ) -> None:
        """As it takes the queue over, and as it passes the lead on."""
        inside, go_on = threading.Event(), threading.Event()

        def slow(_: Transaction) -> None:
            inside.set()
            go_on.wait(60)

        at_work = threading.Thread(target=lambda: storage.submit(slow))
        at_work.start()
        assert inside.wait(60)
        InterruptingGate(storage, entry)
        ends: list[object] = []

        def behind() -> None:
            while not storage._shared.queue:
                time.sleep(0.001)
            try:
                ends.append(_added(storage, "behind"))
            except StorageFault as fault:
                ends.append(fault)

        def let_go() -> None:
            while len(storage._shared.queue) < 2:
                time.sleep(0.001)
            go_on.set()

        others = [threading.Thread(target=each, daemon=True) for each in (behind, let_go)]
        for each in others:
            each.start()
        with pytest.raises(KeyboardInterrupt):
            storage.submit(add(item("leads")))
        for each in (at_work, *others):
            each.join(60)
        assert len(ends) == 1
        assert _added(storage, "later")


class InterruptingGate:
    """The lock of the queue; Ctrl-C comes as the thread that made this enters for the n-th time."""

    def __init__(self, storage: Storage, entry: int) -> None:
        self._lock, self._entry, self.entries = storage._shared.gate, entry, 0
        self._thread = threading.get_ident()
        storage._shared.gate = self  # type: ignore[assignment]

    def __enter__(self) -> None:
        if threading.get_ident() == self._thread:
            self.entries += 1
            if self.entries == self._entry:
                raise KeyboardInterrupt
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _added(storage: Storage, name: str) -> bool:
    storage.submit(add(item(name)))
    return True


class TestLooking:
    """Reading much, at one moment, while others write."""

    def test_it_sees_what_was_committed(self, storage: Storage) -> None:
        storage.submit(add(item()))
        assert storage.read_snapshot(lambda t: t.get(ITEMS, "a", 1)) == item()
        assert storage.read_snapshot(lambda t: t.scan(ITEMS)) == [item()]
        assert storage.read_snapshot(lambda t: t.get(ITEMS, "b", 1)) is None

    def test_it_stays_at_one_moment_while_others_write(
        self, storage: Storage, new_session: NewSession
    ) -> None:
        storage.submit(add(item("a")))
        with storage_on(new_session(), [PART]) as other:

            def question(t: Reader) -> tuple[list[Item], list[Item]]:
                before = t.scan(ITEMS)
                storage.submit(add(item("b")))
                other.submit(add(item("c")))
                return before, t.scan(ITEMS)

            assert storage.read_snapshot(question) == ([item("a")], [item("a")])
        assert [each.name for each in all_items(storage)] == ["a", "b", "c"]

    def test_a_transaction_that_takes_long_is_neither_seen_nor_waited_for(
        self, storage: Storage, request: pytest.FixtureRequest
    ) -> None:
        if "memory" in request.node.name:
            pytest.skip("memory waits for it")
        inside, seen = threading.Event(), threading.Event()

        def slow(t: Transaction) -> bool:
            t.insert(ITEMS, item())
            inside.set()
            return seen.wait(60)

        answers: list[bool] = []
        writer = threading.Thread(target=lambda: answers.append(storage.submit(slow)))
        writer.start()
        assert inside.wait(60)
        assert storage.read_snapshot(lambda t: t.scan(ITEMS)) == []
        seen.set()
        writer.join()
        assert answers == [True]
        assert storage.read_snapshot(lambda t: t.scan(ITEMS)) == [item()]

    def test_a_snapshot_is_read_only(self, storage: Storage) -> None:
        storage.submit(add(item()))
        for write in (
            lambda t: t.insert(ITEMS, item("b")),
            lambda t: t.replace(ITEMS, item(weight=1.0)),
            lambda t: t.replace_all(ITEMS, [item(weight=1.0)]),
        ):
            with pytest.raises(StorageReadOnly):
                storage.read_snapshot(write)
        assert all_items(storage) == [item()]

    def test_many_threads_read_snapshots_at_once(self, storage: Storage) -> None:
        storage.submit(add(item()))
        found: list[list[Item]] = []

        def read() -> None:
            found.append(storage.read_snapshot(lambda t: t.scan(ITEMS)))

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[item()]] * 8

    def test_an_error_while_reading_a_snapshot_is_raised_and_harms_nothing(
        self, storage: Storage
    ) -> None:
        with pytest.raises(ZeroDivisionError):
            storage.read_snapshot(lambda _: 1 / 0)
        storage.submit(add(item()))
        assert storage.read_snapshot(lambda t: t.scan(ITEMS)) == [item()]

    def test_inside_a_command_it_is_refused(self, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="in a transaction"):
            storage.submit(lambda _: storage.read_snapshot(lambda t: t.scan(ITEMS)))


class TestClosing:
    """Closing is one more turn in the queue."""

    def test_it_waits_for_commands_that_came_before_and_refuses_later_ones(
        self, new_session: NewSession
    ) -> None:
        storage = storage_on(new_session(), [PART])
        inside, go_on = threading.Event(), threading.Event()

        def slow(t: Transaction) -> None:
            inside.set()
            assert go_on.wait(60)
            t.insert(ITEMS, item("slow"))

        def later() -> None:
            with pytest.raises(StorageFault, match="closed"):
                storage.submit(add(item("late")))
            refused.set()

        refused = threading.Event()
        at_work = threading.Thread(target=lambda: storage.submit(slow))
        queued = [
            threading.Thread(target=lambda n=n: storage.submit(add(item("queued", n))))
            for n in range(4)
        ]
        closing = threading.Thread(target=storage.close)
        at_work.start()
        assert inside.wait(60)
        for thread in queued:
            thread.start()
        while len(storage._shared.queue) < len(queued):
            time.sleep(0.001)
        closing.start()
        while len(storage._shared.queue) <= len(queued):
            time.sleep(0.001)
        threading.Thread(target=later).start()
        assert refused.wait(60)
        assert closing.is_alive()
        go_on.set()
        for thread in (at_work, *queued, closing):
            thread.join(60)
        with storage_on(new_session(), [PART]) as again:
            assert [found.name for found in all_items(again)] == ["queued"] * 4 + ["slow"]

    def test_reading_a_snapshot_goes_on_after_close(self, new_session: NewSession) -> None:
        storage = storage_on(new_session(), [PART])
        storage.submit(add(item()))

        def question(t: Reader) -> list[Item]:
            storage.close()
            return t.scan(ITEMS)

        assert storage.read_snapshot(question) == [item()]
        with pytest.raises(StorageFault, match="closed"):
            storage.read_snapshot(lambda t: t.scan(ITEMS))

    def test_a_command_cannot_close_what_it_uses(self, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="in a transaction"):
            storage.submit(lambda _: storage.close())
        storage.submit(add(item()))

    def test_an_interrupted_command_does_not_hold_it_up(self, new_session: NewSession) -> None:
        storage = storage_on(new_session(), [PART])
        with pytest.raises(KeyboardInterrupt):
            storage.submit(_interrupt)
        storage.close()
        storage_on(new_session(), [PART]).close()


def _interrupt(_: Transaction) -> None:
    raise KeyboardInterrupt


class TestOutsideATransaction:
    """Where nothing would undo it, nothing is written."""

    STATEMENTS: ClassVar[dict[str, Callable[[Session], object]]] = {
        "insert": lambda s: s.insert(ITEMS, item()),
        "replace": lambda s: s.replace(ITEMS, item()),
        "replace_all": lambda s: s.replace_all(ITEMS, [item()]),
        "put_all": lambda s: s.put_all(ITEMS, [item()]),
        "get_all": lambda s: s.get_all([(ITEMS, ("a", 1))]),
        "last_all": lambda s: s.last_all(ITEMS, ["a"]),
        "get": lambda s: s.get(ITEMS, "a", 1),
        "scan": lambda s: s.scan(ITEMS),
        "create": lambda s: s.create(Table("more", Seat, key=("row",))),
        "drop": lambda s: s.drop(SEATS),
        "rename": lambda s: s.rename(SEATS, "chairs"),
    }

    @pytest.mark.parametrize("name", STATEMENTS)
    def test_every_statement_is_refused(self, new_session: NewSession, name: str) -> None:
        session = new_session()
        with storage_on(session, [PART]) as storage:
            with pytest.raises(StorageFault, match="outside a transaction"):
                self.STATEMENTS[name](session)
            assert all_items(storage) == []

    def test_a_command_that_goes_on_after_the_transaction_was_undone_keeps_nothing(
        self, new_session: NewSession
    ) -> None:
        """As after a full disk, when SQLite undoes everything by itself."""
        session = new_session()
        with storage_on(session, [PART]) as storage:

            def stubborn(t: Transaction) -> str:
                t.insert(ITEMS, item("charge"))
                session.rollback()
                with suppress(StorageFault):
                    t.insert(ITEMS, item("answer"))
                return "released"

            with pytest.raises(StorageFault):
                storage.submit(stubborn)
            assert all_items(storage) == []
            storage.submit(add(item("next")))


class TestCommitFailure:
    """Answers leave after the commit: if it fails, nobody was told anything else."""

    def test_every_caller_of_the_batch_is_told_and_nothing_is_kept(
        self, new_session: NewSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = new_session()
        with storage_on(session, [PART]) as storage:
            with monkeypatch.context() as patch:
                patch.setattr(session, "commit", _raise_fault)
                with pytest.raises(StorageFault, match="the disk is gone"):
                    storage.submit(add(item("a")))
            assert all_items(storage) == []
            storage.submit(add(item("b")))
            assert [record.name for record in all_items(storage)] == ["b"]


def _raise_fault() -> None:
    raise StorageFault("the disk is gone")


class TestOpening:
    def test_what_was_committed_is_there_after_reopening(self, new_session: NewSession) -> None:
        with storage_on(new_session(), [PART]) as storage:
            storage.submit(add(item()))
        with storage_on(new_session(), [PART]) as storage:
            assert all_items(storage) == [item()]

    def test_a_second_part_joins_an_existing_database(self, new_session: NewSession) -> None:
        first = Part("first", (ITEMS,))
        second = Part("second", (TOTALS,))
        with storage_on(new_session(), [first]) as storage:
            storage.submit(add(item()))
        with storage_on(new_session(), [first, second]) as storage:
            storage.submit(lambda t: t.insert(TOTALS, Total("n", 1)))
            assert all_items(storage) == [item()]

    def test_migrations_run_in_order_and_once(self, new_session: NewSession) -> None:
        with storage_on(new_session(), [Part("shop", (TOTALS,))]) as storage:
            storage.submit(lambda t: t.insert(TOTALS, Total("n", 1)))
        newer = Part("shop", (TOTALS, SEATS), 3, {1: _double, 2: _add_seats})
        for _ in range(2):
            with storage_on(new_session(), [newer]) as storage:
                assert storage.submit(lambda t: t.get(TOTALS, "n")) == Total("n", 2)
                assert storage.submit(lambda t: t.scan(SEATS)) == [Seat(1, 1)]

    def test_a_migration_can_change_the_columns_of_a_table(self, new_session: NewSession) -> None:
        with storage_on(new_session(), [Part("shop", (TOTALS,))]) as storage:
            storage.submit(lambda t: t.insert(TOTALS, Total("n", 7)))
        with storage_on(new_session(), [Part("shop", (ROOMY,), 2, {1: _widen})]) as storage:
            assert storage.submit(lambda t: t.scan(ROOMY)) == [RoomyTotal("n", 7, "migrated")]

    def test_a_migration_that_fails_changes_nothing(self, new_session: NewSession) -> None:
        with storage_on(new_session(), [Part("shop", (TOTALS,))]) as storage:
            storage.submit(lambda t: t.insert(TOTALS, Total("n", 1)))
        broken = Part("shop", (TOTALS, SEATS), 3, {1: _double, 2: _fail_half_way})
        with pytest.raises(RuntimeError, match="half way"):
            storage_on(new_session(), [broken])
        with storage_on(new_session(), [Part("shop", (TOTALS,))]) as storage:
            assert storage.submit(lambda t: t.get(TOTALS, "n")) == Total("n", 1)

    def test_a_newer_database_is_refused_and_untouched(self, new_session: NewSession) -> None:
        newer = Part("shop", (TOTALS,), 2, {1: _double})
        with storage_on(new_session(), [newer]) as storage:
            storage.submit(lambda t: t.insert(TOTALS, Total("n", 5)))
        with pytest.raises(NewerDatabase, match="version 2"):
            storage_on(new_session(), [Part("shop", (TOTALS,))])
        with storage_on(new_session(), [newer]) as storage:
            assert storage.submit(lambda t: t.get(TOTALS, "n")) == Total("n", 5)

    def test_a_closed_storage_says_so(self, new_session: NewSession) -> None:
        storage = storage_on(new_session(), [PART])
        storage.close()
        storage.close()
        with pytest.raises(StorageFault, match="closed"):
            storage.submit(lambda _: None)


@dataclass(frozen=True)
class RoomyTotal:
    name: str
    value: int
    remark: str


ROOMY = Table("totals", RoomyTotal, key=("name",))


def _double(t: Migrator) -> None:
    for total in t.scan(TOTALS):
        t.replace(TOTALS, Total(total.name, 2 * total.value))


def _add_seats(t: Migrator) -> None:
    t.create(SEATS)
    t.insert(SEATS, Seat(1, 1))


def _fail_half_way(t: Migrator) -> None:
    _add_seats(t)
    raise RuntimeError("half way")


def _widen(t: Migrator) -> None:
    t.rename(TOTALS, "totals_1")
    t.create(ROOMY)
    for total in t.scan(Table("totals_1", Total, key=("name",))):
        t.insert(ROOMY, RoomyTotal(total.name, total.value, "migrated"))
    t.drop(Table("totals_1", Total, key=("name",)))
