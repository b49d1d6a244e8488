"""All coalitions of k players, numbered: bit t of the number says whether player t is in.

The Shapley value of player t is linear in the worths v(T) of all coalitions: with s = |T|,

    φ_t = Σ_{T ∋ t} v(T) / (k·C(k−1, s−1))  −  Σ_{T ∌ t} v(T) / (k·C(k−1, s))
        = Σ_{T ∋ t} (in(s) + out(s))·v(T)  −  Σ_T out(s)·v(T).

The second form needs one product with the 0/1 matrix of memberships. Its sums hold no large terms
that cancel: the weights out(s) of all coalitions add up to the harmonic number of k. Every block of
coalitions adds its share, so that 2^k worths never have to be in memory together.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Worths: TypeAlias = NDArray[np.float64]
"""Shape (coalitions, games, outputs): a block of consecutive coalitions of several games."""


@lru_cache(maxsize=32)
def members(players: int) -> NDArray[np.float64]:
    """Which coalition holds whom, shape (players, 2^players), 0 or 1."""
    numbers = np.arange(1 << players)
    bits = (numbers[np.newaxis] >> np.arange(players)[:, np.newaxis]) & 1
    return _frozen(bits.astype(np.float64))


@lru_cache(maxsize=32)
def sizes(players: int) -> NDArray[np.intp]:
    """The size of each coalition, shape (2^players,)."""
    return _frozen(members(players).sum(axis=0).astype(np.intp))


@lru_cache(maxsize=64)
def shapley_weights(players: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """in(s) + out(s) and out(s) for s = 0 … players."""
    k = players
    inside = [0.0] + [1 / (k * comb(k - 1, s - 1)) for s in range(1, k + 1)]
    outside = [1 / (k * comb(k - 1, s)) for s in range(k)] + [0.0]
    return _frozen(np.add(inside, outside)), _frozen(np.array(outside))


def shapley_share(worths: Worths, players: int, high: int) -> NDArray[np.float64]:
    """What a block of coalitions adds to the Shapley values, shape (players, games, outputs).

    The block holds all coalitions of the first players (as many as its length says) joined with
    those of the other players that are set in `high`.
    """
    count, games, outputs = worths.shape
    low = count.bit_length() - 1
    flat = worths.reshape(count, games * outputs)
    size = sizes(low) + high.bit_count()
    both, outside = shapley_weights(players)
    share = np.empty((players, games * outputs))
    weighted = both[size][:, np.newaxis] * flat
    np.matmul(members(low), weighted, out=share[:low])
    share[low:] = 0.0
    for t in range(low, players):
        if high >> (t - low) & 1:
            share[t] = weighted.sum(axis=0)
    share -= outside[size] @ flat
    return share.reshape(players, games, outputs)


@lru_cache(maxsize=64)
def interaction_weights(players: int) -> NDArray[np.float64]:
    """α(s), β(s), γ(s), shape (3, players + 1), of the pairwise interaction index.

    I_ij = Σ_T g·v(T) with g(s − 2) if i and j are in T, −g(s − 1) if one is, g(s) if none is, where
    g(s) = 1/((k − 1)·C(k − 2, s)). As a polynomial in the memberships z this is
    α z_i z_j + β (z_i + z_j) + γ.
    """
    k = players

    def g(s: int) -> float:
        return 1 / ((k - 1) * comb(k - 2, s)) if 0 <= s <= k - 2 else 0.0

    both = [g(s - 2) + 2 * g(s - 1) + g(s) for s in range(k + 1)]
    one = [-g(s - 1) - g(s) for s in range(k + 1)]
    none = [g(s) for s in range(k + 1)]
    return _frozen(np.array([both, one, none]))


def interaction_share(worths: Worths, players: int, high: int) -> NDArray[np.float64]:
    """What a block adds to the interactions, shape (players, players, games, outputs).

    The diagonal has no meaning and is 0.
    """
    count, games, outputs = worths.shape
    low = count.bit_length() - 1
    flat = worths.reshape(count, games * outputs)
    size = sizes(low) + high.bit_count()
    both, one, none = interaction_weights(players)[:, size]
    present = np.zeros((players, count))
    present[:low] = members(low)
    for t in range(low, players):
        present[t] = high >> (t - low) & 1
    share = np.empty((players, players, games * outputs))
    for place in range(flat.shape[1]):
        share[:, :, place] = (present * (both * flat[:, place])) @ present.T
    single = (present * one) @ flat
    share += single[:, np.newaxis] + single[np.newaxis] + none @ flat
    share[np.arange(players), np.arange(players)] = 0.0
    return share.reshape(players, players, games, outputs)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
