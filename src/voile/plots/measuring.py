"""What a picture of attributions draws: lengths, where they end with 95 %, and what is left over.

One place for all pictures, so that a bar and a whisker of the same number agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_words import Wording
from voile.core.row_note import KnownNote
from voile.core.schema import Schema


@dataclass(frozen=True)
class Measured:
    """Features from the strongest on; the last entry adds up those that have none of their own.

    Args:
        places: of the features that are drawn by themselves.
        names: one more than places if there is a rest.
        lengths: shape (entries, outputs).
        low, high: where each length lies with 95 %; None if nothing is known to be uncertain.
        signed: attributions of one row; else sizes, which are never below 0.
        meaning: what a length is, for the axis.
    """

    places: tuple[int, ...]
    names: tuple[str, ...]
    lengths: NDArray[np.float64]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None
    signed: bool
    meaning: str

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Which lengths can be told from zero, shape (entries, outputs)."""
        if self.low is None or self.high is None:
            return np.ones(self.lengths.shape, dtype=bool)
        told: NDArray[np.bool_] = (self.low > 0) | (self.high < 0)
        return told


def measure(explanation: Explanation, most: int, schema: Schema | None = None) -> Measured:
    """Attributions of one row with their signs, or the mean size of those of several.

    Errors of different features are taken to be independent, as privacy noise is: those of the rest
    add up in quadrature. The error of a mean of sizes is at most the mean of the errors.

    Args:
        most: how many features are drawn by themselves, at least one.
        schema: of the rows, for what the output is.
    """
    if most < 1:
        raise InvalidInput(f"at least one feature must be drawn, found most={most}")
    absolute = explanation.carries(KnownNote.ABSOLUTE)
    signed = len(explanation) == 1 and not absolute
    # Noise moves a small mean of sizes below 0; the nearest size that there can be is 0.
    sizes = explanation.values if absolute else np.abs(explanation.values)
    centre = explanation.values[0] if signed else sizes.mean(axis=0)
    spread = explanation.reach
    reach = None if spread is None else spread.mean(axis=0)
    order = np.argsort(-np.abs(centre).sum(axis=1), kind="stable")
    shown, rest = order[:most], order[most:]
    names = [explanation.feature_names[place] for place in shown]
    if len(rest):
        names.append(f"{len(rest)} others")
        centre = np.vstack([centre[shown], centre[rest].sum(axis=0)])
        if reach is not None:
            reach = np.vstack([reach[shown], np.sqrt((reach[rest] ** 2).sum(axis=0))])
    else:
        centre, reach = centre[shown], None if reach is None else reach[shown]
    smallest = -np.inf if signed else 0.0
    return Measured(
        tuple(shown.tolist()),
        tuple(names),
        np.maximum(centre, smallest),
        None if reach is None else np.maximum(centre - reach, smallest),
        None if reach is None else np.maximum(centre + reach, smallest),
        signed,
        _meaning(explanation, schema, signed=signed),
    )


def _meaning(explanation: Explanation, schema: Schema | None, *, signed: bool) -> str:
    what = str(KnownNote.SUMMED) if explanation.carries(KnownNote.SUMMED) else "attribution"
    if explanation.carries(KnownNote.NAMES_ONLY):
        what = "named (+1 raises, -1 lowers)"
    to = f" to {Wording(explanation, schema).output(0)}" if explanation.shape[2] == 1 else ""
    return (what if signed else f"mean |{what}|") + to
