"""How interactions are held out to judge a recommender. Each gives two parts with the same users.

Which lines are held out is drawn from a stated seed: figures, not promises, depend on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.recommenders.interactions import Interactions


class Split(NamedTuple):
    """What a model learns from, and what it is asked about."""

    given: Interactions
    held_out: Interactions


def per_user_holdout(interactions: Interactions, *, share: float, seed: int) -> Split:
    """A random share of each user's interactions is held out, rounded to whole ones."""
    if not 0 < share < 1:
        raise InvalidInput(f"a share lies between 0 and 1, found {share}")
    draw = np.random.default_rng(seed)
    rank = ranks(interactions, draw.random(len(interactions.item)))
    counts = np.bincount(interactions.user, minlength=len(interactions))
    held = rank < np.round(share * counts).astype(np.int64)[interactions.user]
    return Split(interactions.where(~held), interactions.where(held))


def ranks(interactions: Interactions, keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place of each interaction among those of its user, by a key."""
    order = np.lexsort((keys, interactions.user))
    counts = np.bincount(interactions.user, minlength=len(interactions))
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, counts)
    return ranks
