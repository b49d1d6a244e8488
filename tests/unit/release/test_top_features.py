"""Names of top features: scores, peeling, subset selection, and what is said about them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.releases import TRAINED
from tests.protecting import row_of
from tests.unit.release.own_rows import COMMON, SCHEMA, Array, itself
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import ProtectedUnit, Relation, RowPart
from voile.core.row_note import KnownNote
from voile.core.schema import Feature, Numbers, Schema
from voile.privacy.accounting import Basic, ZeroConcentrated
from voile.release import PrivateTopFeatures, TopFeaturesOfRow, trained_on

RELATIONS = [Relation.BLANK_ONE, Relation.REPLACE_ONE]
PEOPLE = np.tile([[-9.0, 0.5, 0.0]], (400, 1))


def of_people(explainer: Any = itself, **changes: Any) -> PrivateTopFeatures:
    settings: dict[str, Any] = {
        "k": 1,
        "output_width": 10.0,
        "epsilon": 1.0,
        "delta": 0.0,
        **COMMON,
        "protected": row_of(
            changes.pop("dataset", "people"), changes.pop("relation", Relation.BLANK_ONE)
        ),
    }
    return PrivateTopFeatures(explainer, **(settings | changes))


def of_a_row(explainer: Any = itself, **changes: Any) -> TopFeaturesOfRow:
    return TopFeaturesOfRow(explainer, **({"k": 1, "epsilon": 1.0, **COMMON} | changes))


# --- population: sensitivity --------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("signed", [True, False])
def test_the_search_for_neighbours_reaches_the_sensitivity_and_no_more(
    relation: Relation, signed: bool
) -> None:
    """Three people, vectors in the corners of the range; one is replaced, or blanked."""
    one = of_people(relation=relation, signed=signed, output_width=1.0)
    draw = np.random.default_rng(3)
    bound, found = float(one.sensitivity(3)), 0.0
    for _ in range(2000):
        vectors = draw.choice([-1.0, 0.0, 1.0], (3, 3))
        changed = vectors.copy()
        changed[1] = 0.0 if relation is Relation.BLANK_ONE else draw.choice([-1.0, 1.0], 3)
        gap = np.abs(one.scores(vectors) - one.scores(changed)).max()
        found = max(found, float(gap))
    assert found <= bound
    assert found >= bound * (1 - 1e-9)


def test_vectors_beyond_the_range_are_clamped_one_by_one() -> None:
    """One row cannot name its own feature against all others, however large its attribution."""
    rows = PEOPLE.copy()
    rows[:, 0] = 0.0
    rows[0, 0] = 10.0
    huge = of_people(
        lambda x: replace(itself(x), values=np.where(x == 10.0, 1e9, x)), epsilon=8.0, k=1
    )
    names = [int(huge.draw(rows).values[0, :, 0].argmax()) for _ in range(40)]
    assert names.count(1) > 30, "the feature of everybody else was not named"


# --- population: names --------------------------------------------------------------------------


def test_a_clear_winner_is_named_with_its_direction_and_the_order_is_told() -> None:
    drawn = of_people(epsilon=8.0, k=2).draw(PEOPLE)
    assert list(drawn.values[0, :2, 0]) == [-1.0, 1.0]
    assert "named in this order: a (-), b (+)" in drawn.notes
    assert KnownNote.NAMES_ONLY in drawn.notes
    assert drawn.data is None
    assert drawn.standard_errors is None
    assert not drawn.base_values.any()


def test_unsigned_names_carry_no_direction() -> None:
    drawn = of_people(epsilon=8.0, signed=False).draw(PEOPLE)
    assert list(drawn.values[0, :, 0]) == [1.0, 0.0, 0.0]
    assert "named in this order: a" in drawn.notes


@pytest.mark.parametrize("k", [1, 2, 3])
def test_k_names_are_k_different_features(k: int) -> None:
    drawn = of_people(epsilon=0.01, k=k)
    for _ in range(20):
        assert np.abs(drawn.draw(PEOPLE[:4]).values).sum() == k


def test_null_records_count_for_nothing_and_keep_the_number_of_rows() -> None:
    blank = np.vstack([PEOPLE[:3], np.full((1, 3), np.nan)])
    one = of_people()
    assert one._inner.vectors(blank)[3].tolist() == [[0.0]] * 3
    assert float(one.sensitivity(4)) == pytest.approx(10 / 4)


# --- population: cost ---------------------------------------------------------------------------


@given(st.integers(1, 3), st.floats(0.01, 8.0), st.sampled_from([0.0, 1e-9, 1e-5, 1e-3]))
def test_all_choices_together_cost_what_was_stated(k: int, epsilon: float, delta: float) -> None:
    one = of_people(k=k, epsilon=epsilon, delta=delta)
    pure = Basic().compose(one.cost(4)).epsilon(0.0)
    if delta == 0:
        assert pure <= epsilon * (1 + 1e-9)
    else:
        concentrated = ZeroConcentrated().compose(one.cost(4)).epsilon(delta)
        assert min(pure, concentrated) <= epsilon * (1 + 1e-9)
    assert one.epsilon_each >= epsilon / k


def test_a_delta_makes_many_choices_cheaper() -> None:
    def each(delta: float) -> float:
        return of_people(_first_of(30), k=20, delta=delta, schema=_wide(30)).epsilon_each

    assert each(1e-5) > 1.3 * each(0.0)


def test_population_refusals() -> None:
    with pytest.raises(Refused, match="population"):
        of_people(origins=[trained_on("people")])
    with pytest.raises(Refused, match="private"):
        of_people(relation=Relation.ADD_OR_REMOVE_ONE)
    for changes in ({"k": 4}, {"k": 0}, {"output_width": 0.0}, {"epsilon": 0.0}, {"delta": 1.0}):
        with pytest.raises(InvalidInput):
            of_people(**changes)
    with pytest.raises(InvalidInput, match="one output"):
        of_people(_two_outputs)
    assert of_people().part is RowPart.POPULATION
    assert of_people().guarantees(4)[0].protected.unit is ProtectedUnit.ROW


def test_more_people_make_the_choice_surer() -> None:
    def gap(rows: int) -> float:
        text = of_people().preview(rows).accuracy
        return float(text.split("lie ")[1].split(" apart")[0])

    assert gap(1000) == pytest.approx(gap(100) / 10, rel=1e-3)


# --- one row ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "probability"), [(1.0, 0.198), (5.0, 0.931)])
def test_randomised_response_over_twelve_features_is_right_as_often_as_it_says(
    epsilon: float, probability: float
) -> None:
    settings = COMMON | {"schema": _wide(12)}
    shown = of_a_row(_first_of(12), epsilon=epsilon, **settings).preview()
    expected = math.exp(epsilon) / (math.exp(epsilon) + 11)
    assert expected == pytest.approx(probability, abs=1e-3)
    assert f"{expected:.3f}" in shown.accuracy


def test_the_true_set_is_that_of_the_largest_sizes_and_ties_go_by_the_schema() -> None:
    plain, signed = of_a_row(k=2), of_a_row(k=2, signed=True)
    vector = np.array([-3.0, 0.5, 3.0])
    assert set(plain.truth(vector)) == {0, 2}
    assert set(signed.truth(vector)) == {3, 2}
    assert set(plain.truth(np.zeros(3))) == {0, 1}


def test_at_a_large_epsilon_the_truth_is_named() -> None:
    rows = np.array([[-9.0, 0.5, 0.0], [1.0, 8.0, 0.0]])
    drawn = of_a_row(epsilon=10.0, signed=True).draw(np.repeat(rows, 50, axis=0))
    assert KnownNote.NAMES_ONLY in drawn.notes
    assert drawn.data is None
    assert (drawn.values[:50, 0, 0] == -1).mean() > 0.9
    assert (drawn.values[50:, 1, 0] == 1).mean() > 0.9
    assert np.abs(drawn.values).sum() == 100


def test_each_row_pays_one_pure_event() -> None:
    one = of_a_row()
    assert one.cost(1) == one.cost(50)
    assert one.guarantees(50)[0].delta == 0
    assert one.part is RowPart.EXPLAINED


def test_row_refusals() -> None:
    with pytest.raises(Refused, match="any row"):
        of_a_row(protected=row_of("people"))
    with pytest.raises(Refused, match="explained rows"):
        of_a_row(origins=[trained_on("people")])
    for changes in ({"k": 3}, {"k": 0}, {"epsilon": 0.0}):
        with pytest.raises(InvalidInput):
            of_a_row(**changes)
    with pytest.raises(InvalidInput, match="one output"):
        of_a_row(_two_outputs)


def _wide(features: int) -> Schema:
    return Schema("wide", tuple(Feature(f"f{i}", Numbers(0.0, 1.0)) for i in range(features)))


def _first_of(features: int) -> Any:
    names = tuple(f"f{i}" for i in range(features))
    return lambda rows: Explanation(values=rows, base_values=np.zeros(()), feature_names=names)


def _two_outputs(rows: Array) -> Explanation:
    return Explanation(
        values=np.stack([rows, rows], axis=2),
        base_values=np.zeros(()),
        feature_names=SCHEMA.feature_names,
        output_names=("x", "y"),
    )


def test_a_model_trained_on_the_population_is_added() -> None:
    alone = of_people(dataset="training rows", relation=Relation.BLANK_ONE)
    both = of_people(dataset="training rows", relation=Relation.BLANK_ONE, origins=[TRAINED])
    (promise,) = both.guarantees(9)
    assert promise.epsilon == alone.guarantees(9)[0].epsilon + 1.0
    assert both.cost(9) == alone.cost(9)
    with pytest.raises(Refused, match="do not add up"):
        of_people(dataset="training rows", relation=Relation.REPLACE_ONE, origins=[TRAINED])


@pytest.mark.parametrize(("epsilon", "warned"), [(0.1, True), (8.0, False)])
def test_an_answer_that_is_more_likely_wrong_says_so(epsilon: float, warned: bool) -> None:
    release = of_a_row(epsilon=epsilon)
    said = [str(n) for n in release.draw(PEOPLE[:1]).notes if "more likely wrong" in str(n)]
    assert len(said) == warned
    assert all("a named feature is a true one with probability 0." in each for each in said)
