"""A release, audited: one canary among invented records, many draws of the release itself."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np

from voile.assess.assessment import Arrangement, TrialResult, fair_coins
from voile.assess.betting import Coins, Floats
from voile.assess.invented import InventedGame
from voile.core.explanation import Explanation
from voile.core.guarantee import Relation
from voile.core.schema import Rows
from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.events import Gaussian, Laplace, Parallel, Zcdp
from voile.release.charged import ChargedRelease

PROJECTION, LENGTH, OUTCOME = "projection", "length of noise", "frequency of the outcome"
SCORES: Final = (PROJECTION, LENGTH, OUTCOME)
AT_ONCE: Final = 250
"""Runs of one play."""
LEARNED_FROM: Final = 1000
"""Runs on which nothing is staked: what to look at is learned from them."""

Side: TypeAlias = Callable[[int], Floats]
"""Draws the release so many times and independently, with or without the canary: (draws, values).
"""


def all_of(explanation: Explanation) -> Floats:
    """Whatever leaves with each row of an explanation, as numbers: (rows, numbers)."""
    rows = len(explanation)
    arrays = (
        explanation.values,
        explanation.base_values,
        explanation.half_widths,
        explanation.standard_errors,
    )
    parts = [array.reshape(rows, -1) for array in arrays if array is not None]
    said = zlib.crc32(repr(explanation.notes).encode())
    return np.concatenate([*parts, np.full((rows, 1), float(said))], axis=1)


@dataclass(frozen=True, eq=False)
class ReleaseCanary:
    """One canary in a release.

    Args:
        name: of the arrangement.
        inside, outside: draw the release with the canary and with what stands against it.
    """

    name: str
    inside: Side
    outside: Side
    runs: int = AT_ONCE
    score_names: tuple[str, ...] = SCORES
    _coins: np.random.Generator = field(
        default_factory=np.random.default_rng, init=False, repr=False
    )

    def play(self, draw: np.random.Generator) -> TrialResult:
        coins, outputs = self._drawn(draw, self.runs)
        scores = self._taught.scores(outputs)
        return TrialResult(coins, {name: each[:, np.newaxis] for name, each in scores.items()})

    def _drawn(self, draw: np.random.Generator, runs: int) -> tuple[Coins, Floats]:
        """Each run with its own coin; draws of one side are independent, and made together."""
        coins = fair_coins(draw, runs, 1)
        inside = coins[:, 0]
        count = int(inside.sum())
        parts = [
            (mine, side(number))
            for mine, side, number in (
                (inside, self.inside, count),
                (~inside, self.outside, runs - count),
            )
            if number
        ]
        outputs = np.zeros((runs, parts[0][1].shape[1]))
        for mine, drawn in parts:
            outputs[mine] = drawn
        return coins, outputs

    @cached_property
    def _taught(self) -> _Taught:
        coins, outputs = self._drawn(self._coins, LEARNED_FROM)
        return _Taught.from_outputs(outputs, coins[:, 0])


@dataclass(frozen=True, eq=False)
class _Taught:
    """What earlier runs have shown: where to look, how noise is spread, how often what came out."""

    middle: Floats
    direction: Floats
    deviation: Floats
    odds: dict[bytes, float]

    @classmethod
    def from_outputs(cls, outputs: Floats, inside: Coins) -> _Taught:
        first, second = outputs[inside], outputs[~inside]
        middle, apart = outputs.mean(axis=0), first.mean(axis=0) - second.mean(axis=0)
        within = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
        deviation = within.std(axis=0) + 1e-12 * (1 + np.abs(middle))
        # Fisher's direction, held back where few runs know little: a value without noise counts
        # for much, correlations for little.
        scaled = within / deviation
        spread = scaled.T @ scaled / len(scaled) + 0.5 * np.eye(outputs.shape[1])
        direction = np.linalg.solve(spread, apart / deviation) / deviation
        return cls(middle, direction, deviation, _odds(outputs, inside))

    def scores(self, outputs: Floats) -> dict[str, Floats]:
        centred = outputs - self.middle
        return {
            PROJECTION: centred @ self.direction,
            LENGTH: ((centred / self.deviation) ** 2).sum(axis=1),
            OUTCOME: np.array([self.odds.get(_key(each), 0.0) for each in outputs]),
        }


def _odds(outputs: Floats, inside: Coins) -> dict[bytes, float]:
    """For each outcome how much it speaks for the canary; of numbers with noise, nothing."""
    counts: dict[bytes, list[float]] = {}
    for output, here in zip(outputs, inside, strict=True):
        counts.setdefault(_key(output), [0.5, 0.5])[int(here)] += 1
    if len(counts) > len(outputs) / 2:
        return {}
    return {key: float(np.log(pair[1] / pair[0])) for key, pair in counts.items()}


def _key(output: Floats) -> bytes:
    return np.round(output, 12).tobytes()


# --------------------------------------------------------------------------------------------------
# How a kind of release is audited: what is invented, what half of its noise is, who is tried.


Build = Callable[[Any, int], tuple[Arrangement, ...]]
"""From a release, and how many records are tried together, to ways to lay out canaries."""


def at_half_noise(release: Any) -> Any:
    """The same release with half of its noise, or at twice its epsilon where there is none."""
    event = release.cost(1)
    match event.events[0] if isinstance(event, Parallel) else event:
        case Gaussian(multiplier):
            return replace(release, epsilon=gaussian_epsilon(multiplier / 2, release.delta))
        case Laplace(multiplier):
            return replace(release, epsilon=2 / multiplier)
        case Zcdp(rho):
            return replace(release, epsilon=zcdp_to_epsilon(4 * rho, release.delta))
    return replace(release, epsilon=2 * release.epsilon)


@dataclass(frozen=True)
class ReleaseKind:
    """One kind of release.

    Args:
        release: its type.
        build: see `Build`.
        most_together: how many records are tried together at most; 1 where a record is released by
            itself.
        halved: the same with half of the noise.
    """

    release: type[ChargedRelease]
    build: Build
    most_together: int
    halved: Callable[[Any], Any] = at_half_noise


def pair(
    name: str,
    side: Callable[[Rows, int], Floats],
    game: InventedGame,
    relation: Relation,
    *,
    runs: int = AT_ONCE,
) -> ReleaseCanary:
    """The canary's row, and what stands in its place."""
    inside, outside = (partial(side, row) for row in (game.canary, otherwise(game, relation)))
    return ReleaseCanary(name, inside, outside, runs)


def otherwise(game: InventedGame, relation: Relation) -> Rows:
    """What stands in the canary's place: nothing can be read in a null record."""
    return game.against if relation is Relation.REPLACE_ONE else np.full_like(game.against, np.nan)
