"""Several processes start in one folder: one makes the files, the others are told so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.faults.forking import child, exit_code, lines
from tests.unit.app.workspace.examples import (
    CUSTOMERS,
    MODEL,
    PROMISE,
    private_spec,
    write_files,
)
from voile.app.federate.starting import start_federation
from voile.app.notebook import open_workspace
from voile.app.workspace import start_workspace
from voile.core.errors import InvalidInput
from voile.records.audit_log import SigningKey
from voile.records.vault import LOG_KEY, open_vault

PROCESSES = 6


def test_of_several_starts_one_succeeds_and_its_log_verifies(tmp_path: Path) -> None:
    spec = private_spec(write_files(tmp_path))
    for attempt in range(3):
        home = tmp_path / f"study {attempt}"
        said = _start_together(lambda home=home: start_workspace(spec, PROMISE, folder=home))  # type: ignore[misc]
        refused = f"{home / 'voile.toml'}: exists already; move it away or choose another folder"
        assert sorted(said) == sorted(["made"] + [refused] * (PROCESSES - 1))
        _check_workspace(home)


def test_of_several_starts_of_a_federation_one_succeeds_and_names_the_keys_that_are_there(
    tmp_path: Path,
) -> None:
    tables = _write_tables(tmp_path)
    for attempt in range(3):
        home = tmp_path / f"study {attempt}"
        said = _start_together(lambda home=home: start_federation(tables, home))  # type: ignore[misc]
        # Which of the files a loser finds first depends on how far the winner is.
        refused = f"{re.escape(str(home))}/[^:]+: exists already; move it away or choose another"
        assert said.count("made") == 1, said
        assert all(re.match(refused, each) for each in said if each != "made"), said
        _check_federation(home)


def start_by_command(folder: Path, rounds: int, processes: int, *, federation: bool) -> int:
    """Real `voile init` at once, again and again: one is done, the others exit with code 2.

    Returns how many commands were run.
    """
    for number in range(rounds):
        home = folder / f"study {number}"
        write_files(folder)
        source = _of_tables(folder) if federation else _of_model(folder)
        command = [sys.executable, "-m", "voile.cli", "init", *source, "--output", str(home)]
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _ in range(processes)
        ]
        said = [process.communicate()[0] for process in running]
        assert sorted(process.returncode for process in running) == [0] + [2] * (processes - 1), (
            said
        )
        assert not any("Traceback" in text for text in said), said
        (_check_federation if federation else _check_workspace)(home)
    return rounds * processes


def _of_model(folder: Path) -> list[str]:
    promise = [f"--{name}={value}" for name, value in PROMISE.items()]
    schema, background = folder / "loans.toml", folder / "customers.csv"
    private = ["--protect=background", f"--background={background}", "--model-origin=public"]
    return [MODEL, f"--schema={schema}", *private, *promise]


def _of_tables(folder: Path) -> list[str]:
    return [str(path) for path in _write_tables(folder)]


def _write_tables(folder: Path) -> list[Path]:
    tables = [folder / "north.csv", folder / "south.csv"]
    for path in tables:
        path.write_text(CUSTOMERS)
    return tables


def _check_workspace(home: Path) -> None:
    with open_workspace(home) as workspace:
        assert workspace.service.verify().verified


def _check_federation(home: Path) -> None:
    """All files are there, and the agreement names the keys that lie in the parties' folders."""
    schema = home / "schema.toml"
    assert schema.read_text()
    text = (home / "federation.toml").read_text()
    for folder in (home / "nodes" / "north", home / "nodes" / "south", home / "output"):
        key = SigningKey.load(folder / LOG_KEY)
        assert str(key.verifier) in text
        with open_vault(folder, key.name, signing=None) as vault:
            assert vault.policy.log_keys == (key.verifier,)
            vault.publish()


def _start_together(start: Callable[[], object]) -> list[str]:
    def work(write_end: int) -> None:
        os.close(go)
        os.read(ready, 1)  # ends when the parent closes its side
        try:
            start()
            os.write(write_end, b"made\n")
        except InvalidInput as error:
            os.write(write_end, f"{error}\n".encode())

    ready, go = os.pipe()
    with ExitStack() as stack:
        children = [stack.enter_context(child(work)) for _ in range(PROCESSES)]
        os.close(go)
        said = [line for _, read_end in children for line in lines(read_end)]
        assert [exit_code(process) for process, _ in children] == [0] * PROCESSES
    os.close(ready)
    return said
