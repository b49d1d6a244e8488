"""A view as a pandas table or as plain values. The guarantee goes with both."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.explanation import NO_GUARANTEE
from voile.core.optional import optional
from voile.core.row_note import KnownNote, note_to_plain
from voile.python.view.cells import is_missing
from voile.python.view.state import FEATURE, OUTPUT, ROW, ViewState

DataFrame: TypeAlias = Any
"""Of pandas, which is loaded where one is made."""


def frame_of(state: ViewState) -> DataFrame:
    """A row for each row and a column for each feature; of one row, a row for each feature."""
    frame = _of_one_row(state) if ROW in state.dropped else _of_rows(state)
    return _labelled(frame, state)


def long_frame(state: ViewState) -> DataFrame:
    """One contribution in each row."""
    core, (rows, features, outputs) = state.core, state.core.shape
    columns: dict[str, Any] = {
        "row": np.repeat(state.index, features * outputs),
        "feature": np.tile(np.repeat(core.feature_names, outputs), rows),
    }
    if (shown := _shown(state)) is not None:
        columns["value"] = np.repeat(shown.ravel(), outputs)
    if OUTPUT not in state.dropped:
        columns["output"] = np.tile(core.output_names, rows * features)
    columns["contribution"] = core.values.ravel()
    if core.reach is not None:
        columns["low"] = (core.values - core.reach).ravel()
        columns["high"] = (core.values + core.reach).ravel()
    return _labelled(optional("pandas", extra="explain").DataFrame(columns), state)


def _of_rows(state: ViewState) -> DataFrame:
    pandas, core = optional("pandas", extra="explain"), state.core
    cells = core.values.transpose(0, 2, 1).reshape(len(core), -1)
    columns: Any = list(core.feature_names)
    if OUTPUT not in state.dropped:
        columns = pandas.MultiIndex.from_product(
            [core.output_names, core.feature_names], names=["output", "feature"]
        )
    return pandas.DataFrame(cells, index=state.index, columns=columns)


def _of_one_row(state: ViewState) -> DataFrame:
    core = state.core
    columns: dict[str, Any] = {}
    if (shown := _shown(state)) is not None:
        columns["value"] = shown[0]
    single = OUTPUT in state.dropped
    measure = "importance" if core.carries(KnownNote.ABSOLUTE) else "contribution"
    for place, name in enumerate(core.output_names):
        columns[measure if single else name] = core.values[0, :, place]
        if core.reach is not None:
            prefix = "" if single else f"{name} "
            columns[f"{prefix}low"] = core.values[0, :, place] - core.reach[0, :, place]
            columns[f"{prefix}high"] = core.values[0, :, place] + core.reach[0, :, place]
    pandas = optional("pandas", extra="explain")
    return pandas.DataFrame(columns, index=pandas.Index(core.feature_names, name="feature"))


def _labelled(frame: DataFrame, state: ViewState) -> DataFrame:
    """With what must travel with the numbers."""
    frame.attrs["guarantees"] = list(map(str, state.core.guarantees)) or [NO_GUARANTEE]
    frame.attrs["notes"] = list(map(str, state.core.notes))
    frame.attrs["base_values"] = state.seen(state.core.base_values, (ROW, OUTPUT)).tolist()
    return frame


def _shown(state: ViewState) -> NDArray[Any] | None:
    return state.core.data if state.display is None else state.display


# --- plain values ---------------------------------------------------------------------------------


def plain(state: ViewState) -> dict[str, Any]:
    """Lists, texts and numbers; the guarantees first, and nothing that is not there."""
    core = state.core
    both = (ROW, FEATURE)
    found = {
        "guarantees": [each.to_dict() for each in core.guarantees],
        "notes": [note_to_plain(note) for note in core.notes],
        "method": state.method,
        "feature_names": state.names(FEATURE),
        "output_names": state.names(OUTPUT),
        "base_values": _listed(state.seen(core.base_values, (ROW, OUTPUT))),
        "values": _listed(state.seen(core.values)),
        "data": _listed(state.seen(_shown(state), both)),
        "standard_errors": _listed(state.seen(core.standard_errors)),
        "half_widths": _listed(state.seen(core.half_widths)),
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _listed(cells: Any) -> Any:
    if isinstance(cells, np.ndarray):
        return [_listed(each) for each in cells]
    if is_missing(cells):
        return None
    if isinstance(cells, np.generic):
        return cells.item()
    return cells if isinstance(cells, str | int | float) else str(cells)
