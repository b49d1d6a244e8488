"""Rules under kill -9: a charge and its alerts are kept together or not at all, and told of."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.forking import child, kill
from tests.unit.app.budget_examples import House
from tests.unit.app.compliance.examples import Clock, Ruled
from tests.unit.app.compliance.test_enforcement import STOP, exactly
from voile.app.compliance import delivery, enforcement
from voile.app.compliance.delivery import deliver
from voile.records.audit_log import AlertRecord, MeasureRecord, ReleaseRecord
from voile.records.ledger.tables import ENTRIES
from voile.records.rule_book import OUTBOX, OutboxRow


@dataclass
class Box:
    """Takes messages, in a file that outlives the process."""

    file: Path
    name: str = "box"
    custodian: bool = False
    sent: list[str] = field(default_factory=list)

    def send(self, row: OutboxRow) -> None:
        with self.file.open("a") as out:
            out.write(json.loads(row.body)["event.id"] + "\n")

    @property
    def identifiers(self) -> list[str]:
        return self.file.read_text().split() if self.file.exists() else []


def killed_at(point: str, work: Callable[[Callable[[str], None]], None]) -> None:
    """Run it in another process, and kill that where it says so."""

    def run(pipe: int) -> None:
        def reached(where: str) -> None:
            if where == point:
                os.write(pipe, b"here\n")
                while True:
                    time.sleep(1)

        work(reached)

    with child(run) as (process, pipe):
        assert select.select([pipe], [], [], 60)[0]
        assert os.read(pipe, 100) == b"here\n"
        kill(process)


def create(folder: Path) -> str:
    place = str(folder / "test.db")
    ruled = Ruled.create(folder, STOP, place=place)
    ruled.vault.storage.close()
    return place


def reopened(place: str, folder: Path) -> Ruled:
    return Ruled.over(House.reopen(place, folder), Clock())


def asking(place: str, folder: Path) -> Callable[[Callable[[str], None]], None]:
    def work(reached: Callable[[str], None]) -> None:
        ruled = reopened(place, folder)
        keep: Any = vars(enforcement)["add_message"]

        def add(*given: Any, **named: Any) -> None:
            keep(*given, **named)
            reached("charged and written, not committed")

        vars(enforcement)["add_message"] = add
        ruled.ask("one", event=exactly(0.85))
        reached("committed, not told")
        tell(ruled.vault, Box(folder / "box"), reached)

    return work


def tell(vault: Any, box: Box, reached: Callable[[str], None]) -> None:
    keep: Any = vars(delivery)["keep_channel"]

    def remember(*given: Any) -> None:
        reached("told, not remembered")
        keep(*given)

    vars(delivery)["keep_channel"] = remember
    try:
        deliver(vault, box, now=time.time())
    finally:
        vars(delivery)["keep_channel"] = keep


def state(ruled: Ruled) -> tuple[int, int, int, int]:
    """How many charges, records of them, alerts with measures, and messages there are."""
    storage = ruled.vault.storage
    charged = [
        entry
        for entry in storage.read_snapshot(lambda t: t.scan(ENTRIES))
        if entry.act == "charged"
    ]
    outcomes = ruled.records(AlertRecord, MeasureRecord)
    left = storage.read_snapshot(lambda t: t.scan(OUTBOX))
    return len(charged), len(ruled.records(ReleaseRecord)), len(outcomes), len(left)


def test_killed_before_the_commit_there_is_neither_charge_nor_alert(tmp_path: Path) -> None:
    place = create(tmp_path)
    killed_at("charged and written, not committed", asking(place, tmp_path))
    ruled = reopened(place, tmp_path)
    assert state(ruled) == (0, 0, 0, 0)
    ruled.ask("one", event=exactly(0.85))
    assert state(ruled) == (1, 1, 2, 2)
    ruled.vault.storage.close()


@pytest.mark.parametrize("point", ["committed, not told", "told, not remembered"])
def test_killed_after_it_both_are_there_and_people_are_told(tmp_path: Path, point: str) -> None:
    place, box = create(tmp_path), Box(tmp_path / "box")
    killed_at(point, asking(place, tmp_path))
    ruled = reopened(place, tmp_path)
    assert state(ruled) == (1, 1, 2, 2)
    assert ruled.replay().problems == []
    told = deliver(ruled.vault, box, now=time.time())
    assert (told.sent, told.waiting, told.problem) == (2, 0, "")
    first, second = sorted(set(box.identifiers))
    again = [first] if point == "told, not remembered" else []  # under the same identifier
    assert sorted(box.identifiers) == sorted([*again, first, second])
    assert deliver(ruled.vault, box, now=time.time()).sent == 0
    ruled.vault.storage.close()
