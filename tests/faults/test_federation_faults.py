"""A server or a client that is killed in the middle: nothing is released twice with other noise.

The children are forked from this process, where everything is loaded already, and killed with
SIGKILL at a random moment; books that survive are lines in a file, written through to the disk.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.forking import child, kill
from tests.unit.federation.toys import START, Pull, rounds_over, stage
from voile.core.errors import Refused
from voile.core.randomness import Seeded
from voile.federation import (
    Booking,
    Client,
    FreshCiphers,
    Instruction,
    Participation,
    RoundReport,
    digest_of_arrays,
)

NAMES = tuple(f"client {i}" for i in range(4))
ROUNDS, CAP = 6, 12


class OnDisk:
    """A client's books, one line for each participation, durable before it is granted."""

    def __init__(self, path: Path, cap: int = CAP) -> None:
        self.path, self.cap = path, cap

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def before_joining(self) -> None:
        """Nothing is refused."""

    def before_participation(self, participation: Participation) -> Booking:
        mine = f"{participation.client},{participation.stage},"
        if sum(line.startswith(mine) for line in self.lines()) >= self.cap:
            raise Refused("the cap is reached")
        with self.path.open("a") as stream:
            booking = Booking(secrets.token_hex(8))
            stream.write(f"{mine}{participation.round},{booking.name}\n")
            stream.flush()
            os.fsync(stream.fileno())
        return booking

    def holds(self, participation: Participation, booking: Booking) -> bool:
        where = f"{participation.client},{participation.stage},{participation.round}"
        return f"{where},{booking.name}" in self.lines()

    def after_round(self, report: RoundReport) -> None:
        with self.path.open("a") as stream:
            stream.write(f"{report.round} {report.digest}\n")
            stream.flush()
            os.fsync(stream.fileno())


class Slow(Pull):
    """Takes long enough to be killed in the middle."""

    def fit(self, instruction: Instruction, records: Any, size: int, source: Any) -> Any:
        time.sleep(0.002)
        return super().fit(instruction, records, size, source)


def federate(folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    clients = [
        Client(
            name=name,
            size=40,
            records=np.full((40, 3), 0.3),
            tasks={"pull": Slow()},
            guard=OnDisk(folder / "participations"),
            sources=FreshCiphers(),  # a second draw for one round would differ
            folder=folder / "nodes",
        )
        for name in NAMES
    ]
    rounds = rounds_over(
        clients, log=OnDisk(folder / "rounds"), source=Seeded(1), checkpoints=folder / "server"
    )
    agreed = stage(task=Slow(), rounds=ROUNDS, clients_per_round=3, participations=ROUNDS)
    return rounds.run(agreed, START)


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_federation_finishes_with_one_digest_for_each_round(
    tmp_path: Path, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    for _ in range(4):
        with child(lambda _: federate(tmp_path)) as (process, _):
            time.sleep(float(draw.uniform(0.005, 0.06)))
            kill(process)
    found = federate(tmp_path)
    told: dict[str, set[str]] = {}
    for line in OnDisk(tmp_path / "rounds").lines():
        number, digest = line.split()
        told.setdefault(number, set()).add(digest)
    # A round that was told twice was told with the same arrays: updates were sent again, not drawn.
    assert set(told) == {str(number) for number in range(1, ROUNDS + 1)}
    assert {len(digests) for digests in told.values()} == {1}
    assert told[str(ROUNDS)] == {digest_of_arrays(found.arrays)}
    # Each participation is in the books at least once; at most one a crash was lost before it was
    # stored, and is there twice.
    books = OnDisk(tmp_path / "participations").lines()
    assert len({line.rsplit(",", 1)[0] for line in books}) == 3 * ROUNDS
    assert len(books) <= 3 * ROUNDS + 4


def test_without_a_client_folder_the_repeat_is_charged_again(tmp_path: Path) -> None:
    books = OnDisk(tmp_path / "participations", cap=2)
    message = Instruction("pull", 1, START)

    def node(folder: Path | None) -> Client:
        records = np.full((40, 3), 0.3)
        return Client("ash", 40, records, {"pull": Pull()}, books, FreshCiphers(), folder)

    def answered(folder: Path | None) -> None:
        def work(_: int) -> None:
            node(folder).answer(message)

        with child(work) as (process, _):
            os.waitpid(process, 0)

    answered(tmp_path)
    answered(tmp_path)
    assert len(books.lines()) == 1
    first = node(tmp_path).answer(message)
    assert digest_of_arrays(first.arrays) == digest_of_arrays(node(tmp_path).answer(message).arrays)
    answered(None)
    assert len(books.lines()) == 2
    with pytest.raises(Refused):
        node(None).answer(message)
