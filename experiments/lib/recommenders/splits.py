"""Further ways to hold interactions out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.lib.recommenders.measuring import Split, per_user_holdout, ranks
from voile.core.errors import InvalidInput
from voile.recommenders.shop import Interactions


def leave_last_out(interactions: Interactions) -> Split:
    """Each user's last interaction is held out; one without a time is taken to be earlier.

    Of users with one interaction only, nothing is.
    """
    late = np.where(np.isnan(interactions.time), -np.inf, interactions.time)
    counts = np.bincount(interactions.user, minlength=len(interactions))[interactions.user]
    held = (ranks(interactions, late) == counts - 1) & (counts > 1)
    return Split(interactions.where(~held), interactions.where(held))


class Newcomers(NamedTuple):
    """A model learns from some users and is asked about others, from a part of their history."""

    known: Interactions
    newcomers: Split


def newcomers(interactions: Interactions, *, share: float, held_out: float, seed: int) -> Newcomers:
    """A random share of the users is set aside; of these, a share of each history is held out."""
    if not 0 < share < 1:
        raise InvalidInput(f"a share lies between 0 and 1, found {share}")
    chosen = np.random.default_rng(seed).random(len(interactions)) < share
    apart = interactions.of_users(chosen)
    return Newcomers(
        interactions.of_users(~chosen), per_user_holdout(apart, share=held_out, seed=seed)
    )
