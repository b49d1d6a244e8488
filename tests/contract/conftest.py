"""The databases that every suite about storage runs on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from voile.records.storage import Session
from voile.records.storage.memory import MemoryDatabase, MemorySession
from voile.records.storage.postgres import PostgresSession
from voile.records.storage.sqlite import SqliteSession


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def new_session(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Session]:
    """Opens the same database again and again."""
    if request.param == "memory":
        database = MemoryDatabase()
        return lambda: MemorySession(database)
    if request.param == "sqlite":
        return lambda: SqliteSession(tmp_path / "test.db")
    url = request.getfixturevalue("postgres_url")
    return lambda: PostgresSession(url)
