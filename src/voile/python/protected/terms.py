"""What a protected explainer is told, checked before a protected row is read."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Final

import numpy as np

from voile.attribution import is_exact
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, RowPart
from voile.core.schema import RawColumn, Schema
from voile.models import Unbounded
from voile.python.budget import Budget

MOST_ROWS: Final = 1_000
"""Protected background rows that exact values are computed over without being asked."""
UNSTATED: Final[Any] = object()
PARTS: Final = {
    "background": RowPart.BACKGROUND,
    "population": RowPart.POPULATION,
    "explained": RowPart.EXPLAINED,
    "training": RowPart.TRAINING,
}
"""Whose rows are protected, in the words of Python."""


def needed_budget(budget: Budget | None, protect: RowPart) -> Budget:
    """The budget; refused without one."""
    if budget is not None:
        return check_budget(budget)
    pays = "it is put on record there" if protect is RowPart.TRAINING else "it pays"
    raise InvalidInput(
        f"budget: say which budget; {pays}: "
        'budget=voile.Budget("clinic 2026", epsilon=3, delta=1e-6)'
    )


def check_budget(given: Any) -> Budget:
    """As it was given, if it is one."""
    if not isinstance(given, Budget):
        raise InvalidInput(f"budget: expected a voile.Budget, found a {type(given).__name__}")
    return given


def given_schema(given: Any) -> Schema:
    """The schema, its declaration, or a file; refused without one."""
    if isinstance(given, Schema):
        return given
    if isinstance(given, Mapping):
        return Schema(given)
    if given is None:
        raise InvalidInput(
            "schema: say which values are possible; they are never read from protected rows: "
            'schema=voile.Schema({"age": (18, 100), "sex": ["f", "m"]})'
        )
    if not isinstance(given, str | PathLike):
        raise InvalidInput(f"schema: expected a voile.Schema, found a {type(given).__name__}")
    return Schema.load(given)


def check_figures(**figures: Any) -> None:
    """Prices and noise are positive numbers."""
    for name, figure in figures.items():
        is_number = isinstance(figure, int | float | np.number) and not isinstance(figure, bool)
        if figure is not None and not (is_number and 0 < figure < np.inf):
            raise InvalidInput(f"{name}: expected a number above 0, found {figure!r:.80}")


def check_origin(origin: str | None, protect: RowPart, *, named: bool) -> None:
    """The promise rests on it, so nobody assumes it; an artefact records its own."""
    if origin is None and not named:
        raise InvalidInput(
            "model_origin: say what the model was trained on, because the promise about "
            f'{word_of(protect)} rows rests on it: model_origin="public", "trained-on:LABEL" with '
            "the label of that data set, or a JSON file with the guarantees of its training"
        )


def check_background(
    background: Any, terms: Mapping[str, Any], protect: RowPart, *, named: bool
) -> None:
    """A background that is not protected is used as if anybody might see it: somebody says so."""
    if background is None and protect is RowPart.BACKGROUND and not named:
        raise InvalidInput(
            "background: pass the protected rows, voile.Explainer(model, X_private, "
            'protect="background", ...)'
        )
    if background is None or protect is RowPart.BACKGROUND:
        return
    if terms.get("background_origin") is None:
        itself = (
            "To explain a protected population over itself, leave it out and pass the population "
            "in the call. "
            if protect is RowPart.POPULATION
            else ""
        )
        raise InvalidInput(
            f"background_origin: with protect={word_of(protect)!r} the background is used as "
            f'public rows. {itself}If anybody may see it: background_origin="public"'
        )


def check_range(model: Any, stated: Any, protect: RowPart) -> None:
    """Noise is made for the width of the output, which nobody reads off protected rows."""
    outputs = getattr(model, "outputs", None)
    if isinstance(outputs, Unbounded) and stated is None and protect is not RowPart.TRAINING:
        raise InvalidInput(
            "output_range: the model does not say where its output lies, and noise is made for "
            "that width. Declare it: output_range=(smallest, largest); outputs outside are clamped"
        )


def check_unit(budget: Budget, protect: RowPart) -> None:
    """The unit of the budget has to be what is protected."""
    if protect is RowPart.TRAINING:
        return
    one_by_one = protect is RowPart.EXPLAINED
    unit = budget.protected.unit
    if one_by_one != (unit is ProtectedUnit.EXPLAINED_ROW):
        wanted = ProtectedUnit.EXPLAINED_ROW if one_by_one else ProtectedUnit.ROW
        raise Refused(
            f"protect={word_of(protect)!r} needs a budget for the unit {wanted.value!r}, and "
            f"{budget.account!r} is for {unit.value!r}: open another one, "
            f"Budget(..., unit={wanted.value!r})"
        )


def word_of(protect: RowPart) -> str:
    """Whose rows are protected, in the words of Python."""
    return next(word for word, part in PARTS.items() if part is protect)


def same_rows(protect: RowPart) -> str:
    """Why rows cannot be the background and be explained at once."""
    if protect is RowPart.BACKGROUND:
        return (
            "these rows are the protected background, and an explanation shows the rows that it "
            "explains: pass other rows"
        )
    return (
        "these rows are the background already: leave the background out to explain a population "
        "over itself, or pass other rows"
    )


def thinned(
    columns: dict[str, RawColumn], most: Any, schema: Schema | None
) -> dict[str, RawColumn]:
    """So many protected rows as somebody asked for, drawn at random; refused if nobody said."""
    count = len(next(iter(columns.values())))
    if most is UNSTATED and count > MOST_ROWS:
        raise InvalidInput(_too_many(count, schema))
    if most is UNSTATED or most is None:
        return columns
    if not isinstance(most, int | np.integer) or isinstance(most, bool) or most < 1:
        raise InvalidInput(
            f"background_rows: expected a number of rows, or None for all, found {most!r}"
        )
    if most >= count:
        return columns
    kept = np.sort(np.random.default_rng().choice(count, int(most), replace=False))
    return {name: column[kept] for name, column in columns.items()}


def _too_many(count: int, schema: Schema | None) -> str:
    players = 0 if schema is None else len(schema.feature_names)
    work = ""
    if players and is_exact(players):
        work = f", up to {count * 2**players:,} model evaluations for each row"
    return (
        f"the protected background has {count:,} rows{work}. Say background_rows={MOST_ROWS} to "
        "use so many of them, drawn at random, or background_rows=None for all of them: more rows "
        "need less noise and more time"
    )
