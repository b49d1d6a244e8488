"""What is asked: rows by number and by digest, and the question that the ledger recognises.

A question about public rows is recognised by their values. A question about a population is
recognised by its name and size, one about a protected record by the record's identifier: never by
values, because whether something was charged is visible.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.audit_log import array_digest
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.ledger import PublicInput, Question, RowPart
from voile.ledger.replay import About
from voile.release import Identity, RowsAre

PARTS_OF_ROWS = {
    RowsAre.PUBLIC: RowPart.BACKGROUND,
    RowsAre.POPULATION: RowPart.POPULATION,
    RowsAre.RECORD: RowPart.EXPLAINED,
}
"""Which part the protected rows play. Where explained rows are public, the background is not."""


def question(identity: Identity, account: str, about: About) -> Question:
    """Everything the answer depends on."""
    return Question(
        account=account,
        model=identity.model,
        explainer=identity.explainer,
        level=identity.level,
        parameters=identity.parameters,
        about=about,
    )


def about_public(rows: Any) -> PublicInput:
    """Rows that are not protected: their values name them."""
    return PublicInput(rows_digest(rows))


def about_population(name: str, rows: int) -> PublicInput:
    """A population: its name and its public size."""
    return PublicInput(json.dumps(["population", name, rows]).encode())


def row_count(rows: Any) -> int:
    """How many rows were handed in, in all parts together; public."""
    parts = _parts(rows)
    if parts:
        return sum(map(row_count, parts))
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
    """Some of the rows, in this order; the same object if all are wanted."""
    if list(places) == list(range(row_count(rows))):
        return rows
    if isinstance(rows, Explanation):
        return rows[list(places)]
    columns = _columns(rows)
    if columns is None:
        return np.asarray(rows)[list(places)]
    return {name: column[list(places)] for name, column in columns.items()}


def rows_digest(rows: Any) -> bytes:
    """SHA-256 over all values of rows: equal rows, and only they, have equal digests."""
    columns = _columns(rows)
    found = {"": np.asarray(rows)} if columns is None else columns
    parts = [[name, _column_digest(column).hex()] for name, column in found.items()]
    return hashlib.sha256(b"voile rows v1\n" + json.dumps(parts).encode()).digest()


def _parts(rows: Any) -> list[Any]:
    """Of a population that is given by the names of its parts, the rows of each."""
    if not (hasattr(rows, "keys") and hasattr(rows, "__getitem__")):
        return []
    found = [rows[name] for name in rows.keys()]  # noqa: SIM118
    return found if all(hasattr(each, "keys") or np.ndim(each) == 2 for each in found) else []


def _columns(rows: Any) -> dict[str, NDArray[Any]] | None:
    if not (hasattr(rows, "keys") and hasattr(rows, "__getitem__")):
        return None
    return {str(name): np.asarray(rows[name]) for name in rows.keys()}  # noqa: SIM118


def _column_digest(column: NDArray[Any]) -> bytes:
    if column.dtype.kind in "biuf" and column.dtype.itemsize <= 8:
        return array_digest(column)
    cells = [column.shape, [[type(cell).__name__, str(cell)] for cell in column.ravel().tolist()]]
    return hashlib.sha256(b"cells\n" + json.dumps(cells).encode()).digest()
