"""What a party remembers of attempts, in a folder of its own; see `AttemptStore`.

Each fact is a file that is made once and never changed: whole and forced to the disk before the
call returns, and two processes cannot both make it. A crash can leave a fact behind whose shares
never left; that costs a round, and reveals nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voile.core.atomic_file import create_file, create_folder
from voile.core.input_file import read_file
from voile.federation.files import file_stem
from voile.federation.secure_aggregation import Attempt
from voile.federation.secure_aggregation.attempts import (
    already_revealed,
    begun_before,
    others_asked,
)


@dataclass(frozen=True)
class AttemptsOnDisk:
    """One folder for one party; each agreement has a folder of its own in it."""

    folder: Path

    def begin(self, attempt: Attempt, asked: Sequence[str]) -> None:
        if self._path(attempt, "revealed").exists():
            raise already_revealed(attempt)
        listed = json.dumps(list(asked)).encode()
        place = self._path(attempt, "asked")
        if not create_file(place, listed) and read_file(place) != listed:
            raise others_asked(attempt)
        if not create_file(self._path(attempt, f"{file_stem(attempt.name)}.begun"), b""):
            raise begun_before(attempt)

    def reveal(self, attempt: Attempt) -> None:
        if not create_file(self._path(attempt, "revealed"), attempt.name.encode()):
            raise already_revealed(attempt)

    def _path(self, attempt: Attempt, fact: str) -> Path:
        folder = self.folder / (file_stem(attempt.agreement) or "none")
        create_folder(folder)
        return folder / f"{file_stem(attempt.stage)}.{attempt.round}.{fact}"
