"""What is said of one explained row, or of values that somebody brings, audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from voile.assess.betting import Floats
from voile.assess.invented import InventedExplainer, InventedGame
from voile.assess.release_canary import ReleaseCanary, all_of
from voile.assess.release_kind import pair
from voile.assess.trial import Arrangement
from voile.core.guarantee import ProtectedUnit, Relation
from voile.core.schema import Rows
from voile.privacy.sensitivity import Norm
from voile.release import PUBLIC, ClippedRelease, NoisyValues, TopFeaturesOfRow


def clipped(release: ClippedRelease, together: int) -> tuple[Arrangement, ...]:  # noqa: ARG001
    """Two opposite vectors, longer than they may be in every value: whoever clips values one by one
    lets more of them through, and noise that is missing anywhere is missed."""
    shape = release._inner.known.values.shape[1:]
    vectors = 3 * release.bound * np.stack([np.ones(shape), -np.ones(shape), np.zeros(shape)])
    return (_of_row(release, vectors),)


def names_of_row(release: TopFeaturesOfRow, together: int) -> tuple[Arrangement, ...]:  # noqa: ARG001
    """Two rows that have no name in common, if there are names enough."""
    players = release._inner.players
    rising = np.linspace(1.0, 2.0, players)
    vectors = np.stack([rising, -rising[::-1], 0 * rising])[..., np.newaxis]
    return (_of_row(release, vectors),)


def _of_row(release: ClippedRelease | TopFeaturesOfRow, vectors: Floats) -> ReleaseCanary:
    game, known = InventedGame(release.schema), release._inner.known
    rows = np.concatenate([game.canary, game.against])
    explainer = InventedExplainer(rows, vectors, (known.feature_names, known.output_names))
    made = replace(release, explainer=explainer, origins=(PUBLIC,))

    def side(row: Rows, draws: int) -> Floats:
        return all_of(made.draw(np.repeat(row, draws, axis=0)))

    return pair("one record", side, game, Relation.REPLACE_ONE)


def noisy_values(release: NoisyValues, together: int) -> tuple[Arrangement, ...]:
    """Values that lie as far apart as was declared; whether that is true is not audited."""
    shape = len(release.feature_names), len(release.output_names)
    one, all_values = np.zeros(shape), np.ones(shape)
    one[0, 0] = 1.0
    order = 1 if release.sensitivity.norm is Norm.L1 else 2
    spread = all_values / np.linalg.norm(all_values.ravel(), order)

    def rows(values: Floats) -> Callable[[int], Floats]:
        return partial(_together if _by_row(release) else _one_by_one, release, values)

    far = together * release.sensitivity.value
    return (
        ReleaseCanary("one value", rows(far * one), rows(0 * one)),
        ReleaseCanary("all values", rows(far * spread), rows(0 * one)),
    )


def _by_row(release: NoisyValues) -> bool:
    return release.protected.unit is ProtectedUnit.EXPLAINED_ROW


def _together(release: NoisyValues, values: Floats, draws: int) -> Floats:
    """Rows are released each by itself, so many of them are many draws."""
    return all_of(release.draw(np.repeat(values[np.newaxis], draws, axis=0)))


def _one_by_one(release: NoisyValues, values: Floats, draws: int) -> Floats:
    return np.concatenate([all_of(release.draw(values[np.newaxis])) for _ in range(draws)])
