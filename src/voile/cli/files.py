"""Files that commands are given: where things lie, and reading within the limits of their kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voile.app.custody import Place


def place_of(database: str, key: Path | None = None, policy: Path | None = None) -> Place:
    """Where key and policy of a database lie: as stated, or under the usual names beside it."""
    from voile.app.custody import usual_place

    return usual_place(database=database, signing_key=key, policy=policy)


def read_note(path: Path) -> bytes:
    """A checkpoint."""
    from voile.audit_log.notes import LARGEST_NOTE
    from voile.core.input_file import read_file

    return read_file(path, LARGEST_NOTE)


def read_text(path: Path) -> bytes:
    """A receipt, or another text of its size."""
    from voile.core.input_file import LARGEST_TEXT, read_file

    return read_file(path, LARGEST_TEXT)
