"""What an attack has found, and about whom: provenance is a type.

A finding on members of a protected data set is data about them: it is a class of its own, which
prints nothing, has no way into a report, a log or a program's output, and is written to one folder
only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from voile.core.atomic_file import replace_file
from voile.core.errors import Refused

NOT_FOR_RELEASE: Final = "evaluation-not-for-release"


@dataclass(frozen=True)
class MembersFinding:
    """What an attack has found about members of a protected data set.

    Args:
        attack: what was attempted.
        dataset: whose members.
        figures: never printed, logged or shown; see `write`.
    """

    attack: str
    dataset: str
    figures: Mapping[str, float] = field(repr=False)

    @staticmethod
    def check_place(run: Path) -> Path:
        """Where it is written; refused if that is no folder of its own, or leads elsewhere."""
        folder = run / NOT_FOR_RELEASE
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise Refused(
                f"{folder}: findings on members go into this folder and nowhere else, and it is a "
                "link or a file; move it away"
            )
        return folder

    def write(self, run: Path) -> Path:
        """To the folder of what must not be released, inside the folder of a run; for its owner."""
        folder = self.check_place(run)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {"attack": self.attack, "dataset": self.dataset, "figures": dict(self.figures)}
        path = folder / f"{self.attack.replace(' ', '-')}.json"
        return replace_file(path, (json.dumps(content, indent=2) + "\n").encode(), mode=0o600)

    def __reduce__(self) -> Any:
        raise TypeError("a finding on members is written with `write`, and in no other way")
