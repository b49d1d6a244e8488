"""`Schema.from_frame`: a schema drafted from public rows, and what to look at in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from voile.app.schemas import Proposal, propose
from voile.core.errors import InvalidInput
from voile.core.schema import Schema
from voile.core.schema.domains import check_text
from voile.datasets.frames import columns_of
from voile.python.saying import say

_NOTHING: Final = frozenset({"", "nan", "none", "nat", "<na>"})
"""How programs write an empty cell."""


def draft_schema(frame: Any, *, label: str | None, name: str) -> Schema:
    """What would describe these public rows, with room around them; says what was left out."""
    check_text(name, "name")
    if not isinstance(label, str | None):
        raise InvalidInput(f"label: expected the name of a column, found a {type(label).__name__}")
    columns = columns_of(frame)
    found = propose(name, columns, label)
    say("\n".join(_remarks(found, len(next(iter(columns.values()))))))
    return found.schema


def _remarks(found: Proposal, rows: int) -> Iterator[str]:
    yield (
        f"Schema drafted from {rows:,} rows that you call public: its bounds and categories tell "
        "about them. Never draft from protected rows. Check it: print(schema.dumps())"
    )
    if found.left_out:
        yield f"  left out, no values, times, or too many texts: {_names(found.left_out)}"
    if found.coded:
        yield f"  whole numbers taken as categories: {_names(found.coded)}"
    for column, words in found.missing.items():
        if told := tuple(word for word in words if word.lower() not in _NOTHING):
            yield f"  taken as missing in {column!r}: {_names(told)}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
