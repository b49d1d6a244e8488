"""Every release of rows that is charged, as a rehearsal: the release itself on invented records.

What is kept of a release is its kind, its settings and its price; what it computes with is replaced
by what was invented (`voile.attacks.invented`). The event does not depend on the number of records,
so few are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from voile.attacks.betting import Floats
from voile.attacks.invented import InventedExplainer, InventedGame
from voile.attacks.rehearsal import Arrangement, Rehearsal
from voile.attacks.release_canary import ReleaseCanary, Side
from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.core.schema import Rows
from voile.models import WrappedModel
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.events import Gaussian, Parallel, PrivacyEvent
from voile.release import (
    PUBLIC,
    ByExplainer,
    ClippedRelease,
    OverItself,
    PrivateBackgroundShapley,
    PrivateGlobalImportance,
    PrivateTopFeatures,
    TopFeaturesOfRow,
)
from voile.release.charged import ChargedRelease

FEW, MORE = 2, 8
"""Records of a rehearsed background."""
Build = Callable[[Any], tuple[Arrangement, ...]]


def rehearse_release(name: str, release: ChargedRelease) -> Rehearsal:
    """A release as it is, or will be, charged; refused for kinds that nobody knows to rehearse."""
    build = next((made for kind, made in _KINDS if isinstance(release, kind)), None)
    if build is None:
        raise Refused(f"{type(release).__name__} cannot be rehearsed: there is no canary for it")
    event = release.cost(1)

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        return build(replace(release, epsilon=_twice(release, event)) if halved else release)

    return Rehearsal(name, event, arrangements, release.delta or 1e-6)


def _twice(release: ChargedRelease, event: PrivacyEvent) -> float:
    """The epsilon of half the noise."""
    leaf = event.events[0] if isinstance(event, Parallel) else event
    if isinstance(leaf, Gaussian):
        return gaussian_epsilon(leaf.noise_multiplier / 2, release.delta)
    return 2 * release.epsilon


def _otherwise(game: InventedGame, relation: Relation) -> Rows:
    """What stands in the canary's place."""
    return game.against if relation is Relation.REPLACE_ONE else np.full_like(game.against, np.nan)


def _pair(
    name: str, side: Callable[[Rows, int], Floats], game: InventedGame, relation: Relation
) -> ReleaseCanary:
    def of(row: Rows) -> Side:
        return partial(side, row)

    return ReleaseCanary(name, of(game.canary), of(_otherwise(game, relation)))


# --- background rows ------------------------------------------------------------------------------


def _background(release: PrivateBackgroundShapley) -> tuple[Arrangement, ...]:
    game, bounded = InventedGame(release.schema), release.games.bounded
    outputs, count = bounded.model.outputs, bounded.outputs
    models = {
        (FEW, "two rows"): game.model(outputs, count),
        (MORE, "eight rows"): game.model(outputs, count),
        (MORE, "eight rows, a model that mixes them"): game.mixing_model(outputs, count),
    }
    return tuple(
        _pair(words, _OverBackground(release, game, model, rows), game, release.protected.relation)
        for (rows, words), model in models.items()
    )


class _OverBackground:
    """Draws values and base values over a background that holds a given row, and fillers."""

    def __init__(
        self, release: PrivateBackgroundShapley, game: InventedGame, model: WrappedModel, rows: int
    ) -> None:
        self._explained, self._built = game.explained, dict[bytes, PrivateBackgroundShapley]()
        self._fillers = np.repeat(game.against, rows - 1, axis=0)
        self._release = partial(replace, release, model=model, origins=(PUBLIC,))

    def __call__(self, row: Rows, draws: int) -> Floats:
        key = row.tobytes()
        if key not in self._built:
            background = np.concatenate([row, self._fillers])
            self._built[key] = self._release(background=background)
        found = self._built[key].draw(np.repeat(self._explained, draws, axis=0))
        values = found.values.reshape(draws, -1)
        return np.concatenate([values, found.base_values.reshape(draws, -1)], axis=1)


# --- a population ---------------------------------------------------------------------------------


def _importance(release: PrivateGlobalImportance) -> tuple[Arrangement, ...]:
    importance, game = release.importance, InventedGame(release.importance.schema)
    if isinstance(importance, ByExplainer):
        size = len(importance.players), len(importance.output_names)
        vectors = np.zeros((3, *size))
        vectors[0, 0, 0] = vectors[1, min(1, size[0] - 1), -1] = 2 * importance.longest
        explainer = _explainer(game, vectors, importance.players, importance.output_names)
        tried: Any = replace(importance, explainer=explainer)
    else:
        assert isinstance(importance, OverItself)
        count = len(importance.output_names)
        tried = replace(importance, model=game.model(importance.outputs, count))
    made = replace(release, importance=tried, origins=(PUBLIC,))

    def side(row: Rows, draws: int) -> Floats:
        rows: Any = np.concatenate([row, game.explained])
        if release.parts:
            rows = dict.fromkeys(release.parts, rows)
        return np.stack([made.draw(rows).values[0].ravel() for _ in range(draws)])

    return (_pair("two records", side, game, release.protected.relation),)


def _top_features(release: PrivateTopFeatures) -> tuple[Arrangement, ...]:
    game, players = InventedGame(release.schema), release._inner.players
    half, width = np.arange(players) < (players + 1) // 2, release.output_width
    up, both_ways = np.ones(players), np.where(half, 1.0, -1.0)
    # Of names with directions, a third row leans both ways, so that the canary moves every name.
    ends = (up, -up, both_ways) if release.signed else (1.0 * half, 1.0 * ~half, 0 * up)
    vectors = np.stack(ends)[..., np.newaxis] * width
    known = release._inner.known
    explainer = _explainer(game, vectors, known.feature_names, known.output_names)
    made = replace(release, explainer=explainer, origins=(PUBLIC,))

    def side(row: Rows, draws: int) -> Floats:
        rows = np.concatenate([row, game.explained])
        return np.stack([made.draw(rows).values[0].ravel() for _ in range(draws)])

    return (_pair("two records", side, game, release.protected.relation),)


# --- the explained row ----------------------------------------------------------------------------


def _clipped(release: ClippedRelease) -> tuple[Arrangement, ...]:
    known = release._inner.known
    vectors = np.zeros((3, *known.values.shape[1:]))
    vectors[0].flat[0], vectors[1].flat[0] = 3 * release.bound, -3 * release.bound
    return (_of_row(release, vectors),)


def _names_of_row(release: TopFeaturesOfRow) -> tuple[Arrangement, ...]:
    players = release._inner.players
    rising = np.linspace(1.0, 2.0, players)
    vectors = np.stack([rising, -rising[::-1], 0 * rising])[..., np.newaxis]
    return (_of_row(release, vectors),)


def _of_row(release: ClippedRelease | TopFeaturesOfRow, vectors: Floats) -> ReleaseCanary:
    game, known = InventedGame(release.schema), release._inner.known
    explainer = _explainer(game, vectors, known.feature_names, known.output_names)
    made = replace(release, explainer=explainer, origins=(PUBLIC,))

    def side(row: Rows, draws: int) -> Floats:
        return made.draw(np.repeat(row, draws, axis=0)).values.reshape(draws, -1)

    return _pair("one record", side, game, Relation.REPLACE_ONE)


def _explainer(
    game: InventedGame, vectors: Floats, features: tuple[str, ...], outputs: tuple[str, ...]
) -> InventedExplainer:
    """Of the canary, of what stands against it, and of everybody else."""
    rows = np.concatenate([game.canary, game.against])
    return InventedExplainer(rows, vectors, (features, outputs))


_KINDS: Final[tuple[tuple[type[ChargedRelease], Build], ...]] = (
    (PrivateBackgroundShapley, _background),
    (PrivateGlobalImportance, _importance),
    (PrivateTopFeatures, _top_features),
    (ClippedRelease, _clipped),
    (TopFeaturesOfRow, _names_of_row),
)
