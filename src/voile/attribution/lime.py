"""LIME for tables: a weighted linear model of what happens when features are switched off."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import Game, GameExplainer
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.row_note import KnownNote
from voile.models import Rows

LOCAL = "local linear model: it adds up to its own prediction, not to the model's"


@dataclass(frozen=True, eq=False)
class Lime(GameExplainer):
    """The coefficients of a linear model fitted around the row.

    Each sample switches every player off with probability one half, which then takes its value from
    a random background row. Samples weigh exp(−off/width²), where `off` is the number of players
    switched off. A coefficient is what switching its player on adds; base value is the intercept.

    Args (in addition to those of `GameExplainer`):
        samples: how many, at least three for each player.
        width: how far from the row a sample still counts; 0.75·√players if not given.
        ridge: how much coefficients are drawn to zero.
        seed: which random numbers; the same seed gives the same explanation.

    >>> explainer = Lime(lambda x: 2 * x[:, 0], [[0.0, 0.0]], samples=200, ridge=0.0)
    >>> np.allclose(explainer([[3.0, 2.0]]).values.ravel(), [6.0, 0.0])
    True
    """

    _: KW_ONLY
    samples: int = 5_000
    width: float | None = None
    ridge: float = 1e-3
    seed: int = 0
    title: ClassVar[str] = "LIME"
    tag: ClassVar[str] = "lime"

    def check_players(self, players: int) -> None:
        if self.samples < 3 * players:
            raise InvalidInput(
                f"{players} players need at least {3 * players} samples, found {self.samples}"
            )
        if (self.width is not None and not self.width > 0) or not self.ridge >= 0:
            raise InvalidInput("width must be above 0 and ridge at least 0")

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows, game = self.game.read(X)
        fits = []
        for place, row in enumerate(rows):
            game.speed.report(place, len(rows))
            fits.append(self._fit(game, row, np.random.default_rng([self.seed, place])))
        game.speed.report(len(rows), len(rows))
        return game.explanation(
            rows,
            np.stack([fit.coefficients for fit in fits]),
            base=np.stack([fit.intercept for fit in fits]),
            errors=np.stack([fit.errors for fit in fits]),
            notes=(LOCAL, KnownNote.NOT_ADDITIVE),
        )

    def _fit(self, game: Game, row: NDArray[np.float64], draw: np.random.Generator) -> _Fit:
        players = game.players.count
        present = draw.random((self.samples, players)) < 0.5
        present[0] = True
        others = game.background[draw.integers(len(game.background), size=self.samples)]
        inputs: Rows = np.where(game.players.features_of(present), row, others)
        width = 0.75 * sqrt(players) if self.width is None else self.width
        weights = np.exp(-(players - present.sum(axis=1)) / width**2)
        return _weighted_ridge(present.astype(float), game.outputs(inputs), weights, self.ridge)


@dataclass(frozen=True, eq=False)
class _Fit:
    coefficients: NDArray[np.float64]  # (players, outputs)
    intercept: NDArray[np.float64]  # (outputs,)
    errors: NDArray[np.float64]  # (players, outputs)


def _weighted_ridge(
    features: NDArray[np.float64],
    targets: NDArray[np.float64],
    weights: NDArray[np.float64],
    ridge: float,
) -> _Fit:
    """The intercept is not penalised; errors allow for residuals of unequal size (sandwich)."""
    weights = weights / weights.mean()
    design = np.column_stack([np.ones(len(features)), features])
    penalty = np.diag([0.0] + [ridge * len(features)] * features.shape[1])
    inverse = np.linalg.inv(design.T @ (weights[:, np.newaxis] * design) + penalty)
    solve = inverse @ (design * weights[:, np.newaxis]).T
    solution = solve @ targets
    residuals = targets - design @ solution
    errors = np.sqrt(solve**2 @ residuals**2)
    return _Fit(solution[1:], solution[0], errors[1:])
