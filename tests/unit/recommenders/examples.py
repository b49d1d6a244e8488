"""A small shop with known tastes: two halves of users, each of whom likes one half of the items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.recommenders import (
    Catalogue,
    Interactions,
    ItemMoments,
    MomentsBudget,
    PrivateGram,
    PrivatePopularity,
    interactions_of,
    joint_guarantee,
)

DATASET = "shop 2026"
DELTA = 1e-6
USER = Protected(ProtectedUnit.USER, Relation.BLANK_ONE, DATASET)


def catalogue(items: int = 24) -> Catalogue:
    """Even items are dramas, odd ones comedies; every third is a war film as well."""
    genres = tuple(
        ("Comedy" if place % 2 else "Drama", *(("War",) if place % 3 == 0 else ()))
        for place in range(items)
    )
    period = tuple(("old",) if place < items // 2 else () for place in range(items))
    names = tuple(f"film {place}" for place in range(items))
    return Catalogue(
        "shop", tuple(map(str, range(items))), {"genre": genres, "period": period}, names
    )


def table(users: int = 300, items: int = 24, seed: int = 0) -> dict[str, Any]:
    """Every user touches about a third of the items, five in six of her own half.

    The last item of the catalogue was touched by nobody.
    """
    draw = np.random.default_rng(seed)
    half = draw.integers(0, 2, users)
    liked = (np.arange(items)[np.newaxis] % 2) == half[:, np.newaxis]
    touched = draw.random((users, items)) < np.where(liked, 0.55, 0.11)
    touched[:, -1] = False
    user, item = np.nonzero(touched)
    return {
        "user": user,
        "item": item,
        "rating": draw.integers(1, 6, len(user)),
        "time": draw.random(len(user)),
    }


def shop(users: int = 300, items: int = 24, seed: int = 0) -> Interactions:
    return interactions_of(table(users, items, seed), catalogue(items))


def budget(interactions: Interactions, epsilon: float = 5.0, **changes: Any) -> MomentsBudget:
    given: dict[str, Any] = {
        "users": len(interactions),
        "items": len(interactions.catalogue),
        "relation": Relation.BLANK_ONE,
        "epsilon": epsilon,
        "delta": DELTA,
    }
    parties = changes.pop("parties", 1)
    return replace(MomentsBudget.exact(**(given | changes)), parties=parties)


def moments(interactions: Interactions, epsilon: float = 5.0) -> ItemMoments:
    """Both releases, as if somebody had paid for them."""
    spent = budget(interactions, epsilon)
    first = PrivatePopularity(interactions, spent, protected=USER, delta=DELTA)
    popularity = replace(first.draw(), charge="charge 1")
    gram = None
    if not spent.popularity_only:
        second = PrivateGram(interactions, spent, protected=USER, delta=DELTA, chosen=popularity)
        gram = replace(second.draw(), charge="charge 2")
    promise = joint_guarantee(spent, protected=USER, delta=DELTA)
    return ItemMoments(interactions.catalogue, spent, popularity, gram, promise)
