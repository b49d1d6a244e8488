"""What sampled methods share: how much work to spend, and what the result is worth.

The Shapley values of a row are the mean, over the background rows b, of those of its games against
single background rows. A sampled method estimates the values φ_b of some of these games, each with
coalitions of its own. Coalitions that are independent between background rows are what makes this
cheap: their errors average out, where coalitions shared by all background rows (the usual way)
repeat the same error in every game.

With g of m background rows chosen without replacement, f = g/m, S² the variance of the estimates
between them (after a regression on the known outputs of the background rows) and W_b the variance
of each estimate around φ_b, the variance of the mean is estimated by (two-stage sampling)

    (1 − f)·S²/g + f·mean(W_b)/g.

Standard errors are widened from the normal to Student's distribution, and for skewness, so that
±1.96 of them is a 95% interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution.game import Game, GameExplainer
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.row_note import RowNote
from voile.models import Outputs, Rows

Values: TypeAlias = NDArray[np.float64]
"""Shape (games, players, outputs)."""

FEWEST_BACKGROUND_ROWS = 12
CELLS_AT_ONCE = 1 << 23
LATE = "tolerance not reached"


def check_sampled_players(players: int, most: int, instead: str) -> None:
    """Memory grows with the square of the players."""
    if players > most:
        raise InvalidInput(
            f"this method is offered up to {most:,} players, found {players:,}; {instead}"
        )


@dataclass(frozen=True)
class Evaluations:
    """Spend about this many model evaluations on each row.

    >>> from voile.attribution import KernelShapley
    >>> background = np.random.default_rng(0).random((50, 20))
    >>> quick = KernelShapley(lambda x: x.prod(axis=1), background, effort=Evaluations(2_000))
    >>> quick(np.ones((1, 20))).shape
    (1, 20, 1)
    """

    count: int = 20_000

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"at least one evaluation must be spent, found {self.count}")


@dataclass(frozen=True)
class Tolerance:
    """Spend until every standard error of a row is below this, or `at_most` evaluations.

    A row that needed more than `at_most` is marked in the notes of its explanation.

    >>> from voile.attribution import PermutationShapley
    >>> background = np.random.default_rng(0).random((50, 20))
    >>> wanted = PermutationShapley(lambda x: x.prod(axis=1), background, effort=Tolerance(0.05))
    >>> bool(wanted(np.ones((1, 20))).standard_errors.max() <= 0.05)
    True
    """

    standard_error: float
    at_most: int = 2_000_000

    def __post_init__(self) -> None:
        if not self.standard_error > 0 or self.at_most < 1:
            raise InvalidInput(
                "a tolerance needs a standard error above 0 and at least one evaluation, "
                f"found {self.standard_error} and {self.at_most}"
            )


Effort: TypeAlias = Evaluations | Tolerance


@dataclass(frozen=True, eq=False)
class GameEstimates:
    """Estimated values of some single-baseline games, shape (games, players, outputs).

    Args:
        values: the estimates.
        variances: how far each is expected to be off, squared.
        freedom: how many degrees of freedom the sum of the variances has, shape (players, outputs).
    """

    values: Values
    variances: Values
    freedom: NDArray[np.float64]

    @classmethod
    def exact(cls, values: Values) -> GameEstimates:
        """Values without error."""
        return cls(values, np.zeros_like(values), np.full(values.shape[1:], np.inf))


class Sampler(Protocol):
    """One way of drawing coalitions."""

    def smallest(self, players: int) -> int:
        """The evaluations that one background row takes at least."""

    def estimate(
        self,
        game: Game,
        row: NDArray[np.float64],
        output: Outputs,
        chosen: NDArray[np.intp],
        evaluations: int,
        draw: np.random.Generator,
    ) -> GameEstimates:
        """Values of `row` against the chosen background rows, `evaluations` on each.

        `output` is the prediction of the row, shape (outputs,).
        """


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values of one row, shape (players, outputs), and their variances."""

    values: NDArray[np.float64]
    variances: NDArray[np.float64]

    @property
    def worst(self) -> float:
        return float(np.sqrt(self.variances.max()))


@dataclass(frozen=True, eq=False)
class SampledShapley(GameExplainer):
    """Shapley values from some coalitions, drawn by a `sampler`.

    Args (in addition to those of `GameExplainer`):
        effort: `Evaluations` or `Tolerance`.
        seed: which random numbers; the same seed gives the same explanation.
    """

    _: KW_ONLY
    effort: Effort = field(default_factory=Evaluations)
    seed: int = 0

    @property
    def sampler(self) -> Sampler:
        """How this method draws coalitions."""
        raise NotImplementedError

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        return explain(self.game, X, self.sampler, self.effort, self.seed)


def explain(game: Game, given: Any, sampler: Sampler, effort: Effort, seed: int) -> Explanation:
    """Explain rows one after the other, each with random numbers of its own."""
    rows, game = game.read(given)
    predictions = game.outputs(rows.copy())  # a model may write into what it is given
    estimates: list[Estimate] = []
    late: list[int] = []
    for place, (row, output) in enumerate(zip(rows, predictions, strict=True)):
        game.speed.report(place, len(rows))
        draw = np.random.default_rng([seed, place])

        def once(
            evaluations: int,
            row: NDArray[np.float64] = row,
            output: Outputs = output,
            draw: np.random.Generator = draw,
        ) -> Estimate:
            return _estimate(game, row, output, sampler, evaluations, draw)

        estimate = once(effort.count) if isinstance(effort, Evaluations) else _until(effort, once)
        if isinstance(effort, Tolerance) and estimate.worst > effort.standard_error:
            late.append(place)
        estimates.append(estimate)
    game.speed.report(len(rows), len(rows))
    notes = (RowNote(LATE, tuple(late)),) if late else ()
    return game.explanation(
        rows,
        np.stack([estimate.values for estimate in estimates]),
        errors=np.sqrt(np.stack([estimate.variances for estimate in estimates])),
        notes=notes,
    )


def _until(tolerance: Tolerance, once: Callable[[int], Estimate]) -> Estimate:
    """Rounds of growing effort, each as long as the error of the last one suggests.

    Only the last round counts: its length was fixed before its own errors were seen, so stopping
    does not favour rounds that look precise by chance. All others together cost less than it.
    """
    effort = min(2_000, tolerance.at_most)
    estimate = once(effort)
    while estimate.worst > tolerance.standard_error and effort < tolerance.at_most:
        ratio = (estimate.worst / tolerance.standard_error) ** 2  # variance falls like 1/effort
        effort = min(int(effort * min(max(1.2 * ratio, 2), 4)), tolerance.at_most)
        estimate = once(effort)
    return estimate


def _estimate(
    game: Game,
    row: NDArray[np.float64],
    output: Outputs,
    sampler: Sampler,
    evaluations: int,
    draw: np.random.Generator,
) -> Estimate:
    total = len(game.background)
    each = sampler.smallest(game.players.count)
    # As many background rows as the evaluations allow, but never so few that the variance between
    # them cannot be estimated.
    count = min(total, max(evaluations // max(each, 1), FEWEST_BACKGROUND_ROWS))
    chosen = np.arange(total) if count == total else draw.choice(total, count, replace=False)
    found = sampler.estimate(game, row, output, chosen, max(each, evaluations // count), draw)
    if count == total:
        within = found.variances.mean(axis=0) / count
        return Estimate(found.values.mean(axis=0), within * _student(found.freedom) ** 2)
    return _of_some(game, chosen, found)


def _of_some(game: Game, chosen: NDArray[np.intp], found: GameEstimates) -> Estimate:
    """The mean over all background rows from some of them.

    The outputs of all background rows are known, and those of the chosen ones say how values change
    with them: a regression estimator. Values of a game add up to f(x) − f(b), so the slopes of all
    players add up to −1 and the corrected values to f(x) minus the mean of f over *all* background
    rows.
    """
    values, count = found.values, len(chosen)
    known = game.background_outputs[chosen]  # (games, outputs)
    centred = known - known.mean(axis=0)
    spread = (centred**2).sum(axis=0)
    flat = spread <= 1e-24 * (1 + (known**2).sum(axis=0))
    slopes = np.where(
        flat,
        -1 / game.players.count,
        (centred[:, np.newaxis] * values).sum(axis=0) / np.where(flat, 1.0, spread),
    )
    shift = slopes * (game.base - known.mean(axis=0))
    rest = values - values.mean(axis=0) - slopes * centred[:, np.newaxis]
    # Rows far from the mean pull the slope towards themselves: leave each out of its own residual.
    leverage = 1 / count + centred**2 / np.where(flat, 1.0, spread)
    rest = rest / np.maximum(1 - leverage, 0.05)[:, np.newaxis]
    between = (rest**2).mean(axis=0) / count
    fraction = count / len(game.background)
    within = found.variances.mean(axis=0) / count
    wide = _student(np.asarray(max(count - 2.0, 1.0))) * _skewed(rest)
    variance = (fraction * within + (1 - fraction) * between) * wide**2
    return Estimate(values.mean(axis=0) + shift, variance)


def freedom_of(variances: Values, each: int = 0) -> NDArray[np.float64]:
    """Degrees of freedom of a sum of variances of unequal size (Satterthwaite).

    Often a few background rows hold most of the variance, and then it is known as badly as if there
    were only those few. `each` says how many degrees of freedom a single variance has (its square
    is then (each + 2)/each too large on average, which is taken out); 0 takes every variance to
    vary by its own size, as is right for heavy tails.
    """
    total, squares = variances.sum(axis=0), (variances**2).sum(axis=0)
    known = squares > 0
    return np.where(known, (each + 2) * total**2 / np.where(known, squares, 1.0), np.inf)


def _skewed(values: Values) -> NDArray[np.float64]:
    """How much wider Student's interval must be for a skewed distribution.

    The two-sided interval of a mean of n misses by 2zφ(z)(z⁴ + 2z² − 3)γ²/(18 n), γ the skewness
    (Edgeworth); widening it by (z⁴ + 2z² − 3)γ²/(18 n) makes up for that. 1.08 at z = 1.96.
    """
    centred = values - values.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    skewness = (centred**3).mean(axis=0) / np.where(spread > 0, spread, 1.0) ** 3
    widening: NDArray[np.float64] = 1 + 1.08 * skewness**2 / len(values)
    return widening


def _student(freedom: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much wider a 95% interval of Student's distribution is than one of the normal."""
    from scipy.special import ndtri, stdtrit

    wider: NDArray[np.float64] = stdtrit(np.clip(freedom, 1.0, 1e6), 0.975) / ndtri(0.975)
    return wider


def paired_responses(
    game: Game, row: NDArray[np.float64], chosen: Rows, coalitions: NDArray[np.bool_]
) -> Values:
    """v_b(S) − v_b(complement of S) for coalitions (games, n, players), shape (games, n, outputs).

    The difference is blind to everything that is even under complement; what remains of single
    effects and of pairwise interactions is linear in the membership.
    """
    games, count, _ = coalitions.shape
    most = max(2, min(game.speed.batch_rows, CELLS_AT_ONCE // len(row)))
    together, step = max(1, most // (2 * count)), min(count, most // 2)
    responses: list[Values] = []
    for first in range(0, games, together):
        part = slice(first, first + together)
        pieces = [
            _responses(game, row, chosen[part], coalitions[part, start : start + step])
            for start in range(0, count, step)
        ]
        responses.append(np.concatenate(pieces).swapaxes(0, 1))
    return np.concatenate(responses)


def _responses(
    game: Game, row: NDArray[np.float64], chosen: Rows, coalitions: NDArray[np.bool_]
) -> Values:
    """Responses of a few games, coalition first: shape (n, games, outputs)."""
    games, count, _ = coalitions.shape
    # Coalition first, games side by side: the innermost loops then run over whole rows of games
    # instead of the few features of one, which makes them several times faster.
    inside = np.ascontiguousarray(game.players.features_of(coalitions).swapaxes(0, 1))
    flags = inside.reshape(count, -1)
    mine, other = np.tile(row, games), chosen.reshape(-1)
    inputs = np.empty((2, *flags.shape))
    inputs[0] = np.where(flags, mine, other)
    inputs[1] = np.where(flags, other, mine)
    worths = game.outputs(inputs.reshape(-1, len(row))).reshape(2, count, games, -1)
    difference: Values = worths[0] - worths[1]
    return difference
