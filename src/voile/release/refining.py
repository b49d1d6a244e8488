"""Making a released explanation better at no cost: post-processing that helps.

Everything here uses what was released and public facts, nothing else, so nothing is charged. What
was moved by another release depends on both, and carries the guarantees of both, added up. None of
it creates information: it removes error that is known to be there.

- `projected`: attributions should add up to prediction minus base. Only with a `PublicTotal` or a
  `ReleasedTotal`: the exact prediction of a protected row is data like any other.
- `agreeing`: two releases of the same rows (two levels) should add up to the same.
- `within`: no vector is longer than a public bound.
- `shrunk`: positive-part James and Stein, from the known standard deviation of the noise alone.

Figures: docs/guarantees/explained-row.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.core.row_note import KnownNote
from voile.privacy.mechanisms.parameters import number
from voile.privacy.sensitivity.bound import width_of
from voile.release.clipped import clipped
from voile.release.federated import NORMAL
from voile.release.origin import PUBLIC, Origin, joint_guarantees, trained_privately

PROJECTED: Final = "moved to add up to a public or released prediction minus base"
AGREEING: Final = "moved to add up to the same as another release of these rows"
SHRUNK: Final = "shrunk toward 0 (James and Stein): closer to the truth on average"
WITHIN: Final = "shortened to a public bound on the length"


@dataclass(frozen=True)
class PublicTotal:
    """Prediction minus base where both are public, shape (rows, outputs) or one number.

    >>> noisy = Explanation(values=[[0.3, 0.2]], base_values=0.0, feature_names=("age", "bmi"),
    ...                     standard_errors=[[0.1, 0.1]])
    >>> projected(noisy, PublicTotal(0.4)).values.round(6).ravel().tolist()
    [0.25, 0.15]
    """

    values: ArrayLike


@dataclass(frozen=True)
class ReleasedTotal:
    """Prediction minus base as they were released.

    Args:
        values: of shape (rows, outputs), or one number.
        standard_error: the standard deviation of their noise.
        guarantees: what that release promised; what they move carries them too.

    >>> ReleasedTotal(0.4, standard_error=0.1, guarantees=())
    Traceback (most recent call last):
    voile.core.errors.Refused: a released total has a guarantee; this one states none
    """

    values: ArrayLike
    standard_error: float
    guarantees: tuple[Guarantee, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "guarantees", tuple(self.guarantees))
        if not self.guarantees:
            raise Refused("a released total has a guarantee; this one states none")


def projected(explanation: Explanation, total: PublicTotal | ReleasedTotal) -> Explanation:
    """Move attributions, by least squares, to add up to prediction minus base.

    Assumes that both are public or were released. Costs nothing, and never adds error.

    >>> noisy = Explanation(values=[[0.3, 0.2]], base_values=0.0, feature_names=("age", "bmi"),
    ...                     standard_errors=[[0.1, 0.1]])
    >>> better = projected(noisy, PublicTotal(0.4))
    >>> bool(better.standard_errors.max() < noisy.standard_errors.max())
    True
    """
    if not isinstance(total, PublicTotal | ReleasedTotal):
        raise InvalidInput(
            "say where prediction and base come from: PublicTotal(values) if both are public, "
            "ReleasedTotal(values, standard_error, guarantees) if they were released; the exact "
            f"prediction of a protected row may not be used; found {type(total).__name__}"
        )
    rows, _, outputs = explanation.shape
    wanted = np.broadcast_to(np.asarray(total.values, dtype=np.float64), (rows, outputs))
    if isinstance(total, PublicTotal):
        return _moved(explanation, wanted, 0.0, PROJECTED)
    moved = _moved(explanation, wanted, number("error", total.standard_error), PROJECTED)
    return replace(
        moved,
        guarantees=joint_guarantees([_origin(explanation), trained_privately(*total.guarantees)]),
        notes=tuple(note for note in moved.notes if note is not KnownNote.ALL_PUBLIC),
    )


def agreeing(first: Explanation, second: Explanation) -> tuple[Explanation, Explanation]:
    """Bring two releases of the same rows by one game, such as two levels, to the same sums.

    Each of the two results depends on both releases and carries the guarantees of both.

    >>> alike = {"base_values": 0.0, "notes": (KnownNote.ALL_PUBLIC,)}
    >>> fine = Explanation(values=[[0.3, 0.2]], feature_names=("age", "bmi"),
    ...                    standard_errors=[[0.1, 0.1]], **alike)
    >>> coarse = Explanation(values=[[0.4]], feature_names=("body",),
    ...                      standard_errors=[[0.1]], **alike)
    >>> one, other = agreeing(fine, coarse)
    >>> 0.4 < float(one.values.sum()) < 0.5, 0.4 < float(other.values.sum()) < 0.5
    (True, True)
    """
    if (len(first), first.output_names) != (len(second), second.output_names):
        raise InvalidInput("two releases agree on the same rows and outputs, found others")
    return _moved_to(first, second), _moved_to(second, first)


def within(explanation: Explanation, length: float) -> Explanation:
    """Shorten each row's vector to a public bound on its length.

    The nearest point of a ball that holds the truth is never further from it than the point itself.

    >>> noisy = Explanation(values=[[3.0, 4.0]], base_values=0.0, feature_names=("age", "bmi"))
    >>> within(noisy, 1.0).values.ravel().round(6).tolist()
    [0.6, 0.8]
    """
    short = clipped(explanation.values, width_of("length", length))
    return _without_errors(explanation, short, WITHIN)


def shrunk(explanation: Explanation) -> Explanation:
    """Shorten each row's vector of each output by the share that is likely to be noise.

    Assumes independent normal noise on three or more values. Lowers the expected squared error of
    the vector whatever the truth is; a single value may get worse.

    >>> noisy = Explanation(values=[[0.1, 0.1, 0.1]], base_values=0.0,
    ...                     feature_names=("age", "bmi", "sex"), standard_errors=[[0.1] * 3])
    >>> bool(np.allclose(shrunk(noisy).values, 2 / 3 * noisy.values))
    True
    """
    sigma, features = _sigma(explanation), explanation.shape[1]
    if features < 3:
        raise InvalidInput(f"shrinkage helps from three features on, found {features}")
    squares = (explanation.values**2).sum(axis=1, keepdims=True)
    noise = (features - 2) * sigma**2
    factor = 1 - noise / np.maximum(squares, noise)
    return _without_errors(explanation, explanation.values * factor, SHRUNK)


def _moved_to(mine: Explanation, other: Explanation) -> Explanation:
    deviation = math.sqrt(other.shape[1]) * _sigma(other)
    moved = _moved(mine, other.values.sum(axis=1), deviation, AGREEING)
    joint = joint_guarantees([_origin(mine), _origin(other)])
    # What is made from one private release is not made from public artefacts only.
    false = {KnownNote.ALL_PUBLIC} if joint else set()
    notes = dict.fromkeys((*mine.notes, *other.notes, AGREEING))
    kept = tuple(note for note in notes if note not in false)
    return replace(moved, guarantees=joint, notes=kept)


def _origin(released: Explanation) -> Origin:
    """What was promised about a release; refused if nothing was, though it is not public."""
    if not released.guarantees and not released.carries(KnownNote.ALL_PUBLIC):
        raise Refused(
            "only a released explanation can be joined with another; this one has no guarantee"
        )
    return trained_privately(*released.guarantees) if released.guarantees else PUBLIC


def _moved(
    explanation: Explanation, totals: NDArray[np.float64], deviation: float, note: str
) -> Explanation:
    sigma = _sigma(explanation)
    features = explanation.shape[1]
    # The least-squares estimate: with an exact total it removes the share 1/d of the variance.
    share = sigma**2 / (features * sigma**2 + deviation**2)
    missing = totals - explanation.values.sum(axis=1)
    values = explanation.values + share * missing[:, np.newaxis]
    left = sigma * math.sqrt(1 - share)
    normal = explanation.half_widths is not None and np.allclose(
        explanation.half_widths, NORMAL * sigma, rtol=1e-6
    )
    return replace(
        explanation,
        values=values,
        standard_errors=np.full(values.shape, left),
        half_widths=np.full(values.shape, NORMAL * left) if normal else None,
        notes=(*explanation.notes, note),
    )


def _sigma(explanation: Explanation) -> float:
    """The standard deviation of the noise, one for all values."""
    errors = explanation.standard_errors
    if errors is None or not np.all(errors == errors.flat[0]) or errors.flat[0] <= 0:
        raise InvalidInput(
            "refining needs a release that states one standard error for all its values; "
            "this explanation does not"
        )
    return float(errors.flat[0])


def _without_errors(
    explanation: Explanation, values: NDArray[np.float64], note: str
) -> Explanation:
    """The error of a single value is no longer known: only that of the vector is smaller."""
    return replace(
        explanation,
        values=values,
        standard_errors=None,
        half_widths=None,
        notes=(*explanation.notes, note),
    )
