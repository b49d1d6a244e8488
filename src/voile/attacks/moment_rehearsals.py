"""The moments of a recommender, rehearsed: users in the sums of an invented shop, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from voile.attacks.betting import Floats
from voile.attacks.invented_shop import Touched, shop_of
from voile.attacks.rehearsal import Arrangement
from voile.attacks.release_canary import ReleaseCanary
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.recommenders import (
    Catalogue,
    ItemPopularity,
    MomentsBudget,
    PrivateGram,
    PrivatePopularity,
)

ITEMS: Final = 4
"""Of the invented catalogue; noise is drawn for each item, and for each pair of them."""
_USERS: Final = "invented users"
Moments = PrivatePopularity | PrivateGram


def invented_moments(budget: MomentsBudget, *, delta: float) -> tuple[Moments, ...]:
    """The releases that a budget was spent on, over an invented shop: popularity and, where there
    is one, the Gram matrix of items."""
    small = replace(budget, items=ITEMS)
    people = shop_of(_catalogue(), budget.users, Touched(()), 0)
    settings: dict[str, Any] = {
        "protected": Protected(ProtectedUnit.USER, budget.relation, _USERS),
        "delta": delta,
    }
    first = PrivatePopularity(people, small, **settings)
    if budget.popularity_only:
        return (first,)
    chosen = ItemPopularity(np.arange(ITEMS, 0.0, -1.0), event=None, charge="invented")
    return first, PrivateGram(people, small, **settings, chosen=chosen)


def moments(release: Moments, together: int) -> tuple[Arrangement, ...]:
    """Users who touched one item, against another item or none."""
    is_replaced = release.protected.relation is Relation.REPLACE_ONE
    inside = _drawing(release, Touched((0,)), together)
    outside = _drawing(release, Touched((1,) if is_replaced else ()), together)
    return (ReleaseCanary("some users", inside, outside),)


def at_half_noise(release: Moments) -> Moments:
    """Half of the users at twice the μ: shares and head, which follow from both, stay."""
    budget = release.budget
    half = replace(budget, users=(budget.users + 1) // 2, mu=2 * budget.mu)
    return _invented(release, half)


def _invented(release: Moments, budget: MomentsBudget) -> Moments:
    found = invented_moments(budget, delta=release.delta)
    return next(each for each in found if type(each) is type(release))


def _drawing(release: Moments, touched: Touched, together: int) -> Callable[[int], Floats]:
    made = _invented(release, release.budget)
    people = shop_of(_catalogue(), release.budget.users, touched, together)
    made = replace(made, interactions=people)

    def side(draws: int) -> Floats:
        drawn = [made.draw() for _ in range(draws)]
        return np.stack(
            [m.values if isinstance(m, ItemPopularity) else m.matrix.ravel() for m in drawn]
        )

    return side


def _catalogue() -> Catalogue:
    return Catalogue("invented", tuple(f"item {place}" for place in range(ITEMS)), {})
