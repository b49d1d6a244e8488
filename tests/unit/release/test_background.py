"""`PrivateBackgroundShapley`: its bound cannot be beaten, and what it says is what it does."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.contract.releases import MANY, MODEL, PEOPLE, SCHEMA, TRAINED
from tests.protecting import joined, row_of
from tests.unit.release.lookup import background, release, without_noise
from voile.attribution import CONSTANT_WORK, Speed
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.models import Box, Simplex, wrap
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.accounting.conversion import gaussian_delta, gaussian_noise_multiplier
from voile.privacy.events import Gaussian, Repeated
from voile.privacy.sensitivity import shapley_background_with_base
from voile.release import PUBLIC, PrivateBackgroundShapley, trained_on
from voile.release.output_sets import (
    DECLARED_ROW_WISE,
    MODEL_IS_STATELESS,
    ONE_ROW_PER_CALL,
    SAME_INPUT_SAME_OUTPUT,
)
from voile.release.records import Records

RELATIONS = [Relation.REPLACE_ONE, Relation.BLANK_ONE]


def people(**settings: Any) -> PrivateBackgroundShapley:
    chosen: dict[str, Any] = {
        "schema": SCHEMA,
        "dataset": "people 1",
        "relation": Relation.REPLACE_ONE,
        "epsilon": 1.0,
        "delta": 1e-5,
        "origins": [PUBLIC],
    }
    model, rows = settings.pop("model", MODEL), settings.pop("rows", PEOPLE)
    return PrivateBackgroundShapley(model, rows, **joined(chosen | settings))


# --- The bound ------------------------------------------------------------------------------------


def largest_gap(players: int, rows: int, relation: Relation, starts: int) -> float:
    """Hill climbing over all 0/1 models, as a share of the sensitivity."""
    draw = np.random.default_rng([players, rows])
    other = 2.0 if relation is Relation.REPLACE_ONE else math.nan
    rest = [3.0] * (rows - 1)
    best = 0.0
    for _ in range(starts):
        table = draw.integers(0, 2, size=(4,) * players).astype(float)
        before = release(table, background(players, 1.0, *rest), relation)
        after = release(table, background(players, other, *rest), relation)
        best = max(best, _climb(table, before, after) / before.sensitivity.value)
    return best


def _climb(
    table: NDArray[np.float64], before: PrivateBackgroundShapley, after: PrivateBackgroundShapley
) -> float:
    reached, improved = 0.0, True
    # Only inputs that mix the explained row 0 with 1 or 2 matter to the change.
    places = [p for p in np.ndindex(table.shape) if 3 not in p and not {1, 2} <= set(p)]
    while improved:
        improved = False
        for place in places:
            table[place] = 1 - table[place]
            gap = float(np.linalg.norm(without_noise(before) - without_noise(after)))
            if gap > reached + 1e-12:
                reached, improved = gap, True
            else:
                table[place] = 1 - table[place]
    return reached


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("players", "rows", "near"), [(1, 2, 0.999), (2, 2, 0.999), (2, 3, 0.999), (3, 2, 0.95)]
)
def test_no_model_moves_further_than_the_bound_and_some_come_near(
    players: int, rows: int, near: float, relation: Relation
) -> None:
    assert near < largest_gap(players, rows, relation, starts=2) <= 1


@pytest.mark.parametrize("relation", RELATIONS)
def test_four_players_stay_below_the_bound(relation: Relation) -> None:
    assert 0.85 < largest_gap(4, 2, relation, starts=1) <= 1


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_sensitivity_is_the_derived_one_and_a_little_for_rounding(relation: Relation) -> None:
    found = people(relation=relation).sensitivity
    derived = shapley_background_with_base(
        features=3, background_rows=40, output_width=1.0, relation=relation
    )
    assert derived.value < found.value < derived.value * 1.001
    assert found.conditions[-1] == MODEL_IS_STATELESS
    declared = people(relation=relation, model=replace(MODEL, treats_rows_independently=True))
    assert declared.sensitivity.value == found.value
    assert declared.sensitivity.conditions[-2:] == (SAME_INPUT_SAME_OUTPUT, DECLARED_ROW_WISE)
    assert DECLARED_ROW_WISE in declared.guarantees(1)[0].assumptions
    assert declared.preview().remarks == people(relation=relation).preview().remarks[:-1]
    assert declared.identity != people(relation=relation).identity


def test_class_probabilities_count_with_their_diameter_and_the_slack_of_their_sum() -> None:
    three = wrap(
        lambda rows: np.column_stack([rows[:, 1], 1 - rows[:, 1], 0 * rows[:, 1]]),
        outputs=Simplex(),
        digest="three",
    )
    found = people(model=three).sensitivity.value
    derived = shapley_background_with_base(
        features=3, background_rows=40, output_width=math.sqrt(2), relation=Relation.REPLACE_ONE
    )
    assert derived.value * (1 + 1e-5) < found < derived.value * (1 + 2e-4)


def test_groups_are_players() -> None:
    grouped = people(groups=SCHEMA.semantic_groups())
    assert grouped.players == 2
    drawn = grouped.draw(PEOPLE[:2])
    assert drawn.feature_names == ("person", "treatment")
    assert drawn.data is None


# --- What is said and done ------------------------------------------------------------------------


def test_noise_is_the_smallest_for_the_target() -> None:
    found = people()
    wanted = found.sensitivity.value * gaussian_noise_multiplier(1.0, 1e-5)
    assert found.noise.sigma == pytest.approx(wanted, rel=1e-8)
    assert found.noise.sigma >= wanted


def test_several_rows_cost_as_often_and_compose_exactly() -> None:
    found = people()
    event = found.cost(1)
    assert isinstance(event, Gaussian)
    assert found.cost(25) == Repeated(event, 25)
    (promise,) = found.guarantees(25)
    read = PrivacyLoss().compose(event, 25).epsilon(1e-5)
    assert promise.epsilon == pytest.approx(read, rel=1e-4)
    assert gaussian_delta(event.noise_multiplier / 5, promise.epsilon) < promise.delta == 1e-5


def test_very_many_rows_are_promised_by_zero_concentrated_composition() -> None:
    (promise,) = people().guarantees(100_000)
    assert promise.epsilon > PrivacyLoss().compose(people().cost(100_000)).epsilon(1e-5)


def test_a_noise_level_may_be_asked_for_instead_of_an_epsilon() -> None:
    settings: dict[str, Any] = {
        "schema": SCHEMA,
        "protected": row_of("people 1"),
        "delta": 1e-5,
        "origins": [PUBLIC],
    }
    found = PrivateBackgroundShapley.at_noise(MODEL, PEOPLE, noise=0.05, **settings)
    assert found.noise.sigma == pytest.approx(0.05, rel=1e-6)
    assert found.preview().standard_error == pytest.approx(0.05, rel=1e-6)
    again = people(relation=Relation.BLANK_ONE, epsilon=found.epsilon)
    assert again.noise.sigma == found.noise.sigma


def test_another_price_is_the_same_release_and_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, expected = people(), people(epsilon=0.25)

    def read_again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Records, "read_any", read_again)
    monkeypatch.setattr("voile.release.output_sets.known_model", read_again)
    other = one.at_epsilon(0.25)
    assert other.identity == expected.identity
    assert other.guarantees(3) == expected.guarantees(3)
    assert other.noise == expected.noise
    assert np.array_equal(other.before_noise(PEOPLE[:2]), expected.before_noise(PEOPLE[:2]))


def test_explained_rows_are_kept_and_the_background_is_not() -> None:
    drawn = people().draw(PEOPLE[:2])
    assert np.array_equal(np.asarray(drawn.data), PEOPLE[:2])
    assert "background=" not in repr(people())


def test_a_guarantee_of_the_model_is_carried_along_and_what_it_lacks_is_noted() -> None:
    both = people(origins=[TRAINED, trained_on("elsewhere")])
    drawn = both.draw(PEOPLE[:1])
    labels = [promise.protected.dataset for promise in drawn.guarantees]
    assert labels == ["people 1", "training rows"]
    assert any("'elsewhere'" in str(note) for note in drawn.notes)


def test_the_preview_compares_with_a_synthetic_background() -> None:
    def count(**settings: Any) -> int:
        remark, slow = people(**settings).preview().remarks
        assert slow == ONE_ROW_PER_CALL
        return int(remark.split("more than about ")[1].split(" ")[0].replace(",", ""))

    assert "synthetic_background" in people().preview().remarks[0]
    assert count() > 1
    # The same noise on each explanation costs less with more rows, and so does the histogram.
    assert count(epsilon=0.5) == pytest.approx(count(), rel=0.05)


def test_constant_work_gives_the_same_values_and_evaluates_as_often_whatever_the_rows() -> None:
    evaluated = 0

    def counted(rows: Any) -> Any:
        nonlocal evaluated
        evaluated += len(rows)
        return rows[:, 0] / 100

    model = wrap(counted, outputs=Box(0, 1), digest="counted")
    totals = []
    for rows in (PEOPLE, np.repeat(PEOPLE[:1], 40, axis=0)):
        slow = people(model=model, rows=rows, speed=Speed(short_cuts=CONSTANT_WORK))
        evaluated = 0
        found = slow.before_noise(PEOPLE[:2])
        totals.append(evaluated)
        fast = people(model=model, rows=rows)
        evaluated = 0
        assert np.allclose(found, fast.before_noise(PEOPLE[:2]), atol=1e-14)
        assert evaluated < totals[-1]
    assert totals[0] == totals[1]


def test_a_null_record_may_stand_for_somebody_who_withdrew() -> None:
    rows = PEOPLE.copy()
    rows[7] = math.nan
    table = {"age": [40.0, "?"], "sex": ["f", None], "dose": [3, math.nan]}
    assert people(rows=rows).background_rows == 40
    assert people(rows=rows).games.records.blank.sum() == 1
    assert people(rows=table).games.records.blank.tolist() == [False, True]


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"relation": Relation.ADD_OR_REMOVE_ONE}, "number of rows is private"),
        ({"origins": [trained_on("people 1")]}, "trained without differential"),
        ({"model": wrap(lambda rows: rows[:, 0], digest="free")}, "declare one"),
        (
            {"model": wrap(lambda rows: rows[:, :2], outputs=Simplex(), digest="two")},
            "one number and its complement",
        ),
    ],
)
def test_what_cannot_be_promised_is_refused_with_a_way_out(
    settings: dict[str, Any], match: str
) -> None:
    with pytest.raises(Refused, match=match):
        people(**settings)


def test_a_model_trained_privately_on_the_background_is_allowed_and_added() -> None:
    alone = people(dataset="training rows", relation=Relation.BLANK_ONE)
    both = people(dataset="training rows", relation=Relation.BLANK_ONE, origins=[TRAINED])
    (promise,) = both.draw(PEOPLE[:2]).guarantees
    assert promise.epsilon == alone.guarantees(2)[0].epsilon + 1.0
    assert promise.delta == pytest.approx(1.1e-5)
    assert both.cost(2) == alone.cost(2)
    with pytest.raises(Refused, match="do not add up"):
        people(dataset="training rows", relation=Relation.REPLACE_ONE, origins=[TRAINED])


def test_what_was_declared_and_known_is_part_of_the_identity() -> None:
    def named(upper: float, name: str) -> Any:
        return wrap(
            lambda rows: rows[:, 0] / 100,
            outputs=Box(0, upper),
            output_names=[name],
            digest="the same",
        )

    questions = [
        people(model=named(1, "risk")),
        people(model=named(100, "risk")),
        people(model=named(1, "chance")),
        people(model=named(1, "risk"), origins=[TRAINED]),
        people(model=named(1, "risk"), origins=[trained_on("elsewhere")]),
    ]
    assert len({one.identity for one in questions}) == len(questions)
    assert (
        questions[0].identity == people(model=named(1, "risk"), origins=[PUBLIC, PUBLIC]).identity
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.0},
        {"delta": 0.0},
        {"relation": "swap two"},
        {"rows": PEOPLE[:, :2]},
        {"rows": PEOPLE[:0]},
        {"groups": {"g": ["nobody"]}},
    ],
)
def test_wrong_settings_are_said(settings: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, ValueError)):
        people(**settings)


def test_explained_rows_are_public_so_what_is_wrong_with_them_is_said() -> None:
    with pytest.raises(InvalidInput, match="outside the schema"):
        people().draw(np.array([[-1.0, 0.0, 0.0]]))


def test_many_players_need_a_positive_number_of_coalitions() -> None:
    model = wrap(
        lambda rows: rows[:, 0], outputs=Box(0, 1), digest="many", treats_rows_independently=True
    )
    with pytest.raises(InvalidInput, match="pairs_a_player"):
        people(model=model, schema=MANY, rows=np.zeros((3, 18)), pairs_a_player=0)
    found = people(model=model, schema=MANY, rows=np.zeros((3, 18)))
    assert found.games.designs is not None
    assert "coalitions" in found.preview().accuracy


@pytest.mark.parametrize("rows", [1, 2, 7, 50, 10_000])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 4.0])
def test_all_rows_of_a_call_share_one_price(epsilon: float, rows: int) -> None:
    """Never more than was stated, and hardly less; what is charged says the same."""
    found = people().at_total_epsilon(epsilon, rows)
    promised = found.noise_guarantee(rows).epsilon
    assert 0.98 * epsilon <= promised <= epsilon
    one = people(epsilon=epsilon)
    assert found.noise.sigma >= one.noise.sigma * math.sqrt(rows) * (1 - 1e-6)
    spent = found.cost(rows)
    times = spent.times if isinstance(spent, Repeated) else 1
    assert times == rows
    assert found.identity == people().at_total_epsilon(epsilon, rows).identity
