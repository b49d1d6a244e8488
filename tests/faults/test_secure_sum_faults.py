"""Nodes and servers of a secure sum in processes of their own, killed between its steps.

Each node answers on a socket of its own, so that a second server finds it where the first one was
killed. What is killed is killed with SIGKILL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Client as Caller
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.forking import child, exit_code, kill, lines
from tests.unit.federation.secret_toys import AGREED, NAMES, Moves, member, secret_stage
from tests.unit.federation.secure_aggregation.parties import signer
from tests.unit.federation.toys import START, client
from voile.core.errors import Refused
from voile.federation import AttemptsOnDisk, CountingGuard, Node, Outcome, Rounds, Threads
from voile.federation.secure_aggregation import ActiveServer, Attempt, HonestButCurious

STAGE = secret_stage(rounds=1, task=Moves(), model=HonestButCurious())
BY = {name: float(2**place) for place, name in enumerate(NAMES)}
SIZES: Any = STAGE.protocol.sizes  # type: ignore[attr-defined]


def node(name: str, folder: Path, stage: Any) -> Node:
    from dataclasses import replace

    own = client(name, SIZES[name], task=Moves(by=BY[name]), folder=folder, guard=CountingGuard(9))
    return Node(replace(own, agreement=AGREED), secure=member(stage, name, folder))


def answering(name: str, folder: Path, stage: Any) -> Any:
    """A process that answers whoever calls, one after the other."""

    def work(_: int) -> None:
        here = node(name, folder, stage)
        with Listener(str(folder / f"{name}.socket"), "AF_UNIX", backlog=16) as door:
            while True:
                with door.accept() as line:
                    answer(here, line)

    return work


def answer(here: Node, line: Any) -> None:
    try:
        message = line.recv()
    except EOFError:
        return
    try:
        said: Any = here.handle(message)
    except Exception as error:
        said = error
    try:
        line.send(said)
    except OSError:  # the server was killed meanwhile
        return


class Remote:
    """A node in another process."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._place = name, str(folder / f"{name}.socket")

    def handle(self, message: Any) -> Any:
        with Caller(self._place, "AF_UNIX") as line:
            line.send(message)
            said = line.recv()
        if isinstance(said, Exception):
            raise said
        return said


class Interrupted(Threads):
    """Does something before the exchange of this number."""

    def __init__(self, members: Any, before: int, act: Any) -> None:
        super().__init__(members)
        self._before, self._act = before, act

    def exchange(self, messages: Any, deadline: float | None = None) -> Any:
        self._before -= 1
        if self._before == 0:
            self._act()
        return super().exchange(messages, deadline)


@contextmanager
def processes(folder: Path, stage: Any = STAGE) -> Iterator[dict[str, int]]:
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(child(answering(name, folder, stage)))[0] for name in NAMES
        }
        for name in NAMES:
            until = time.monotonic() + 20
            while not (folder / f"{name}.socket").exists() and time.monotonic() < until:
                time.sleep(0.005)
        yield found


def run(transport: Any, stage: Any = STAGE) -> Any:
    return Rounds(transport, SIZES, agreement=AGREED, sign=signer("server")).run(stage, START)


def mean(names: Any) -> float:
    return float(sum(SIZES[n] * BY[n] for n in names) / sum(SIZES[n] for n in names))


def remotes(folder: Path) -> list[Remote]:
    return [Remote(name, folder) for name in NAMES]


@pytest.mark.parametrize("model", [HonestButCurious(), ActiveServer()], ids=["curious", "active"])
@pytest.mark.parametrize("before", [2, 3, 4])
def test_a_node_that_is_killed_between_the_steps_leaves_the_right_sum_of_the_rest(
    before: int, model: Any, tmp_path: Path
) -> None:
    stage = secret_stage(rounds=1, task=Moves(), model=model)
    with processes(tmp_path, stage) as found:
        transport = Interrupted(remotes(tmp_path), before, lambda: kill(found["cedar"]))
        result = run(transport, stage)
    counted = [row.client for row in result.rows if row.outcome.counts]
    # Before exchange 4 its vector has arrived, and stays in the sum.
    assert counted == [name for name in NAMES if before == 4 or name != "cedar"]
    assert np.allclose(result.arrays["vector"], mean(counted), rtol=0, atol=1e-4)


@pytest.mark.parametrize("exchanges", [1, 2, 3, 4])
def test_a_server_that_is_killed_between_the_steps_fails_safely(
    exchanges: int, tmp_path: Path
) -> None:
    """The next attempt has new keys; after shares have left, there is none."""

    def first(_: int) -> None:
        def die() -> None:
            os.kill(os.getpid(), 9)

        run(Interrupted(remotes(tmp_path), exchanges + 1, die))
        die()  # after the last exchange, before anything is kept

    with processes(tmp_path):
        with child(first) as (server, _):
            assert exit_code(server) == -9
        result = run(Threads(remotes(tmp_path)))
    outcomes = {row.outcome for row in result.rows}
    if exchanges == 4:
        assert outcomes == {Outcome.OVER}
        assert np.array_equal(result.arrays["vector"], START["vector"])
    else:
        assert outcomes == {Outcome.RESENT}  # the stored vectors, under new masks
        assert np.allclose(result.arrays["vector"], mean(NAMES), rtol=0, atol=1e-4)
    begun = sorted(path.name for path in tmp_path.glob("ash/attempts/*/*.begun"))
    assert len(begun) == (1 if exchanges == 4 else 2)


def test_a_killed_party_never_reveals_for_two_attempts(tmp_path: Path) -> None:
    """Killed at whatever moment around writing it down, and asked again and again."""
    draw = np.random.default_rng(5)
    left = []
    for number in range(40):
        where = Attempt("agreed", "stage", 1, f"attempt {number}")

        def work(write_end: int, where: Attempt = where) -> None:
            store = AttemptsOnDisk(tmp_path / "attempts")
            try:
                store.begin(where, NAMES)
                store.reveal(where)
            except Refused:
                return
            os.write(write_end, f"{where.name}\n".encode())

        with child(work) as (process, read_end):
            time.sleep(float(draw.uniform(0, 0.004)))
            kill(process)
            left += lines(read_end)
    assert len(left) <= 1
    store = AttemptsOnDisk(tmp_path / "attempts")
    last = Attempt("agreed", "stage", 1, "last")
    try:
        store.begin(last, NAMES)
        store.reveal(last)
    except Refused:
        return
    assert not left
