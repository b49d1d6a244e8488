"""Broken input for every parser; `python -m experiments.fault_loops fuzzing` runs 20,000.

And TOML files through the readers of commands: `python -m experiments.fault_loops TOML`, 10,000.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.fuzzing import fuzz_parsers
from tests.faults.fuzzing_toml import fuzz_toml

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def test_whatever_is_read_is_read_or_refused(tmp_path: Path) -> None:
    assert fuzz_parsers(tmp_path, 600) == 600


def test_whatever_toml_is_read_is_read_or_refused_in_little_memory(tmp_path: Path) -> None:
    assert fuzz_toml(tmp_path, 40) == 40
