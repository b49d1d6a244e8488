"""Sums are what rows add one by one, as whole numbers, in whatever order and parts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voile.release.statistics.sums import cell_table, centred_products, centred_sums

Whole = NDArray[np.int64]
BINS = (2, 3, 5)


def one_by_one(codes: Whole, labels: Whole) -> list[Whole]:
    """As docs/guarantees/statistics.md defines them."""
    counts = [np.zeros(count, dtype=np.int64) for count in BINS]
    turned = [np.zeros(count, dtype=np.int64) for count in BINS]
    total = np.zeros(1, dtype=np.int64)
    pairs = {
        (j, k): np.zeros((BINS[j], BINS[k]), dtype=np.int64)
        for j in range(3)
        for k in range(j + 1, 3)
    }
    for row, label in zip(codes, labels, strict=True):
        sign = 2 * label - 1
        scaled = [
            count * np.eye(count, dtype=np.int64)[code] - 1
            for count, code in zip(BINS, row, strict=True)
        ]
        for place, part in enumerate(scaled):
            counts[place] += part
            turned[place] += sign * part
        total += sign
        for (j, k), table in pairs.items():
            table += np.outer(scaled[j], scaled[k])
    return [*counts, *turned, total, *pairs.values()]


ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 4), st.integers(0, 1)),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_sums_are_what_rows_add(rows: list[tuple[int, int, int, int]]) -> None:
    array = np.array(rows, dtype=np.intp).reshape(-1, 4)
    codes, labels = array[:, :3], array[:, 3]
    found = [*centred_sums(codes, labels, BINS), *centred_products(codes, BINS)]
    expected = one_by_one(codes, labels)
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        assert one.dtype == np.int64
        assert np.array_equal(one, two)


def test_sums_of_parts_add_up() -> None:
    draw = np.random.default_rng(0)
    codes = np.column_stack([draw.integers(0, count, 500) for count in BINS])
    labels = draw.integers(0, 2, 500)
    whole = [*centred_sums(codes, labels, BINS), *centred_products(codes, BINS)]
    parts = [
        [*centred_sums(codes[part], labels[part], BINS), *centred_products(codes[part], BINS)]
        for part in (slice(0, 123), slice(123, 500))
    ]
    for one, first, second in zip(whole, *parts, strict=True):
        assert np.array_equal(one, first + second)


def test_a_table_counts_classes_in_cells() -> None:
    table = cell_table(np.array([0, 2, 2, 2]), np.array([1, 0, 1, 1]), 4)
    assert table.tolist() == [[0, 1], [0, 0], [1, 2], [0, 0]]
