"""Which clipping norm, from public facts alone.

Chosen once, on Adult and on generated clinics (`experiments/clipping_rule`), never on the data sets
that results are reported on. Noise on a step is the norm times something that falls with the rows
of a client: with few rows a small norm keeps noise down, with many a large one keeps the bias of
clipping down. Whoever chooses otherwise by looking at protected records pays for every look.
"""

from __future__ import annotations

from typing import Final

from voile.core.errors import InvalidInput
from voile.training.private.settings import AdaptedNorm

ADAPTED_FROM: Final = 5_000
"""Rows a client from which a surrogate's norm follows the median gradient; with fewer, the noise of
the count and the steps until it is found cost more than they bring."""


def classifier_norm(rows_per_client: int) -> float:
    """For cross entropy: ½ up to 1,000 rows a client, growing with them up to 2."""
    _check(rows_per_client)
    return min(max(rows_per_client / 2_000, 0.5), 2.0)


def surrogate_norm(rows_per_client: int, expected_batch: float) -> float | AdaptedNorm:
    """For the divergence of a surrogate, averaged over a record's coalitions.

    Args:
        rows_per_client: declared, of a client in the middle.
        expected_batch: sampling rate times rows; the noise on the count is a tenth of it.
    """
    _check(rows_per_client)
    if rows_per_client < ADAPTED_FROM:
        return min(max(rows_per_client / 10_000, 0.05), 0.5)
    return AdaptedNorm(start=0.5, count_noise=max(expected_batch / 10, 10.0), share=0.5)


def _check(rows: int) -> None:
    if rows < 1:
        raise InvalidInput(f"a client has at least one row, found {rows}")
