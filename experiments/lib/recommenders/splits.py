"""A further way to hold interactions out."""

from __future__ import annotations

import numpy as np

from voile.recommenders.interactions import Interactions
from voile.recommenders.splits import Split, ranks


def leave_last_out(interactions: Interactions) -> Split:
    """Each user's last interaction is held out; one without a time is taken to be earlier.

    Of users with one interaction only, nothing is.
    """
    late = np.where(np.isnan(interactions.time), -np.inf, interactions.time)
    counts = np.bincount(interactions.user, minlength=len(interactions))[interactions.user]
    held = (ranks(interactions, late) == counts - 1) & (counts > 1)
    return Split(interactions.where(~held), interactions.where(held))
