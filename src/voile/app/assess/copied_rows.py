"""Are rows that nobody is said to protect copies of a party's own? For the party's eyes only.

The answer depends on protected rows. So it refuses nothing and changes no text, status or released
file: it is a `MembersFinding`, written to one folder whatever it says.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from voile.attacks.findings import MembersFinding
from voile.core.schema import Schema
from voile.datasets.tables import read_protected_table
from voile.pipelines.tables import TableRecords
from voile.release.silence import silenced


def find_copied_rows(schema: Schema, dataset: str, members: Path, others: Path) -> MembersFinding:
    """How many other rows are rows of the party too, by digests of whole rows.

    As read, by features and label: that also finds a copy in another file format or column order.
    As written, by the cells of all columns that both files have. Of few categories many rows are
    alike by chance: how often other rows are like each other tells how many to expect. A copy of
    which a value in each row was changed is not found.
    """
    with silenced():
        tables = [read_protected_table(path) for path in (members, others)]
        both = [name for name in tables[0] if name in tables[1]]
        own_written, written = (_digests(zip(*(t[n] for n in both), strict=True)) for t in tables)
        own_read, read = (_as_read(TableRecords.read(schema, table)) for table in tables)
        times = Counter(read)
        figures: dict[str, float] = {
            "other rows": len(written),
            "other rows that are the party's, as written": _found(written, own_written),
            "other rows that are the party's, as read": _found(read, own_read),
            "other rows that are like another of them, as read": sum(times[d] > 1 for d in read),
        }
    return MembersFinding("copied rows", dataset, figures)


def _found(rows: list[bytes], own: list[bytes]) -> int:
    known = set(own)
    return sum(row in known for row in rows)


def _as_read(records: TableRecords) -> list[bytes]:
    readable = records.readable()
    return _digests(zip(readable.rows.tolist(), readable.labels.tolist(), strict=True))


def _digests(rows: Iterable[tuple[Any, ...]]) -> list[bytes]:
    texts = ("\0".join(map(str, row)) for row in rows)
    return [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
