"""Models that are tables: every game of a few players is one of them.

The explained row is 0 in every feature, background rows are 1, 2, ... in every feature. An input
that mixes the explained row with background row z is a coalition of the game of z, so a table with
one entry for each input holds all games at once, without any condition between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Schema
from voile.models import Box, WrappedModel, wrap
from voile.release import PUBLIC, PrivateBackgroundShapley
from voile.release.games import background_outputs, joint

Table = NDArray[np.float64]
EXPLAINED = 0.0


def schema(players: int, values: int = 4) -> Schema:
    listed = tuple(str(value) for value in range(values))
    return Schema("table", tuple(Feature(f"f{i}", Categories(listed)) for i in range(players)))


def model(table: Table, lower: float = 0.0, upper: float = 1.0) -> WrappedModel:
    """Reads `table`, of shape (values,) * players, every time it is asked."""

    def look_up(rows: NDArray[np.float64]) -> Any:
        return table[tuple(rows.astype(np.intp).T)]

    return wrap(
        look_up, outputs=Box(lower, upper), digest="a table", treats_rows_independently=True
    )


def release(
    table: Table,
    background: NDArray[np.float64],
    relation: Relation = Relation.REPLACE_ONE,
    **settings: Any,
) -> PrivateBackgroundShapley:
    chosen: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "origins": [PUBLIC]}
    return PrivateBackgroundShapley(
        settings.pop("wrapped", model(table)),
        background,
        schema=schema(table.ndim, table.shape[0]),
        protected=Protected(ProtectedUnit.ROW, relation, "rows 1"),
        **{**chosen, **settings},
    )


def background(players: int, *rows: float) -> NDArray[np.float64]:
    """Rows that have one value in every feature; NaN is the null record."""
    return np.repeat(np.array(rows)[:, np.newaxis], players, axis=1)


def without_noise(of: PrivateBackgroundShapley) -> NDArray[np.float64]:
    """Values and base value of the explained row, computed anew."""
    fresh = replace(of.games)
    row = np.full((1, of.players), EXPLAINED)
    found: NDArray[np.float64] = joint(fresh, row, background_outputs(fresh))[0]
    return found
