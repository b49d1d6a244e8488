"""Neighbouring data give the same observable behaviour: a fuzzer over pairs of protected rows.

Whatever one record holds (NaN, infinities, unknown categories, text, values that make the explainer
raise, warn or fall silent), a release looks the same from outside, the noisy values aside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protecting import row_of
from tests.unit.release.own_rows import COMMON, SCHEMA, nasty
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.models import Box, wrap
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.release import (
    PUBLIC,
    ClippedRelease,
    NoisyValues,
    PrivateClusters,
    PrivateInteractions,
    PrivateTopFeatures,
    TopFeaturesOfRow,
)

ORDER = "named in this order"
numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([np.nan, np.inf, -np.inf, 3.0, 7.0, -3.0, -7.0, 1e308, -0.0]),
)
rows = st.tuples(numbers, numbers, numbers)
cells = st.one_of(numbers, st.none(), st.text(max_size=5), st.booleans(), st.integers())
records = st.tuples(cells, cells, st.one_of(cells, st.sampled_from(["no", "yes"])))


def fickle(given: Any) -> Any:
    """A model that fails for some rows and has no answer for others."""
    if (given[:, 0] > 5).any():
        raise RuntimeError("a protected value is above five")
    if (given[:, 0] > 2).any():
        warnings.warn("a protected value is above two", stacklevel=1)
    return np.where(given[:, 0] < -2, np.nan, np.tanh(given[:, 1]))


def clipped() -> Callable[[Any], Any]:
    return ClippedRelease(nasty, bound=0.5, epsilon=1.0, delta=1e-5, **COMMON).draw


def of_a_row() -> Callable[[Any], Any]:
    return TopFeaturesOfRow(nasty, k=1, epsilon=1.0, **COMMON).draw


def of_people() -> Callable[[Any], Any]:
    return PrivateTopFeatures(
        nasty,
        k=2,
        output_width=1.0,
        epsilon=1.0,
        delta=1e-5,
        **COMMON | {"protected": row_of("people", Relation.REPLACE_ONE)},
    ).draw


def noisy() -> Callable[[Any], Any]:
    declared = Sensitivity(
        value=1.0, norm=Norm.L2, unit=ProtectedUnit.ROW, relation=Relation.REPLACE_ONE
    )
    one = NoisyValues(
        declared,
        epsilon=1.0,
        delta=1e-5,
        protected=row_of("d", Relation.REPLACE_ONE),
        feature_names=SCHEMA.feature_names,
        name="values",
        model="m",
    )
    return one.draw


def pairs() -> Callable[[Any], Any]:
    def draw(background: Any) -> Any:
        model = wrap(fickle, outputs=Box(-1, 1), digest="fickle")
        release = PrivateInteractions(
            model,
            background,
            schema=SCHEMA,
            protected=Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, "d"),
            epsilon=1.0,
            delta=1e-5,
            origins=[PUBLIC],
        )
        return release.draw(np.zeros((1, 3)))

    return draw


ALL = {"clipped": clipped, "row": of_a_row, "people": of_people, "pairs": pairs}


def observed(draw: Callable[[Any], Any], given: Any, capsys: Any) -> Any:
    """Everything somebody outside could see, the noise aside."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            drawn = draw(given)
        except Exception as error:  # whatever it is, the neighbour must show the same
            return type(error), str(error)
    return (
        [str(warning.message) for warning in heard],
        capsys.readouterr(),
        drawn.shape,
        drawn.feature_names,
        drawn.output_names,
        drawn.guarantees,
        tuple(note for note in drawn.notes if not note.startswith(ORDER)),
        drawn.data is None,
        None if drawn.standard_errors is None else drawn.standard_errors.tolist(),
        None if drawn.half_widths is None else drawn.half_widths.tolist(),
    )


quick = settings(max_examples=60)


@pytest.mark.parametrize("build", ALL.values(), ids=ALL.keys())
@quick
@given(others=st.lists(rows, min_size=1, max_size=2), one=rows, other=rows)
def test_arrays_that_differ_in_one_row(
    build: Any, others: list[Any], one: Any, other: Any, capsys: Any
) -> None:
    draw = build()
    seen = [observed(draw, np.array([*others, last]), capsys) for last in (one, other)]
    assert seen[0] == seen[1]
    assert seen[0][0] == [], "protected rows were heard of"


@pytest.mark.parametrize("build", ALL.values(), ids=ALL.keys())
@quick
@given(others=st.lists(records, min_size=1, max_size=2), one=records, other=records)
def test_tables_that_differ_in_one_record(
    build: Any, others: list[Any], one: Any, other: Any, capsys: Any
) -> None:
    draw = build()
    tables = [
        dict(zip(SCHEMA.feature_names, map(list, zip(*others, last, strict=True)), strict=True))
        for last in (one, other)
    ]
    seen = [observed(draw, table, capsys) for table in tables]
    assert seen[0] == seen[1]
    assert seen[0][0] == [], "protected rows were heard of"


@quick
@given(one=rows, other=rows)
def test_values_handed_in_ready_made(one: Any, other: Any, capsys: Any) -> None:
    draw = noisy()
    seen = [observed(draw, np.array([last]), capsys) for last in (one, other)]
    assert seen[0] == seen[1]
    assert seen[0][0] == []


@quick
@given(rows)
def test_clusters_are_found_whatever_one_row_holds(one: Any) -> None:
    found = PrivateClusters(
        np.array([one, (0.0, 1.0, 1.0)]),
        schema=SCHEMA,
        epsilon=1.0,
        delta=1e-5,
        protected=Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, "d"),
        count=2,
    ).draw()
    assert sorted(sum(found.groups.values(), ())) == sorted(SCHEMA.feature_names)


def test_the_fuzzer_notices_an_explainer_that_is_not_silenced(capsys: Any) -> None:
    """The suite can fail: without the guard, one row is told from another."""
    loud = observed(nasty, np.array([[7.0, 0.0, 0.0]]), capsys)
    quiet = observed(nasty, np.array([[0.0, 0.0, 0.0]]), capsys)
    assert loud != quiet
