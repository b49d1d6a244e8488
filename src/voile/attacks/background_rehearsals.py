"""Releases over background rows, rehearsed: canaries among the rows of an invented background."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from voile.attacks.betting import Floats
from voile.attacks.invented import InventedGame
from voile.attacks.invented_pairs import PairsGame
from voile.attacks.rehearsal import Arrangement
from voile.attacks.release_canary import AT_ONCE, ReleaseCanary, all_of
from voile.attacks.release_kind import pair
from voile.core.guarantee import Relation
from voile.core.schema import Rows
from voile.models import WrappedModel
from voile.release import PUBLIC, PrivateBackgroundShapley, PrivateInteractions

FEW, MORE = 2, 8
"""Times as many records as canaries in a rehearsed background."""
SELDOM: Final = 50
"""Runs of a layout that is there for single faults; the first one is there for the noise."""


def background(release: PrivateBackgroundShapley, together: int) -> tuple[Arrangement, ...]:
    """Values and base value."""
    game, bounded = InventedGame(release.schema), release.games.bounded
    outputs, count = bounded.model.outputs, bounded.outputs
    layouts = (
        ("many rows", MORE, game.model(outputs, count), AT_ONCE),
        ("few rows", FEW, game.model(outputs, count), SELDOM),
        ("many rows, a model that mixes them", MORE, game.mixing_model(outputs, count), SELDOM),
    )
    return tuple(
        pair(
            name,
            _OverBackground(release, model, game.explained, (game.against, together, rows)),
            game,
            release.protected.relation,
            runs=runs,
        )
        for name, rows, model, runs in layouts
    )


def interactions(release: PrivateInteractions, together: int) -> tuple[Arrangement, ...]:
    """A game of its own for pairs; and that of the values, for all else that may go wrong."""
    relation, bounded = release.protected.relation, release.games.bounded
    game = PairsGame.of(release.schema, release.games.game.players, relation)
    model = game.model(bounded.model.outputs)
    side = _OverBackground(release, model, game.explained, (game.explained, together, MORE))
    other = game.against if relation is Relation.REPLACE_ONE else np.full_like(game.canary, np.nan)
    pairs = ReleaseCanary("many rows, pairs", partial(side, game.canary), partial(side, other))
    return (pairs, *(replace(each, runs=SELDOM) for each in _values_only(release, together)))


def _values_only(release: PrivateInteractions, together: int) -> tuple[ReleaseCanary, ...]:
    found = background(release, together)
    return tuple(each for each in found if isinstance(each, ReleaseCanary))


class _OverBackground:
    """Draws explanations over a background that holds a given row, and fillers.

    Args:
        layout: the filler, how often the given row stands there, and times how many rows there are.
    """

    def __init__(
        self,
        release: PrivateBackgroundShapley,
        model: WrappedModel,
        explained: Rows,
        layout: tuple[Rows, int, int],
    ) -> None:
        filler, self._together, times = layout
        self._explained, self._built = explained, dict[bytes, PrivateBackgroundShapley]()
        self._fillers = np.repeat(filler, self._together * (times - 1), axis=0)
        self._release: Callable[..., PrivateBackgroundShapley] = partial(
            replace, release, model=model, origins=(PUBLIC,)
        )

    def __call__(self, row: Rows, draws: int) -> Floats:
        key = row.tobytes()
        if key not in self._built:
            canaries = np.repeat(row, self._together, axis=0)
            self._built[key] = self._release(background=np.concatenate([canaries, self._fillers]))
        return all_of(self._built[key].draw(np.repeat(self._explained, draws, axis=0)))
