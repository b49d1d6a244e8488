"""Which subtrees a proof consists of (RFC 9162, 2.1.3.1 and 2.1.4.1), as ranges of leaves.

Writing side only: the verifier checks proofs without knowing how they were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""Leaves from the first number up to, not including, the second."""


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The neighbours on the way from a leaf to the root, from the bottom."""
    ranges: list[Range] = []
    start, end = 0, size
    while end - start > 1:
        middle = _split(start, end)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def consistency_ranges(old_size: int, new_size: int) -> list[Range]:
    """What shows that the first `old_size` leaves of the new tree are the old tree."""
    ranges: list[Range] = []
    if not 0 < old_size < new_size:
        return ranges
    start, end = 0, new_size
    while end != old_size:
        middle = _split(start, end)
        if old_size <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start > 0:  # the old tree is not a subtree by itself: its last piece must be shown
        ranges.append((start, end))
    return ranges[::-1]


def complete_subtrees(start: int, end: int) -> Iterator[tuple[int, int]]:
    """A range as complete subtrees, from the left: (level, position)."""
    while start < end:
        level = (end - start).bit_length() - 1
        yield level, start >> level
        start += 1 << level


def _split(start: int, end: int) -> int:
    """Where a range parts: the left side gets the largest power of two below its length."""
    return start + (1 << ((end - start - 1).bit_length() - 1))
