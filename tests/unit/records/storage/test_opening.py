"""One file opened several times or under several names, files that go away, places, passwords."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from voile.core.errors import InvalidInput, OutcomeUnknown, StorageFault
from voile.records.storage import Part, Storage, Table, Transaction, file_of, open_storage
from voile.records.storage.postgres import _address


class Name(NamedTuple):
    name: str


class Number(NamedTuple):
    number: int


NAMES = Table("names", Name, key=("name",))
NUMBERS = Table("numbers", Number, key=("number",))
PART = Part("names", (NAMES,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


def add(storage: Storage, name: str) -> None:
    storage.submit(lambda t: t.insert(NAMES, Name(name)))


def names(storage: Storage) -> list[str]:
    return [found.name for found in storage.submit(lambda t: t.scan(NAMES))]


class TestOneFileOpenedTwice:
    def test_closing_one_leaves_the_other_open(self, path: Path) -> None:
        one, two = open_storage(path, [PART]), open_storage(path, [PART])
        add(one, "a")
        one.close()
        one.close()
        with pytest.raises(StorageFault, match="closed"):
            add(one, "b")
        with pytest.raises(StorageFault, match="closed"):
            one.read_snapshot(lambda t: t.scan(NAMES))
        add(two, "c")
        assert names(two) == ["a", "c"]
        two.close()
        with open_storage(path, [PART]) as again:
            assert names(again) == ["a", "c"]

    def test_whatever_the_file_is_called_there_is_one_connection(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = path.parent / "link.db"
        link.symlink_to(path.name)
        monkeypatch.chdir(path.parent)
        places: list[str | Path] = [path, str(path), f"sqlite:{path}", "test.db", link]
        opened = [open_storage(place, [PART]) for place in places]
        assert len({id(storage._shared) for storage in opened}) == 1
        for storage in opened:
            storage.close()
        assert not [each for each in path.parent.iterdir() if each.name.startswith("link.db-")]

    def test_the_second_may_bring_further_tables(self, path: Path) -> None:
        more = Part("numbers", (NUMBERS,))
        with open_storage(path, [PART]) as one, open_storage(path, [PART, more]) as two:
            two.submit(lambda t: t.insert(NUMBERS, Number(1)))
            assert one.submit(lambda t: t.scan(NUMBERS)) == [Number(1)]

    def test_a_second_opening_that_is_refused_leaves_the_first_alone(self, path: Path) -> None:
        newer = Part("names", (NAMES,), 2, {1: lambda _: None})
        with open_storage(path, [newer]) as one:
            with pytest.raises(StorageFault, match="version 2"):
                open_storage(path, [PART])
            add(one, "a")

    def test_many_threads_that_open_and_close_at_once_lose_nothing(self, path: Path) -> None:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for turn in range(10):
                    with open_storage(path, [PART]) as storage:
                        add(storage, f"{number}/{turn}")
            except BaseException as error:
                errors.append(error)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert errors == []
        with open_storage(path, [PART]) as storage:
            assert len(names(storage)) == 80

    def test_one_that_was_forgotten_does_not_keep_the_other_from_closing(self, path: Path) -> None:
        one, two = open_storage(path, [PART]), open_storage(path, [PART])
        add(two, "a")
        del two
        one.close()
        assert not Path(f"{path}-wal").exists()


class TestFiles:
    def test_an_existing_database_is_never_opened_but_by_sqlite(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Closing a descriptor of a database drops the locks of the whole process."""
        opened: list[tuple[str, int]] = []
        really = os.open

        def watched(name: str | Path, flags: int, *rest: int) -> int:
            opened.append((str(name), flags))
            return really(name, flags, *rest)

        open_storage(path, [PART]).close()
        monkeypatch.setattr(os, "open", watched)
        with open_storage(path, [PART]), open_storage(path, [PART]) as storage:
            storage.read_snapshot(lambda t: t.scan(NAMES))
        touched = [flags for name, flags in opened if name == str(path)]
        assert touched
        assert all(flags & os.O_EXCL for flags in touched)

    @pytest.mark.parametrize("which", ["", "-wal"])
    @pytest.mark.parametrize("replaced", [False, True])
    def test_a_file_that_was_deleted_or_replaced_is_a_fault_and_memory_is_gone(
        self, path: Path, which: str, replaced: bool
    ) -> None:
        storage = open_storage(path, [PART])
        add(storage, "a")
        storage.submit(lambda t: t.memory.update({"names": 1}))
        file = Path(f"{path}{which}")
        content = file.read_bytes()  # drops the locks, too
        file.unlink()
        if replaced:
            file.write_bytes(content)
        for _ in range(2):
            with pytest.raises(StorageFault, match="deleted or replaced"):
                add(storage, "b")
            with pytest.raises(StorageFault, match="deleted or replaced"):
                storage.read_snapshot(lambda t: t.scan(NAMES))
        assert storage._shared.session.memory == {}
        storage.close()

    def test_a_file_that_went_away_during_a_command_makes_its_outcome_unknown(
        self, path: Path
    ) -> None:
        def command(t: Transaction) -> None:
            t.insert(NAMES, Name("a"))
            Path(f"{path}-wal").unlink()

        with open_storage(path, [PART]) as storage, pytest.raises(OutcomeUnknown):
            storage.submit(command)

    def test_a_replaced_file_can_be_opened_beside_the_old_one(self, path: Path) -> None:
        old = open_storage(path, [PART])
        add(old, "old")
        path.unlink()
        for rest in ("-wal", "-shm"):
            Path(f"{path}{rest}").unlink()
        with open_storage(path, [PART]) as new:
            add(new, "new")
            with pytest.raises(StorageFault, match="deleted or replaced"):
                add(old, "b")
            old.close()
            add(new, "newer")
        with open_storage(path, [PART]) as again:
            assert names(again) == ["new", "newer"]

    def test_a_live_copy_made_by_sqlite_is_whole(self, path: Path) -> None:
        """As docs/budget.md tells people to copy a database."""
        with open_storage(path, [PART]) as storage:
            add(storage, "a")
            source, target = sqlite3.connect(path), sqlite3.connect(path.parent / "copy.db")
            source.backup(target)
            source.close()
            target.close()
            add(storage, "b")
        with open_storage(path.parent / "copy.db", [PART]) as copy:
            assert names(copy) == ["a"]

    def test_a_file_with_two_names_is_refused(self, path: Path) -> None:
        open_storage(path, [PART]).close()
        (path.parent / "other.db").hardlink_to(path)
        with pytest.raises(StorageFault, match="second name"):
            open_storage(path.parent / "other.db", [PART])

    @pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
    def test_what_is_no_file_is_refused(self, path: Path, make: object) -> None:
        make(path)  # type: ignore[operator]
        with pytest.raises(StorageFault, match="regular file"):
            open_storage(path, [PART])


SECRETS = [
    "mysql://user:hunter2@host/db",
    "postgre://user:hunter2@host/db",
    "postgresql:/user:hunter2@host/db",
    "postgresql+psycopg://user:hunter2@host/db",
    "user:hunter2@host/db",
    "postgresql://user:hunter2",
    "postgresql://user:hun/ter2@host/db",
    "postgresql://user:11/hunter2@host/db",
    "postgresql://user:hun@ter2@host/db",
    "postgresql://user:%hunter2@host/db",
    "postgresql://host/db?password=hunter2&%",
]


@pytest.mark.parametrize("place", SECRETS)
def test_a_password_in_a_malformed_address_is_not_repeated(place: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_storage(place, [PART])
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "hun" not in str(seen)
        assert "ter2" not in str(seen)
        seen = seen.__cause__ or seen.__context__


def test_an_address_may_set_its_own_time_limits() -> None:
    said = _address("postgresql://u:p@h/db?keepalives_idle=77&sslmode=require", psycopg)
    given = psycopg.conninfo.conninfo_to_dict(said)
    assert given["keepalives_idle"] == "77"
    assert given["tcp_user_timeout"] == "30000"
    assert (given["user"], given["password"], given["sslmode"]) == ("u", "p", "require")


@pytest.mark.parametrize("place", ["memory:", "postgresql://h/db", "postgres://h/db"])
def test_a_place_that_is_no_file_has_none(place: str) -> None:
    assert file_of(place) is None
