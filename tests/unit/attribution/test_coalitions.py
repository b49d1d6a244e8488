"""Coalitions come from the laws they claim, and chains give unbiased Shapley values."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from voile.attribution.coalitions import CoalitionChains, kernel_pairs, uniform_sizes
from voile.core.errors import InvalidInput


def test_sizes_are_uniform_and_players_equally_likely() -> None:
    drawn = uniform_sizes(np.random.default_rng(0), (60_000,), 4)
    assert drawn.dtype == np.float32
    assert set(np.unique(drawn)) == {0.0, 1.0}
    counts = np.bincount(drawn.sum(axis=1).astype(int), minlength=5) / len(drawn)
    assert counts == pytest.approx([0.2] * 5, abs=0.01)
    assert drawn.mean(axis=0) == pytest.approx([0.5] * 4, abs=0.01)


def test_pairs_follow_the_kernel_and_are_complements() -> None:
    drawn = kernel_pairs(np.random.default_rng(0), 30_000, 4, 5)
    assert (drawn[:, :2] + drawn[:, 2:] == 1).all()
    counts = np.bincount(drawn.sum(axis=2).astype(int).ravel(), minlength=6) / (30_000 * 4)
    weights = np.array([0, 1 / 4, 1 / 6, 1 / 6, 1 / 4, 0])
    assert counts == pytest.approx(weights / weights.sum(), abs=0.01)


@pytest.mark.parametrize(("count", "players"), [(3, 4), (0, 4), (2, 1)])
def test_impossible_pairs_are_refused(count: int, players: int) -> None:
    with pytest.raises(InvalidInput):
        kernel_pairs(np.random.default_rng(0), 5, count, players)


def worth(coalitions: np.ndarray) -> np.ndarray:
    """A game of three players with interactions of every order; v(∅) = 1."""
    a, b, c = np.moveaxis(coalitions, -1, 0)
    return np.stack([1 + a + 2 * b - c + 3 * a * b - 2 * b * c + 4 * a * b * c], axis=-1)


def test_the_mean_over_all_orders_is_the_shapley_value() -> None:
    chains = CoalitionChains(np.array(list(permutations(range(3)))))
    full = np.repeat(worth(np.ones((1, 3))), 6, axis=0).astype(np.float32)
    found = chains.estimates(
        worth(chains.coalitions).astype(np.float32), worth(np.zeros(3)).astype(np.float32), full
    )
    # Interactions are shared evenly among those who take part.
    wanted = [1 + 3 / 2 + 4 / 3, 2 + 3 / 2 - 2 / 2 + 4 / 3, -1 - 2 / 2 + 4 / 3]
    assert found.mean(axis=0)[:, 0] == pytest.approx(wanted, abs=1e-6)
    assert found.sum(axis=1)[:, 0] == pytest.approx([7.0] * 6, abs=1e-6)


def test_one_order_is_exact_up_to_pairwise_interactions() -> None:
    def pairwise(z: np.ndarray) -> np.ndarray:
        return np.stack([z[..., 0] + 3 * z[..., 0] * z[..., 1] - z[..., 1] * z[..., 2]], axis=-1)

    chains = CoalitionChains.drawn(np.random.default_rng(0), 50, 3)
    worths = pairwise(chains.coalitions).astype(np.float32)
    full = np.full((50, 1), 3.0, dtype=np.float32)
    found = chains.estimates(worths, np.zeros(1, dtype=np.float32), full)
    assert found[..., 0] == pytest.approx(np.tile([2.5, 1.0, -0.5], (50, 1)), abs=1e-6)
