"""Where the database is, and that no secret stands in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from voile.app.workspace.file import address, check_address
from voile.core.errors import InvalidInput


@pytest.mark.parametrize(
    "storage",
    [
        "postgresql://ada:hidden@db.example/voile",
        "postgresql://ada:hid%64en@db.example/voile",
        "postgres://:hidden@db.example",
        "postgresql://ada:hid?#den@db.example/voile",
        "postgresql://db.example/voile?user=ada&password=hidden",
        "postgresql://db.example/voile?pass%77ord=hidden",
        "postgresql://db.example/voile?sslmode=require&sslpassword=hidden",
        "postgresql://db.example/voile?oauth_client_secret=hidden",
        "host=db.example password=hidden",
        "host=db.example password = hidden",
    ],
)
def test_a_password_is_refused_and_not_repeated(storage: str) -> None:
    with pytest.raises(InvalidInput, match="do not put a password into this file") as refused:
        check_address(storage)
    assert "hid" not in str(refused.value)
    assert "env:VOILE_DATABASE" in str(refused.value)
    assert "passfile" in str(refused.value)


@pytest.mark.parametrize(
    "storage",
    [
        "log.db",
        "sqlite:log.db",
        "env:VOILE_DATABASE",
        "postgresql://ada@db.example:5433/voile",
        "postgresql:///voile?service=clinic&passfile=/run/pass",
        "postgresql://db.example/voile?options=-csearch_path%3Dbooks",
    ],
)
def test_addresses_without_a_secret_may_stand_there(storage: str) -> None:
    assert check_address(storage) == storage


@pytest.mark.parametrize("storage", ["", "memory:", "mysql://x/y", "env:", "env:A B", "env:$X"])
def test_what_names_no_database_is_refused(storage: str) -> None:
    with pytest.raises(InvalidInput):
        check_address(storage)


def test_files_are_relative_to_the_workspace_and_servers_are_not() -> None:
    home = Path("/home/ada")
    assert address("log.db", home) == "/home/ada/log.db"
    assert address("sqlite:books/log.db", home) == "/home/ada/books/log.db"
    assert address("/var/log.db", home) == "/var/log.db"
    assert address("log.db", Path("a:b")) == "sqlite:a:b/log.db"
    assert address("postgresql://x/y", home) == "postgresql://x/y"


def test_the_environment_holds_what_the_file_must_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOILE_DATABASE", "postgresql://ada:hidden@db.example/voile")
    assert address("env:VOILE_DATABASE", Path()).endswith("ada:hidden@db.example/voile")
    monkeypatch.setenv("VOILE_DATABASE", "log.db")
    assert address("env:VOILE_DATABASE", Path("/home/ada")) == "/home/ada/log.db"
    monkeypatch.delenv("VOILE_DATABASE")
    with pytest.raises(InvalidInput, match="environment variable VOILE_DATABASE is not set"):
        address("env:VOILE_DATABASE", Path())
