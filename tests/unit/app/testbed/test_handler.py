"""A testbed by command line and by Python; no process is started here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.testbed.test_testbed import OVER
from typer.testing import CliRunner

from voile.app import testbed
from voile.app.calls import handle
from voile.app.commands.federate import StartTestbed, StopTestbed
from voile.app.testbed import StartedProcess, SuperLinkFiles
from voile.cli.app import app
from voile.core.errors import InvalidInput


def typed(*words: str) -> Any:
    """What the command prints, as JSON."""
    done = CliRunner().invoke(app, ["testbed", *words, "--json"], catch_exceptions=False)
    return json.loads(done.stdout)


def test_a_testbed_is_the_same_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SuperLinkFiles, "start", lambda _: OVER)
    monkeypatch.setattr(StartedProcess, "start", lambda *_: OVER)
    monkeypatch.setattr(testbed, "register_node", lambda *_: None)
    folder = tmp_path / "bed"
    made = handle(StartTestbed(folder=folder, parties=2, rounds=1))
    assert "rounds = 1" in made.federation.read_text()
    assert all(file.is_file() for file in made.nodes.values())
    assert typed("up", "2", "--folder", str(folder)) == {
        "folder": str(folder),
        "superlink": made.superlink,
        "federation": str(made.federation),
        "nodes": {party: str(file) for party, file in made.nodes.items()},
    }
    ended = handle(StopTestbed(folder=folder)).ended
    assert typed("down", "--folder", str(folder)) == {"ended": ended} == {"ended": 0}


def test_a_testbed_needs_a_party_and_a_round() -> None:
    with pytest.raises(InvalidInput, match="parties"):
        StartTestbed.read({"parties": 0})
    with pytest.raises(InvalidInput, match="rounds"):
        StartTestbed.read({"parties": 1, "rounds": 0})
