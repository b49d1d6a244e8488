"""What is noted about an explanation: in free words, by a `KnownNote`, or about single rows.

Whatever decides what may be done with an explanation is a `KnownNote`; free words are for people.
A `RowNote` goes with its rows and no others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise
from typing import Any, Final, Self, TypeAlias

from voile.core.errors import InvalidInput

_STRETCHES: Final = 100


class KnownNote(StrEnum):
    """A note that decisions rest on.

    Compatibility promise: it is stored as its text, among the others, and never changes.
    """

    NOT_CHARGED = "not charged to any account"
    """Nobody has paid for it yet."""
    NOTHING_TO_CHARGE = "post-processing: nothing to charge"
    ALL_PUBLIC = "made from public artefacts only"
    """Why there is no guarantee, and need not be one."""
    SEEDED_NOISE = "no privacy guarantee (seeded noise)"
    """Whoever knows the seed can subtract the noise."""
    NOT_PRIVATE = "no privacy guarantee (a stage was trained without noise)"
    NAMES_ONLY = "names, not attributions: +1 or -1 where a feature was named, else 0"
    SUMMED = "sum of attributions"
    """Of several features; not the Shapley value of a game that groups play."""
    ABSOLUTE = "mean of absolute attributions over a population"
    """Never below 0 before noise was added; they lead from no base value to no prediction."""
    NOT_ADDITIVE = "attributions do not add up to prediction minus base"
    """So they lead to no prediction either."""


@dataclass(frozen=True)
class RowNote:
    """What is to be said about some of the rows.

    Whoever is handed a row gets what is noted about it, and learns nothing about the others.

    Args:
        text: what is said.
        rows: about which rows, counted from 0, in ascending order.
    """

    text: str
    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(map(int, self.rows)))
        ascending = all(before < after for before, after in pairwise(self.rows))
        if not isinstance(self.text, str) or not self.rows or self.rows[0] < 0 or not ascending:
            raise InvalidInput(f"expected a text about rows in ascending order, found {self!r}")

    def covers(self, row: int) -> bool:
        place = bisect_left(self.rows, row)
        return place < len(self.rows) and self.rows[place] == row

    def among(self, chosen: Sequence[int]) -> Self | None:
        """The note about these rows, which are counted anew; None if it is about none of them."""
        rows = tuple(new for new, old in enumerate(chosen) if self.covers(old))
        return type(self)(self.text, rows) if rows else None

    def __str__(self) -> str:
        """For people, who count rows from 1."""
        return f"{self.text} in row{'s' if len(self.rows) > 1 else ''} {_stretches(self.rows)}"


def filled_note(feature: str, default: object, rows: Sequence[int]) -> RowNote:
    """The note about rows in which a feature was missing; `was_filled` reads it.

    Compatibility promise: it is stored as its text, which never changes.
    """
    return RowNote(f"{_filled(feature)}{default}", tuple(rows))


def was_filled(notes: Sequence[Note], feature: str, *, row: int) -> bool:
    """Whether a feature was missing in a row, so that its value was filled in."""
    # A name in quotes and the sign after it begin no note about another feature.
    begins = _filled(feature)
    about = (note for note in notes if isinstance(note, RowNote) and note.text.startswith(begins))
    return any(note.covers(row) for note in about)


def _filled(feature: str) -> str:
    return f"filled in with the schema's default: {feature!r} = "


Note: TypeAlias = KnownNote | RowNote | str
"""A label for all of an explanation, or for some of its rows."""
_KNOWN: Final = {str(note): note for note in KnownNote}
_WORDS: Final = {str, KnownNote}


def note_to_plain(note: Note) -> Any:
    """Plain values for JSON; `note_from_plain` is the inverse."""
    return str(note) if isinstance(note, str) else {"text": note.text, "rows": list(note.rows)}


def note_from_plain(plain: Any) -> Note:
    if isinstance(plain, str):
        return _typed(plain)
    rows = plain["rows"] if isinstance(plain, Mapping) else None
    if not isinstance(rows, list) or not all(type(row) is int for row in rows):
        raise InvalidInput(f"a note is a text, or a text and a list of rows, found {plain!r:.100}")
    return RowNote(plain["text"], tuple(rows))


def _typed(note: Note) -> Note:
    """Whoever writes the words of a known note means it: a file holds nothing but words."""
    return _KNOWN.get(note, note) if isinstance(note, str) else note


def notes_for(given: Any, rows: int) -> tuple[Note, ...]:
    """Notes of an explanation of this many rows."""
    if (
        type(given) is tuple and set(map(type, given)) <= _WORDS
    ):  # about all rows, as they often are
        return tuple(map(_typed, given))
    notes = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (None,)
    if not all(isinstance(note, str | RowNote) for note in notes):
        raise InvalidInput(f"notes must be a sequence of texts or RowNotes, found {given!r}")
    for note in notes:
        if isinstance(note, RowNote) and note.rows[-1] >= rows:
            raise InvalidInput(f"a note about row {note.rows[-1]}, of {rows} rows")
    return tuple(map(_typed, notes))


def notes_among(notes: Sequence[Note], chosen: Sequence[int]) -> tuple[Note, ...]:
    """What is to be said about these rows alone."""
    kept = (note if isinstance(note, str) else note.among(chosen) for note in notes)
    return tuple(note for note in kept if note is not None)


def _stretches(rows: Sequence[int]) -> str:
    """1, 2, 3 and 8 as "2-4, 9"; a note stays a note, however many there are."""
    # Along a stretch, a row and its place in the list grow alike.
    grouped = groupby(enumerate(rows, start=1), lambda each: each[1] - each[0])
    parts = [[row + 1 for _, row in stretch] for _, stretch in grouped]
    shown = [f"{p[0]}-{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts[:_STRETCHES]]
    rest = sum(map(len, parts[_STRETCHES:]))
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
