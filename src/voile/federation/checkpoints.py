"""Where a server keeps its place: arrays and rows after every round, without pickle.

One file for each round of each stage; round 0 holds the start and the schedule. A crash loses at
most the round that was running, which is then asked for again: clients that had answered send their
stored updates, bit for bit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from voile.core import array_file
from voile.core.errors import Refused, UnreadableFile
from voile.core.input_file import damaged
from voile.federation.aggregators import Memory
from voile.federation.arrays import Array, digest_of_arrays
from voile.federation.files import file_stem, write_arrays
from voile.federation.history import HistoryRow
from voile.federation.stage import Schedule

CHECKPOINT: Final = "voile federation checkpoint"
_ARRAYS, _MEMORY = "arrays/", "memory/"


@dataclass(frozen=True, eq=False)
class StagePlace:
    """How far a stage is.

    Args:
        round: the last one that is finished; 0 before the first.
        arrays: after it.
        schedule: of all rounds.
        memory: what the round protocol remembers.
        rows: of the finished rounds.
        figures: what was measured on unprotected rows after each finished round.
        sent: digest of the arrays that were sent in each finished round.
    """

    round: int
    arrays: dict[str, Array]
    schedule: Schedule
    memory: Memory = field(default_factory=dict)
    rows: tuple[HistoryRow, ...] = ()
    figures: tuple[dict[str, float], ...] = ()
    sent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one stage, in a folder of its federation.

    Args:
        agreement: what they must have been made under (`Stage.agreement`).
    """

    folder: Path
    stage: str
    agreement: str

    def begin(self, place: StagePlace) -> None:
        """Keep start and schedule."""
        self._write(place, {"schedule": place.schedule})

    def save(self, place: StagePlace) -> None:
        """Keep where a stage is after a round, with the rows of this round alone."""
        rows = [asdict(row) for row in place.rows if row.round == place.round]
        self._write(place, {"rows": rows, "figures": place.figures[-1]})

    def load(self) -> StagePlace | None:
        """The last finished round, or None if the stage was never begun."""
        if not self._path(0).exists():
            return None
        arrays, label = self._read(0)
        with damaged(self._path(0)):
            schedule = tuple(tuple(map(str, names)) for names in label["schedule"])
        rows: list[HistoryRow] = []
        figures: list[dict[str, float]] = []
        sent: list[str] = []
        number = 0
        while self._path(number + 1).exists():
            number += 1
            sent.append(digest_of_arrays(_under(_ARRAYS, arrays)))
            arrays, label = self._read(number)
            with damaged(self._path(number)):
                rows += [HistoryRow.stored(row) for row in label["rows"]]
                figures.append({str(name): float(x) for name, x in label["figures"].items()})
        trained, memory = _under(_ARRAYS, arrays), _under(_MEMORY, arrays)
        done = tuple(rows), tuple(figures), tuple(sent)
        return StagePlace(number, trained, schedule, memory, *done)

    def _read(self, number: int) -> tuple[dict[str, Any], Any]:
        path = self._path(number)
        arrays, label = array_file.read(path, CHECKPOINT)
        if (label.get("stage"), label.get("round")) != (self.stage, number):
            raise UnreadableFile(f"{path}: holds another round than its name says")
        if label.get("agreement") != self.agreement:
            raise Refused(
                f"{path}: was made under another agreement (other clients, sizes, keys, schema, "
                "rounds, caps or promise) or by another version; continue with the old settings. A "
                "run in another folder adds to what was spent on the same rows"
            )
        return arrays, label

    def _write(self, place: StagePlace, label: dict[str, Any]) -> None:
        arrays: dict[str, Any] = {f"{_ARRAYS}{n}": array for n, array in place.arrays.items()}
        arrays |= {f"{_MEMORY}{name}": array for name, array in place.memory.items()}
        facts = {"stage": self.stage, "round": place.round, "agreement": self.agreement}
        write_arrays(self._path(place.round), CHECKPOINT, arrays, {**facts, **label})

    def _path(self, number: int) -> Path:
        return self.folder / f"{file_stem(self.stage)}.{number}.safetensors"


def _under(head: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {n.removeprefix(head): array for n, array in arrays.items() if n.startswith(head)}
