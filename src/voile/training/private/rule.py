"""Which clipping norm, from public facts alone.

Chosen once, on Adult and on generated clinics (`experiments/clipping_rule`), never on the data sets
that results are reported on. Noise on a step is the norm times something that falls with the rows
of a client: with few rows a small norm keeps noise down, with many a large one keeps the bias of
clipping down. Whoever chooses otherwise by looking at protected records pays for every look.
"""

from __future__ import annotations

from voile.core.errors import InvalidInput


def classifier_norm(rows_per_client: int) -> float:
    """For cross entropy: ½ up to 1,000 rows a client, growing with them up to 2."""
    return min(max(_checked(rows_per_client) / 2_000, 0.5), 2.0)


def surrogate_norm(rows_per_client: int) -> float:
    """For the divergence of a surrogate, averaged over a record's coalitions: from 0.05 up to ½.

    A norm adapted to the median gradient reached the same within seeds, so the simpler one is used.
    """
    return min(max(_checked(rows_per_client) / 10_000, 0.05), 0.5)


def _checked(rows: int) -> int:
    if rows < 1:
        raise InvalidInput(f"a client has at least one row, found {rows}")
    return rows
