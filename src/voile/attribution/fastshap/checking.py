"""Whether a learned explanation can be believed: a cheap check against a sampled estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.quality import sampled
from voile.attribution.settings import Speed
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Check:
    """Learned values beside sampled ones of the same rows.

    Args:
        learned: what the explainer says.
        sampled: an unbiased estimate with standard errors; wrong only by chance.
        error: the estimated root mean square error of the learned values of each row, over players
            and outputs, shape (rows,). The sampled estimate's own variance is subtracted, so this
            is about the learned values alone; 0 where nothing beyond chance is left.
        doubtful: rows with a value further from the sampled one than chance explains.
    """

    learned: Explanation
    sampled: Explanation
    error: NDArray[np.float64]
    doubtful: NDArray[np.bool_]

    @property
    def typical_error(self) -> float:
        """The root mean square error over all rows."""
        difference = self.learned.values - self.sampled.values
        return float(np.sqrt(max(_excess(difference, self.sampled).mean(), 0.0)))

    def __str__(self) -> str:
        size = float(np.sqrt(np.square(self.sampled.values).mean()))
        return (
            f"learned values are off by about {self.typical_error:.2g} (values are about "
            f"{size:.2g}); {int(self.doubtful.sum())} of {len(self.doubtful)} rows are doubtful"
        )


def check(
    explainer: FastShap,
    X: Any,  # noqa: N803
    *,
    orders: int = 16,
    tolerance: float = 0.0,
    level: float = 0.01,
    seed: int = 0,
    speed: Speed | None = None,
) -> Check:
    """Explain rows and compare with sampled values.

    An order costs 2·(players − 1) evaluations of the surrogate. Any learned explainer is off by a
    little, which enough orders will show: `tolerance` says what does not matter.

    Args:
        explainer: what is checked.
        X: the rows.
        orders: random orders of the players for each row, each with its reverse.
        tolerance: differences up to this are no reason for doubt.
        level: the share of sound rows that may be called doubtful.
        seed: of the orders; independent of all training.
        speed: batch size and progress.
    """
    if not 0 < level < 1 or not tolerance >= 0:
        raise InvalidInput(f"level must lie in (0, 1) and tolerance be 0 or more, found {level}, "
                           f"{tolerance}")  # fmt: skip
    from scipy.special import stdtrit

    learned = explainer(X)
    other = sampled(explainer.surrogate, X, orders=orders, seed=seed, speed=speed)
    assert other.standard_errors is not None
    difference = learned.values - other.values
    # Every value of a row is looked at, so each gets its share of the level (Bonferroni).
    looks = learned.shape[1] * learned.shape[2]
    limit = float(stdtrit(orders - 1, 1 - level / (2 * looks)))
    # A handful of orders may happen to agree on a player whose contributions vary: no standard
    # error is taken for smaller than the typical one of its row.
    own = other.standard_errors
    errors = np.maximum(own, np.sqrt(np.square(own).mean(axis=1, keepdims=True)))
    # float32 networks repeat a worth to about 1e-6, however small the standard error is.
    allowed = tolerance + limit * errors + 1e-5 * np.abs(learned.base_values).max()
    excess = _excess(difference, other).mean(axis=(1, 2))
    return Check(
        learned,
        other,
        np.sqrt(np.maximum(excess, 0.0)),
        (np.abs(difference) > allowed).any(axis=(1, 2)),
    )


def _excess(difference: NDArray[np.float64], other: Explanation) -> NDArray[np.float64]:
    """An unbiased estimate of the squared error of learned values; single entries may be < 0."""
    assert other.standard_errors is not None
    return difference**2 - other.standard_errors**2
