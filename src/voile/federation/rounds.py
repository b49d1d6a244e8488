"""The one loop of a federation: who is asked, what comes of it, what is written down and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from voile.core import array_file
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.core.input_file import damaged
from voile.core.randomness import GeneratorSource, StreamCipher
from voile.federation.aggregators import Memory
from voile.federation.arrays import Array, Arrays, checked, digest_of_arrays, shapes_of
from voile.federation.chain import digest_of_shown, link_before
from voile.federation.client import check_size
from voile.federation.history import HistoryRow, event_as_text
from voile.federation.messages import Instruction, check_name
from voile.federation.progress import NoProgress, Progress, ProgressEvent
from voile.federation.round_log import NoRoundLog, RoundLog, RoundReport
from voile.federation.round_protocol import AgreedTerms, RoundCall, RoundResult
from voile.federation.secure_aggregation import Signer
from voile.federation.stage import Schedule, Stage, drawn_schedule
from voile.federation.stored_text import file_stem, write_arrays
from voile.federation.task import Unprotected
from voile.federation.transport import Transport

# --- Where a server keeps its place: arrays and rows after every round, without pickle -----------
# One file for each round of each stage; round 0 holds the start and the schedule. A crash loses at
# most the round that was running, which is then asked for again: clients that had answered send
# their stored updates, bit for bit.


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


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StageResult:
    """A finished stage.

    Args:
        arrays: the trained ones.
        rows: what happened, client by client and round by round.
        figures: those of `Task.evaluate` on unprotected rows after each round, where some were
            given.
        errors: what clients in this process raised, for whoever sits at this machine: it may hold
            what must not leave.
        memory: what the round protocol remembers after the last round.
    """

    arrays: dict[str, Array]
    rows: tuple[HistoryRow, ...]
    figures: tuple[Mapping[str, float], ...]
    errors: tuple[ClientError, ...]
    memory: Memory = field(default_factory=dict)

    @property
    def note(self) -> str | None:
        """What must be written on the arrays, such as "no privacy guarantee (seeded noise)".

        It follows from the answers that the server saw, in this run or in one that it continues.
        """
        return next((row.note for row in self.rows if row.note), None)


@dataclass(frozen=True, eq=False)
class ClientError:
    """What a client in this process raised."""

    client: str
    round: int
    error: BaseException


@dataclass(frozen=True, eq=False)
class Rounds:
    """Runs stages, one after the other, over a fixed population of clients.

    Nothing a client does can stop it: who fails, refuses, is late or sends what cannot be used is
    left out of the round and recorded by name and kind. With `SeededSources` and a `Seeded` source
    the result is the same bit for bit every time, whatever carries the messages and in whatever
    order answers come in.

    Args:
        transport: what carries the messages.
        sizes: how many records each client has declared in public.
        log: the server's books.
        source: which clients are asked; never reaches them.
        checkpoints: a folder to continue from after a crash.
        progress: told after each answer and after each round.
        deadline: seconds for one answer; None: as long as it takes.
        agreement: digest of what all parties have agreed on.
        sign: with the server's key, for protocols in which it signs what it says.
    """

    transport: Transport
    sizes: Mapping[str, int]
    log: RoundLog = field(default_factory=NoRoundLog)
    source: GeneratorSource = field(default_factory=StreamCipher)
    checkpoints: Path | None = None
    progress: Progress = field(default_factory=NoProgress)
    deadline: float | None = None
    agreement: str = ""
    sign: Signer | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.sizes:
            raise InvalidInput("a federation needs at least one client with a declared size")
        if self.deadline is not None and not self.deadline > 0:
            raise InvalidInput(f"deadline must be above 0 seconds, found {self.deadline}")
        for name, size in self.sizes.items():
            check_name("a client", name)
            check_size(name, size)
        object.__setattr__(self, "sizes", dict(sorted(self.sizes.items())))

    def run(
        self,
        stage: Stage,
        start: Arrays,
        *,
        given: Arrays | None = None,
        unprotected: Unprotected | None = None,
    ) -> StageResult:
        """Train from `start`; with checkpoints, continue where the last run ended.

        Args:
            stage: what was agreed on.
            start: the arrays before the first round; derived from public facts.
            given: fixed arrays that clients need besides, such as the black box.
            unprotected: rows that exact figures may be published about.
        """
        fixed = checked(given or {}, "the given arrays")
        place, kept = self._begun(stage, checked(start, "the start arrays"), fixed)
        errors: list[ClientError] = []
        for number in range(place.round + 1, stage.rounds + 1):
            result = self._round(stage, number, place, fixed)
            errors += [
                ClientError(name, number, heard.error)
                for name, heard in result.heard.items()
                if heard.error is not None
            ]
            place = self._after(stage, place, result, fixed, unprotected)
            if kept is not None:
                kept.save(place)
            self._tell(stage, number, len(result.heard), place.rows, done=True)
        return StageResult(place.arrays, place.rows, place.figures, tuple(errors), place.memory)

    def find_progress(self, stage: Stage, start: Arrays, given: Arrays) -> StagePlace | None:
        """How far a stage was run before; None if it was not begun, or nothing is kept."""
        fixed = checked(given, "the given arrays")
        found = self._checkpoints(stage, checked(start, "the start arrays"), fixed)
        return None if found is None else found.load()

    def _begun(
        self, stage: Stage, start: dict[str, Array], given: Arrays
    ) -> tuple[StagePlace, Checkpoints | None]:
        shapes = dict(stage.task.shapes)
        if shapes_of(start) != shapes:
            raise InvalidInput(
                f"{stage.name!r} trains arrays of the shapes {shapes}, found {shapes_of(start)}"
            )
        kept = self._checkpoints(stage, start, given)
        if kept is None:
            return self._first(stage, start), None
        place = kept.load()
        if place is None:
            place = self._first(stage, start)
            kept.begin(place)
        return place, kept

    def _checkpoints(self, stage: Stage, start: Arrays, given: Arrays) -> Checkpoints | None:
        if self.checkpoints is None:
            return None
        agreement = stage.agreement(self.sizes, start, given, self.agreement)
        return Checkpoints(self.checkpoints, stage.name, agreement)

    def _first(self, stage: Stage, start: dict[str, Array]) -> StagePlace:
        schedule = drawn_schedule(stage, list(self.sizes), self.source.generator())
        return StagePlace(0, start, schedule, stage.protocol.remembered(stage.task.shapes))

    def _round(self, stage: Stage, number: int, place: StagePlace, given: Arrays) -> RoundResult:
        asked, fixed = place.schedule[number - 1], digest_of_arrays(given)
        shown = [digest_of_shown(each, fixed) for each in place.sent]
        call = RoundCall(
            Instruction(stage.name, number, place.arrays, given, self.agreement),
            {name: self._agreed(stage, name) for name in asked},
            stage.largest_change,
            place.memory,
            lambda heard: self._tell(stage, number, heard, place.rows),
            link_before(self.agreement, stage.name, shown),
            self.sign,
        )
        return stage.protocol.run(call, partial(self.transport.exchange, deadline=self.deadline))

    def _after(
        self,
        stage: Stage,
        before: StagePlace,
        result: RoundResult,
        given: Arrays,
        unprotected: Unprotected | None,
    ) -> StagePlace:
        """Aggregate and record, then keep: a crash repeats a round and never skips one."""
        number, change = before.round + 1, result.change
        arrays = before.arrays if change is None else _moved(before.arrays, change)
        figures: Mapping[str, float] = {}
        if unprotected is not None:
            figures = stage.task.evaluate(arrays, given, unprotected)
        outcomes = tuple((name, heard.outcome) for name, heard in result.heard.items())
        digest = digest_of_arrays(arrays)
        self.log.after_round(
            RoundReport(
                stage.name, number, outcomes, change is not None, digest, result.memory, arrays
            )
        )
        return StagePlace(
            number,
            arrays,
            before.schedule,
            result.memory,
            before.rows + tuple(self._rows(stage, number, result)),
            (*before.figures, {name: float(value) for name, value in figures.items()}),
            (*before.sent, digest_of_arrays(before.arrays)),
        )

    def _agreed(self, stage: Stage, client: str) -> AgreedTerms:
        size = self.sizes[client]
        return AgreedTerms(size, event_as_text(stage.task_of(client).cost(size)))

    def _rows(self, stage: Stage, number: int, result: RoundResult) -> list[HistoryRow]:
        return [
            HistoryRow(
                stage.name, number, name, heard.outcome, self._agreed(stage, name).event,
                heard.seconds, heard.account, heard.note,
            )
            for name, heard in result.heard.items()
        ]  # fmt: skip

    def _tell(
        self,
        stage: Stage,
        number: int,
        heard: int,
        rows: Sequence[HistoryRow],
        *,
        done: bool = False,
    ) -> None:
        asked = stage.clients_per_round
        self.progress(ProgressEvent(stage.name, number, stage.rounds, asked, heard, done, rows))


def _moved(arrays: Arrays, change: Arrays) -> dict[str, Array]:
    if any(change[name].dtype != array.dtype for name, array in arrays.items()):
        raise InvalidInput("whole numbers are added up by a WholeSum, and nothing else is")
    moved = {name: (array + change[name]).astype(array.dtype) for name, array in arrays.items()}
    return checked(moved, "the aggregated arrays")
