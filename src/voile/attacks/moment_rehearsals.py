"""The moments of a recommender, rehearsed: one user in the sums of an invented shop, or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from voile.attacks.betting import Floats
from voile.attacks.rehearsal import Arrangement, Rehearsal
from voile.attacks.release_canary import ReleaseCanary
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.recommenders import (
    Catalogue,
    Interactions,
    ItemPopularity,
    MomentsBudget,
    PrivateGram,
    PrivatePopularity,
)

ITEMS: Final = 4
"""Of the invented catalogue; noise is drawn for each item, and for each pair of them."""
_USERS: Final = "invented users"


def rehearse_moments(budget: MomentsBudget, *, delta: float) -> tuple[Rehearsal, ...]:
    """Popularity and, where the budget has one, the Gram matrix of items."""
    small = replace(budget, items=ITEMS)
    protected = Protected(ProtectedUnit.USER, budget.relation, _USERS)
    settings: dict[str, Any] = {"protected": protected, "delta": delta}

    def popularity(spent: MomentsBudget, history: tuple[int, ...]) -> PrivatePopularity:
        return PrivatePopularity(_shop(spent.users, history), spent, **settings)

    def gram(spent: MomentsBudget, history: tuple[int, ...]) -> PrivateGram:
        chosen = ItemPopularity(np.arange(ITEMS, 0.0, -1.0), event=None).paid_by("invented")
        return PrivateGram(_shop(spent.users, history), spent, **settings, chosen=chosen)

    kinds = (popularity,) if budget.popularity_only else (popularity, gram)
    return tuple(_rehearsal(kind, small, delta) for kind in kinds)


def _rehearsal(kind: Any, budget: MomentsBudget, delta: float) -> Rehearsal:
    release = kind(budget, ())

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        # Half of the users at twice the μ: shares and head, which follow from both, stay.
        half = replace(budget, users=max(2, budget.users // 2), mu=2 * budget.mu)
        spent = half if halved else budget
        other = (1,) if budget.relation is Relation.REPLACE_ONE else ()
        sides = [kind(spent, history) for history in ((0,), other)]
        return (ReleaseCanary("one user", *map(_drawing, sides)),)

    return Rehearsal(release.name, release.cost(1), arrangements, delta)


def _drawing(release: PrivatePopularity | PrivateGram) -> Any:
    def side(draws: int) -> Floats:
        made = [release.draw() for _ in range(draws)]
        return np.stack(
            [m.values if isinstance(m, ItemPopularity) else m.matrix.ravel() for m in made]
        )

    return side


def _shop(users: int, history: tuple[int, ...]) -> Interactions:
    """All users are null records, but for one with this history."""
    items = tuple(f"item {place}" for place in range(ITEMS))
    catalogue = Catalogue("invented", items, {}, items)
    touched, nothing = np.array(history, dtype=np.int64), np.full(len(history), np.nan)
    names = tuple(f"user {place}" for place in range(users))
    return Interactions(catalogue, names, 0 * touched, touched, nothing, nothing)
