"""Exact Shapley values of a surrogate, groups included, several rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import members, shapley_share
from voile.attribution.exact import check_player_count
from voile.attribution.fastshap.surrogate import Surrogate
from voile.attribution.settings import Speed
from voile.core.explanation import Explanation


def exact_values(surrogate: Surrogate, X: Any, *, speed: Speed | None = None) -> Explanation:  # noqa: N803
    """What a learned explainer of this surrogate tries to say, computed from all coalitions."""
    speed = Speed() if speed is None else speed
    check_player_count(surrogate.players.count)
    rows = surrogate.read(X)
    parts = []
    for start, row in enumerate(rows):
        parts.append(_row(surrogate, row, speed.batch_rows))
        speed.report(start + 1, len(rows))
    return Explanation(
        values=np.stack(parts),
        base_values=surrogate.base,
        feature_names=surrogate.players.names,
        output_names=surrogate.output_names,
        data=rows if surrogate.players.single else None,
    )


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
