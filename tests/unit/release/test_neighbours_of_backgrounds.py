"""Neighbouring backgrounds cannot be told apart from outside: a fuzzer over pairs of them.

Whatever somebody outside can observe beside the noise (errors, warnings, shapes, names, notes,
errors and guarantees, cost, preview, what is printed) must be the same for both.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protecting import row_of
from voile.attribution import CONSTANT_WORK, ExactShapley, Speed
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import Box, WrappedModel, wrap
from voile.release import (
    PUBLIC,
    ByExplainer,
    OverItself,
    PrivateBackgroundShapley,
    PrivateGlobalImportance,
    PrivateHistograms,
)

SCHEMA = Schema(
    "fuzzed",
    (
        Feature("age", Numbers(0.0, 9.0)),
        Feature("sex", Categories(("f", "m"))),
        Feature("dose", Numbers(0, 3, whole=True)),
    ),
)
PUBLIC_ROWS = np.array([[1.0, 0.0, 2.0], [4.5, 1.0, 1.0]])
NAUGHTY = [-1.0, 1e300, np.inf, -np.inf, np.nan, 6.5, 7.5, 8.5]

numbers = st.one_of(st.sampled_from(NAUGHTY), st.floats(0, 9), st.integers(-2, 12))
cells = st.tuples(
    numbers,
    st.one_of(st.sampled_from(["f", "m", "x", "", None, 3]), numbers),
    st.one_of(numbers, st.sampled_from(["1", "many", None])),
)
three = st.lists(cells, min_size=3, max_size=3)


def wicked(rows: Any) -> Any:
    """Fails in another way for each of several ages, and only there."""
    age = rows[:, 0]
    if ((age > 7) & (age < 8)).any():
        raise ValueError(f"I do not like {age.max()}")
    if ((age > 8) & (age < 8.8)).any():
        warnings.warn("somebody is old", stacklevel=1)
    if (age >= 8.8).any():
        return "nonsense"
    with np.errstate(all="warn"):
        answer = age / 9 + 0.0 * np.log(rows[:, 2])  # NaN and a warning where the dose is 0
    answer[(age > 6) & (age < 7)] = np.inf
    return answer


def always(rows: Any) -> Any:
    return np.tanh(rows.sum(axis=1))


def model(forward: Callable[[Any], Any]) -> WrappedModel:
    return wrap(forward, outputs=Box(0, 1), digest="fuzzed")


def as_table(records: list[tuple[Any, Any, Any]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in records] for i, name in enumerate(SCHEMA.feature_names)}


def as_array(records: list[tuple[Any, Any, Any]]) -> Any:
    def number(cell: Any) -> float:
        return float(cell) if isinstance(cell, int | float) else {"f": 0.0, "m": 1.0}.get(cell, 5.0)

    return np.array([[number(cell) for cell in row] for row in records])


CHARGED: dict[str, Any] = {
    "protected": row_of("d", Relation.REPLACE_ONE),
    "epsilon": 1.0,
    "delta": 1e-5,
}


def over_background(forward: Any, records: Any, **more: Any) -> Any:
    release = PrivateBackgroundShapley(
        model(forward), records, schema=SCHEMA, origins=[PUBLIC], **CHARGED, **more
    )
    return release, release.draw(PUBLIC_ROWS)


def constant_work(forward: Any, records: Any) -> Any:
    return over_background(forward, records, speed=Speed(short_cuts=CONSTANT_WORK))


def population(source: Any, records: Any) -> Any:
    release = PrivateGlobalImportance(
        source, origins=[PUBLIC], model="fuzzed", name="exact", **CHARGED
    )
    return release, release.draw(records)


def by_explainer(forward: Any, records: Any) -> Any:
    explainer = ExactShapley(model(forward), PUBLIC_ROWS, schema=SCHEMA)
    return population(ByExplainer(explainer, Box(0, 1), SCHEMA), records)


def over_itself(forward: Any, records: Any) -> Any:
    return population(OverItself(model(forward), SCHEMA), records)


RELEASES = [over_background, constant_work, by_explainer, over_itself]


def observed(act: Callable[[], Any]) -> tuple[Any, ...]:
    """All that somebody outside notices, but for the values."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            release, drawn = act()
            seen: tuple[Any, ...] = (
                str(release.preview(3)),
                release.identity,
                release.cost(3),
                re.sub("0x[0-9a-f]+", "", repr(release)),
                drawn.shape,
                drawn.feature_names,
                drawn.output_names,
                drawn.guarantees,
                drawn.notes,
                None if drawn.data is None else drawn.data.tobytes(),
                drawn.standard_errors.tobytes(),
                drawn.half_widths.tobytes(),
            )
        except Exception as error:
            seen = (type(error), str(error))
    return (*seen, out.getvalue(), err.getvalue(), [str(warning.message) for warning in heard])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("form", [as_table, as_array])
@pytest.mark.parametrize("forward", [wicked, always])
@settings(max_examples=10, deadline=None)
@given(records=three, other=cells)
def test_neighbouring_data_sets_look_alike(
    release: Any, form: Any, forward: Any, records: list[Any], other: Any
) -> None:
    before = observed(lambda: release(forward, form(records)))
    after = observed(lambda: release(forward, form([other, *records[1:]])))
    assert before == after
    assert before[-1] == []
    assert len(before) > 6  # no error either


@pytest.mark.parametrize("form", [as_table, as_array])
@settings(max_examples=25, deadline=None)
@given(records=three, other=cells)
def test_synthetic_backgrounds_of_neighbours_look_alike(
    form: Any, records: list[Any], other: Any
) -> None:
    def look(rows: Any) -> tuple[Any, ...]:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            made = PrivateHistograms(form(rows), SCHEMA, size=7, **CHARGED).draw()
        shapes = [counts.shape for counts in made.histograms]
        return made.rows.shape, shapes, made.event, made.guarantee, list(heard)

    assert look(records) == look([other, *records[1:]])


class Loud(PrivateBackgroundShapley):
    """A mutant: says how many rows were out of range."""

    def draw(self, rows: Any) -> Any:
        strange = np.isnan(np.asarray(self.background, dtype=np.float64)).sum()
        if strange:
            warnings.warn(f"{strange} missing values", stacklevel=2)
        return super().draw(rows)


def test_the_fuzzer_notices_a_warning_that_depends_on_a_row() -> None:
    def loud(rows: Any) -> Any:
        release = Loud(model(always), rows, schema=SCHEMA, origins=[PUBLIC], **CHARGED)
        return release, release.draw(PUBLIC_ROWS)

    quiet, noisy = np.ones((3, 3)), np.ones((3, 3))
    noisy[2, 0] = np.nan
    assert observed(lambda: loud(quiet)) != observed(lambda: loud(noisy))


def test_the_fuzzer_notices_an_error_that_depends_on_a_row() -> None:
    """Explainers of `voile.attribution` promise nothing, and do raise."""

    def plain(rows: Any) -> Any:
        ExactShapley(model(wicked), rows, schema=SCHEMA)(PUBLIC_ROWS)
        raise AssertionError("fine")

    calm, wild = np.full((3, 3), 2.0), np.full((3, 3), 2.0)
    calm[:, 1] = wild[:, 1] = 1.0
    wild[2, 0] = 7.5
    assert observed(lambda: plain(calm)) != observed(lambda: plain(wild))
