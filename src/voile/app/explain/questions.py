"""What is asked: rows by number and by digest, and the question that the ledger recognises.

A question about public rows is recognised by their values. A question about a population is
recognised by its name and, where that is public, its size, one about a protected record by the
record's identifier: never by values, because whether something was charged is visible.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.audit_log import array_digest
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Relation
from voile.core.row_note import Note, note_to_plain
from voile.core.schema import is_table
from voile.core.schema.cells import raw_column
from voile.ledger import About, PublicInput, Question, WholeDataset
from voile.release import ReleaseIdentity

Identifier: TypeAlias = str | int | float | None
"""As files and tables hold them; `voile.core.identifiers` says what they mean."""


@dataclass(frozen=True)
class RowsToExplain:
    """Rows, and what is said about them.

    Args:
        rows: what the release takes.
        identifiers: names of the rows: integers or text. Of protected records: each pays for
            itself, and asking again is free; a row without a name may be anybody's, so everybody
            pays for it. Of a population: for the watch against reconstruction.
        notes: what is to be said with the explanation.
        population: its name; by default the label of the data set.
        hints: what a preview says about public rows; no part of a question or its answer.
    """

    rows: Any = field(repr=False)
    identifiers: Sequence[Identifier] | None = None
    notes: tuple[Note, ...] = ()
    population: str | None = None
    hints: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Any) -> RowsToExplain:
        """Rows with nothing said about them, unless they are such already."""
        return rows if isinstance(rows, cls) else cls(rows)

    @cached_property
    def count(self) -> int:
        """How many there are; public."""
        return row_count(self.rows)

    def check(self) -> None:
        """There is something to explain."""
        if self.count == 0:
            raise InvalidInput("expected at least one row, found none")


def question(identity: ReleaseIdentity, account: str, about: About) -> Question:
    """Everything the answer depends on."""
    return _question(identity, account, lambda _: about)


def question_of_artefact(identity: ReleaseIdentity, account: str, dataset: str) -> Question:
    """The question for what is made once from a data set."""
    return _question(identity, account, lambda each: about_artefact(each.explainer, dataset))


def _question(
    identity: ReleaseIdentity, account: str, about: Callable[[ReleaseIdentity], About]
) -> Question:
    return Question(
        account=account,
        model=identity.model,
        explainer=identity.explainer,
        level=identity.level,
        parameters=identity.parameters,
        about=about(identity),
        earlier=tuple(_question(each, account, about) for each in identity.earlier),
    )


def about_public(rows: Any, notes: Sequence[Note] = ()) -> PublicInput:
    """Rows that are not protected: their values name them.

    And what is noted about them: a stored answer carries its notes, so rows of which a cell was
    filled in are not asked about by rows that hold the default.
    """
    said = json.dumps([note_to_plain(note) for note in notes]).encode() if notes else b""
    return PublicInput(rows_digest(rows) + said)


def about_artefact(name: str, dataset: str) -> WholeDataset:
    """What is made once from a data set: its name."""
    return WholeDataset(f"{name} of {dataset}".encode())


Size: TypeAlias = int | list[tuple[str, int]] | None
"""How many records there are, in all or in each part; None where that is private."""


def about_population(name: str, size: Size) -> WholeDataset:
    """A population: its name, and its size if that is public."""
    return WholeDataset(json.dumps(["population", name, size]).encode())


def public_size(records: Any, relation: Relation) -> Size:
    """How many records there are, or nothing where their number is protected as well.

    Whether something is charged again is visible: a private number in the question would show that
    it has changed.
    """
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return None
    return part_sizes(records) or row_count(records)


def part_sizes(rows: Any) -> list[tuple[str, int]]:
    """Of a population that is given in parts, name and size of each in order; else nothing."""
    return sorted((str(name), row_count(part)) for name, part in _parts(rows).items())


def row_count(rows: Any) -> int:
    """How many rows were handed in, in all parts together; public."""
    parts = _parts(rows)
    if parts:
        return sum(map(row_count, parts.values()))
    columns = _columns(rows)
    if columns is not None:
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise InvalidInput(f"the columns have different lengths: {sorted(lengths)}")
        return lengths.pop()
    if not hasattr(rows, "__len__") or isinstance(rows, str | bytes):
        raise InvalidInput(
            f"expected an array or a table of rows, found {type(rows).__name__}; a single row is "
            "given as rows[np.newaxis]"
        )
    return len(rows)


def chosen(rows: Any, places: Sequence[int]) -> Any:
    """Some of the rows, in this order; the same object if all are wanted.

    No column or row is given a common type: what one record is read as depends on no other.
    """
    if list(places) == list(range(row_count(rows))):
        return rows
    if isinstance(rows, Explanation):
        return rows[list(places)]
    columns = _columns(rows)
    if columns is None:
        array = hasattr(rows, "__array__")
        return np.asarray(rows)[list(places)] if array else [rows[place] for place in places]
    return {name: column[list(places)] for name, column in columns.items()}


def stacked(parts: Sequence[Any]) -> Any:
    """Rows of several tables or arrays, one below the other; no cell changes its type."""
    if all(isinstance(part, np.ndarray) for part in parts):
        if len({(part.dtype, part.shape[1:]) for part in parts}) > 1:
            raise InvalidInput("rows of different types or widths are not stacked")
        return np.concatenate(parts)
    tables = [_columns(part) for part in parts]
    names = {None if table is None else tuple(table) for table in tables}
    if None in names or len(names) > 1:
        raise InvalidInput("rows with different columns are not stacked")
    return {name: _stacked_column([t[name] for t in tables if t]) for name in tables[0] or ()}


def _stacked_column(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Of one type if all of them are; else cells as they are."""
    same = len({part.dtype for part in parts}) == 1
    return np.concatenate(parts if same else [part.astype(object) for part in parts])


def rows_digest(rows: Any) -> bytes:
    """SHA-256 over all values of rows: equal rows, and only they, have equal digests."""
    columns = _columns(rows)
    found = {"": np.asarray(rows)} if columns is None else columns
    parts = [[name, _column_digest(_plain(column)).hex()] for name, column in found.items()]
    return hashlib.sha256(b"voile rows v1\n" + json.dumps(parts).encode()).digest()


def _parts(rows: Any) -> dict[Any, Any]:
    """Of a population that is given by the names of its parts, the rows of each.

    Tables and arrays with two dimensions are parts, whatever stands in them.
    """
    if not is_table(rows):
        return {}
    found = {name: rows[name] for name in rows.keys()}  # noqa: SIM118
    return found if all(map(_is_part, found.values())) else {}


def _is_part(given: Any) -> bool:
    return is_table(given) or getattr(given, "ndim", 1) == 2


def _columns(rows: Any) -> dict[str, NDArray[Any]] | None:
    if not is_table(rows):
        return None
    return {str(name): raw_column(rows[name], str(name)) for name in rows.keys()}  # noqa: SIM118


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """A list of numbers of one type as the array it is equal to; public rows only."""
    if column.dtype.kind != "O" or column.ndim != 1:
        return column
    cells = column.tolist()
    alike = set(map(type, cells)) in ({bool}, {int}, {float})
    return np.asarray(cells) if alike else column


def _column_digest(column: NDArray[Any]) -> bytes:
    if column.dtype.kind in "biuf" and column.dtype.itemsize <= 8:
        return array_digest(column)
    cells = [column.shape, [[type(cell).__name__, str(cell)] for cell in column.ravel().tolist()]]
    return hashlib.sha256(b"cells\n" + json.dumps(cells).encode()).digest()
