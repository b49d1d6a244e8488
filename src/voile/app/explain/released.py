"""What leaves: an explanation that was paid for, and where it is on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np

from voile.assess.assessment import Verdict
from voile.core.description import Description, Uncertainty
from voile.core.explanation import Explanation
from voile.core.rendering import render_html
from voile.core.row_note import KnownNote, Note
from voile.core.schema import Schema
from voile.records.audit_log import RowTree, explanation_bytes

NOT_ESTIMATED: Final = (
    "The model was trained with noise; how far these numbers would move was not estimated."
)


@dataclass(frozen=True)
class LoggedAnswer:
    """One record of the audit log, and what it is about.

    Args:
        explanation: what was answered, exactly as the record commits to it.
        question: canonical bytes of what was asked, as the record commits to it.
        record: number of the record in the log.
        charge: the ledger's name for the charge; None if it cost nothing.
        replayed: it was answered before, and not charged again.
        nonces: open the record's commitments; for the person who asked.
    """

    explanation: Explanation
    question: bytes = field(repr=False)
    record: int
    charge: str | None
    replayed: bool
    nonces: dict[str, bytes] = field(repr=False)

    @property
    def answer(self) -> bytes:
        """Canonical bytes of what was answered, for `voile.records.audit_log.verify_receipt`."""
        return explanation_bytes(self.explanation)


@dataclass(frozen=True)
class AssessedClaims:
    """A verdict on the claims behind an explanation.

    Args:
        verdict: the worst of them.
        software: version of voile that was tried, and tried it.
        record: in the log of whoever explains, which holds the digest of the findings.
    """

    verdict: str
    software: str
    record: int

    @property
    def word(self) -> str:
        """The verdict for people."""
        return Verdict(self.verdict).word

    def __str__(self) -> str:
        return f"{self.word} by voile {self.software} (record {self.record} of the log)"


@dataclass(frozen=True, repr=False)
class ReleasedExplanation:
    """What leaves: an explanation that was paid for and is on record.

    Args:
        explanation: all rows together.
        entries: one for each record of the log: one for the call, or one for each protected row.
        rows_tree: proves single rows of a call that cost nothing.
        schema: of the rows, for whoever reads it out.
        deviations: by feature, how far contributions may be off for the noise in training; an
            estimate, where there is one.
        model_alarms: why what was trained is useless, where it is.
        output_labels: what readers see instead of the name of an output.
        trained_with_noise: whether the model was; readers see when nobody estimated what it does.
        assessed: what attacks on the claims behind it have found, where there were any.
    """

    view: ClassVar[str] = "released explanation"

    explanation: Explanation
    entries: tuple[LoggedAnswer, ...]
    rows_tree: RowTree | None = field(default=None, repr=False)
    schema: Schema | None = field(default=None, repr=False)
    deviations: Mapping[str, float] | None = field(default=None, repr=False)
    model_alarms: tuple[str, ...] = ()
    output_labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    trained_with_noise: bool = False
    assessed: AssessedClaims | None = None

    def of_row(self, number: int) -> ReleasedExplanation:
        """What is told about one row alone."""
        return replace(self, explanation=self.explanation[number])

    def describe(
        self,
        row: int | None = None,
        *,
        output: str | None = None,
        most: int | None = None,
        schema: Schema | None = None,
    ) -> Description:
        """What it says, as data for every view; with the schema and estimates that it carries."""
        chosen = self.explanation if output is None else self.explanation.output(output)
        if self.output_labels:
            names = tuple(self.output_labels.get(name, name) for name in chosen.output_names)
            chosen = replace(chosen, output_names=names)
        described = chosen.describe(
            row,
            most=most,
            schema=schema or self.schema,
            deviations=self.deviations,
        )
        estimated = self.deviations is not None and described.uncertainty is not Uncertainty.EXACT
        unknown = (NOT_ESTIMATED,) if self.trained_with_noise and not estimated else ()
        return replace(
            described,
            notes=(*described.notes, *unknown),
            alarms=(*self.model_alarms, *described.alarms),
        )

    @property
    def alarms(self) -> tuple[str, ...]:
        """Why it is of no use, where it is not; readers see it first."""
        return (*self.model_alarms, *self.explanation.alarms)

    @property
    def replayed(self) -> bool:
        """Nothing new was charged."""
        return all(entry.replayed for entry in self.entries)

    @property
    def charges(self) -> tuple[str, ...]:
        """The charges behind it, without repetition; empty if it cost nothing."""
        return tuple(dict.fromkeys(entry.charge for entry in self.entries if entry.charge))

    @property
    def records(self) -> tuple[int, ...]:
        """Numbers of its records in the log, without repetition."""
        return tuple(dict.fromkeys(entry.record for entry in self.entries))

    @property
    def payment(self) -> str:
        """What it cost and where it is on record, in words."""
        records = _first_few(list(map(str, self.records)))
        if not self.charges:
            return f"cost nothing; record {records}"
        new = dict.fromkeys(e.charge for e in self.entries if e.charge and not e.replayed)
        old = [charge for charge in self.charges if charge not in new]
        parts = (("charged", list(new)), ("answered before, not charged again", old))
        said = "; ".join(f"{what}: {_first_few(some)}" for what, some in parts if some)
        return f"{said}; record {records}"

    def __repr__(self) -> str:
        warned = "".join(f"Do not use it as it is. {line}\n" for line in self.alarms)
        return f"{warned}{self.explanation!r}\n  {self.payment}"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return render_html(self)


def _first_few(names: Sequence[str], count: int = 5) -> str:
    return ", ".join(names[:count]) + ("…" if len(names) > count else "")


def settled_notes(explanation: Explanation, *more: Note) -> Explanation:
    """The note "not charged" goes, because what carries it leaves only after the commit."""
    notes = tuple(note for note in explanation.notes if note is not KnownNote.NOT_CHARGED)
    return explanation.with_notes((*notes, *more))


def joined(parts: Sequence[Explanation]) -> Explanation:
    """Rows one below the other; they answer one question, so labels and promises are the same."""
    first = parts[0]
    if len(parts) == 1:
        return first

    def together(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    names = ("values", "base_values", "data", "standard_errors", "half_widths")
    return replace(first, **{name: together(name) for name in names})
