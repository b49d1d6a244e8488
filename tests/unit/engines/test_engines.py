"""Engines: results in the order of the parts, and a lost worker changes nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from voile.core.choices import chosen
from voile.core.errors import InvalidInput
from voile.engines import ENGINES


def slow_first(part: int) -> int:
    time.sleep(0.2 if part == 0 else 0)
    return part * part


def dies_once(marks: str, part: int) -> int:
    """The worker of part 2 is killed the first time."""
    mark = Path(marks) / "died"
    if part == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return part * part


def fails(part: int) -> int:
    raise InvalidInput(f"part {part}")


def check(engine: str, folder: Path) -> None:
    run = ENGINES[engine]
    assert list(run(slow_first, range(9))) == [n * n for n in range(9)]
    assert list(run(slow_first, [])) == []
    if engine != "local":
        assert list(run(partial(dies_once, str(folder)), range(4))) == [0, 1, 4, 9]
        assert (folder / "died").exists()
    with pytest.raises(Exception, match="part 0"):
        list(run(fails, [0]))


def test_here(tmp_path: Path) -> None:
    check("local", tmp_path)


def check_apart(engine: str, folder: Path) -> None:
    """In a process of its own: what an engine starts ends with it."""
    code = (
        "import sys; from pathlib import Path; from tests.unit.engines.test_engines import check; "
        "check(sys.argv[1], Path(sys.argv[2]))"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code, engine, str(folder)], cwd=root, check=True)


@pytest.mark.real
def test_on_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    check_apart("ray", tmp_path)


def test_on_spark(tmp_path: Path) -> None:
    """Where Spark and its Java are installed."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    check_apart("spark", tmp_path)


def test_an_unknown_engine_is_told_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="'local', 'ray', 'spark'"):
        chosen(ENGINES, "abacus", "--engine")
