"""One suite for whatever remembers attempts: once begun, once revealed, and never for two."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.federation.secure_aggregation.parties import refusal
from voile.federation import AttemptsOnDisk
from voile.federation.secure_aggregation import Attempt, AttemptsInMemory, AttemptStore

STORES: dict[str, Callable[[Path], AttemptStore]] = {
    "in memory": lambda _: AttemptsInMemory(),
    "on disk": AttemptsOnDisk,
    "on disk, opened anew for every question": lambda folder: Anew(folder),
}
FIRST = Attempt("agreed", "a stage/../..", 1, "one")
ASKED = ("ash", "beech", "cedar")


class Anew:
    """As after a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, *given: Any) -> None:
        AttemptsOnDisk(self.folder).begin(*given)

    def reveal(self, *given: Any) -> None:
        AttemptsOnDisk(self.folder).reveal(*given)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AttemptStore:
    return STORES[request.param](tmp_path / "attempts")


def test_an_attempt_is_begun_once(store: AttemptStore) -> None:
    store.begin(FIRST, ASKED)
    assert "begun before" in refusal(store.begin, FIRST, ASKED)
    store.begin(replace(FIRST, name="two"), ASKED)


def test_those_who_are_asked_stay_the_same_in_a_round(store: AttemptStore) -> None:
    store.begin(FIRST, ASKED)
    for others in (ASKED[:2], (*ASKED, "elm"), ASKED[::-1]):
        assert "other parties" in refusal(store.begin, replace(FIRST, name="two"), others)
    store.begin(replace(FIRST, round=2), ASKED[:2])


def test_shares_leave_for_one_attempt_of_a_round(store: AttemptStore) -> None:
    second = replace(FIRST, name="two")
    store.begin(FIRST, ASKED)
    store.begin(second, ASKED)
    store.reveal(second)
    for attempt in (FIRST, second):
        assert "have left" in refusal(store.reveal, attempt)
    assert "have left" in refusal(store.begin, replace(FIRST, name="three"), ASKED)


@pytest.mark.parametrize("changes", [{"round": 2}, {"stage": "b"}, {"agreement": "other"}])
def test_other_rounds_stages_and_agreements_are_free(store: AttemptStore, changes: Any) -> None:
    store.begin(FIRST, ASKED)
    store.reveal(FIRST)
    other = replace(FIRST, **changes)
    store.begin(other, ASKED)
    store.reveal(other)


def test_folders_are_on_the_disk_before_anything_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: set[int] = set()
    sound = os.fsync

    def watched(descriptor: int) -> None:
        forced.add(os.fstat(descriptor).st_ino)
        sound(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    AttemptsOnDisk(tmp_path / "north" / "attempts").begin(FIRST, ASKED)
    made = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
    assert len(made) == 4
    assert {path.stat().st_ino for path in made} <= forced


def test_names_make_no_paths(tmp_path: Path) -> None:
    AttemptsOnDisk(tmp_path / "here").begin(replace(FIRST, name="../../x", agreement=".."), ASKED)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
