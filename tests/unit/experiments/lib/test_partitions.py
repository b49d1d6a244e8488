"""Every row goes to one client, in the proportions the rule promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from experiments.lib.datasets.partitions import (
    Partition,
    at_random,
    by_column,
    by_label,
    evenly_by_label,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput

LABELS = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=3_000, p=[0.6, 0.3, 0.1])


def mixes(partition: Partition) -> Any:
    return np.array(
        [[(LABELS[p] == k).mean() for k in range(3)] for p in partition.clients.values()]
    )


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(20, 200),
    clients=st.integers(1, 20),
    alpha=st.sampled_from([0.05, 0.7, 50.0]),
    seed=st.integers(0, 1000),
)
def test_every_row_belongs_to_one_client(rows: int, clients: int, alpha: float, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 3, size=rows)
    for made in (
        at_random(rows, clients, seed=seed),
        evenly_by_label(labels, clients, alpha=alpha, seed=seed),
    ):
        assert len(made.clients) == clients
        places = np.concatenate(list(made.clients.values()))
        assert sorted(places.tolist()) == list(range(rows))
        assert max(made.sizes.values()) - min(made.sizes.values()) <= 1


def test_dirichlet_sizes_and_mixes_differ_with_alpha() -> None:
    skewed = by_label(LABELS, 10, alpha=0.3, seed=1)
    even = by_label(LABELS, 10, alpha=1_000.0, seed=1)
    assert mixes(skewed).std(axis=0).max() > 5 * mixes(even).std(axis=0).max()
    assert np.std(list(skewed.sizes.values())) > 3 * np.std(list(even.sizes.values()))
    assert "alpha 0.3" in skewed.rule


def test_balanced_dirichlet_has_equal_sizes_and_unequal_mixes() -> None:
    skewed = evenly_by_label(LABELS, 10, alpha=0.5, seed=1)
    assert set(skewed.sizes.values()) == {300}
    assert mixes(skewed).std(axis=0).max() > 0.1
    even = evenly_by_label(LABELS, 10, alpha=10_000.0, seed=1)
    assert mixes(even).std(axis=0).max() < 0.02


def test_by_column_names_clients_after_the_values() -> None:
    states = by_column(np.array(["TX", "CA", "TX"], dtype=object))
    assert states.sizes == {"CA": 1, "TX": 2}
    writers = by_column(np.array([10, 9, 10]))
    assert list(writers.clients) == ["9", "10"]
    assert writers.counts(["a", "b", "b"]) == {"9": {"b": 1}, "10": {"a": 1, "b": 1}}
    assert writers.counts([0.0, 1.0, 1.0], ("no", "yes"))["10"] == {"no": 1, "yes": 1}


def test_seeds() -> None:
    for make in (by_label, evenly_by_label):
        one, same, other = (make(LABELS, 5, alpha=1.0, seed=s).clients for s in (1, 1, 2))
        assert all(np.array_equal(one[name], same[name]) for name in one)
        assert any(not np.array_equal(one[name], other[name]) for name in one)


def test_fewest_rows_are_kept_or_refused() -> None:
    made = by_label(LABELS, 10, alpha=0.5, seed=0, fewest=60)
    assert min(made.sizes.values()) >= 60
    with pytest.raises(InvalidInput, match="no draw gave"):
        by_label(LABELS, 100, alpha=0.01, seed=0, fewest=25)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: at_random(3, 4, seed=0),
        lambda: at_random(3, 0, seed=0),
        lambda: by_label(LABELS, 10, alpha=0.0, seed=0),
        lambda: by_label(LABELS.reshape(2, -1), 10, alpha=1.0, seed=0),
        lambda: by_label(LABELS, 10, alpha=1.0, seed=0, fewest=1_000),
        lambda: by_column(np.empty(0)),
        lambda: Partition({}, ""),
        lambda: Partition({"a": np.array([0, 1]), "b": np.array([1])}, ""),
        lambda: Partition({"a": np.array([0, 2])}, ""),
    ],
)
def test_partitions_that_make_no_sense(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        wrong()


def test_a_partition_cannot_be_changed() -> None:
    made = at_random(10, 2, seed=0)
    with pytest.raises(ValueError, match="read-only"):
        made.clients["client 0"][0] = 5
