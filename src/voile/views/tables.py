"""Tables for a terminal."""

from __future__ import annotations

from typing import Final

from rich.table import Table
from rich.text import Text

from voile.app.explain.released import ReleasedExplanation
from voile.app.explain_rows import named_features
from voile.core.description import Description, FeatureContribution, Uncertainty

_MOST_COLUMNS: Final = 4


def explanation_table(explained: ReleasedExplanation, top: int | None) -> Table:
    """A column for each row and output if they are few, else the mean of absolute values."""
    (rows, _, outputs), whole = explained.explanation.shape, explained.describe()
    wide = rows * outputs <= _MOST_COLUMNS
    shown = [explained.describe(row) for row in range(rows)] if wide else [whole]
    chosen = [set(explained.explanation.feature_names)] * len(shown)
    if top is not None:
        named = named_features(explained.explanation, top)
        chosen = [set(names) for names in named] if wide else [set[str]().union(*named)]
    table = Table("feature", title=_title(shown[0], rows), caption=_meaning(whole))
    columns = ["value"] * whole.shows_values
    columns += [
        each.name if len(shown) == 1 else f"row {row}: {each.name}"
        for row, part in enumerate(shown, start=1)
        for each in part.outputs
    ]
    for column in columns:
        table.add_column(column)
    for first in whole.outputs[0].contributions:
        if not any(first.feature in names for names in chosen):
            continue
        cells = [
            _cell(each.contribution(first.feature), value=len(shown) > 1)
            if first.feature in names
            else ""
            for part, names in zip(shown, chosen, strict=True)
            for each in part.outputs
        ]
        table.add_row(first.feature, *[first.value_text] * whole.shows_values, *cells)
    return table


def _title(described: Description, rows: int) -> str:
    outputs = described.outputs
    to = f" to {outputs[0].title}" if len(outputs) == 1 else ""
    return f"{described.measure}{to}" + (f", {rows} rows" if described.rows > 1 else "")


def _meaning(described: Description) -> str | None:
    """What ± and brackets mean; nothing where all is exact."""
    if described.uncertainty is Uncertainty.EXACT:
        return None
    return f"±: {described.uncertainty}; in brackets: cannot be told from zero"


def _cell(each: FeatureContribution, *, value: bool) -> Text | str:
    """A contribution; dim and in brackets where it cannot be told from zero.

    Args:
        value: whether the value of the row stands there as well.
    """
    own = f"\n{each.value_text}" if value and each.value_text else ""
    return f"{each.text}{own}" if each.distinguishable else Text(f"({each.text}){own}", "dim")
