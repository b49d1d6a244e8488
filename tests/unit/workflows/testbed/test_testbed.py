"""Starting a testbed, broken off and begun again; no process is started here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from voile.core.errors import InvalidInput
from voile.workflows.federate.files import read_node
from voile.workflows.federate.node_files import node_status
from voile.workflows.testbed import LocalDeployment, start_testbed, testbed
from voile.workflows.testbed.superlink_process import StartedProcess, SuperLinkFiles

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
