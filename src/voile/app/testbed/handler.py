"""A testbed, from the command to the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from voile.app.calls import Context
from voile.app.commands.testbed import StartTestbed, StopTestbed
from voile.app.testbed.testbed import start_testbed, stop_testbed


@dataclass(frozen=True)
class TestbedStarted:
    """A testbed that runs.

    Args:
        superlink: its address.
        federation: file of the agreement.
        nodes: file of each party.
    """

    folder: Path
    superlink: str
    federation: Path
    nodes: Mapping[str, Path]


@dataclass(frozen=True)
class TestbedStopped:
    """How many processes still ran, and were ended."""

    ended: int


def start(command: StartTestbed, context: Context) -> TestbedStarted:
    """Make a testbed, or start what does not run of it."""
    made = start_testbed(command.folder, command.parties, rounds=command.rounds, say=context.say)
    nodes = {party: made.node_file(party) for party in made.parties}
    return TestbedStarted(made.folder, made.address, made.federation, nodes)


def stop(command: StopTestbed, context: Context) -> TestbedStopped:
    """End its processes; files stay."""
    return TestbedStopped(stop_testbed(command.folder, context.say))
