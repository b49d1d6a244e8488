"""Logs that are signed by a schedule: kill -9, several processes, forked children."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.faults.forking import child, exit_code, kill, lines
from tests.unit.records.test_signing import (
    EVERY,
    NEVER,
    answer,
    eventually,
    kept_size,
    open_people,
    opened,
)
from voile.app.explain import ReleaseService
from voile.core.errors import StorageFault
from voile.records.vault import SigningSchedule, Vault

PROCESSES = 3
ANSWERS = 8
START = 3
"""Records that are signed before a test begins."""


def answering(folder: Path, schedule: SigningSchedule, name: str) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        with opened(folder, schedule) as vault:
            for number in range(ANSWERS):
                answer(vault, f"{name} {number}")
                os.write(pipe, b"answered\n")

    return work


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(tmp_path, NEVER) as vault:
        open_people(vault)
        answer(vault, "first")  # children find everything loaded
    assert kept_size(tmp_path) == START
    return tmp_path


def test_processes_that_sign_one_log_leave_nothing_unsigned(folder: Path) -> None:
    """And what is kept never goes back."""
    seen = [kept_size(folder)]
    with ExitStack() as stack:
        schedule = SigningSchedule(records=3, seconds=0.05)
        started = [
            stack.enter_context(child(answering(folder, schedule, str(n))))
            for n in range(PROCESSES)
        ]
        for process, pipe in started:
            while os.read(pipe, 4096):
                seen.append(kept_size(folder))
            assert exit_code(process) == 0
    assert seen == sorted(seen)
    assert kept_size(folder) == START + 2 * PROCESSES * ANSWERS
    with opened(folder, None) as vault:
        assert vault.unsigned == 0
        assert ReleaseService(vault).verify().verified


def test_what_a_killed_process_left_unsigned_is_counted_and_signed(folder: Path) -> None:
    def work(pipe: int) -> None:
        with opened(folder, NEVER) as vault:
            answer(vault)
            os.write(pipe, b"answered\n")
            answer(vault, "bob")
            os.write(pipe, b"answered\n")
            os.read(os.pipe()[0], 1)  # for ever

    with child(work) as (process, pipe):
        said = b""
        while said.count(b"\n") < 2:
            said += os.read(pipe, 4096)
        kill(process)
    assert kept_size(folder) == START
    with opened(folder, EVERY) as vault:
        eventually(lambda: vault.unsigned == 0)
        assert answer(vault).replayed
    assert kept_size(folder) == START + 4


def test_a_process_that_is_killed_while_signing_leaves_a_log_that_opens(folder: Path) -> None:
    for number in range(6):
        with child(answering(folder, EVERY, str(number))) as (process, pipe):
            for _ in range(number + 1):
                os.read(pipe, 9)
            kill(process)
        with opened(folder, NEVER) as vault:
            assert ReleaseService(vault).verify().verified
            size = vault.storage.submit(vault.log.head).size
        assert kept_size(folder) == size


def test_a_forked_child_signs_nothing_and_does_not_wait(folder: Path) -> None:
    with opened(folder, NEVER) as vault:
        answer(vault)

        def work(pipe: int) -> None:
            with pytest.raises(StorageFault, match="fork"):
                answer(vault, "bob")
            os.write(pipe, b"refused\n")

        with child(work) as (process, pipe):
            assert lines(pipe) == ["refused"]
            assert exit_code(process) == 0
        assert vault.unsigned == 2
    assert kept_size(folder) == START + 2


def test_a_forked_child_that_closes_the_log_leaves_it_to_its_parent(folder: Path) -> None:
    opening = opened(folder, NEVER)
    vault = opening.__enter__()
    answer(vault)
    with child(lambda _: close(opening)) as (process, pipe):
        assert lines(pipe) == []
        assert exit_code(process) == 0
    assert kept_size(folder) == START
    close(opening)
    assert kept_size(folder) == START + 2


def close(opening: AbstractContextManager[Vault]) -> None:
    opening.__exit__(None, None, None)
