"""Invented models and rows on which releases lie as close to their bounds as is known how.

A release over background rows plays a game v(T) between the explained row x and each background row
b. The canary's game and the one that stands against it differ as much as any two can, up where
player one is present and down where not: v(T) = high if one ∈ T, else low, against the centre
everywhere ("zero-out") or against the reverse ("replace one"). Both agree on the full coalition,
as they must. For two players that attains the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.explanation import Explanation
from voile.core.schema import Categories, Numbers, Rows, Schema
from voile.models import DeclaredOutputs, Simplex, WrappedModel, wrap
from voile.release.records import PerRow


@dataclass(frozen=True, eq=False)
class InventedGame:
    """Who is explained, who is the canary and who stands against it, and what a model makes of it.

    The row of defaults stands against the canary: whoever forgets what a null record is puts the
    defaults in its place, and turns "zero-out" into "replace one".

    Args:
        schema: the real one; public.
    """

    schema: Schema

    @property
    def against(self) -> Rows:
        return self.schema.null_row[np.newaxis].copy()

    @property
    def explained(self) -> Rows:
        """Differs from the row of defaults in the first player's feature alone."""
        row = self.against
        row[0, self.first] = self._others(self.first)[0]
        return row

    @property
    def canary(self) -> Rows:
        """Differs from both in every feature, as far as there are values."""
        row = self.against
        for place in range(len(self.schema.features)):
            others = self._others(place)
            row[0, place] = others[-1] if place != self.first or len(others) > 1 else row[0, place]
        return row

    def third(self, one: Rows, two: Rows) -> Rows:
        """Differs from two rows in every feature that has three values; from the first in all."""
        row = two.copy()
        for place, default in enumerate(self.against[0]):
            left = [
                v
                for v in (default, *self._others(place))
                if v not in (one[0, place], two[0, place])
            ]
            row[0, place] = left[0] if left else two[0, place]
        return row

    @property
    def opposite(self) -> Rows:
        """Differs from the row of defaults in every feature that has two values."""
        return self.third(self.against, self.against)

    @property
    def first(self) -> int:
        """The feature that says whether player one is present: with three values, if one has."""
        return max(range(len(self.schema.features)), key=lambda place: len(self._others(place)))

    def _others(self, place: int) -> list[float]:
        """One or two values of a feature besides its default."""
        feature = self.schema.features[place]
        domain = feature.domain
        if isinstance(domain, Categories):
            found = [float(i) for i in range(len(domain.values))]
        else:
            assert isinstance(domain, Numbers)
            inner = [domain.lower + 1] if domain.whole else [(3 * domain.lower + domain.upper) / 4]
            found = [domain.upper, *inner, domain.lower]
        return list(dict.fromkeys(v for v in found if v != feature.null_value))[:2]

    def model(self, outputs: DeclaredOutputs, count: int) -> WrappedModel:
        """Row by row; answers with two far corners of the declared set."""
        first, low, high = self.first, *corners(outputs, count)
        mine, canary, other = self.explained[0], self.canary[0], self.against[0]
        telling = canary != other

        def forward(rows: Any) -> NDArray[np.float64]:
            shows = (rows == canary) & telling
            shows[:, first] = False
            absent = (rows[:, first] == other[first]) & (other[first] != canary[first])
            up = np.where(rows[:, first] == mine[first], shows.any(axis=1), absent)
            return np.where(up[:, np.newaxis], high, low)

        return wrap(forward, outputs=outputs, digest="invented", treats_rows_independently=True)

    def mixing_model(self, outputs: DeclaredOutputs, count: int) -> WrappedModel:
        """One row that shows the canary turns the answers of its whole batch; not declared."""
        first, low, high = self.first, *corners(outputs, count)
        value, default = self.canary[0, first], self.against[0, first]

        def forward(rows: Any) -> NDArray[np.float64]:
            up = bool((rows[:, first] == value).any()) and value != default
            return np.tile(high if up else low, (len(rows), 1))

        return wrap(forward, outputs=outputs, digest="invented, mixing rows")


def corners(
    outputs: DeclaredOutputs, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two points of the set that lie as far apart as any."""
    if isinstance(outputs, Simplex):
        return np.eye(count)[0], np.eye(count)[1]
    ends = [outputs.clamp(np.full((1, count), value))[0][0] for value in (-1e300, 1e300)]
    return ends[0], ends[1]


@dataclass(frozen=True, eq=False)
class InventedExplainer:
    """Explains some rows by vectors of their own, and all others by the last one.

    Args:
        rows: that are recognised, (r, d).
        vectors: of these, (r + 1, players, outputs).
        names: of players and outputs.
    """

    rows: Rows
    vectors: NDArray[np.float64]
    names: tuple[tuple[str, ...], tuple[str, ...]]

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows = np.asarray(X, dtype=np.float64)
        same = (rows[:, np.newaxis] == self.rows[np.newaxis]).all(axis=2)
        place = np.where(same.any(axis=1), same.argmax(axis=1), len(self.rows))
        return Explanation(
            values=self.vectors[place],
            base_values=np.zeros(self.vectors.shape[2]),
            feature_names=self.names[0],
            output_names=self.names[1],
        )


class MemorisingExplainer:
    """`PerRow` that explains a row once: rows are explained one by one, by nothing that is drawn.

    Stands in place of a release's own, so that noise can be drawn many times over the same rows.
    """

    def __init__(self, inner: PerRow) -> None:
        self._inner, self._known = inner, dict[bytes, NDArray[np.float64]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def vectors(self, rows: Any) -> NDArray[np.float64]:
        array = np.ascontiguousarray(rows, dtype=np.float64)
        key = array.tobytes()
        if key not in self._known:
            self._known[key] = self._inner.vectors(array)
        return self._known[key].copy()
