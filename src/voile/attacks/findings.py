"""What an attack has found, and about whom: provenance is a type.

Findings on invented records, and on rows that nobody protects, may be published. A finding on
members of a protected data set is data about them: it is a class of its own, which prints nothing,
has no way into a report, a log or a program's output, and is written to one folder only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from voile.core.atomic_file import replace_file
from voile.core.errors import Refused

NOT_FOR_RELEASE: Final = "evaluation-not-for-release"


@dataclass(frozen=True)
class InventedRecords:
    """Records that are about nobody."""

    def __str__(self) -> str:
        return "invented records"


@dataclass(frozen=True)
class OpenRows:
    """Rows that nobody protects.

    Args:
        why: public, held out, ...
    """

    why: str

    def __str__(self) -> str:
        return f"rows that nobody protects: {self.why}"


Publishable: TypeAlias = InventedRecords | OpenRows


@dataclass(frozen=True, kw_only=True)
class AttackFinding:
    """How well one attack works, plain and protected, with the blind guess beside it.

    Args:
        attack: what is attempted.
        measure: what the figures are: a share of right answers, an area under a curve.
        plain: without protection.
        protected: with it.
        blind: of somebody who has not seen the output.
        bound: what the charged event allows at most, where that is known.
        release: what was attacked.
        epsilon, delta: of it, in all.
        rows: how many records were protected.
        trials: how often it was attempted.
        on: whose records; anything else than these two types is refused.
    """

    attack: str
    measure: str
    plain: float
    protected: float
    blind: float
    release: str
    epsilon: float
    delta: float
    rows: int
    trials: int
    on: Publishable
    bound: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.on, InventedRecords | OpenRows):
            raise Refused(
                "only findings on invented records and on rows that nobody protects may be "
                "published; findings on members are a MembersFinding"
            )

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "on": str(self.on)}


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
