"""A node by command line and by Python: the same status, the same keys, ended by whoever asks."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.federate.test_enrolling import machines
from typer.testing import CliRunner

from voile.app.calls import Context, handle
from voile.app.commands.federate import JoinFederation, MakeNodeKeys, ShowNodeStatus
from voile.app.federate.join import DeployedNode
from voile.cli.app import app

__all__ = ["machines"]


def typed(*words: str) -> Any:
    """What the command prints, as JSON."""
    done = CliRunner().invoke(app, ["node", *words, "--json"], catch_exceptions=False)
    return json.loads(done.stdout)


@pytest.fixture
def config(machines: dict[str, Path]) -> Path:
    return machines["city"] / "node.toml"


@pytest.fixture
def _same_sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_keys_are_made_once_and_are_the_same_both_ways(config: Path) -> None:
    found = handle(MakeNodeKeys(config=config))
    party = found.enrolment
    assert party.lines in (config.parent / "federation.toml").read_text()
    assert typed(str(config), "--key") == {
        "name": party.name,
        "rows": party.rows,
        "key": party.key,
        "flower_key": found.flower_key,
    }


def test_the_status_is_the_same_both_ways(config: Path) -> None:
    with DeployedNode.read(config).responder():
        pass  # makes its books
    found = handle(ShowNodeStatus(config=config))
    assert (found.name, found.running) == ("city", False)
    assert typed(str(config), "--status") == found.to_dict()


def test_a_node_serves_until_it_is_stopped(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(_node: DeployedNode, stop: threading.Event, show: Any) -> None:
        show("serving")
        stop.set()

    monkeypatch.setattr(DeployedNode, "serve", serve)
    said: list[str] = []
    context = Context(say=said.append)
    ended = handle(JoinFederation(config=config), context)
    assert context.stop.is_set()
    assert said == [f"agreement {ended.agreement}", "serving"]
    assert (ended.name, ended.agreement) == ("city", DeployedNode.read(config).agreement.digest)


@pytest.mark.usefixtures("_same_sigterm")
def test_a_node_on_the_command_line_is_stopped_by_sigterm(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(_node: DeployedNode, stop: threading.Event, _show: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)

    monkeypatch.setattr(DeployedNode, "serve", serve)
    ran = CliRunner().invoke(app, ["node", str(config)], catch_exceptions=False)
    assert (ran.exit_code, ran.stdout) == (0, "")


def test_ctrl_c_ends_a_node_as_well(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DeployedNode, "serve", serve)
    context = Context()
    assert handle(JoinFederation(config=config), context).name == "city"
    assert context.stop.is_set()
