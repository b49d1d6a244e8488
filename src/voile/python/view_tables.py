"""A view as a pandas table or as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from voile.core.optional import optional
from voile.python.view_state import FEATURE, OUTPUT, ROW, ViewState


def wide_frame(state: ViewState) -> Any:
    pandas = optional("pandas", extra="explain")
    core = state.core
    rows = range(len(core)) if state.index is None else state.index
    table = core.values.transpose(0, 2, 1).reshape(len(core), -1)
    columns: Any = list(core.feature_names)
    if OUTPUT not in state.dropped:
        columns = pandas.MultiIndex.from_product([core.output_names, core.feature_names])
    return pandas.DataFrame(table, index=rows, columns=columns)


def long_frame(state: ViewState) -> Any:
    pandas = optional("pandas", extra="explain")
    core = state.core
    rows, features, outputs = core.shape
    index = np.arange(rows) if state.index is None else np.asarray(state.index)
    return pandas.DataFrame(
        {
            "row": np.repeat(index, features * outputs),
            "feature": np.tile(np.repeat(core.feature_names, outputs), rows),
            "output": np.tile(core.output_names, rows * features),
            "contribution": core.values.ravel(),
        }
    )


def plain(state: ViewState) -> dict[str, Any]:
    core = state.core
    found = {
        "guarantees": [each.to_dict() for each in core.guarantees],
        "method": state.method,
        "feature_names": state.names(FEATURE),
        "output_names": state.names(OUTPUT),
        "base_values": state.seen(core.base_values, (ROW, OUTPUT)).tolist(),
        "values": state.seen(core.values).tolist(),
    }
    return found
