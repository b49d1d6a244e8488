"""Flower's simulation engine: bit-equal to threads, and the whole job from files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.simulated import NAMES, opened, toy_result
from tests.deployment.toy_federation import ROOT
from voile.core.errors import Refused
from voile.federation import Outcome, Threads
from voile.federation.flower import simulation

pytestmark = [pytest.mark.real, pytest.mark.deployment]


def test_a_simulation_gives_what_threads_give_and_runs_a_federation_from_files(
    tmp_path: Path,
) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.deployment.simulated", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads((tmp_path / "result.json").read_text())
    expected = toy_result(Threads([opened(name).__enter__() for name in NAMES]))
    assert found["toys"] == expected
    assert set(expected["outcomes"]) == {str(Outcome.ANSWERED), str(Outcome.REFUSED)}
    assert found["study"]["logs"] == ["children and maternity", "city", "server"]
    assert found["study"]["counted"] == found["study"]["rows"] == 4


def test_what_a_server_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(server: Any, *_: Any) -> None:
        server(None, None)

    def refuses(_: Any) -> None:
        raise Refused("on purpose")

    monkeypatch.setattr(simulation, "run_simulation", engine)
    with pytest.raises(Refused, match="on purpose"):
        simulation.simulate(NAMES, opened, refuses)
    assert simulation.simulate(NAMES, opened, lambda _: 7) == 7
