"""Releases over background rows, audited: canaries among the rows of an invented background."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.assess.assessment import Arrangement
from voile.assess.betting import Floats
from voile.assess.invented import InventedGame, corners
from voile.assess.release_canary import AT_ONCE, ReleaseCanary, all_of, pair
from voile.attribution.players import Players
from voile.core.guarantee import Relation
from voile.core.schema import Rows, Schema
from voile.models import DeclaredOutputs, WrappedModel, wrap
from voile.release import PUBLIC, PrivateBackgroundShapley, PrivateInteractions

# --- invented pairs -------------------------------------------------------------------------------

# An invented game whose values, base value and pairwise interactions lie near their joint bound.
#
# What is released is linear in the game, so of all games inside the output set one at a corner
# moves it furthest. Which corner is found by going uphill from drawn ones: D ← sign(LᵀL·D) never
# makes ‖L·D‖ smaller. That leads to 0.8 of the bound, where the game of one player is at 0.4.

MOST_PLAYERS: Final = 10
"""Those beyond have no say in the invented game."""
_STARTS: Final = 16
_CLIMBS: Final = 50
Signs = NDArray[np.float64]
"""For each coalition (bit by player) whether it is worth much (1) or little (−1)."""


@dataclass(frozen=True, eq=False)
class PairsGame:
    """Who is explained, who is the canary and who stands against it ("replace one").

    Explained row and canary differ in every feature, so a mixture of both shows which players are
    present. The one that stands against it differs from both where a feature has three values.

    Args:
        places: of the feature that shows each player.
        signs: what mixtures with the canary are worth; with the other one the opposite.
    """

    explained: Rows
    canary: Rows
    against: Rows
    places: tuple[int, ...]
    signs: Signs

    @classmethod
    def from_schema(cls, schema: Schema, players: Players, relation: Relation) -> PairsGame:
        game = InventedGame(schema)
        explained, canary = game.explained, game.canary
        against = game.third(explained, canary)
        places = tuple(int(team[0]) for team in players.features[:MOST_PLAYERS])
        told = [bool(canary[0, place] != against[0, place]) for place in places]
        # Where nothing tells them apart both mixtures are the same row: no difference there.
        free = told if relation is Relation.REPLACE_ONE else [True] * len(places)
        return cls(explained, canary, against, places, furthest(tuple(free)))

    def model(self, outputs: DeclaredOutputs) -> WrappedModel:
        low, high = corners(outputs, 1)
        mine, there = self.explained[0], list(self.places)
        bits = 1 << np.arange(len(there))
        other, canary = self.against[0], self.canary[0]
        telling = other != canary

        def forward(rows: Any) -> NDArray[np.float64]:
            worth = self.signs[(rows[:, there] == mine[there]) @ bits]
            opposite = ((rows == other) & telling).any(axis=1)
            return np.where((np.where(opposite, -worth, worth) > 0)[:, np.newaxis], high, low)

        return wrap(
            forward, outputs=outputs, digest="invented pairs", treats_rows_independently=True
        )


@lru_cache(maxsize=64)
def furthest(free: tuple[bool, ...]) -> Signs:
    """The game that moves values, base value and pairs furthest, as far as it is found.

    Args:
        free: of each player whether its absence can be seen: coalitions of all of these are worth
            the same on both sides. The full one always is.
    """
    count = len(free)
    seen = int(sum(1 << player for player, is_free in enumerate(free) if is_free))
    coalitions = np.arange(2**count)
    moved = _released(count) * ((coalitions & seen) != seen)
    draw, best = np.random.default_rng(0), np.ones(2**count)
    for signs in draw.choice([-1.0, 1.0], (_STARTS, 2**count)):
        for _ in range(_CLIMBS):
            signs = np.where(moved.T @ (moved @ signs) >= 0, 1.0, -1.0)
        best = max(best, signs, key=lambda each: float(np.linalg.norm(moved @ each)))
    return best


def _released(players: int) -> NDArray[np.float64]:
    """From a game to what is released of it: base value, values, pairs; (released, coalitions)."""
    coalitions = np.arange(2**players)
    present = [(coalitions >> player) & 1 for player in range(players)]
    size = sum(present)
    lines = [(coalitions == 0).astype(np.float64)]
    for order in (1, 2):
        others = players - order
        weights = np.array([1 / ((others + 1) * math.comb(others, k)) for k in range(others + 1)])
        for team in combinations(range(players), order):
            here = sum(present[player] for player in team)
            lines.append(weights[size - here] * np.where((order - here) % 2, -1.0, 1.0))
    return np.stack(lines)


# --- trials -----------------------------------------------------------------------------------

FEW, MORE = 2, 8
"""Times as many records as canaries in a audited background."""
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
    game = PairsGame.from_schema(release.schema, release.games.game.players, relation)
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
