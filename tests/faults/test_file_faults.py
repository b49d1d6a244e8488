"""Saving explanations and keys on a full disk, into a read-only folder, and under kill -9."""

from __future__ import annotations

import errno
import os
import random
import resource
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.faults.forking import child, exit_code, kill, lines
from voile.core.errors import StorageFull, StorageReadOnly
from voile.core.explanation import Explanation
from voile.records.audit_log import SigningKey
from voile.records.ledger import ReplayKey

NOBODY = 65534


def numbered(number: int, rows: int = 200) -> Explanation:
    """An explanation that can be told from every other, and that is whole or visibly not."""
    values = np.full((rows, 8), float(number))
    return Explanation(
        values=values,
        base_values=np.array(float(number)),
        feature_names=tuple(f"f{i}" for i in range(8)),
        notes=(str(number),),
    )


def said(work: Callable[[int], None]) -> list[str]:
    """What a child process says before it ends by itself."""
    with child(work) as (_, pipe):
        return lines(pipe)


def test_kill_at_random_points_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "explanation.voile"
    numbered(0).save(path)
    chance = random.Random(11)
    last = 0
    moved = 0

    def save_for_ever(pipe: int) -> None:
        number = last
        while True:
            number += 1
            numbered(number).save(path)
            os.write(pipe, b"%d\n" % number)

    for _ in range(60):
        with child(save_for_ever) as (process, pipe):
            select.select([pipe], [], [], 10)  # it is at work
            time.sleep(chance.uniform(0, 0.01))
            kill(process)
            answered = max([last, *map(int, lines(pipe))])
        found = Explanation.load(path)
        number = int(str(found.notes[0]))
        assert found == numbered(number)
        # What was answered is kept; at most the save under way was kept without an answer.
        assert answered <= number <= answered + 1
        moved += number > last
        last = number
    assert moved > 30
    numbered(last + 1).save(path)  # whatever a killed process left behind is in nobody's way
    assert Explanation.load(path) == numbered(last + 1)


@pytest.mark.parametrize("key", [ReplayKey.generate(), SigningKey.generate("example.org/log")])
def test_a_key_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: ReplayKey | SigningKey
) -> None:
    """Killed before anything of it reached the disk, or without room for it there."""
    path = tmp_path / "made.key"

    def killed(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    def save(_: int) -> None:
        monkeypatch.setattr(os, "fsync", killed)
        key.save(path)

    with child(save) as (process, _):
        assert exit_code(process) == -signal.SIGKILL
    assert not path.exists()
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(StorageFull):
            key.save(path)
    assert not path.exists()
    key.save(path)
    assert type(key).load(path) == key


def test_readers_beside_a_writer_always_find_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "explanation.voile"
    numbered(0).save(path)

    def save_for_ever(_: int) -> None:
        number = 0
        while True:
            number += 1
            numbered(number).save(path)

    seen = [0]
    with child(save_for_ever):
        while len(set(seen)) < 20 and len(seen) < 100_000:
            found = Explanation.load(path)
            assert found == numbered(int(str(found.notes[0])))
            seen.append(int(str(found.notes[0])))
    assert len(set(seen)) == 20
    assert seen == sorted(seen)


def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = numbered(1, rows=1).save(tmp_path / "explanation.voile")
    before = path.read_bytes()

    def save(pipe: int) -> None:
        room = len(before) + 4096
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            numbered(2, rows=5000).save(path)
        except StorageFull as error:
            os.write(pipe, f"{error}\n".encode())
        numbered(3, rows=1).save(tmp_path / "small.voile")
        os.write(pipe, b"small ones still fit\n")

    refusal, after = said(save)
    assert "no room left" in refusal
    assert str(path) in refusal
    assert after == "small ones still fit"
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"explanation.voile", "small.voile"}
    assert Explanation.load(path) == numbered(1, rows=1)


def as_nobody(folder: Path) -> None:
    """Give up the rights of an administrator, whom no permission stops."""
    os.chdir(folder)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@pytest.mark.parametrize("permissions", [0o555, 0o333])
def test_a_folder_that_cannot_be_used_keeps_the_old_file(permissions: int, tmp_path: Path) -> None:
    """Not writable; or not readable, so that the new name could not be forced to the disk."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = numbered(1, rows=1).save(folder / "explanation.voile")
    before = path.read_bytes()
    folder.chmod(permissions)

    def save(pipe: int) -> None:
        as_nobody(folder)
        for name in ("explanation.voile", "new.voile"):
            try:
                numbered(2, rows=1).save(name)
            except StorageReadOnly as error:
                os.write(pipe, f"{error}\n".encode())
        assert Explanation.load("explanation.voile") == numbered(1, rows=1)
        os.write(pipe, b"still readable\n")

    first, second, last = said(save)
    assert first.startswith("explanation.voile: cannot be written (Permission denied)")
    assert second.startswith("new.voile: cannot be written (Permission denied)")
    assert last == "still readable"
    folder.chmod(0o755)
    assert path.read_bytes() == before
    assert list(folder.iterdir()) == [path]


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    path = numbered(1, rows=1).save(tmp_path / "explanation.voile")
    path.chmod(0o000)

    def load(pipe: int) -> None:
        as_nobody(tmp_path)
        try:
            Explanation.load("explanation.voile")
        except Exception as error:
            os.write(pipe, f"{type(error).__name__}: {error}\n".encode())

    (refusal,) = said(load)
    assert refusal == "UnreadableFile: explanation.voile: cannot be read: Permission denied"
