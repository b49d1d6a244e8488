"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from voile.app.explain.released import ReleasedExplanation
from voile.app.explain_rows import named_features
from voile.core.description import Description, FeatureContribution, Uncertainty
from voile.core.explanation import Explanation
from voile.views.text import judged, reasons

if TYPE_CHECKING:
    from voile.app.budgets import AccountUse
    from voile.app.demo import Demo
    from voile.core.schema.schema import ColumnFinding, ColumnReport

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


def strength_table(strength: Mapping[str, float], rows: int) -> Table:
    """How much each feature moves the output of a large table, strongest first."""
    table = Table("feature", "mean of absolute contributions", title=f"{rows:,} rows")
    for feature, mean in strength.items():
        table.add_row(feature, f"{mean:.3g}")
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


def folded_table(*headings: str) -> Table:
    """A table that shows every cell to the last letter, however narrow the terminal is."""
    table = Table()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def demo_table(result: Demo) -> Table:
    """How good the private model is, beside others, where the truth is known."""
    table = Table()
    table.add_column("on patients of no hospital", overflow="fold")
    for heading in ("AUC", "log-loss", "explanations: cosine to the truth"):
        table.add_column(heading, justify="right")
    for name, each in result.judged.items():
        cosine = "" if each.cosine is None else f"{each.cosine:.3f}"
        table.add_row(name, f"{each.auc:.3f}", f"{each.log_loss:.3f}", cosine)
    return table


def quality_table(quality: Mapping[str, Any]) -> Table:
    """How good a trained model is."""
    table = folded_table("how good", "figure", "95 % interval", "constant guess")
    for words, found in judged(quality):
        for name, each in found["figures"].items():
            interval = f"{each['low']:.3f} to {each['high']:.3f}"
            table.add_row(
                f"{name} ({words})", f"{each['figure']:.3f}", interval, f"{each['baseline']:.3f}"
            )
    return table


def findings_table(title: str, outside: Sequence[tuple[ColumnReport, ColumnFinding]]) -> Table:
    """What is wrong with columns."""
    table = folded_table("column", "problem", "values", "examples (first row)")
    table.title = title
    for column, finding in outside:
        examples = ", ".join(f"{example.value} ({example.row})" for example in finding.examples)
        table.add_row(column.name, str(finding.problem), str(finding.count), examples)
    return table


def recommendations_table(explanation: Explanation) -> Table:
    """A line for each recommendation: its score, and what adds most to it."""
    explained = explanation.feature_names != ("score",)
    table = Table("recommendation", "score", *(["because of"] if explained else []))
    for output, name in enumerate(explanation.output_names):
        base = explanation.base_values[0, output]
        score = f"{base + explanation.values[0, :, output].sum():.3g}"
        table.add_row(
            name, score, *([", ".join(reasons(explanation, output))] if explained else [])
        )
    return table


def accounts_table(accounts: Sequence[AccountUse]) -> Table:
    """Budgets, those below others indented."""
    depth: dict[str, int] = {}
    table = Table("account", "promise", "composition", "used", "risk", "period", title="Budgets")
    for each in accounts:
        depth[each.account] = depth.get(each.parent or "", -1) + 1
        table.add_row(
            "  " * depth[each.account] + each.account,
            f"ε = {each.epsilon:g}, δ = {each.delta:g}",
            each.composition,
            f"{each.consumed:.1%}",
            each.risk,
            str(each.period),
        )
    return table
