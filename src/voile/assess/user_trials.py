"""What recommenders tell others about users, and make of their ratings, audited.

Users are invented, and so is the model: an item of each label speaks for everything else, one more
speaks against it. So the profile of whoever touched one item is that label's direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voile.assess.assessment import Arrangement, AuditTrial
from voile.assess.betting import Floats
from voile.assess.claims import group_size
from voile.assess.explanation_trials import MOST_TOGETHER
from voile.assess.release_canary import ReleaseCanary, all_of
from voile.assess.shared_sums import canary_in_sum
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.privacy.events import PrivacyEvent
from voile.recommenders import (
    ByLabels,
    Catalogue,
    Interactions,
    ItemPopularity,
    LabelImportance,
    LinearRecommender,
    MomentsBudget,
    NoisyProfileOfUser,
    PrivateGram,
    PrivatePopularity,
    TopLabelsOfUser,
)
from voile.recommenders.explaining import RECOMMENDED
from voile.recommenders.shared_moments import gram_steps, popularity_steps
from voile.recommenders.shop import History
from voile.release import PUBLIC

# --- The moments of a recommender, audited: users in the sums of an invented shop, or not ------


# --- An invented shop: all users are null records, but for some who have touched the same items --


class CanaryHistory(NamedTuple):
    """What a canary's history holds, and how she rated it."""

    items: tuple[int, ...]
    rating: float = np.nan


def shop_of(
    catalogue: Catalogue, users: int, touched: CanaryHistory, together: int
) -> Interactions:
    """So many users, of whom the first `together` have this history."""
    names = tuple(f"user {place}" for place in range(users))
    user = np.repeat(np.arange(together), len(touched.items))
    item = np.tile(np.array(touched.items, dtype=np.int64), together)
    rating = np.full(len(item), touched.rating)
    return Interactions(catalogue, names, user, item, rating, np.full(len(item), np.nan))


# --------------------------------------------------------------------------------------------------


ITEMS: Final = 4
"""Of the invented catalogue; noise is drawn for each item, and for each pair of them."""
_USERS: Final = "invented users"
Moments = PrivatePopularity | PrivateGram


def invented_moments(budget: MomentsBudget, *, delta: float) -> tuple[Moments, ...]:
    """The releases that a budget was spent on, over an invented shop: popularity and, where there
    is one, the Gram matrix of items."""
    small = replace(budget, items=ITEMS)
    people = shop_of(_catalogue(), budget.users, CanaryHistory(()), 0)
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
    inside = _drawing(release, CanaryHistory((0,)), together)
    outside = _drawing(release, CanaryHistory((1,) if is_replaced else ()), together)
    return (ReleaseCanary("some users", inside, outside),)


def at_half_noise(release: Moments) -> Moments:
    return _invented(release, _louder(release.budget))


def moments_sum_trial(
    name: str,
    budget: MomentsBudget,
    place: int,
    charged: PrivacyEvent,
    *,
    honest: int,
    delta: float,
) -> AuditTrial:
    """A sum over shops that share the noise, see `voile.assess.shared_sums`.

    Args:
        name: of the trial.
        budget: what was spent.
        place: of the release among those of the budget.
        charged: for it.
        honest: how many shops' shares are in every sum.
        delta: at which epsilon is stated.
    """
    together = group_size(charged, MOST_TOGETHER)

    def arrangements(half: bool) -> tuple[Arrangement, ...]:
        small = replace(_louder(budget) if half else budget, items=ITEMS)
        return (_in_shares(small, place, honest, together),)

    return AuditTrial(name, charged, arrangements, delta, together)


def _in_shares(budget: MomentsBudget, place: int, honest: int, together: int) -> ReleaseCanary:
    is_replaced = budget.relation is Relation.REPLACE_ONE
    touched = ((0,), (1,) if is_replaced else ())
    inside, outside = (_steps(budget, place, CanaryHistory(each), together) for each in touched)
    noise = budget.shared_noises[place]
    return canary_in_sum("some users", noise, inside, outside, honest)


def _steps(
    budget: MomentsBudget, place: int, touched: CanaryHistory, together: int
) -> Sequence[NDArray[np.int64]]:
    people = shop_of(_catalogue(), together, touched, together)
    if place == 0:
        return popularity_steps(people, budget)
    return gram_steps(people, budget, np.arange(budget.head))


def _louder(budget: MomentsBudget) -> MomentsBudget:
    """Half of the users at twice the μ: shares and head, which follow from both, stay."""
    return replace(budget, users=(budget.users + 1) // 2, mu=2 * budget.mu)


def _invented(release: Moments, budget: MomentsBudget) -> Moments:
    found = invented_moments(budget, delta=release.delta)
    return next(each for each in found if type(each) is type(release))


def _drawing(release: Moments, touched: CanaryHistory, together: int) -> Callable[[int], Floats]:
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


# --------------------------------------------------------------------------------------------------


_KIND: Final = "label"


@dataclass(frozen=True, eq=False)
class _InventedLabels(ByLabels):
    """Profiles of invented histories, each worked out once: nothing in them is drawn."""

    _known: dict[bytes, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def profile(self, history: History) -> NDArray[np.float64]:
        key = history.tobytes()
        if key not in self._known:
            self._known[key] = super().profile(history)
        return self._known[key]


def invented_labels(players: int, count: int = RECOMMENDED) -> ByLabels:
    """Profiles with so many players."""
    return _InventedLabels(_model(players), _KIND, count)


def _model(players: int) -> LinearRecommender:
    """Item p has label p alone; the last but one has label 0 and speaks against everything.

    The last item has no label and nobody touches it: there is always something to recommend.
    """
    labels = [(f"label {place:04}",) for place in range(players - 1)]
    kinds = {_KIND: (*labels, (), labels[0] if labels else (), ())}
    items = tuple(f"item {place}" for place in range(players + 2))
    count = len(items)
    weights = np.ones((count, count)) - np.eye(count)
    weights[players] *= -1
    catalogue = Catalogue("invented", items, kinds)
    through = np.zeros((count, catalogue.features.shape[1]))
    return LinearRecommender(catalogue, np.ones(count), np.arange(count), weights, through)


def top_labels(release: TopLabelsOfUser, together: int) -> tuple[Arrangement, ...]:  # noqa: ARG001
    """Two users who have no label in common, if there are labels enough."""
    players = len(release.players)
    ends = np.arange(release.k), np.arange(players - release.k, players)
    return (_of_user(release, ends),)


def noisy_profile(release: NoisyProfileOfUser, together: int) -> tuple[Arrangement, ...]:  # noqa: ARG001
    """Two opposite profiles; a user without history where she stands against nothing."""
    opposite = np.array([len(release.players)])
    nobody = np.zeros(0, dtype=np.int64)
    is_replaced = release.protected.relation is Relation.REPLACE_ONE
    other, everything = opposite if is_replaced else nobody, np.arange(len(release.players))
    return _of_user(release, (np.array([0]), other)), _of_user(release, (everything, other))


def _of_user(
    release: TopLabelsOfUser | NoisyProfileOfUser, ends: tuple[History, History]
) -> ReleaseCanary:
    profile = invented_labels(len(release.players), release.profile.count)
    made = replace(release, profile=profile, origins=(PUBLIC,))

    def side(history: History, draws: int) -> Floats:
        return all_of(made.draw([history] * draws))

    inside, outside = (partial(side, history) for history in ends)
    return ReleaseCanary("one user", inside, outside)


def label_importance(release: LabelImportance, together: int) -> tuple[Arrangement, ...]:
    """Users with one label, or with another one, or without history; and as many without."""
    profile, users = invented_labels(len(release.players), release.profile.count), 2 * together
    made = replace(release, profile=profile, users=users, origins=(PUBLIC,))
    is_replaced = release.protected.relation is Relation.REPLACE_ONE
    other = CanaryHistory((1,)) if is_replaced else CanaryHistory(())

    def moved_by(touched: CanaryHistory) -> Callable[[int], Floats]:
        people = shop_of(profile.model.catalogue, users, touched, together)
        return lambda draws: np.stack([all_of(made.draw(people)).ravel() for _ in range(draws)])

    everything = CanaryHistory(tuple(range(len(release.players))))
    return (
        ReleaseCanary("as many others", moved_by(CanaryHistory((0,))), moved_by(other)),
        ReleaseCanary("as many others, all labels", moved_by(everything), moved_by(other)),
    )
