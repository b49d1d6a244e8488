"""A betting test: e-values against a bound on a mean, whatever else the runs are like.

Each canary is in by its own fair coin, and is guessed from the output alone. For one canary, given
everybody else's coins, the output is P with it and Q without: the chance of a right guess less that
of a wrong one is P(E) − Q(E) ≤ TV, with E the set of outputs for which "in" is guessed. So

    x = 2·(share of right guesses) − 1

has a mean of at most TV over however many canaries, and however they depend on each other: means
add up. Somebody who owns 1 and stakes λ(x − TV) on every run, with λ fixed beforehand and
0 ≤ λ ≤ 1/(1 + TV), never owes anything and does not expect to win. By Ville's inequality wealth
reaches 1,000 with probability 1/1,000 at most if the claim is true; looking often costs nothing.

At other points of the curve, with "in" guessed and weight w,

    y = 2·(share of canaries guessed and in) − 2w·(share guessed and out),   E[y] ≤ bound.

Wealth is an average over a grid of λ. That is the same as betting with the mean of λ weighted by
what each has earned in earlier runs, so λ follows from earlier runs without a rule for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.assess.claims import CurvePoint

Coins: TypeAlias = NDArray[np.bool_]
"""Shape (runs, canaries): who was in."""
Floats: TypeAlias = NDArray[np.float64]

SHARES: Final = np.array([1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0])
"""Of the largest stake. All of it is best with many canaries, and is lost on one wrong guess with a
single one; then the others still stand."""
LADDER: Final = 48
FIRST_GUESSES: Final = 64
"""Nothing is staked before so many guesses of earlier runs are there to learn from."""
REMEMBERED: Final = 100_000


class EValue:
    """E-values against "the mean is at most b", for each of several bounds b.

    Args:
        bounds: which; the claim first.
        lowest: no figure that is staked on lies below.
    """

    def __init__(self, bounds: Floats, lowest: float) -> None:
        self.bounds = np.asarray(bounds, dtype=np.float64)
        self._stakes = SHARES[:, np.newaxis] / (self.bounds - lowest)
        self._log = np.zeros(self._stakes.shape)

    def stake(self, figures: Floats) -> None:
        """On these figures, one after the other."""
        gains = self._stakes[..., np.newaxis] * (figures - self.bounds[:, np.newaxis])
        with np.errstate(divide="ignore"):  # everything lost: the logarithm of 0
            self._log += np.log1p(np.maximum(gains, -1.0)).sum(axis=-1)

    @property
    def e_values(self) -> Floats:
        """Against each bound."""
        with np.errstate(over="ignore"):
            found: Floats = np.exp(self._log).mean(axis=0)
        return found


class Guess:
    """Says of each canary whether it was in, by a threshold that earlier runs have taught."""

    def __init__(self, point: CurvePoint) -> None:
        self._point = point
        self._scores: Floats = np.zeros(0)
        self._inside: Coins = np.zeros(0, dtype=np.bool_)
        self._seen = self._learned_from = 0
        self._threshold, self._sign = 0.0, 1.0

    @property
    def is_ready(self) -> bool:
        return self._learned_from >= FIRST_GUESSES

    def figures(self, scores: Floats, inside: Coins) -> Floats:
        """What the guesses of each run earn (see the module); they are made from scores alone."""
        guessed = self._sign * scores > self._sign * self._threshold
        if self._point.weight == 1:
            return np.asarray(2 * (guessed == inside).mean(axis=1) - 1, dtype=np.float64)
        first = ~inside if self._point.swapped else inside
        right, wrong = (guessed & first).mean(axis=1), (guessed & ~first).mean(axis=1)
        return np.asarray(2 * right - 2 * self._point.weight * wrong, dtype=np.float64)

    def learn(self, scores: Floats, inside: Coins) -> None:
        """From a finished run, for later ones."""
        self._scores = np.concatenate([self._scores, scores.ravel()])[-REMEMBERED:]
        self._inside = np.concatenate([self._inside, inside.ravel()])[-REMEMBERED:]
        self._seen += scores.size
        if self._seen >= max(FIRST_GUESSES, 2 * self._learned_from):  # seldom: sorting takes time
            self._learned_from = self._seen
            self._threshold, self._sign = _best_threshold(self._scores, self._inside, self._point)


def _best_threshold(scores: Floats, inside: Coins, point: CurvePoint) -> tuple[float, float]:
    """Where to cut, and which side is guessed to be the first one."""
    order = np.argsort(scores, kind="stable")
    first = ~inside[order] if point.swapped else inside[order]
    earned = np.concatenate([[0.0], np.cumsum(np.where(first, 1.0, -point.weight))])
    values = scores[order]
    # A cut lies between different scores: equal ones get equal guesses.
    cut = np.concatenate([[True], values[1:] > values[:-1], [True]])
    above, below = earned[-1] - earned, earned
    if point.weight == 1:  # the other side is guessed to be out, which earns as much
        above, below = above - earned, earned - above
    places = np.flatnonzero(cut)
    best_above, best_below = places[np.argmax(above[places])], places[np.argmax(below[places])]
    if above[best_above] >= below[best_below]:
        return _between(values, int(best_above)), 1.0
    return _between(values, int(best_below)), -1.0


def _between(values: Floats, place: int) -> float:
    if place == 0:
        return float(np.nextafter(values[0], -np.inf))
    if place == len(values):
        return float(np.nextafter(values[-1], np.inf))
    return float((values[place - 1] + values[place]) / 2)


@dataclass(eq=False)
class Bet:
    """All that is staked on the scores of one arrangement of canaries.

    Args:
        points: of the claimed curve; the total variation first.
        scores: their names.
    """

    points: tuple[CurvePoint, ...]
    scores: tuple[str, ...]
    runs: int = 0
    _streams: list[tuple[str, Guess, EValue]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._streams = [
            (score, Guess(point), _wealth(point)) for score in self.scores for point in self.points
        ]

    def stake(self, scores: dict[str, Floats], inside: Coins) -> None:
        """On further runs: scores and coins of shape (runs, canaries)."""
        self.runs += len(inside)
        for name, guess, wealth in self._streams:
            if guess.is_ready:
                wealth.stake(guess.figures(scores[name], inside))
            guess.learn(scores[name], inside)

    @property
    def e_value(self) -> float:
        """Against the claim: the average over scores and points of the curve."""
        return float(np.mean([wealth.e_values[0] for _, _, wealth in self._streams]))

    @property
    def by_variation(self) -> tuple[Floats, Floats]:
        """Total variations, the claimed one first, and e-values against each of them."""
        found = [wealth for _, guess, wealth in self._streams if len(wealth.bounds) > 1]
        return found[0].bounds, np.mean([wealth.e_values for wealth in found], axis=0)


def _wealth(point: CurvePoint) -> EValue:
    if point.weight > 1:
        return EValue(np.array([point.bound]), -2 * point.weight)
    # Smaller claims, which would be those of more noise: how far down can be refuted?
    return EValue(point.bound * np.linspace(1, 0, LADDER, endpoint=False), -1.0)
