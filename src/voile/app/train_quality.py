"""How good a trained model is: by the third release that was charged, or on open rows.

The calibration table counts rows of each class by the score that the model gives them. Log-loss
and AUC follow from it at no further cost. They are rough: all rows of a score bin count as if they
had its middle score, and one figure of the model, its slope, was fitted to the same table.

These rows are also the ones that the model was made from. With k free parameters and n rows that
makes the log-loss about k/n too low (Akaike 1974), also if labels have nothing to do with features.
What a model gains has to be more than that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.evaluation import PredictionQuality
from voile.release.statistics import PrivateStatistics
from voile.release.statistics.by_target import BeforeCalibration, solved_model
from voile.release.statistics.calibrating import fitted_slope
from voile.release.statistics.first_model import FirstModel
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.number_target import NumberFit, NumberModel
from voile.release.statistics.several_classes import ClassesFit, ClassesModel
from voile.release.statistics.solving import Estimates

LOG_LOSS: Final = "log-loss"
AUC: Final = "AUC"
GAIN: Final = "log-loss gained over the label rate"
ACCURACY: Final = "accuracy"
ROOT_ERROR: Final = "root of the mean squared error"
_WIDTH: Final = 1.959964
Table = NDArray[np.float64]
"""Shape (score bins, 2): one figure for each bin and class."""


@dataclass(frozen=True, eq=False)
class CalibrationFigures:
    """Log-loss and AUC by a released calibration table, with the errors of noise and sampling.

    Args:
        counts: noisy, of each score bin and class.
        deviation: of the noise on each count.
        rows: how many there are; public.
        chances: the probability of the second class that the model states in each bin.
        rate: the label rate, from releases before this table.
        optimism: by how much the log-loss is too low, for being that of rows that were fitted to.
    """

    counts: Table
    deviation: float
    rows: int
    chances: NDArray[np.float64]
    rate: float
    optimism: float = 0.0

    @classmethod
    def from_releases(cls, statistics: PrivateStatistics) -> CalibrationFigures:
        """A function of what was released, and of nothing else."""
        from scipy.special import expit

        table = statistics.calibration.blocks[0]
        merged = MergedTables(statistics.budget, statistics.tables.blocks)
        first = FirstModel.solved(Estimates(merged, statistics.moments.blocks))
        slope = fitted_slope(first, table)
        middles = first.score_bins[0] if first.bins else np.zeros(len(table))
        return cls(
            table.astype(np.float64),
            statistics.budget.calibration_noise.sigma * statistics.budget.growth[2],
            statistics.budget.rows,
            expit(slope.intercept + slope.factor * middles),
            first.rate,
            slope.factor * first.parameters / statistics.budget.rows,
        )

    @cached_property
    def total(self) -> float:
        """How many rows have a label, as far as the noise lets us see."""
        return max(float(self.counts.sum()), self.rows / 2)

    @property
    def unread(self) -> str:
        """What to say if most rows were not counted, or those of one class; else nothing.

        Nothing is said where the noise could be the reason.
        """
        classes = self.counts.sum(axis=0)
        noise = _WIDTH * self.deviation * math.sqrt(len(self.counts))
        if classes.sum() + math.sqrt(2) * noise < self.rows / 2:
            return (
                f"only about {max(0, round(classes.sum())):,} of {self.rows:,} rows have a label "
                "and features that can be read; check them with `voile schema check`"
            )
        if classes.min() < noise < self.rows / 8:
            return (
                "one of both classes has so few rows that they cannot be told from none; check "
                "the labels with `voile schema check`"
            )
        return ""

    @property
    def log_loss(self) -> PredictionQuality:
        return _not_negative(self._mean(_losses(self.chances), _losses(self._constant)))

    @property
    def gain(self) -> PredictionQuality:
        """Over always stating the label rate, row by row."""
        gains = _losses(self._constant) - _losses(self.chances)
        return self._mean(gains, np.zeros_like(gains))

    @property
    def auc(self) -> PredictionQuality:
        """How often a row of the second class has the higher score; ties count half."""
        below, above = self.counts.T
        totals = np.clip(self.counts.sum(axis=0), 1.0, None)
        ranks = (np.cumsum(below) - below / 2) / totals[0]
        others = (np.cumsum(above[::-1])[::-1] - above / 2) / totals[1]
        figure = float(np.clip(above @ ranks / totals[1], 0, 1))
        slopes = np.column_stack([others - figure, ranks - figure]) / totals
        found = self._judged(figure, slopes, 0.5)
        return replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))

    @property
    def _constant(self) -> NDArray[np.float64]:
        return np.full(len(self.counts), self.rate)

    def _mean(self, values: Table, baseline: Table) -> PredictionQuality:
        """Of a value for each bin and class, over rows."""
        figure, constant = (float((self.counts * v).sum()) / self.total for v in (values, baseline))
        return self._judged(figure, (values - figure) / self.total, constant)

    def _judged(self, figure: float, slopes: Table, baseline: float) -> PredictionQuality:
        """With a 95 % interval; `slopes` says how the figure moves with each count."""
        variance = self.deviation**2 + np.maximum(self.counts, 0)
        width = _WIDTH * float(np.sqrt((slopes**2 * variance).sum()))
        return PredictionQuality(figure, figure - width, figure + width, baseline)


def charged_quality(figures: CalibrationFigures) -> dict[str, Any]:
    """What the charged table says, as plain values."""
    auc, gain, loss = figures.auc, figures.gain, figures.log_loss
    is_useless = gain.low <= figures.optimism
    alarms = [figures.unread] if figures.unread else []
    if is_useless and auc.low <= auc.baseline:
        alarms.append(
            "it cannot be told from always stating the label rate, by log-loss or AUC of the "
            "charged calibration table"
        )
    elif is_useless:
        alarms.append(
            "its probabilities are not shown to be better than the label rate (log-loss "
            f"{loss.figure:.3f}; always stating the label rate has {loss.baseline:.3f}"
            f"{_by_fitting(figures.optimism)})"
        )
    elif auc.low <= auc.baseline:
        alarms.append(
            "it is not shown to rank rows better than chance (AUC between "
            f"{auc.low:.3f} and {auc.high:.3f}); check the labels with `voile schema check`"
        )
    return {
        "measured_on": "the charged calibration table",
        "label_rate": figures.rate,
        "figures": {LOG_LOSS: asdict(loss), AUC: asdict(auc), GAIN: asdict(gain)},
        "unread": figures.unread,
        "alarms": alarms,
    }


def _by_fitting(optimism: float) -> str:
    return f", and fitting to the same rows gains about {optimism:.3f}" if optimism else ""


def released_quality(statistics: PrivateStatistics) -> dict[str, Any]:
    """What the third release says about the model, as plain values; nothing more is charged."""
    if statistics.budget.target.is_number:
        return _number_quality(statistics)
    if statistics.budget.target.parts == 1:
        return charged_quality(CalibrationFigures.from_releases(statistics))
    return _classes_quality(statistics)


def _classes_quality(statistics: PrivateStatistics) -> dict[str, Any]:
    """Of several classes: the table counts rows by confidence and by the rank of their class."""
    first, table = _first_of(statistics), statistics.calibration.blocks[0].astype(np.float64)
    assert isinstance(first, ClassesModel)
    fit = ClassesFit(first, statistics.calibration.blocks[0])
    rates, budget = first.rates, statistics.budget
    total = max(float(table.sum()), budget.rows / 2)
    variance = fit.deviation**2 + np.maximum(table, 0)

    def mean(values: Table, baseline: float) -> PredictionQuality:
        figure = float((table * values).sum()) / total
        width = _WIDTH * float(np.sqrt(((values - figure) ** 2 * variance).sum())) / total
        return PredictionQuality(figure, figure - width, figure + width, baseline)

    loss = _not_negative(mean(fit.losses(fit.slope), -float(rates @ np.log(rates))))
    is_first = np.zeros_like(table)
    is_first[:, 0] = 1
    accuracy = mean(is_first, float(rates.max()))
    alarms, optimism = [], fit.slope * first.parameters / budget.rows
    if loss.high + optimism >= loss.baseline:
        alarms.append(
            "its probabilities are not shown to be better than the rates of the classes (log-loss "
            f"{loss.figure:.3f}; always stating the rates has {loss.baseline:.3f}"
            f"{_by_fitting(optimism)})"
        )
    return {
        "measured_on": "the charged calibration table",
        "label_rates": rates.tolist(),
        "figures": {LOG_LOSS: asdict(loss), ACCURACY: asdict(accuracy)},
        "unread": "",
        "alarms": alarms,
    }


def _number_quality(statistics: PrivateStatistics) -> dict[str, Any]:
    """Of a number: squares and products with the prediction were charged."""
    first = _first_of(statistics)
    assert isinstance(first, NumberModel)
    fit = NumberFit(first, statistics.calibration.blocks[0])
    error, low, high = fit.squared_error
    half, whole = first.target.half_width, first.residual
    found = PredictionQuality(
        *(half * math.sqrt(max(each, 0.0)) for each in (error, low, high, whole))
    )
    useless = "its error cannot be told from that of always stating the mean"
    return {
        "measured_on": "the charged sums of squares",
        "label_mean": first.target.middle + half * first.intercept,
        "figures": {ROOT_ERROR: asdict(found)},
        "unread": "",
        "alarms": [useless] if high >= whole else [],
    }


def _first_of(statistics: PrivateStatistics) -> BeforeCalibration:
    merged = MergedTables(statistics.budget, statistics.tables.blocks)
    return solved_model(Estimates(merged, statistics.moments.blocks))


def joint_quality(
    charged: Mapping[str, Any] | None, open_rows: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Both, and the alarms of the one that is more exact. What was not read is said in any case."""
    alarms = [] if charged is None else list(charged["alarms"])
    if open_rows is not None:
        unread = "" if charged is None else charged["unread"]
        alarms = [*filter(None, [unread]), *open_rows["alarms"]]
    return {"charged": charged, "held_out": open_rows, "alarms": alarms}


def _not_negative(found: PredictionQuality) -> PredictionQuality:
    """Noise can make the estimate of a loss negative; no loss is."""
    figure, low, high, baseline = (
        max(each, 0.0) for each in (found.figure, found.low, found.high, found.baseline)
    )
    return PredictionQuality(figure, low, high, baseline)


def _losses(chances: NDArray[np.float64]) -> Table:
    """Log-loss of a row of each class in each bin."""
    inside = np.clip(chances, 1e-12, 1 - 1e-12)
    return -np.log(np.column_stack([1 - inside, inside]))
