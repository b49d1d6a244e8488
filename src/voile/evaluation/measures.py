"""How good predictions are, beside what they are to be compared with; how alike explanations are.

A figure by itself says nothing: 0.9 is bad where nine rows in ten have one label. So each figure
comes with the same figure of somebody who knows the frequencies of labels only, and with an
interval by bootstrap over the rows that it was measured on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput

_RESAMPLES: Final = 400
_MOST_ROWS: Final = 20_000
"""Resampled; an interval from more rows is narrower than anybody needs."""
_BINS: Final = 10
_CONSTANT: Final = 0.02
"""Predictions whose middle nine tenths span less, as a share of what is possible, are constant."""
_SMALLEST: Final = 1e-12
"""The least probability that a logarithm is taken of."""


@dataclass(frozen=True)
class PredictionQuality:
    """A figure, its 95 % interval, and the figure of somebody who ignores the features."""

    figure: float
    low: float
    high: float
    baseline: float


@dataclass(frozen=True)
class CalibrationBin:
    """Rows with a similar predicted probability, and how often it came true."""

    predicted: float
    observed: float
    rows: int


@dataclass(frozen=True)
class ClassJudgement:
    """Predicted probabilities of classes against labels.

    Args:
        majority: place of the most frequent class, which the baseline of accuracy always says.
        auc: mean over classes, of each against the rest; the baseline is 0.5. None where only one
            class is there.
        calibration_error: expected, of the most likely class. Its baseline says the frequency of
            the majority each time, and is 0: calibration alone is no merit.
        log_loss, brier: of all probabilities; the baseline always states the frequencies of labels.
        gain: in log-loss over that baseline, row by row; its own baseline is 0. Its interval is
            narrower than that of the log-loss, since rare labels cost both alike.
        spread: what the middle nine tenths of the probabilities span, of the class that moves most.
    """

    rows: int
    majority: int
    accuracy: PredictionQuality
    auc: PredictionQuality | None
    calibration_error: PredictionQuality
    calibration: tuple[CalibrationBin, ...]
    log_loss: PredictionQuality
    brier: PredictionQuality
    gain: PredictionQuality
    spread: float

    @property
    def constant(self) -> bool:
        """It says nearly the same about everybody."""
        return self.spread < _CONSTANT

    @property
    def no_better_than_baseline(self) -> bool:
        """Neither figure can be told from that of somebody who ignores the features."""
        return self.accuracy.low <= self.accuracy.baseline and (
            self.auc is None or self.auc.low <= self.auc.baseline
        )

    @property
    def no_better_than_frequencies(self) -> bool:
        """By log-loss the probabilities cannot be told from the frequencies of labels."""
        return self.gain.low <= 0


def judge_classes(
    probabilities: NDArray[np.float64], labels: NDArray[np.float64], *, seed: int = 0
) -> ClassJudgement:
    """Judge probabilities, shape (n, classes), by labels, shape (n,): places of classes, or NaN.

    Args:
        seed: of the resampling; these rows are nobody's secret.
    """
    known = ~np.isnan(labels)
    said, true = np.asarray(probabilities, float)[known], labels[known].astype(int)
    if not len(true):
        raise InvalidInput("no row has a label to judge predictions by")
    counts = np.bincount(true, minlength=said.shape[1])
    resamples = _resamples(len(true), seed)
    best = said.argmax(axis=1)
    hits = (best == true).astype(float)
    sure = said.max(axis=1)
    constant = np.broadcast_to(counts / len(true), said.shape)
    losses, constant_losses = log_losses(said, true), log_losses(constant, true)
    auc = None
    if np.count_nonzero(counts) > 1:
        auc = _judged(
            lambda rows: area_under_curve(said[rows], true[rows]), resamples, len(true), 0.5
        )
    return ClassJudgement(
        rows=len(true),
        majority=int(counts.argmax()),
        accuracy=_mean(hits, resamples, float(counts.max() / len(true))),
        auc=auc,
        calibration_error=_judged(
            lambda rows: _calibration_error(_calibration(sure[rows], hits[rows])),
            resamples,
            len(true),
            0.0,
        ),
        calibration=_calibration(sure, hits),
        log_loss=_mean(losses, resamples, float(constant_losses.mean())),
        brier=_mean(
            brier_scores(said, true), resamples, float(brier_scores(constant, true).mean())
        ),
        gain=_mean(constant_losses - losses, resamples, 0.0),
        spread=spread_of(said),
    )


def judge_numbers(
    predicted: NDArray[np.float64], labels: NDArray[np.float64], *, seed: int = 0
) -> PredictionQuality:
    """The mean absolute error, shapes (n,); the baseline says the median of the labels."""
    known = ~np.isnan(labels)
    true = labels[known]
    if not len(true):
        raise InvalidInput("no row has a label to judge predictions by")
    errors = np.abs(predicted[known] - true)
    constant = float(np.abs(true - np.median(true)).mean())
    return _mean(errors, _resamples(len(true), seed), constant)


def log_losses(probabilities: NDArray[np.float64], true: NDArray[np.intp]) -> NDArray[np.float64]:
    """Minus the logarithm of the probability of the true class, row by row."""
    given = probabilities[np.arange(len(true)), true]
    found: NDArray[np.float64] = -np.log(np.maximum(given, _SMALLEST))
    return found


def brier_scores(probabilities: NDArray[np.float64], true: NDArray[np.intp]) -> NDArray[np.float64]:
    """Squared distance of the probabilities from the true class, summed over classes: 0 to 2."""
    wanted = np.arange(probabilities.shape[1]) == true[:, np.newaxis]
    found: NDArray[np.float64] = np.square(probabilities - wanted).sum(axis=1)
    return found


def spread_of(outputs: NDArray[np.float64]) -> float:
    """What the middle nine tenths span, of the output that moves most."""
    low, high = np.quantile(np.asarray(outputs, float), (0.05, 0.95), axis=0)
    return float(np.max(high - low))


def is_constant(outputs: NDArray[np.float64], width: float = 1.0) -> bool:
    """Whether a model says nearly the same about all of these rows."""
    return spread_of(outputs) < _CONSTANT * width


def _resamples(rows: int, seed: int) -> list[NDArray[np.intp]]:
    draw = np.random.default_rng(seed)
    size = min(rows, _MOST_ROWS)
    return [draw.integers(0, rows, size) for _ in range(_RESAMPLES)]


def _judged(
    figure: Callable[[NDArray[np.intp]], float],
    resamples: list[NDArray[np.intp]],
    rows: int,
    baseline: float,
) -> PredictionQuality:
    whole = figure(np.arange(rows))
    found = np.array([figure(each) for each in resamples])
    low, high = np.nanquantile(found, (0.025, 0.975))
    return PredictionQuality(whole, float(min(low, whole)), float(max(high, whole)), baseline)


def _mean(
    values: NDArray[np.float64], resamples: list[NDArray[np.intp]], baseline: float
) -> PredictionQuality:
    return _judged(lambda rows: float(values[rows].mean()), resamples, len(values), baseline)


def area_under_curve(said: NDArray[np.float64], true: NDArray[np.intp]) -> float:
    """The chance that a row of a class is given more of it than another row; ties count half."""
    found = []
    for place in range(said.shape[1] if said.shape[1] > 2 else 1):
        mine = true == place
        count, others = int(mine.sum()), int((~mine).sum())
        if not count or not others:
            continue
        _, where, times = np.unique(said[:, place], return_inverse=True, return_counts=True)
        ranks = (np.cumsum(times) - (times - 1) / 2)[where]
        found.append((ranks[mine].sum() - count * (count + 1) / 2) / (count * others))
    return float(np.mean(found)) if found else float("nan")


def _calibration(
    sure: NDArray[np.float64], hits: NDArray[np.float64]
) -> tuple[CalibrationBin, ...]:
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    return tuple(
        CalibrationBin(float(sure[mine].mean()), float(hits[mine].mean()), int(mine.sum()))
        for mine in (bins == place for place in range(_BINS))
        if mine.any()
    )


def _calibration_error(bins: tuple[CalibrationBin, ...]) -> float:
    rows = sum(each.rows for each in bins)
    return sum(each.rows * abs(each.predicted - each.observed) for each in bins) / rows


# --- How alike two sets of explanations of the same rows are, and the answers of two models -------
# Attributions are those of one output, shape (rows, features). A row whose measure is undefined
# gets the figure stated in the docstring, never NaN.


# --- How far one party's explanations lie from the common ones (FedXChain's NSDS) ----------------


SMOOTHING = 1e-10
"""Added to every share, as published, so that a feature without importance has a logarithm."""


def importance_shares(values: ArrayLike) -> NDArray[np.float64]:
    """Attributions (rows, features) as shares of the total mean absolute value; equal if none."""
    strength = np.abs(np.atleast_2d(np.asarray(values, dtype=np.float64))).mean(axis=0)
    if not strength.size or not np.isfinite(strength).all():
        raise InvalidInput("expected finite attributions")
    total = strength.sum()
    return np.asarray(strength / total if total > 0 else np.full(strength.size, 1 / strength.size))


def divergence_score(local: ArrayLike, common: ArrayLike) -> float:
    """NSDS: Kullback–Leibler divergence of the local from the common shares; unbounded."""
    p, q = _smoothed(local), _smoothed(common)
    _check_same(p, q)
    return float((p * np.log(p / q)).sum())


def jensen_shannon(local: ArrayLike, common: ArrayLike) -> float:
    """The symmetric, bounded relative of NSDS: at most ln 2, also if shares vanish."""
    p, q = _smoothed(local), _smoothed(common)
    _check_same(p, q)
    middle = (p + q) / 2
    return float(((p * np.log(p / middle)).sum() + (q * np.log(q / middle)).sum()) / 2)


def _smoothed(shares: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(shares, dtype=np.float64)
    if p.ndim != 1 or not p.size or (p < 0).any() or not np.isclose(p.sum(), 1, atol=1e-6):
        raise InvalidInput("expected shares: at least 0, adding up to 1")
    p = p + SMOOTHING
    return np.asarray(p / p.sum())


def _check_same(p: NDArray[np.float64], q: NDArray[np.float64]) -> None:
    if p.shape != q.shape:
        raise InvalidInput(f"both need the same features, found {p.size} and {q.size}")


# --------------------------------------------------------------------------------------------------


Attributions: TypeAlias = NDArray[np.float64]
"""Shape (rows, features)."""


PerRow: TypeAlias = NDArray[np.float64]
"""Shape (rows,): one figure for each explained row."""


def attributions(name: str, given: ArrayLike) -> Attributions:
    """Finite attributions with at least one row and one feature."""
    array = np.asarray(given, dtype=np.float64)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be finite, of shape (rows, features), found {array.shape}")
    return array


def pair(first: ArrayLike, second: ArrayLike) -> tuple[Attributions, Attributions]:
    """Two sets of attributions of the same rows and features."""
    one, two = attributions("first", first), attributions("second", second)
    if one.shape != two.shape:
        raise InvalidInput(f"both must have the same shape, found {one.shape} and {two.shape}")
    return one, two


def cosine_similarity(first: ArrayLike, second: ArrayLike) -> PerRow:
    """Cosine of the angle between them; 1 if both vanish, 0 if one does."""
    one, two = pair(first, second)
    lengths = np.linalg.norm(one, axis=1), np.linalg.norm(two, axis=1)
    product = lengths[0] * lengths[1]
    cosine = np.einsum("rf,rf->r", one, two) / np.where(product > 0, product, 1)
    both_vanish = (lengths[0] == 0) & (lengths[1] == 0)
    return np.asarray(np.where(both_vanish, 1.0, np.clip(cosine, -1, 1)))


def r_squared(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Share of the variance of all true attributions that the estimates explain."""
    one, two = pair(truth, estimate)
    spread = float(np.square(one - one.mean()).sum())
    missed = float(np.square(one - two).sum())
    return 1 - missed / spread if spread else float(missed == 0)


def fidelity(first: ArrayLike, second: ArrayLike) -> float:
    """Share of rows to which two models give the same class: how well a surrogate imitates."""
    one, two = np.asarray(first), np.asarray(second)
    if one.ndim != 1 or one.shape != two.shape or not one.size:
        raise InvalidInput(f"expected two lists of classes, found {one.shape} and {two.shape}")
    return float((one == two).mean())
