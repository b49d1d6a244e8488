"""Whether a learned explanation can be believed: a cheap check against a sampled estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import members, shapley_share
from voile.attribution.exact import check_player_count
from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.objectives import sampled_values, total
from voile.attribution.fastshap.surrogate import Surrogate
from voile.attribution.settings import Speed
from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation

# --- Exact and sampled values of a surrogate, and how good learned ones are beside them ----------


EXACT_UP_TO: Final = 12
"""Players up to which quality is measured against exact values unless told otherwise."""
SAMPLED_ORDERS: Final = 1_000


@digest_name("voile.attribution.fastshap.quality.Quality")
@dataclass(frozen=True, eq=False)
class Quality:
    """How far learned values are from the truth, on some rows.

    Args:
        rows: how many were looked at.
        truth: "exact", or "sampled from 1000 orders".
        cosine: the mean cosine, one figure for each output.
        r_squared: the share of variance explained, one for each output.
        largest_error: the largest single difference; sampled truth adds its own error.

    >>> print(Quality(200, "exact", cosine=(0.99,), r_squared=(0.97,), largest_error=0.05))
    200 rows against exact values: cosine 0.9900, R² 0.9700
    """

    rows: int
    truth: str
    cosine: tuple[float, ...]
    r_squared: tuple[float, ...]
    largest_error: float

    def __str__(self) -> str:
        return (
            f"{self.rows} rows against {self.truth} values: cosine {min(self.cosine):.4f}, "
            f"R² {min(self.r_squared):.4f}"
        )


def quality(
    explainer: FastShap,
    rows: Any,
    *,
    exact: bool | None = None,
    orders: int = SAMPLED_ORDERS,
    seed: int = 0,
    speed: Speed | None = None,
) -> Quality:
    """Compare a learned explainer with the values it tries to give.

    Args:
        explainer: what is judged.
        rows: where it is judged; a few hundred give two sound digits.
        exact: whether to compute the truth from all coalitions; by default up to 12 players.
        orders: otherwise, random orders of the players for each row, each with its reverse.
        seed: of those orders.
        speed: batch size and progress.

    >>> from voile.attribution.fastshap import train_explainer, train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> explainer = train_explainer(surrogate, rows, source=Seeded(0), plan=plan)
    >>> found = quality(explainer, rows[:5])
    >>> found.rows, found.truth, len(found.cosine)
    (5, 'exact', 1)
    """
    surrogate = explainer.surrogate
    few = surrogate.players.count <= EXACT_UP_TO
    exact = few if exact is None else exact
    if exact:
        truth, name = exact_values(surrogate, rows, speed=speed), "exact"
    else:
        truth = sampled(surrogate, rows, orders=orders, seed=seed, speed=speed)
        name = f"sampled from {orders} orders"
    learned = explainer.values(surrogate.read(rows))
    return _judged(truth.values, learned, name)


def _judged(truth: NDArray[np.float64], learned: NDArray[np.float64], name: str) -> Quality:
    from voile.evaluation import cosine_similarity, r_squared  # loads scipy

    def each(measure: Callable[[Any, Any], Any]) -> tuple[float, ...]:
        outputs = range(truth.shape[2])
        return tuple(float(np.mean(measure(truth[..., o], learned[..., o]))) for o in outputs)

    error = float(np.abs(truth - learned).max())
    return Quality(len(truth), name, each(cosine_similarity), each(r_squared), error)


def exact_values(surrogate: Surrogate, X: Any, *, speed: Speed | None = None) -> Explanation:  # noqa: N803
    """Compute the values that a learned explainer of this surrogate estimates, from all coalitions.

    Exact, for up to 20 players.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> found = exact_values(surrogate, rows[:1])
    >>> np.allclose(found.values.sum(), surrogate.predict(rows[:1]) - surrogate.base, atol=1e-5)
    True
    """
    speed = Speed() if speed is None else speed
    check_player_count(surrogate.players.count)
    rows = surrogate.read(X)
    parts = []
    for start, row in enumerate(rows):
        parts.append(_row(surrogate, row, speed.batch_rows))
        speed.report(start + 1, len(rows))
    return surrogate.explanation(np.stack(parts), rows)


def _row(surrogate: Surrogate, row: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    players = surrogate.players.count
    low = min(players, most.bit_length() - 1)
    present = np.zeros((1, 1 << low, players), dtype=np.float32)
    present[0, :, :low] = members(low).T
    columns = surrogate.encoding.columns(row[np.newaxis])
    values: Any = 0.0
    for high in range(1 << (players - low)):
        present[0, :, low:] = [high >> t & 1 for t in range(players - low)]
        worths = surrogate.worths(columns, present)[0]
        block = worths.astype(np.float64)[:, np.newaxis]
        values = values + shapley_share(block, players, high)[:, 0]
    return values  # type: ignore[no-any-return]


def sampled(
    surrogate: Surrogate,
    X: Any,  # noqa: N803
    *,
    orders: int,
    seed: int,
    speed: Speed | None = None,
) -> Explanation:
    """Unbiased sampled Shapley values of a surrogate, with standard errors.

    Each row has random numbers of its own, so its values do not depend on the other rows.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> sampled(surrogate, rows[:1], orders=50, seed=0).standard_errors.shape
    (1, 3, 1)
    """
    if orders < 2:
        raise InvalidInput(f"standard errors need at least two orders, found {orders}")
    rows = surrogate.read(X)
    speed = Speed() if speed is None else speed
    values, errors = [], []
    for place, row in enumerate(rows):
        found = _orders_of(surrogate, row, orders, np.random.default_rng([seed, place]), speed)
        values.append(found.mean(axis=0))
        errors.append(found.std(axis=0, ddof=1) / np.sqrt(orders))
        speed.report(place + 1, len(rows))
    return surrogate.explanation(np.stack(values), rows, standard_errors=np.stack(errors))


def _orders_of(
    surrogate: Surrogate,
    row: NDArray[np.float64],
    orders: int,
    draw: np.random.Generator,
    speed: Speed,
) -> NDArray[np.float64]:
    """One estimate an order, shape (orders, players, outputs)."""
    columns = surrogate.encoding.columns(row[np.newaxis])
    gap = total(surrogate, columns)
    if surrogate.players.count == 1:
        return np.repeat(gap[:, np.newaxis].astype(np.float64), orders, axis=0)
    together = max(1, speed.batch_rows // (2 * surrogate.players.count))
    parts = [
        sampled_values(surrogate, columns, gap, min(together, orders - done), draw)[0]
        for done in range(0, orders, together)
    ]
    return np.concatenate(parts).astype(np.float64)


# --------------------------------------------------------------------------------------------------


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

    >>> values = {"base_values": 0.0, "feature_names": ("age",)}
    >>> learned = Explanation(values=[[1.0]], **values)
    >>> estimate = Explanation(values=[[0.5]], standard_errors=[[0.1]], **values)
    >>> print(Check(learned, estimate, np.array([0.49]), np.array([True])))
    learned values are off by about 0.49 (values are about 0.5); 1 of 1 rows are doubtful
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

    An order costs 2·(players − 1) evaluations of the surrogate. Every learned explainer has a small
    error, which enough orders show; `tolerance` says which differences do not matter.

    Args:
        explainer: what is checked.
        X: the rows.
        orders: random orders of the players for each row, each with its reverse.
        tolerance: differences up to this are no reason for doubt.
        level: the share of sound rows that may be called doubtful.
        seed: of the orders; independent of all training.
        speed: batch size and progress.

    >>> from voile.attribution.fastshap import train_explainer, train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> explainer = train_explainer(surrogate, rows, source=Seeded(0), plan=plan)
    >>> check(explainer, rows[:4], tolerance=1.0).doubtful.tolist()
    [False, False, False, False]
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
