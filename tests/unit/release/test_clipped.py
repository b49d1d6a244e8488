"""`ClippedRelease`: clipping, 2C, nothing beside the noisy vector."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.contract.releases import TRAINED
from tests.protecting import row_of
from tests.unit.release.own_rows import COMMON, SCHEMA, Array, itself, with_its_base
from voile.attribution import Gradient, IntegratedGradients, Lime
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, Relation, RowPart
from voile.models import wrap
from voile.privacy.events import Gaussian
from voile.release import (
    PUBLIC,
    ClippedRelease,
    trained_on,
    trained_privately,
)
from voile.release.clipped import NOISE_ONLY, clipped
from voile.release.records import NO_BASE, PerRow, other_row

ROWS = np.array([[3.0, -4.0, 1.0], [0.0, 0.1, 0.0]])


def release(explainer: Any = itself, **changes: Any) -> ClippedRelease:
    settings = {"bound": 0.7, "epsilon": 1.0, "delta": 1e-5, **COMMON} | changes
    return ClippedRelease(explainer, **settings)


# --- clipping -----------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(arrays(np.float64, (2, 3, 2), elements=finite), st.floats(1e-3, 1e3))
def test_no_clipped_vector_is_longer_than_the_bound(vectors: Array, bound: float) -> None:
    short = clipped(vectors, bound)
    lengths = np.sqrt((short**2).sum(axis=(1, 2)))
    assert np.isfinite(short).all()
    assert (lengths <= bound * (1 + 1e-12)).all()


@given(arrays(np.float64, (1, 3, 2), elements=st.floats(-0.1, 0.1)))
def test_short_vectors_are_left_alone(vectors: Array) -> None:
    assert np.array_equal(clipped(vectors, 1.0), vectors)


def test_clipping_keeps_the_direction_over_features_and_outputs_together() -> None:
    vectors = np.array([[[3.0, 0.0], [0.0, 4.0]]])
    assert np.allclose(clipped(vectors, 1.0), vectors / 5)


def test_the_search_for_two_rows_far_apart_reaches_twice_the_bound_and_no_more() -> None:
    """Any row against any other: random pairs, then the opposite of each."""
    draw = np.random.default_rng(1)
    one = release()
    bound = float(one.sensitivity)
    assert bound == pytest.approx(2 * 0.7)
    found = 0.0
    for _ in range(300):
        row = draw.uniform(-10, 10, (1, 3)) * [1, 1, 0]
        for other in (draw.uniform(-10, 10, (1, 3)), -row):
            pair = [clipped(one._inner.vectors(each), 0.7) for each in (row, other)]
            found = max(found, float(np.linalg.norm(pair[0] - pair[1])))
    assert found <= bound * (1 + 1e-12)
    assert found >= bound * (1 - 1e-9), "the bound is not attained: noise is wasted"


# --- what it costs and promises -----------------------------------------------------------------


def test_each_row_pays_one_event_however_many_there_are() -> None:
    one = release()
    assert one.cost(1) == one.cost(1000)
    assert isinstance(one.cost(1), Gaussian)
    assert one.part is RowPart.EXPLAINED
    assert one.guarantees(5)[0].protected.unit is ProtectedUnit.EXPLAINED_ROW
    assert "different rows in parallel" in one.guarantees(5)[0].composition


def test_noise_is_calibrated_to_twice_the_bound() -> None:
    from voile.privacy.accounting.conversion import gaussian_epsilon

    one = release()
    sigma = one.preview().standard_error
    assert sigma is not None
    assert gaussian_epsilon(sigma / 1.4, 1e-5) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.ADD_OR_REMOVE_ONE])
def test_only_replace_one_is_offered(relation: Relation) -> None:
    with pytest.raises(Refused, match="any row"):
        release(protected=row_of("people", relation))


def test_rows_that_trained_the_model_are_refused() -> None:
    with pytest.raises(Refused, match="without differential privacy"):
        release(origins=[trained_on("people")])
    drawn = release(origins=[PUBLIC, trained_on("others")]).draw(ROWS)
    assert any("nothing is promised about 'others'" in str(note) for note in drawn.notes)


def test_an_explained_row_is_a_record_of_its_own_whatever_trained_the_model() -> None:
    """Training protected rows of that data set, the release an explained one: nothing is added."""
    trained = replace(TRAINED.guarantees[0], protected=row_of("people"))
    one = release(origins=[trained_privately(trained)])
    own, carried = one.guarantees(1)
    assert (own.epsilon, own.protected.unit) == (1.0, ProtectedUnit.EXPLAINED_ROW)
    assert carried == trained


@pytest.mark.parametrize(
    "changes", [{"bound": 0.0}, {"bound": np.nan}, {"epsilon": 0.0}, {"delta": 0.0}, {"schema": 3}]
)
def test_wrong_settings_are_said_when_it_is_built(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        release(**changes)


# --- what leaves --------------------------------------------------------------------------------


def test_neither_rows_nor_exact_values_leave() -> None:
    drawn = release().draw(ROWS)
    assert drawn.data is None
    assert not np.isin(drawn.values, ROWS).any()
    assert NOISE_ONLY in drawn.notes
    assert np.array_equal(drawn.base_values, np.full((2, 1), 0.25))


def test_a_base_value_that_depends_on_the_row_is_left_out() -> None:
    drawn = release(with_its_base).draw(ROWS)
    assert np.array_equal(drawn.base_values, np.zeros((2, 1)))
    assert NO_BASE in drawn.notes


def slopes(rows: Array, _: int) -> Array:
    return np.column_stack([2 * rows[:, 0], np.ones(len(rows)), rows[:, 0]])


def test_explainers_whose_base_is_that_of_the_row_do_not_give_it_away() -> None:
    model = wrap(lambda rows: rows[:, 0] ** 2 + rows[:, 1], gradient=slopes, digest="m")
    far = np.array([[7.0, 1.0, 1.0]])
    for explainer in (
        Gradient(model, schema=SCHEMA),
        Lime(model, np.zeros((4, 3)), schema=SCHEMA, samples=100),
    ):
        assert NO_BASE in release(explainer).draw(far).notes
    agni = release(IntegratedGradients(model, schema=SCHEMA)).draw(far)
    assert NO_BASE not in agni.notes
    assert agni.base_values[0, 0] == model.predict(np.zeros((1, 3)))[0, 0]


def test_two_rows_have_noise_of_their_own() -> None:
    same = np.repeat(ROWS[:1], 2, axis=0)
    first, second = release().draw(same).values
    assert not (first == second).any()


def test_standard_errors_do_not_depend_on_the_rows() -> None:
    one, other = release().draw(ROWS), release().draw(-ROWS[::-1])
    for name in ("standard_errors", "half_widths", "guarantees", "notes", "feature_names"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


# --- one by one ---------------------------------------------------------------------------------


def test_what_a_row_becomes_depends_on_no_other_row() -> None:
    """An explainer that looks at the whole batch cannot."""

    def batch_mean(rows: Array) -> Any:
        return replace(itself(rows), values=np.broadcast_to(rows.mean(axis=0), rows.shape))

    inner = PerRow(batch_mean, SCHEMA)
    assert np.array_equal(inner.vectors(ROWS)[:, :, 0], ROWS)


def shifted(rows: Array) -> Any:
    """No row is explained by zeros, that of the defaults neither."""
    return itself(rows + 1)


def test_null_records_are_zeros_and_not_the_defaults() -> None:
    given = np.vstack([ROWS[:1], np.full((1, 3), np.nan), SCHEMA.null_row])
    _, blank, defaults = PerRow(shifted, SCHEMA).vectors(given)
    assert np.array_equal(blank, np.zeros((3, 1)))
    assert np.array_equal(defaults, np.ones((3, 1)))


def test_the_other_public_row_differs_everywhere_it_can_and_lies_inside() -> None:
    other = other_row(SCHEMA)
    assert (other != SCHEMA.null_row).all()
    assert np.array_equal(SCHEMA.clamp(other[np.newaxis])[0], other)


def test_public_mistakes_are_said_when_it_is_built() -> None:
    def broken(rows: Array) -> Any:  # noqa: ARG001
        raise InvalidInput("the model takes other features")

    with pytest.raises(InvalidInput, match="other features"):
        release(broken)


def test_single_values_that_are_not_finite_count_as_nothing() -> None:
    """An explainer of somebody else may return things of its own kind."""

    def foreign(rows: Array) -> Any:
        known = itself(np.zeros_like(rows))
        return known if not rows.any() else SimpleNamespace(values=[[[np.nan], [1.0], [np.inf]]])

    inner = PerRow(lambda rows: foreign(np.where(rows == 1.0, 0.0, rows)), SCHEMA)
    assert inner.vectors([[2.0, 0.0, 0.0]]).tolist() == [[[0.0], [1.0], [0.0]]]
