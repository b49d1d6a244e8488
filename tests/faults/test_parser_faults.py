"""Broken input for every parser; `python -m experiments.fault_loops fuzzing` runs 20,000."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.fuzzing import fuzz_parsers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_whatever_is_read_is_read_or_refused(tmp_path: Path) -> None:
    assert fuzz_parsers(tmp_path, 600) == 600
