"""Starting a testbed, broken off and begun again; every process here only sleeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from voile.app import testbed
from voile.app.federate.files import read_node
from voile.app.federate.join import node_status
from voile.app.testbed import LocalDeployment, StartedProcess, SuperLinkFiles, start_testbed
from voile.core.errors import InvalidInput

OVER = StartedProcess(2**22 + 1, "")
"""No process has such a number."""


def test_a_start_that_was_broken_off_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[str] = []
    broken = [KeyboardInterrupt()]

    def start(*_: Any) -> StartedProcess:
        if len(registered) == 2 and broken:
            raise broken.pop()
        return OVER

    monkeypatch.setattr(SuperLinkFiles, "start", lambda _: OVER)
    monkeypatch.setattr(StartedProcess, "start", start)
    monkeypatch.setattr(
        testbed, "register_node", lambda _place, _key, name: registered.append(name)
    )
    folder = tmp_path / "bed"
    with pytest.raises(KeyboardInterrupt):
        start_testbed(folder, 3)
    begun = LocalDeployment.load(folder)
    first, second, third = begun.parties
    # What was started is written down before anything else is: `down` knows all of it.
    assert set(begun.processes) == {"superlink", first}
    again = start_testbed(folder, 3)
    assert registered == [first, second, first, second, third]
    assert set(again.processes) == {"superlink", first, second, third}


@dataclass
class Sleepers:
    """Processes that only sleep, in place of a SuperLink and of nodes."""

    log: Path
    made: list[StartedProcess] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    _start: Any = StartedProcess.start

    def start(self, *_: Any) -> StartedProcess:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.made.append(self._start(command, self.log, {}))
        return self.made[-1]

    def register(self, _place: Any, _key: bytes, name: str) -> None:
        if name in self.refused:
            raise InvalidInput(f"{name} is not registered")


@pytest.fixture
def sleepers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sleepers]:
    made = Sleepers(tmp_path / "log")
    monkeypatch.setattr(SuperLinkFiles, "start", made.start)
    monkeypatch.setattr(StartedProcess, "start", made.start)
    monkeypatch.setattr(testbed, "register_node", made.register)
    yield made
    for process in made.made:
        process.kill()


@pytest.mark.parametrize("dead", ["superlink", "city"])
def test_only_what_does_not_run_is_started(tmp_path: Path, sleepers: Sleepers, dead: str) -> None:
    before = start_testbed(tmp_path / "bed", 2).processes
    before[dead].kill()
    after = start_testbed(tmp_path / "bed", 2).processes
    assert all(process.is_running for process in after.values())
    assert {name for name in after if after[name] != before[name]} == {dead}
    said: list[str] = []
    assert start_testbed(tmp_path / "bed", 2, say=said.append).processes == after
    assert len(sleepers.made) == 4
    assert said == ["all of its processes are running already"]


def test_a_failed_start_ends_only_what_it_has_started(tmp_path: Path, sleepers: Sleepers) -> None:
    made = start_testbed(tmp_path / "bed", 3)
    first, second, third = made.parties
    for party in (second, third):
        made.processes[party].kill()
    sleepers.refused.add(third)
    with pytest.raises(InvalidInput, match="not registered"):
        start_testbed(tmp_path / "bed", 3)
    after = LocalDeployment.load(tmp_path / "bed").processes
    assert {name for name in after if after[name].is_running} == {"superlink", first}
    assert after[second] != made.processes[second]  # was started, and ended again


def test_looking_at_a_node_makes_no_books(tmp_path: Path) -> None:
    """Nor keys: whoever names the wrong folder is told so, not that nothing was charged."""
    made = testbed.invented(tmp_path / "bed", 1, 1)
    agreement, party, _ = read_node(made.node_file(made.parties[0]))
    for path in party.folder.iterdir():
        if path.name != "node.toml":
            path.unlink()
    with pytest.raises(InvalidInput, match="no such database"):
        node_status(party, agreement)
    assert [path.name for path in party.folder.iterdir()] == ["node.toml"]
