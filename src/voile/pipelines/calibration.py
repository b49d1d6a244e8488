"""Calibrate a trained classifier, so that its probabilities come true as often as they say.

Noise and clipping leave a network too sure, or too timid, and its base rate off. Both are repaired
by one slope and one shift for each class, on the logits. They are fitted on rows that nobody
protects. The trained arrays are private already, so this is post-processing and costs nothing.

A prior holds slope and shift back: few rows cannot tell how much of what the model says is noise,
nor how far its base rate is off. It expects three quarters of the slope that a model without noise
would have, times the share of signal in what was added up. It was chosen on Adult, ACS income, the
Dutch census, Diabetes 130 and two small sets: with 10 rows it leaves none of them worse by more
than 0.003, with 20 none at all, on average. From 400 rows on it hardly matters there.

The map is folded into the last layer. So whatever reads the network has the calibrated model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import Categories
from voile.federation.arrays import Arrays
from voile.federation.rounds import StageResult
from voile.pipelines.objectives import SURROGATE
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.training import Softmax, arrays_of, with_arrays

FEWEST_ROWS: Final = 10
"""With fewer rows to fit on, or to judge by, nothing is calibrated."""
MOST_ROWS: Final = 1_000
"""Two or three parameters need no more; the rest is better used to judge."""
_EXPECTED_SLOPE: Final = 0.75
_SLOPE_SPREAD: Final = 0.5
_SHIFT_SPREAD: Final = 1.0


@dataclass(frozen=True)
class Calibration:
    """What the logits of a network are multiplied by, and what is added to them.

    Args:
        slope: the same for all classes; at least 0.
        shift: one for each class.
        rows: how many unprotected rows it was fitted on.
        expected_slope: what the prior expected, from the noise alone.
    """

    slope: float
    shift: tuple[float, ...]
    rows: int
    expected_slope: float

    def __post_init__(self) -> None:
        figures = (self.slope, *self.shift, self.expected_slope)
        if not np.isfinite(figures).all() or self.slope < 0:
            raise InvalidInput(f"expected finite figures and a slope of at least 0, found {self}")

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Calibration:
        """The inverse of `plain`."""
        return cls(**{**plain, "shift": tuple(plain["shift"])})

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "shift": list(self.shift)}

    def fold(self, arrays: Arrays) -> dict[str, Any]:
        """The arrays of a network whose logits are calibrated; the last layer changes alone."""
        weight, bias = last_layer(arrays)
        # In double precision and rounded once, so that a second computation gives the same bits.
        folded = {
            weight: self.slope * np.asarray(arrays[weight], np.float64),
            bias: self.slope * np.asarray(arrays[bias], np.float64) + np.array(self.shift),
        }
        return {**arrays, **{name: each.astype(np.float32) for name, each in folded.items()}}

    def apply(self, model: NetworkModel) -> NetworkModel:
        """The calibrated model."""
        return replace(model, network=with_arrays(self.fold(arrays_of(model.network))))


def last_layer(arrays: Arrays) -> tuple[str, str]:
    """The names of its weight and bias, in the arrays of a perceptron."""
    place = len(arrays) - 2  # two arrays a layer, which are named 0, 2, 4, ...
    return f"{place}.weight", f"{place}.bias"


def split_open_rows(rows: TableRecords) -> tuple[TableRecords, TableRecords]:
    """Unprotected rows to calibrate on, and the others, to judge by; the former may be none.

    Drawn by a fixed seed: a file in some order must not give one class to one part.
    """
    known = np.flatnonzero(~rows.null & ~np.isnan(rows.labels))
    label = rows.schema.label
    if len(known) < 2 * FEWEST_ROWS or label is None or not isinstance(label.domain, Categories):
        return rows.only(known[:0]), rows
    drawn = np.random.default_rng(0).permutation(known)[: min(len(known) // 2, MOST_ROWS)]
    judged = np.ones(len(rows), dtype=np.bool_)
    judged[drawn] = False
    return rows.only(np.sort(drawn)), rows.only(judged)


def slope_under(noise: float | None) -> float:
    """The slope to expect with so much noise for each unit of signal; None if it is not known."""
    return _EXPECTED_SLOPE / (1 + (noise or 0.0) ** 2)


def fit_calibration(
    model: NetworkModel, rows: TableRecords, *, expected_slope: float = _EXPECTED_SLOPE
) -> Calibration | None:
    """None where there is no class to calibrate, or too few rows.

    Args:
        model: trained with privacy; nothing else that was protected goes in.
        rows: unprotected, and not those that the model is judged by.
        expected_slope: see `slope_under`.
    """
    known = rows.only(~rows.null & ~np.isnan(rows.labels))
    if len(known) < FEWEST_ROWS or not isinstance(model.output_head.head, Softmax):
        return None
    logits = np.asarray(model.network(known.columns), np.float64)
    slope, shift = _fitted(logits, np.asarray(known.targets, np.float64), expected_slope)
    return Calibration(slope, tuple(shift.tolist()), len(known), expected_slope)


def calibrate(
    results: Mapping[str, StageResult], trained: str, calibration: Calibration | None
) -> dict[str, StageResult]:
    """The same results with calibrated arrays: of the model, and of its surrogate, if it has one.

    The surrogate imitates the model before calibration. With the same map it imitates the
    calibrated one: with all features present both agree as before.

    Args:
        trained: the stage that trains the model.
    """
    if calibration is None:
        return dict(results)
    return {
        name: replace(result, arrays=calibration.fold(result.arrays))
        if name in (trained, SURROGATE)
        else result
        for name, result in results.items()
    }


def _fitted(
    logits: NDArray[np.float64], wanted: NDArray[np.float64], expected: float
) -> tuple[float, NDArray[np.float64]]:
    """The most likely slope and shift under the prior: a convex problem, so there is one answer.

    Logits are turned around their mean, so that a smaller slope means closer to the base rate.
    """
    from scipy.optimize import minimize

    middle = logits.mean(axis=0)
    around = logits - middle
    head = Softmax()

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope, shift = point[0] - expected, point[1:]
        said = point[0] * around + middle + shift
        shifted = said - said.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        apart = head.means(said) - wanted
        value = (
            -(wanted * logs).sum()
            + ((slope / _SLOPE_SPREAD) ** 2 + np.square(shift / _SHIFT_SPREAD).sum()) / 2
        )
        steep = (apart * around).sum() + slope / _SLOPE_SPREAD**2
        return float(value), np.r_[steep, apart.sum(axis=0) + shift / _SHIFT_SPREAD**2]

    start = np.r_[expected, np.zeros(logits.shape[1])]
    bounds = [(0.0, None), *([(None, None)] * logits.shape[1])]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(found[0]), (1 - found[0]) * middle + found[1:]
