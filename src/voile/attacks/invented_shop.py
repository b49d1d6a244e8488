"""An invented shop: all users are null records, but for some who have touched the same items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from voile.recommenders import Catalogue, Interactions


class Touched(NamedTuple):
    """What a canary's history holds, and how she rated it."""

    items: tuple[int, ...]
    rating: float = np.nan


def shop_of(catalogue: Catalogue, users: int, touched: Touched, together: int) -> Interactions:
    """So many users, of whom the first `together` have this history."""
    names = tuple(f"user {place}" for place in range(users))
    user = np.repeat(np.arange(together), len(touched.items))
    item = np.tile(np.array(touched.items, dtype=np.int64), together)
    rating = np.full(len(item), touched.rating)
    return Interactions(catalogue, names, user, item, rating, np.full(len(item), np.nan))
