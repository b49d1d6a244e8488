"""In CI a missing real component fails; elsewhere it is skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = """
import pytest

@pytest.mark.real
def test_needs_a_component():
    pytest.importorskip("a_component_that_nobody_has")

def test_needs_nothing():
    pytest.skip("an ordinary skip")
"""


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_missing_component_fails_in_ci_only(tmp_path: Path, ci: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = real: a real component\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == code, run.stdout
    assert ("a real component is missing in CI" in run.stdout) == (ci == "true")
