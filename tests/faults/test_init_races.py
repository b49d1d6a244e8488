"""Several processes start a workspace in one folder: one makes it, the others are told so."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from tests.faults.forking import child, exit_code, lines
from tests.unit.workflows.workspace.examples import PROMISE, private_spec, write_files
from voile.core.errors import InvalidInput
from voile.workflows.explain import ExplanationSpec
from voile.workflows.workspace import open_workspace, start_workspace

PROCESSES = 6


def test_of_several_starts_one_succeeds_and_its_log_verifies(tmp_path: Path) -> None:
    spec = private_spec(write_files(tmp_path))
    for attempt in range(3):
        home = tmp_path / f"study {attempt}"
        said = _start_together(home, spec)
        refused = f"{home / 'voile.toml'}: exists already; move it away or choose another folder"
        assert sorted(said) == sorted(["made"] + [refused] * (PROCESSES - 1))
        with open_workspace(home) as workspace:
            assert workspace.service.verify().verified


def _start_together(home: Path, spec: ExplanationSpec) -> list[str]:
    def start(write_end: int) -> None:
        os.read(ready, 1)  # ends when the parent closes its side
        try:
            start_workspace(spec, PROMISE, folder=home)
            os.write(write_end, b"made\n")
        except InvalidInput as error:
            os.write(write_end, f"{error}\n".encode())

    ready, go = os.pipe()

    def wait_and_start(write_end: int) -> None:
        os.close(go)
        start(write_end)

    with ExitStack() as stack:
        children = [stack.enter_context(child(wait_and_start)) for _ in range(PROCESSES)]
        os.close(go)
        said = [line for _, read_end in children for line in lines(read_end)]
        assert [exit_code(process) for process, _ in children] == [0] * PROCESSES
    os.close(ready)
    return said
