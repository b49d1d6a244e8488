"""An invented game whose values, base value and pairwise interactions lie near their joint bound.

What is released is linear in the game, so of all games inside the output set one at a corner moves
it furthest. Which corner is found by going uphill from drawn ones: D ← sign(LᵀL·D) never makes
‖L·D‖ smaller. That leads to 0.8 of the bound, where the game of one player is at 0.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attacks.invented import InventedGame, corners
from voile.attribution.players import Players
from voile.core.guarantee import Relation
from voile.core.schema import Rows, Schema
from voile.models import DeclaredOutputs, WrappedModel, wrap

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
    def of(cls, schema: Schema, players: Players, relation: Relation) -> PairsGame:
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
