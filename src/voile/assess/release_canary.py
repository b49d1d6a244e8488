"""A release, audited: one canary among invented records, many draws of the release itself."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from voile.assess.betting import Coins, Floats
from voile.assess.trial import TrialResult, fair_coins
from voile.core.explanation import Explanation

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
