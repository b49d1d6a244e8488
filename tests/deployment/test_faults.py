"""Deployment (a): what goes wrong between machines, against the same in one process.

A SuperLink with TLS and node authentication, and every node a process of its own. With test
randomness the arrays are those of threads with the same outcomes, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.deployment.toy_federation import (
    AGREED,
    ToyDeployment,
    new_key,
    plain_toy_stage,
    secret_toy_stage,
    toy_deployment,
    toy_settings,
)
from tests.deployment.toy_node import signer_from, toy_node
from tests.unit.federation.toys import START
from voile.core.randomness import Seeded
from voile.federation import Node, Outcome, Rounds, Threads
from voile.federation.progress import ProgressEvent
from voile.federation.secure_aggregation import AttemptStep, SignedMessage

pytestmark = [pytest.mark.real, pytest.mark.deployment]

PLAIN = {name: new_key() for name in ("ash", "beech", "cedar", "elm", "server")}
SECRET = {name: new_key() for name in ("fir", "hazel", "juniper", "larch", "server")}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyDeployment]:
    with toy_deployment(tmp_path_factory.mktemp("deployment")) as made:
        made.start_nodes(PLAIN, beech={"dies_in": 3}, cedar={"cap": 1}, elm={"held_in": 2})
        made.start_nodes(
            SECRET, **{name: {"secret": True} for name in SECRET if name != "hazel"},
            hazel={"secret": True, "dies_at": "mask input"},
        )  # fmt: skip
        yield made


@dataclass
class Gone:
    """A node in this process that is gone when its process was killed: not a word from then on."""

    node: Node
    when: Callable[[Any], bool]
    over: bool = False

    @property
    def name(self) -> str:
        return self.node.name

    def handle(self, message: Any) -> Any:
        self.over = self.over or self.when(message)
        if self.over:
            raise RuntimeError("gone")
        return self.node.handle(message)


def rounds(transport: Any, keys: dict[str, str], **settings: Any) -> Rounds:
    sizes = dict.fromkeys(sorted(set(keys) - {"server"}), 40)
    return Rounds(
        transport, sizes, source=Seeded(1), agreement=AGREED, sign=signer_from(keys["server"]),
        **settings,
    )  # fmt: skip


def test_a_killed_node_a_reached_cap_and_a_restarted_superlink(
    deployment: ToyDeployment, tmp_path: Path
) -> None:
    agreed, killed = plain_toy_stage(4), list[ProgressEvent]()

    def kill_in_round_two(seen: ProgressEvent) -> None:
        if seen.round == 2 and not killed:
            killed.append(seen)
            _wait_for(deployment.folder / "elm" / "updates" / "elm" / "pull.2.safetensors")
            deployment.link.kill()
            (deployment.folder / "elm" / "go").touch()

    def restart_when_lost(said: str) -> None:
        if "new Flower run" in said:
            deployment.restart()

    with deployment.transport(PLAIN, restart_when_lost) as transport:
        found = rounds(
            transport, PLAIN, progress=kill_in_round_two,
            checkpoints=tmp_path / "checkpoints",
        ).run(agreed, START)  # fmt: skip
    said = deployment.outputs()
    outcomes = {(row.round, row.client): row.outcome for row in found.rows}
    assert killed, said
    assert {name: outcomes[1, name] for name in sorted(set(PLAIN) - {"server"})} == dict.fromkeys(
        ("ash", "beech", "cedar", "elm"), Outcome.ANSWERED
    ), said
    for number in (2, 3, 4):
        assert outcomes[number, "cedar"] is Outcome.REFUSED, said
        assert outcomes[number, "ash"].counts, said
    assert outcomes[2, "elm"] is Outcome.RESENT, said
    assert outcomes[2, "beech"].counts, said
    for number in (3, 4):
        assert outcomes[number, "elm"] is Outcome.ANSWERED, said
        assert outcomes[number, "beech"] is Outcome.VANISHED, said
    refused = (deployment.folder / "cedar" / "node.log").read_text()
    assert "which is its cap" in refused

    expected = rounds(Threads(_the_same(tmp_path)), PLAIN).run(agreed, START)
    counted = [row.outcome.counts for row in found.rows]
    assert counted == [row.outcome.counts for row in expected.rows]
    for name, array in expected.arrays.items():
        assert array.tobytes() == found.arrays[name].tobytes()
    assert not np.array_equal(found.arrays["vector"], START["vector"])


def _wait_for(file: Path) -> None:
    """The node has stored its answer by then, and holds it back."""
    until = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < until, f"{file} is not there"
        time.sleep(0.05)


def _the_same(folder: Path) -> list[Any]:
    """In this process: beech is gone from the third round on, cedar has a cap of one."""
    caps = {"cedar": 1}
    settings = [
        toy_settings(folder / "threads", name, PLAIN, cap=caps.get(name, 4))
        for name in sorted(set(PLAIN) - {"server"})
    ]
    nodes: list[Any] = [toy_node(each) for each in settings]
    return [Gone(node, lambda m: m.round >= 3) if node.name == "beech" else node for node in nodes]


def test_a_secure_sum_goes_on_without_who_was_killed_between_its_steps(
    deployment: ToyDeployment, tmp_path: Path
) -> None:
    agreed = secret_toy_stage(SECRET)
    with deployment.transport(SECRET) as transport:
        found = rounds(transport, SECRET).run(agreed, START)
    outcomes = {row.client: row.outcome for row in found.rows}
    assert outcomes == {
        "fir": Outcome.ANSWERED,
        "hazel": Outcome.VANISHED,
        "juniper": Outcome.ANSWERED,
        "larch": Outcome.ANSWERED,
    }, deployment.outputs()

    nodes: list[Any] = [
        toy_node(toy_settings(tmp_path, name, SECRET, secret=True), agreed)
        for name in sorted(set(SECRET) - {"server"})
    ]
    nodes[1] = Gone(nodes[1], lambda m: isinstance(m, SignedMessage) and m.step is AttemptStep.MASK)
    expected = rounds(Threads(nodes), SECRET).run(agreed, START)
    assert {row.client: row.outcome for row in expected.rows} == outcomes
    for name, array in expected.arrays.items():
        assert array.tobytes() == found.arrays[name].tobytes()
    assert not np.array_equal(found.arrays["vector"], START["vector"])
