"""What runs a federation: the protocol, and the engine that runs it in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.randomness import GeneratorSource, StreamCipher
from voile.federation.aggregators import Contribution
from voile.federation.arrays import Array, Arrays, checked, digest_of_arrays, shapes_of
from voile.federation.asking import Answer, Asking
from voile.federation.checkpoints import Checkpoints, Place
from voile.federation.client import Participant, check_size
from voile.federation.faults import Expected, fault_of, note_of
from voile.federation.history import HistoryRow, event_as_text
from voile.federation.messages import Instruction, Update, check_name
from voile.federation.progress import NoProgress, Progress, Seen
from voile.federation.recorder import NoRecorder, Outcome, RoundLog, RoundReport
from voile.federation.stage import Stage, drawn_schedule
from voile.federation.task import Unprotected


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
    """

    arrays: dict[str, Array]
    rows: tuple[HistoryRow, ...]
    figures: tuple[Mapping[str, float], ...]
    errors: tuple[ClientError, ...]

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


class Engine(Protocol):
    """Runs stages, one after the other, over a fixed population of clients."""

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


Answers: TypeAlias = dict[str, tuple[Outcome, Answer]]


@dataclass(eq=False)
class InProcess:
    """All clients in this process, one after the other or in threads.

    Nothing a client does can stop it: who fails, refuses, is late or sends what cannot be used is
    left out of the round and recorded by name and kind. With `SeededSources` and a `Seeded` source
    the result is the same bit for bit every time, in whatever order answers come in.

    Args:
        clients: the population. Of two with the same name the first takes part, and nobody else
            under that name.
        recorder: the server's books.
        source: which clients are asked; never reaches them.
        checkpoints: a folder to continue from after a crash.
        progress: told after each answer and after each round.
        asking: deadline, and how many clients work at once.
    """

    clients: Sequence[Participant]
    recorder: RoundLog = field(default_factory=NoRecorder)
    source: GeneratorSource = field(default_factory=StreamCipher)
    checkpoints: Path | None = None
    progress: Progress = field(default_factory=NoProgress)
    asking: Asking = field(default_factory=Asking)

    def __post_init__(self) -> None:
        self._by_name: dict[str, Participant] = {}
        self._doubled: set[str] = set()
        for client in self.clients:
            check_name("a client", client.name)
            check_size(client.name, client.size)
            if self._by_name.setdefault(client.name, client) is not client:
                self._doubled.add(client.name)
        if not self._by_name:
            raise InvalidInput("a federation needs at least one client")

    @property
    def sizes(self) -> dict[str, int]:
        """Declared public sizes by name."""
        return {name: client.size for name, client in sorted(self._by_name.items())}

    def run(
        self,
        stage: Stage,
        start: Arrays,
        *,
        given: Arrays | None = None,
        unprotected: Unprotected | None = None,
    ) -> StageResult:
        """See `Engine.run`."""
        fixed = checked(given or {}, "the given arrays")
        agreement = stage.agreement(self.sizes, checked(start, "the start arrays"), fixed)
        place = self._begun(stage, start, agreement)
        errors: list[ClientError] = []
        for number in range(place.round + 1, stage.rounds + 1):
            instruction = Instruction(stage.name, number, place.arrays, fixed)
            answers = self._answers(stage, instruction, place)
            errors += [
                ClientError(name, number, answer.error)
                for name, (_, answer) in answers.items()
                if answer.error is not None
            ]
            place = self._after(stage, place, answers, fixed, unprotected, agreement)
        return StageResult(place.arrays, place.rows, place.figures, tuple(errors))

    def _begun(self, stage: Stage, start: Arrays, agreement: str) -> Place:
        arrays = checked(start, "the start arrays")
        if shapes_of(arrays) != dict(stage.task.shapes):
            raise InvalidInput(
                f"{stage.name!r} trains arrays of the shapes {dict(stage.task.shapes)}, found "
                f"{shapes_of(arrays)}"
            )
        kept = None if self.checkpoints is None else Checkpoints(self.checkpoints)
        place = None if kept is None else kept.load(stage.name, agreement)
        if place is None:
            schedule = drawn_schedule(stage, list(self._by_name), self.source.generator())
            place = Place(0, arrays, schedule)
            if kept is not None:
                kept.begin(stage.name, agreement, place)
        return place

    def _answers(self, stage: Stage, instruction: Instruction, place: Place) -> Answers:
        """Outcomes and answers in order of names."""
        asked = [self._by_name[name] for name in place.schedule[instruction.round - 1]]
        shapes = shapes_of(instruction.arrays)
        found: Answers = {}
        for answer in self.asking.ask(asked, instruction):
            agreed = self._agreed(stage, answer.client)
            expected = Expected(answer.client, agreed, shapes, stage.largest_change)
            outcome = answer.outcome or fault_of(answer.content, instruction, expected)
            if outcome is None:
                outcome = Outcome.RESENT if answer.content.resent is True else Outcome.ANSWERED
            found[answer.client] = outcome, answer
            self._tell(stage, instruction.round, len(asked), len(found), place.rows)
        return dict(sorted(found.items()))

    def _after(
        self,
        stage: Stage,
        before: Place,
        answers: Answers,
        given: Arrays,
        unprotected: Unprotected | None,
        agreement: str,
    ) -> Place:
        """Aggregate, record, keep, in this order: a crash repeats a round and never skips one."""
        number = before.round + 1
        usable = {n: a.content for n, (outcome, a) in answers.items() if outcome.counts}
        arrays, changed = self._moved(stage, before.arrays, usable)
        figures: Mapping[str, float] = {}
        if unprotected is not None:
            figures = stage.task.evaluate(arrays, given, unprotected)
        rows = tuple(self._rows(stage, number, answers))
        outcomes = tuple((row.client, row.outcome) for row in rows)
        self.recorder.after_round(
            RoundReport(stage.name, number, outcomes, changed, digest_of_arrays(arrays))
        )
        place = Place(
            number,
            arrays,
            before.schedule,
            before.rows + rows,
            (*before.figures, {name: float(value) for name, value in figures.items()}),
        )
        if self.checkpoints is not None:
            Checkpoints(self.checkpoints).save(stage.name, agreement, place, rows)
        self._tell(stage, number, len(answers), len(answers), place.rows, done=True)
        return place

    def _moved(
        self, stage: Stage, arrays: dict[str, Array], updates: Mapping[str, Update]
    ) -> tuple[dict[str, Array], bool]:
        if len(updates) < stage.aggregator.fewest or not updates:
            return arrays, False
        contributions = [
            Contribution(name, self._by_name[name].size, update.arrays)
            for name, update in updates.items()
        ]
        change = stage.aggregator.combine(contributions)
        moved = {name: (array + change[name]).astype(np.float32) for name, array in arrays.items()}
        return checked(moved, "the aggregated arrays"), True

    def _agreed(self, stage: Stage, client: str) -> str:
        """What one participation of this client costs, as text."""
        return event_as_text(stage.task.cost(self._by_name[client].size))

    def _rows(self, stage: Stage, number: int, answers: Answers) -> list[HistoryRow]:
        rows = []
        for name, (outcome, answer) in answers.items():
            account = (answer.content.account or "") if outcome.counts else ""
            event = answer.content.event if outcome.counts else self._agreed(stage, name)
            row = HistoryRow(
                stage.name, number, name, outcome, event, answer.seconds, account,
                note_of(answer.content),
            )  # fmt: skip
            rows.append(row)
            if name in self._doubled:
                rows.append(replace(row, outcome=Outcome.DUPLICATE, seconds=0.0))
        return rows

    def _tell(
        self,
        stage: Stage,
        number: int,
        asked: int,
        answered: int,
        rows: Sequence[HistoryRow],
        *,
        done: bool = False,
    ) -> None:
        self.progress(Seen(stage.name, number, stage.rounds, asked, answered, done, rows))
