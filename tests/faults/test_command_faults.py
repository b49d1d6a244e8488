"""Commands under kill -9: whatever was told stands in the books, and nothing is left in halves.

`python -m experiments.fault_loops commands SIGKILL` kills 500 of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.forking import child, kill
from tests.unit.app.workspace.examples import private_spec, write_files
from voile import cli
from voile.app.notebook import open_workspace
from voile.app.workspace import start_workspace
from voile.core.explanation import Explanation
from voile.records.audit_log import ReleaseRecord, decode_record
from voile.records.ledger import share_of
from voile.records.ledger.tables import ANSWERS

ACCOUNT = "customers v1"
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def test_a_command_that_is_killed_leaves_sound_books(tmp_path: Path) -> None:
    kill_commands(tmp_path, 8)


def kill_commands(folder: Path, rounds: int, *, seed: int = 0) -> int:
    """Kill commands at random moments and verify after each; how many answers were told."""
    victims = _Victims(folder / "study", random.Random(seed))
    for number in range(rounds):
        victims.kill_one(number)
        victims.check(kills=number + 1)
    victims.ask_again()
    return len(victims.told)


@dataclass
class _Victims:
    """A workspace whose commands are killed, and what they had said by then.

    Args:
        told: the answers that were printed, by their questions.
        seconds: how long a command takes that nobody kills.
    """

    home: Path
    chance: random.Random
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        promise = {"dataset": ACCOUNT, "epsilon": 1000.0, "delta": 1e-5}
        spec = private_spec(write_files(self.home))
        start_workspace(spec, promise, name="approval", folder=self.home)
        for name in ("explain", "again", "renew", "open", "checkpoint"):
            for number in (-1, -2):  # the first one loads what is needed
                start = time.monotonic()
                said = _run(self._command(name, number))
                self.seconds[name] = time.monotonic() - start
                if name == "explain":
                    self.told[f"q{number}.csv"] = said

    def kill_one(self, number: int) -> None:
        name = self.chance.choice(("explain", "explain", "explain", *self.seconds))
        command, out = self._command(name, number), self.home / f"said{number}"

        def work(_: int) -> None:
            os.chdir(self.home.parent)
            left = contextlib.suppress(SystemExit)
            with out.open("w") as said, contextlib.redirect_stdout(said), left:
                cli.main(command)

        with child(work) as (process, _):
            time.sleep(self.chance.uniform(0, 3 * self.seconds[name]))
            kill(process)
        with contextlib.suppress(json.JSONDecodeError, FileNotFoundError):
            said = json.loads(out.read_text())
            assert "error" not in said, said
            if name == "explain":
                self.told[f"q{number}.csv"] = said

    def check(self, *, kills: int) -> None:
        with open_workspace(self.home) as workspace:
            report = workspace.service.verify()
            assert report.verified, report.failed
            vault = workspace.service.vault
            nodes = vault.storage.read_snapshot(vault.ledger.nodes)
            shares = vault.storage.read_snapshot(lambda t: [share_of(t, node) for node in nodes])
            rows = vault.storage.read_snapshot(lambda t: t.scan(ANSWERS))
            logged = vault.storage.read_snapshot(lambda t: vault.log.records(t, limit=10**6))
        assert max(shares) <= 1.0
        stored = {f"{row.root}#{row.number}" for row in rows}
        records = map(decode_record, logged)
        charges = [each.charge for each in records if isinstance(each, ReleaseRecord)]
        assert sorted(charges) == sorted(stored)
        assert stored >= {charge for said in self.told.values() for charge in said["charges"]}
        assert len(stored) <= len(self.told) + kills  # a charge that nobody heard of, for each kill
        for path in self.home.glob("*.voile"):
            Explanation.load(path)

    def ask_again(self) -> None:
        """Everything that was told is told again, the same and for free."""
        for number, (question, said) in enumerate(self.told.items()):
            again = _run(
                [*self._explain(question), "--output", str(self.home / f"r{number}.voile")]
            )
            assert again["replayed"]
            assert again["values"] == said["values"]
            assert again["charges"] == said["charges"]

    def _command(self, name: str, number: int) -> list[str]:
        database, output = str(self.home / "log.db"), str(self.home / f"{number}.voile")
        if name == "explain":
            rows = self.home / f"q{number}.csv"
            rows.write_text(f"income,debt,employed\n{self.chance.uniform(0, 10)},4,yes\n")
            return [*self._explain(rows.name), "--output", output]
        if name == "again":
            return [*self._explain("q-1.csv"), "--output", f"{output}.again.voile"]
        if name == "renew":
            return ["budget", "renew", database, ACCOUNT, "--reason", "a test", "--json"]
        if name == "open":
            below = [
                "--parent",
                ACCOUNT,
                "--dataset",
                ACCOUNT,
                "--epsilon",
                "0.5",
                "--delta",
                "1e-6",
            ]
            return ["budget", "open", database, f"ward {number}", *below, "--json"]
        return ["audit", "checkpoint", database, "--out", f"{output}.txt", "--json"]

    def _explain(self, rows: str) -> list[str]:
        place = ["--workspace", str(self.home), "--json"]
        return ["explain", "approval", str(self.home / rows), *place]


def _run(command: list[str]) -> dict[str, Any]:
    """One command that nobody kills."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as left:
        cli.main(command)
    assert left.value.code == 0, out.getvalue()
    said: dict[str, Any] = json.loads(out.getvalue())
    return said
