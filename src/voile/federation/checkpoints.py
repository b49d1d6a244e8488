"""Where a server keeps its place: arrays and rows after every round, without pickle.

One file for each round of each stage; round 0 holds the start and the schedule. A crash loses at
most the round that was running, which is then asked for again: clients that had answered send their
stored updates, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from voile.core.errors import Refused, UnreadableFile
from voile.core.input_file import damaged
from voile.federation.arrays import Array, Arrays
from voile.federation.files import file_stem, read_arrays, write_arrays
from voile.federation.history import HistoryRow
from voile.federation.stage import Schedule

CHECKPOINT: Final = "voile federation checkpoint"


@dataclass(frozen=True, eq=False)
class Place:
    """How far a stage is.

    Args:
        round: the last one that is finished; 0 before the first.
        arrays: after it.
        schedule: of all rounds.
        rows: of the finished rounds.
        figures: what was measured on unprotected rows after each finished round.
    """

    round: int
    arrays: dict[str, Array]
    schedule: Schedule
    rows: tuple[HistoryRow, ...] = ()
    figures: tuple[dict[str, float], ...] = ()


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints of one federation."""

    folder: Path

    def begin(self, stage: str, agreement: str, place: Place) -> None:
        """Keep start and schedule."""
        label = {"agreement": agreement, "schedule": place.schedule}
        self._write(stage, 0, place.arrays, label)

    def save(self, stage: str, agreement: str, place: Place, rows: Sequence[HistoryRow]) -> None:
        """Keep the arrays after a round, with the rows of this round alone."""
        label = {
            "agreement": agreement,
            "rows": [asdict(row) for row in rows],
            "figures": place.figures[-1],
        }
        self._write(stage, place.round, place.arrays, label)

    def load(self, stage: str, agreement: str) -> Place | None:
        """The last finished round, or None if the stage was never begun."""
        if not self._path(stage, 0).exists():
            return None
        arrays, label = self._read(stage, 0, agreement)
        with damaged(self._path(stage, 0)):
            schedule = tuple(tuple(map(str, names)) for names in label["schedule"])
        rows: list[HistoryRow] = []
        figures: list[dict[str, float]] = []
        number = 0
        while self._path(stage, number + 1).exists():
            number += 1
            arrays, label = self._read(stage, number, agreement)
            with damaged(self._path(stage, number)):
                rows += [HistoryRow.stored(row) for row in label["rows"]]
                figures.append({str(name): float(x) for name, x in label["figures"].items()})
        return Place(number, arrays, schedule, tuple(rows), tuple(figures))

    def _read(self, stage: str, number: int, agreement: str) -> tuple[dict[str, Array], Any]:
        path = self._path(stage, number)
        arrays, label = read_arrays(path, CHECKPOINT)
        if (label.get("stage"), label.get("round")) != (stage, number):
            raise UnreadableFile(f"{path}: holds another round than its name says")
        if label.get("agreement") != agreement:
            raise Refused(
                f"{path}: was made by a federation with other clients, sizes, rounds, caps or "
                "another promise than this one; continue with the old settings. A run in another "
                "folder adds to what was spent on the same rows"
            )
        return arrays, label

    def _write(self, stage: str, number: int, arrays: Arrays, label: dict[str, Any]) -> None:
        label = {"stage": stage, "round": number, **label}
        write_arrays(self._path(stage, number), CHECKPOINT, arrays, label)

    def _path(self, stage: str, number: int) -> Path:
        return self.folder / f"{file_stem(stage)}.{number}.safetensors"
