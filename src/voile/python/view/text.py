"""What a view says: as data for every picture and page, and in a terminal."""

from __future__ import annotations

from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Final

import numpy as np

from voile.core.explanation import NO_GUARANTEE
from voile.core.explanation_checks import counted, shortened
from voile.core.row_note import KnownNote, was_filled
from voile.python.view.cells import cell_text, is_missing
from voile.python.view.state import ROW, ViewState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from voile.core.description import Description, FeatureContribution
    from voile.core.explanation import Explanation
    from voile.core.schema import Schema

_MOST_FEATURES: Final = 8
_MOST_OUTPUTS: Final = 3
_WIDTH: Final = 88
_LONGEST_NAME: Final = 32
_LONGEST_VALUE: Final = 24
_PUBLIC: Final = "no privacy guarantee is needed: made from public artefacts only"


# --- as data --------------------------------------------------------------------------------------


def describe_state(
    state: ViewState, row: int | None, output: str | None, most: int | None, schema: Schema | None
) -> Description:
    """What is seen, in the words of a schema if there is one, else as people wrote their rows."""
    core = state.core if row is None else state.core[row]
    released = state.released
    if schema is None and (released is None or released.schema is None):
        core = _in_own_words(core, state, row)
    if released is not None:
        return replace(released, explanation=core).describe(output=output, most=most, schema=schema)
    return core.describe(output=output, most=most, schema=schema)


def _in_own_words(core: Explanation, state: ViewState, row: int | None) -> Explanation:
    if state.display is None or len(core) != 1:
        return core
    cells = state.display[0 if row is None else row]
    texts = [
        "" if was_filled(core.notes, name, row=0) and is_missing(cell) else cell_text(cell)
        for name, cell in zip(core.feature_names, cells, strict=True)
    ]
    return replace(core, data=np.array([texts], dtype=np.str_))


# --- in a terminal --------------------------------------------------------------------------------


def written(state: ViewState) -> str:
    """The guarantee first, then the largest contributions with the values of the row."""
    described = describe_state(state, None, None, _MOST_FEATURES, None)
    lines = [*_promises(described), _size(state)]
    lines += [fill(f"note: {note}", _WIDTH) for note in described.notes]
    if len(state.core) == 1:
        lines += _predictions(described)
    lines += ["", *_table(described)]
    if state.released is not None:
        lines += ["", state.released.payment]
    return "\n".join(lines)


def _promises(described: Description) -> list[str]:
    none = _PUBLIC if described.is_public else NO_GUARANTEE
    promises = [f"guarantee: {each}" for each in described.guarantees] or [none]
    alarms = [f"Do not use it as it is. {line}" for line in described.alarms]
    return [fill(line, _WIDTH, subsequent_indent="  ") for line in [*promises, *alarms]]


def _size(state: ViewState) -> str:
    _, features, outputs = state.core.shape
    names = shortened(state.core.output_names, _MOST_OUTPUTS)
    said = [_rows(state), counted(features, "feature")]
    said.append(f"{counted(outputs, 'output')}: {names}" if outputs > 1 else f"output: {names}")
    return ", ".join([*said, f"method: {state.method}"] if state.method else said)


def _rows(state: ViewState) -> str:
    """How many, or which one, or what all of them were made into."""
    for step in reversed(state.steps):
        if step.collapsed_instances:
            return f"{step.name} of {counted(step.prev_shape[0], 'row')}"
    if state.core.carries(KnownNote.ABSOLUTE):
        return "a population"
    one = ROW in state.dropped
    return f"row {state.index[0]}" if one else counted(len(state.core), "row")


def _predictions(described: Description) -> list[str]:
    """How contributions lead to each prediction that may be shown."""
    return [
        f"{each.title}: base {each.prediction.base_text} → prediction {each.prediction.value_text}"
        + (f" ± {each.prediction.noise:.2g}" if each.prediction.noise else "")
        for each in described.outputs[:_MOST_OUTPUTS]
        if each.prediction is not None
    ]


def _table(described: Description) -> list[str]:
    outputs = described.outputs[:_MOST_OUTPUTS]
    measure = described.measure.replace("attribution", "contribution")
    columns = [["feature", *(_cut(each.feature, _LONGEST_NAME) for each in _first(described))]]
    if described.shows_values:
        values = (_cut(each.value_text, _LONGEST_VALUE) for each in _first(described))
        columns.append(["value", *values])
    for each in outputs:
        heading = measure if len(outputs) == 1 else each.name
        columns.append([heading, *(part.text for part in each.contributions)])
    amounts = len(outputs)
    lines = _aligned(columns, right=range(len(columns) - amounts, len(columns)))
    hidden = len(described.outputs) - amounts
    title = [f"  {measure} to"] if amounts > 1 else []
    return [*title, *lines, *([f"  and {counted(hidden, 'more output')}"] if hidden else [])]


def _first(described: Description) -> tuple[FeatureContribution, ...]:
    """All outputs have the same features in the same order."""
    return described.outputs[0].contributions


def _aligned(columns: Sequence[Sequence[str]], right: Iterable[int]) -> list[str]:
    widths = [max(map(len, column)) for column in columns]
    to_the_right = set(right)
    return [
        "  "
        + "  ".join(
            cell.rjust(widths[place]) if place in to_the_right else cell.ljust(widths[place])
            for place, cell in enumerate(line)
        ).rstrip()
        for line in zip(*columns, strict=True)
    ]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
