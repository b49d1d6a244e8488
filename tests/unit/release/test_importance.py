"""`PrivateGlobalImportance`: bound, noise, parts, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.contract.releases import MANY, MODEL, PEOPLE, SCHEMA, TRAINED, by_explainer
from tests.protecting import joined
from tests.statistical import bounds
from voile.attribution import ExactShapley
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.privacy.events import Parallel
from voile.privacy.sensitivity import mean_absolute_shapley, mean_absolute_shapley_over_itself
from voile.release import PUBLIC, ByExplainer, OverItself, PrivateGlobalImportance, trained_on
from voile.release.importance import _mean_absolute

RELATIONS = [Relation.REPLACE_ONE, Relation.BLANK_ONE]
BITS = Schema("bits", tuple(Feature(f"b{i}", Categories(("0", "1", "2", "3"))) for i in range(3)))


def importance(source: Any = None, **settings: Any) -> PrivateGlobalImportance:
    chosen: dict[str, Any] = {
        "dataset": "people 1",
        "relation": Relation.REPLACE_ONE,
        "epsilon": 1.0,
        "delta": 1e-5,
        "origins": [PUBLIC],
        "model": "m",
        "name": "exact",
    }
    return PrivateGlobalImportance(source or by_explainer(), **joined(chosen | settings))


# --- Values and bound -----------------------------------------------------------------------------


def test_it_is_the_mean_of_absolute_values() -> None:
    values = ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA)(PEOPLE).values
    (found,) = importance().means(PEOPLE)
    assert np.allclose(found, np.abs(values).mean(axis=0), atol=1e-14)


def test_over_itself_every_record_is_background_too() -> None:
    values = ExactShapley(MODEL, PEOPLE, schema=SCHEMA)(PEOPLE).values
    (found,) = importance(OverItself(MODEL, SCHEMA)).means(PEOPLE)
    assert np.allclose(found, np.abs(values).mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("source", [by_explainer(), OverItself(MODEL, SCHEMA)])
def test_a_null_record_is_explained_by_zeros(source: Any) -> None:
    rows = PEOPLE.copy()
    rows[3] = math.nan
    records = importance(source)._read(rows)[0]
    vectors = source.vectors(records)
    assert not vectors[3].any()
    assert vectors[4].any()


@pytest.mark.parametrize("relation", RELATIONS)
def test_ten_thousand_records_need_noise_below_a_thousandth(relation: Relation) -> None:
    twelve = Schema("twelve", tuple(Feature(f"f{i}", Numbers(0.0, 1.0)) for i in range(12)))
    model = wrap(lambda rows: rows.mean(axis=1), outputs=Box(0, 1), digest="mean")
    source = ByExplainer(ExactShapley(model, np.zeros((1, 12)), schema=twelve), Box(0, 1), twelve)
    preview = importance(source, relation=relation).preview(10_000)
    assert preview.standard_error is not None
    assert 4e-4 < preview.standard_error < 1e-3


def _table_source(table: NDArray[np.float64], *, itself: bool) -> Any:
    def look_up(rows: Any) -> Any:
        return table[tuple(rows.astype(np.intp).T)]

    model = wrap(look_up, outputs=Box(0, 1), digest="table", treats_rows_independently=True)
    if itself:
        return OverItself(model, BITS)
    return ByExplainer(ExactShapley(model, np.zeros((1, 3)), schema=BITS), Box(0, 1), BITS)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("itself", [False, True])
def test_no_model_moves_the_mean_further_than_the_bound(relation: Relation, itself: bool) -> None:
    """Hill climbing over 0/1 models of three players and two records."""
    draw = np.random.default_rng(9)
    other = np.full((1, 3), 3.0 if relation is Relation.REPLACE_ONE else math.nan)
    rows = np.array([[1.0] * 3, [2.0] * 3])
    changed = np.vstack([rows[:1], other])
    best = 0.0
    for _ in range(2):
        table = draw.integers(0, 2, size=(4, 4, 4)).astype(float)

        def gap(table: NDArray[np.float64] = table) -> float:
            release = importance(_table_source(table, itself=itself), relation=relation)
            move = release.means(rows)[0] - release.means(changed)[0]
            return float(np.linalg.norm(move) / release.sensitivity(2).value)

        reached, improved = gap(), True
        while improved:
            improved = False
            for place in np.ndindex(table.shape):
                table[place] = 1 - table[place]
                found = gap()
                improved |= found > reached + 1e-9
                if found > reached + 1e-9:
                    reached = found
                else:
                    table[place] = 1 - table[place]
        best = max(best, reached)
    assert (0.3 if itself else 0.5) < best <= 1


def test_the_sensitivity_is_the_derived_one_and_over_itself_a_little_for_rounding() -> None:
    facts: dict[str, Any] = {"features": 3, "rows": 50, "output_width": 1.0}
    derived = mean_absolute_shapley(**facts, relation=Relation.REPLACE_ONE).value
    assert derived <= importance().sensitivity(50).value < derived * (1 + 1e-11)
    itself = mean_absolute_shapley_over_itself(
        **facts, background_rows=50, relation=Relation.REPLACE_ONE
    ).value
    found = importance(OverItself(MODEL, SCHEMA)).sensitivity(50).value
    assert itself < found < itself * 1.001


def test_an_explainer_that_exaggerates_is_clipped() -> None:
    def boaster(rows: Any) -> Explanation:
        values = np.full((len(rows), 3), 1e9)
        return Explanation(
            values=values, base_values=np.zeros(1), feature_names=SCHEMA.feature_names
        )

    source = ByExplainer(boaster, Box(0, 1), SCHEMA)
    (found,) = importance(source).means(PEOPLE)
    assert np.linalg.norm(found) == pytest.approx(source.longest)


def test_one_bad_record_costs_the_others_nothing() -> None:
    def touchy(rows: Any) -> Explanation:
        if (rows[:, 2] == 10).any():
            raise ValueError("ten")
        return Explanation(
            values=rows / 200, base_values=np.zeros(1), feature_names=SCHEMA.feature_names
        )

    rows = PEOPLE.copy()
    rows[:, 2] = 1.0
    good = importance(ByExplainer(touchy, Box(0, 1), SCHEMA)).means(rows)[0]
    rows[0, 2] = 10.0
    bad = importance(ByExplainer(touchy, Box(0, 1), SCHEMA)).means(rows)[0]
    expected = good - np.abs(np.array([[rows[0, 0]], [rows[0, 1]], [1.0]])) / 200 / len(rows)
    assert np.allclose(bad, expected)


# --- Parts ----------------------------------------------------------------------------------------


def test_each_part_has_noise_for_its_own_size_and_they_compose_in_parallel() -> None:
    release = importance(parts=("north", "south"))
    cost = release.cost(40)
    assert isinstance(cost, Parallel)
    assert len(cost.events) == 2
    drawn = release.draw({"south": PEOPLE[10:], "north": PEOPLE[:10]})
    assert drawn.shape == (2, 3, 1)
    assert drawn.standard_errors is not None
    north, south = drawn.standard_errors[:, 0, 0]
    assert north == release.noise(10).sigma == pytest.approx(3 * south, rel=1e-4)
    assert release.guarantees(40)[0].epsilon == 1.0
    assert any("parts: north, south" in str(note) for note in drawn.notes)
    assert any("fixed" in text for text in drawn.guarantees[0].assumptions)


def test_the_cost_covers_the_noise_of_every_size() -> None:
    release = importance()
    for rows in (1, 7, 40, 12_345):
        assert release.noise(rows).event().noise_multiplier >= release.cost(rows).noise_multiplier  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [PEOPLE, {"north": PEOPLE}, {"north": PEOPLE, "west": PEOPLE}])
def test_parts_are_given_by_their_names(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="each part by name"):
        importance(parts=("north", "south")).draw(wrong)


@pytest.mark.parametrize("wrong", ["north", ("a", "a")])
def test_parts_have_different_names(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="different names"):
        importance(parts=wrong)


# --- Claims ---------------------------------------------------------------------------------------


def _two_players() -> ByExplainer:
    two = Schema("two", tuple(Feature(f"b{i}", Categories(("0", "1", "2"))) for i in range(2)))
    table = np.zeros((3, 3))
    table[1, 1] = table[1, 0] = 1.0  # record (1, 1): all of it is the first player's
    table[2, 2] = table[0, 2] = 1.0  # record (2, 2): all of it is the second player's
    model = wrap(
        lambda r: table[tuple(r.astype(np.intp).T)],
        outputs=Box(0, 1),
        digest="t",
        treats_rows_independently=True,
    )
    return ByExplainer(ExactShapley(model, np.zeros((1, 2)), schema=two), Box(0, 1), two)


@pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
def test_no_event_refutes_the_claim_unless_half_the_sensitivity_is_used() -> None:
    """(1, 0.01) on two records of two players; 10,000 draws, wrong once in 1e6."""
    release = importance(_two_players(), epsilon=1.0, delta=0.01)
    pair = [release.means(np.array([[0.0, 0.0], row]))[0][:, 0] for row in ([1.0, 1.0], [2.0, 2.0])]
    direction = pair[0] - pair[1]
    # The bound is √2·B·R/n with B = 1.2247; this pair is √2·R/n apart.
    assert np.linalg.norm(direction) == pytest.approx(math.sqrt(2) / 2)
    one = release.noise(2)
    many = replace(one, sensitivity=one.sensitivity.stacked(10_000), shape=(10_000, *one.shape))
    noise = many.randomise(np.zeros(many.shape))[:, :, 0]
    for factor in (1.0, 0.5):
        first, second = ((mean + factor * noise) @ direction for mean in pair)
        assert (bounds.delta_at_least(first, second, 1.0) > 0.01) is (factor < 1)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"relation": Relation.ADD_OR_REMOVE_ONE}, "number of rows is private"),
        ({"origins": [trained_on("people 1")]}, "population"),
    ],
)
def test_what_cannot_be_promised_is_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(Refused, match=match):
        importance(**settings)


def test_over_itself_needs_exact_values() -> None:
    with pytest.raises(Refused, match="exact values"):
        OverItself(wrap(lambda rows: rows[:, 0], outputs=Box(0, 1), digest="m"), MANY)


def test_a_model_trained_on_the_population_is_added() -> None:
    settings: dict[str, Any] = {"dataset": "training rows", "relation": Relation.BLANK_ONE}
    (promise,) = importance(origins=[TRAINED], **settings).guarantees(40)
    assert promise.epsilon == 2.0
    assert importance(origins=[TRAINED], **settings).cost(40) == importance(**settings).cost(40)
    with pytest.raises(Refused, match="do not add up"):
        importance(origins=[TRAINED], dataset="training rows")


def test_outputs_players_and_origins_are_part_of_the_identity() -> None:
    names = SCHEMA.feature_names
    wider = wrap(MODEL.forward, outputs=Box(0, 100), output_names=["risk"], digest=MODEL.digest)
    questions = [
        importance(OverItself(MODEL, SCHEMA)),
        importance(OverItself(wider, SCHEMA)),
        importance(OverItself(MODEL, SCHEMA, groups={"g": names[:2]})),
        importance(OverItself(MODEL, SCHEMA, groups={"g": names[1:]})),
        importance(OverItself(MODEL, SCHEMA), origins=[TRAINED]),
        importance(by_explainer()),
    ]
    assert len({one.identity for one in questions}) == len(questions)


def test_means_of_many_records_are_rounded_once() -> None:
    """Added up pairwise, values of one sign and very different size lose more than that."""
    vectors = np.full((300_000, 1, 1), 0.1)
    vectors[::2] = 1e-9 / 3
    exact = math.fsum(vectors.ravel().tolist()) / len(vectors)
    assert _mean_absolute(vectors).item() == exact
    assert _mean_absolute(-vectors).item() == exact


def test_the_sensitivity_leaves_room_for_rounding() -> None:
    release = importance()
    exact = release.importance.sensitivity(10**7, release.protected.relation).value
    # A sum and a division, each rounded once, in two neighbours; relative to a share of 1/n.
    assert release.sensitivity(10**7).value >= exact * (1 + 4 * 2.0**-53 * 10**7)
