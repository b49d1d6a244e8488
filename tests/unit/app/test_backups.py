"""A copy of what a party keeps comes back, and forgets no charge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.workspace.examples import started
from typer.testing import CliRunner

from voile.app.backups import BackupResult
from voile.app.calls import handle
from voile.app.commands.backup import Backup, Restore
from voile.app.notebook import open_workspace
from voile.cli.app import app
from voile.core.errors import InvalidInput, UnreadableFile, VerificationFailed

ROWS: dict[str, list[Any]] = {"income": [3], "debt": [6], "employed": ["no"]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    started(tmp_path / "home")
    ask(tmp_path / "home", 1)
    return tmp_path / "home"


def ask(home: Path, income: int) -> tuple[str, ...]:
    with open_workspace(home) as workspace:
        return workspace.explain("approval", {**ROWS, "income": [income]}).charges


def backed_up(home: Path) -> Path:
    folder = home.parent / "backup"
    found = handle(Backup(workspace=home, folder=folder))
    assert isinstance(found, BackupResult)
    return folder


def moved(home: Path) -> Path:
    """The workspace elsewhere, without ledger, log and keys."""
    other = home.parent / "other"
    shutil.copytree(home, other)
    for name in ("log.db", "audit.key", "replay.key", "audit-policy.toml", "audit.checkpoint"):
        (other / name).unlink()
    for path in other.glob("log.db-*"):
        path.unlink()
    return other


def test_what_was_copied_comes_back_and_goes_on(home: Path) -> None:
    folder, other = backed_up(home), moved(home)
    newest = home / "audit.checkpoint"
    done = handle(Restore(folder=folder, output=other, checkpoint=newest))
    assert done.missing == 0
    assert ask(other, 1) == ("customers v1#1",)  # answered before: the same key, the same answers
    assert ask(other, 2) == ("customers v1#2",)


def test_copies_are_for_their_owner_and_taken_while_others_write(home: Path) -> None:
    with open_workspace(home) as workspace:
        folder = backed_up(home)
        workspace.explain("approval", {**ROWS, "income": [4]})
    assert {path.name for path in folder.iterdir()} == {
        *("log.db", "audit.key", "replay.key", "audit-policy.toml", "audit.checkpoint"),
        "backup.json",
    }
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_a_backup_that_lacks_charges_is_refused_and_says_how_many(home: Path) -> None:
    folder = backed_up(home)
    for income in (2, 3, 4):
        ask(home, income)
    other = moved(home)
    done = handle(Restore(folder=folder, output=other, checkpoint=home / "audit.checkpoint"))
    assert done.missing == 3
    with pytest.raises(VerificationFailed, match="set back"):
        ask(other, 5)


def test_an_older_checkpoint_does_not_take_the_place_of_the_copy(home: Path) -> None:
    older = home.parent / "older.txt"
    shutil.copy(home / "audit.checkpoint", older)
    ask(home, 2)
    folder, other = backed_up(home), moved(home)
    handle(Restore(folder=folder, output=other, checkpoint=older))
    assert (other / "audit.checkpoint").read_bytes() == (home / "audit.checkpoint").read_bytes()


def test_nothing_is_overwritten_and_nothing_that_was_changed_comes_back(home: Path) -> None:
    folder = backed_up(home)
    newest = home / "audit.checkpoint"
    with pytest.raises(InvalidInput, match="exists already"):
        handle(Restore(folder=folder, output=home, checkpoint=newest))
    with pytest.raises(InvalidInput, match="exists already"):
        backed_up(home)
    (folder / "replay.key").write_bytes(b"x")
    with pytest.raises(UnreadableFile, match="changed since"):
        handle(Restore(folder=folder, output=home.parent / "new", checkpoint=newest))
    listed = folder / "backup.json"
    listed.write_text(json.dumps({"format": "voile backup v1", "files": {"../x": ""}}))
    with pytest.raises(UnreadableFile):
        handle(Restore(folder=folder, output=home.parent / "new", checkpoint=newest))


def test_a_checkpoint_of_somebody_else_counts_for_nothing(home: Path, tmp_path: Path) -> None:
    started(tmp_path / "stranger")
    folder = backed_up(home)
    with pytest.raises(VerificationFailed):
        handle(
            Restore(
                folder=folder,
                output=tmp_path / "new",
                checkpoint=tmp_path / "stranger" / "audit.checkpoint",
            )
        )
    assert not (tmp_path / "new").exists()


def test_the_command_line_says_what_is_missing(home: Path) -> None:
    folder = backed_up(home)
    ask(home, 2)
    arguments = ["restore", str(folder), "--output", str(home.parent / "new")]
    newest = ["--checkpoint", str(home / "audit.checkpoint"), "--json"]
    found = CliRunner().invoke(app, [*arguments, *newest])
    assert found.exit_code == 4
    assert json.loads(found.stdout)["missing"] == 1
