"""Coalitions for games of many players: drawn at random, certified before use.

Shapley values are φ = (v(N) − v(∅))/d·1 + Σ_T c_T·v(T). The vector c_T points from the players
outside T to those inside and has length √(d/(t(d − t)))/C(d, t), t = |T|; all lengths add up to
√d·H. Draw T with a probability proportional to the length of c_T. Then √d·H·u_T·(v(T) − v(T̄))/2,
where u_T is the direction of c_T, is right on average, and so is the mean over n draws: a linear
function of the worths, whatever the game. How far such a function can stretch a change of the game
is read off the largest eigenvalue of a d × d matrix, which depends on the drawn coalitions alone.
So nothing has to be clipped, and nothing is biased (docs/guarantees/background.md).

Intervals join privacy noise and the error of such draws, from public facts alone: a standard error
that looked at the data would have to be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput

MOST_CELLS = 1 << 28
CELLS_AT_ONCE = 1 << 20
PAIRS_A_PLAYER = 16
_GRID = 1 << 30


@dataclass(frozen=True)
class BackgroundRowDesigns:
    """For each background row, `pairs` coalitions with their complements.

    Args:
        players: at least two.
        background_rows: how many.
        pairs: how many coalitions each of them gets.
        seed: which coalitions; public, and independent of the data.
    """

    players: int
    background_rows: int
    pairs: int
    seed: int

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.players < 2:
            raise InvalidInput(
                f"expected at least one pair of coalitions of two players, found {self.pairs} "
                f"of {self.players}"
            )
        cells = self.background_rows * self.pairs * self.players
        if cells > MOST_CELLS:
            raise InvalidInput(
                f"{self.pairs} pairs of coalitions of {self.players} players for each of "
                f"{self.background_rows} background rows take too much memory; form groups of "
                "features, or use fewer pairs or background rows"
            )

    @cached_property
    def coalitions(self) -> NDArray[np.bool_]:
        """Shape (background rows, pairs, players)."""
        draw = np.random.default_rng([self.seed, self.players])
        sizes = np.arange(1, self.players)
        chances = 1 / np.sqrt(sizes * (self.players - sizes))
        shape = (self.background_rows, self.pairs)
        size = draw.choice(sizes, p=chances / chances.sum(), size=shape).astype(np.int16)
        drawn = np.empty((*shape, self.players), dtype=np.bool_)
        for part in self.parts():
            rank = np.argsort(draw.random(drawn[part].shape), axis=2)
            drawn[part] = rank < size[part][..., np.newaxis]
        return drawn

    def parts(self) -> Iterator[slice]:
        """Background rows, a few at a time."""
        step = max(1, CELLS_AT_ONCE // (self.pairs * self.players))
        return (slice(start, start + step) for start in range(0, self.background_rows, step))

    @property
    def harmonic(self) -> float:
        return harmonic(self.players)

    def weights(self, part: slice) -> NDArray[np.float64]:
        """What v(T) − v(T̄), halved, counts: shape (background rows of the part, pairs, players)."""
        inside = self.coalitions[part]
        size = inside.sum(axis=2, keepdims=True)
        rest = self.players - size
        # The direction of c_T times √d: √(d − t)/√t inside, −√t/√(d − t) outside.
        entries = np.where(inside, np.sqrt(rest / size), -np.sqrt(size / rest))
        weights: NDArray[np.float64] = self.harmonic / self.pairs * entries
        return weights

    @cached_property
    def stretch(self) -> float:
        """No game that is at most 1 in size becomes longer than this, for any background row.

        ‖Σ w_T·a_T/n‖ ≤ ‖A‖₂·‖w‖₂ ≤ ‖A‖₂·√n. Rounded up to a multiple of 2⁻³⁰, because the last
        digits of an eigenvalue differ from processor to processor, and what is promised must not.
        """
        largest = 0.0
        for part in self.parts():
            weights = self.weights(part)
            squares = weights.swapaxes(1, 2) @ weights
            largest = max(largest, float(np.linalg.eigvalsh(squares).max()))
        return math.ceil(math.sqrt(largest * self.pairs) * (1 + 1e-9) * _GRID) / _GRID


def harmonic(players: int) -> float:
    """H = Σ 1/√(t(d − t))."""
    return math.fsum(1 / math.sqrt(t * (players - t)) for t in range(1, players))


def full_stretch(players: int) -> float:
    """The stretch of all coalitions together, which drawn ones come down to: √(d/(d − 1))·H."""
    return math.sqrt(players / (players - 1)) * harmonic(players) if players > 1 else 0.0


# --- Intervals that join privacy noise and sampling error, from public facts alone ----------------


LEVEL: Final = 0.95


@dataclass(frozen=True)
class SamplingError:
    """The error of a mean of n independent, unbiased, bounded draws.

    Args:
        deviation: its standard deviation is at most this.
        reach: no single draw moves the mean by more than this from its expectation.
    """

    deviation: float
    reach: float

    def half_width(self, risk: float) -> float:
        """It stays within ± this, except with probability `risk` (Bernstein)."""
        doubt = math.log(2 / risk)
        third = self.reach * doubt / 3
        return third + math.sqrt(third**2 + 2 * self.deviation**2 * doubt)


NO_SAMPLING: Final = SamplingError(0.0, 0.0)


def sampling_error(
    *, harmonic: float, players: int, pairs: int, background_rows: int, width: float
) -> SamplingError:
    """Of `coalition_designs`, for one value, whatever the game.

    One draw counts a_T·(v(T) − v(T̄))/2 with |v(T) − v(T̄)| ≤ R. For one player the square of a_T is
    H² on average and (d − 1)·H² at most.
    """
    draws = pairs * background_rows
    return SamplingError(
        deviation=harmonic * width / 2 / math.sqrt(draws),
        reach=harmonic * math.sqrt(players - 1) * width / draws,
    )


def standard_error(noise: float, sampling: SamplingError) -> float:
    """Of noise of this standard deviation and the sampling error, which are independent."""
    return math.hypot(noise, sampling.deviation)


def half_width(noise: float, sampling: SamplingError) -> float:
    """A released value lies within ± this of the true one, except with probability 1 − `LEVEL`.

    Without sampling it is that of the normal law. Otherwise the better of two bounds: the risk is
    shared out between noise and sampling, or both are bounded together by their moments.
    """
    risk = 1 - LEVEL
    if sampling == NO_SAMPLING:
        return _normal(noise, risk)
    apart = (
        _normal(noise, risk * (1 - share)) + sampling.half_width(risk * share)
        for share in (0.5, 0.2, 0.05, 0.01, 0.001)
    )
    doubt = math.log(2 / risk)
    spread = math.hypot(noise, sampling.deviation)
    together = math.sqrt(2 * doubt) * spread + sampling.reach / 3 * doubt
    return min(together, *apart)


def _normal(deviation: float, risk: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(risk / 2)) * deviation
