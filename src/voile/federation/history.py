"""What happened, one row for each client that was asked in each round; kept as Parquet."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

from voile.core.atomic_file import replace_file
from voile.core.input_file import damaged, read_file
from voile.core.optional import optional
from voile.datasets.tables import parquet_columns
from voile.federation.round_log import Outcome
from voile.privacy.accounting import tightest_epsilon
from voile.privacy.events import Composed, PrivacyEvent, Repeated, from_dict, to_dict

MOST_ROUNDS: Final = 1_000_000


@dataclass(frozen=True)
class HistoryRow:
    """One client in one round.

    Args:
        stage, round, client: which.
        outcome: what became of it.
        event: what was agreed that an answer of it releases, as JSON
            (`voile.privacy.events.to_dict`); empty if the task promises no privacy. An answer that
            counts has stated the same.
        seconds: how long the answer took. It depends on how many records were drawn, which the
            accounting takes for unseen: `without_times` removes it from what is released.
        account: which one the client says it charged with an answer that counts; empty if none.
        note: what the client says must be written on whatever is made of its answer; empty if
            nothing.
    """

    stage: str
    round: int
    client: str
    outcome: Outcome
    event: str
    seconds: float
    account: str = ""
    note: str = ""

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> Self:
        """From plain values by name; raises unless each is what it should be."""
        if set(values) != {item.name for item in fields(cls)}:
            raise ValueError(f"no row of a history has the fields {sorted(values)}")
        texts = [values[name] for name in ("stage", "client", "event", "account", "note")]
        number, seconds = values["round"], values["seconds"]
        sound = (
            all(isinstance(text, str) for text in texts)
            and isinstance(number, int)
            and 1 <= number <= MOST_ROUNDS
            and isinstance(seconds, float)
        )
        if not sound:
            raise ValueError(f"no row of a history: {values!r:.200}")
        if values["event"]:
            from_dict(json.loads(values["event"]))
        return cls(**{**values, "outcome": Outcome(values["outcome"])})


@lru_cache(maxsize=64)
def event_as_text(event: PrivacyEvent | None) -> str:
    return "" if event is None else json.dumps(to_dict(event), sort_keys=True)


def without_times(rows: Iterable[HistoryRow]) -> list[HistoryRow]:
    """The rows with every time set to zero."""
    return [replace(row, seconds=0.0) for row in rows]


def charged(rows: Iterable[HistoryRow]) -> dict[str, PrivacyEvent]:
    """What each client may have released so far, composed; clients that owe nothing are absent.

    Read from the server's side, so it counts everybody who was asked and did not refuse: an update
    that was late or came damaged was trained and charged all the same, and so was one of an attempt
    that a server of a secure sum has lost (`Outcome.OVER`). A stored update that is sent
    again costs nothing; a client's own books may hold more, if it crashed before it could store.
    Of a client that stated another cost nothing is known, so it is absent as well: `unbounded`.
    """
    rows = list(rows)
    unknown = unbounded(rows)
    counts: dict[str, Counter[str]] = {}
    free = (Outcome.REFUSED, Outcome.DUPLICATE)
    for row in rows:
        if row.event and row.outcome not in free and row.client not in unknown:
            counts.setdefault(row.client, Counter())[row.event] += 1
    return {
        client: Composed(
            tuple(Repeated(from_dict(json.loads(text)), times) for text, times in found.items())
        )
        for client, found in sorted(counts.items())
    }


def unbounded(rows: Iterable[HistoryRow]) -> tuple[str, ...]:
    """The clients that sent an update of another cost than was agreed on, in order of names."""
    return tuple(sorted({row.client for row in rows if row.outcome is Outcome.OTHER_COST}))


def most_spent(rows: Iterable[HistoryRow], delta: float) -> float:
    """The largest epsilon of any client at this delta, by privacy-loss distributions.

    Clients hold disjoint records, so this is the federation's figure. A reading of what has been
    asked so far, not a promise: that is the plan's.
    """
    rows = list(rows)
    if unbounded(rows):
        return math.inf
    distinct = set(charged(rows).values())
    return max((tightest_epsilon(e, delta) for e in distinct), default=0.0)


def write_history(rows: Sequence[HistoryRow], path: str | Path) -> Path:
    """Write the rows as Parquet; replaces the file atomically."""
    pyarrow: Any = optional("pyarrow", extra="explain")
    parquet: Any = optional("pyarrow.parquet", extra="explain")
    names = [item.name for item in fields(HistoryRow)]
    columns = {name: [asdict(row)[name] for row in rows] for name in names}
    table = pyarrow.table(
        {
            name: pyarrow.array(
                [str(v) for v in values] if name == "outcome" else values, type=_type(pyarrow, name)
            )
            for name, values in columns.items()
        }
    )
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return replace_file(Path(path), sink.getvalue().to_pybytes())


def read_history(path: str | Path) -> list[HistoryRow]:
    """The inverse of `write_history`."""
    columns = parquet_columns(read_file(Path(path)), str(path))
    with damaged(Path(path)):
        cells = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [HistoryRow.stored(dict(zip(columns, each, strict=True))) for each in cells]


def _type(pyarrow: Any, name: str) -> Any:
    kinds = {"round": pyarrow.int32(), "seconds": pyarrow.float64()}
    return kinds.get(name, pyarrow.string())
