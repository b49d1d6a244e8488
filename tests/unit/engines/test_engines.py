"""Engines: results in the order of the parts, and a lost worker changes nothing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray")
    found.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield found
    found.shutdown()


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Where Spark and its Java are installed."""
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from voile.engines.spark import session

    found = session(sql)
    yield found
    found.stop()


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


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("ray")
def test_on_ray(tmp_path: Path) -> None:
    check("ray", tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("spark")
def test_on_spark(tmp_path: Path) -> None:
    check("spark", tmp_path)


def test_an_unknown_engine_is_told_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="'local', 'ray', 'spark'"):
        chosen(ENGINES, "abacus", "--engine")
