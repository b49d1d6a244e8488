"""One suite for every method: what comes in, what comes out, and what is said about bad input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from voile.attribution import (
    Evaluations,
    ExactShapley,
    Gradient,
    IntegratedGradients,
    KernelShapley,
    Lime,
    PermutationShapley,
    ShapleyInteractions,
    Speed,
    TreeShapley,
)
from voile.core.errors import InvalidInput
from voile.core.explanation import NO_GUARANTEE, Explanation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import wrap

pd: Any = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")

Array = NDArray[np.float64]
NAMES = ("age", "dose", "weight", "heat")
DRAW = np.random.default_rng(7)
BACKGROUND = DRAW.normal(size=(15, 4))
ROWS = DRAW.normal(size=(5, 4))


def two_outputs(rows: Array) -> Array:
    score = 0.8 * rows[:, 0] - rows[:, 1] * rows[:, 2] + 0.3 * rows[:, 3] ** 2
    return np.column_stack([np.tanh(score), score])


def slopes(rows: Array, output: int) -> Array:
    score = 0.8 * rows[:, 0] - rows[:, 1] * rows[:, 2] + 0.3 * rows[:, 3] ** 2
    inner = np.column_stack([np.full(len(rows), 0.8), -rows[:, 2], -rows[:, 1], 0.6 * rows[:, 3]])
    return inner if output == 1 else inner * (1 - np.tanh(score) ** 2)[:, np.newaxis]


def forest(rows: Array, targets: Array) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=4, max_depth=4, random_state=0).fit(rows, targets)


@dataclass(frozen=True)
class Method:
    """How to build one method, and what it cannot do by its nature."""

    build: Callable[..., Any]
    additive: bool = True
    sampled: bool = False
    any_model: bool = True
    needs_background: bool = True

    def on(self, model: Any = None, background: Any = BACKGROUND, **settings: Any) -> Any:
        if not self.any_model:
            model = forest(BACKGROUND, two_outputs(BACKGROUND))
        elif model is None:
            model = wrap(two_outputs, gradient=slopes)
        elif callable(model):
            model = wrap(model, gradient=lambda rows, _: np.zeros_like(rows))
        return self.build(model, background, **settings)


METHODS = {
    "exact": Method(ExactShapley),
    "kernel": Method(lambda *a, **k: KernelShapley(*a, effort=Evaluations(600), **k), sampled=True),
    "permutation": Method(
        lambda *a, **k: PermutationShapley(*a, effort=Evaluations(600), **k), sampled=True
    ),
    "interactions": Method(ShapleyInteractions),
    "trees": Method(TreeShapley, any_model=False),
    "integrated gradients": Method(IntegratedGradients, needs_background=False),
    "gradient": Method(
        lambda model, _, **k: Gradient(model, **k), additive=False, needs_background=False
    ),
    "lime": Method(lambda *a, **k: Lime(*a, samples=400, **k), additive=False, sampled=True),
}


@pytest.fixture(params=list(METHODS))
def method(request: pytest.FixtureRequest) -> Method:
    return METHODS[request.param]


def frame(rows: Array) -> Any:
    return pd.DataFrame(rows, columns=list(NAMES))


# --- what comes out -------------------------------------------------------------------------------


def test_values_have_rows_features_and_outputs_and_no_guarantee(method: Method) -> None:
    found: Explanation = method.on()(ROWS)
    assert isinstance(found, Explanation)
    assert found.shape[0] == 5
    assert found.shape[2] == 2
    assert found.feature_names[:2] == ("feature 0", "feature 1")
    assert found.guarantees == ()
    assert NO_GUARANTEE in repr(found)


def test_a_dataframe_keeps_its_names_and_gives_the_same_values(method: Method) -> None:
    plain = method.on()(ROWS)
    named = method.on(background=frame(BACKGROUND))(frame(ROWS))
    assert named.feature_names[:4] == NAMES
    assert np.allclose(named.values, plain.values, atol=1e-12)
    assert np.allclose(named.base_values, plain.base_values)


def test_columns_are_found_by_name_whatever_their_order(method: Method) -> None:
    explainer = method.on(background=frame(BACKGROUND), feature_names=NAMES)
    shuffled = frame(ROWS)[["heat", "age", "weight", "dose"]].assign(label="x")
    assert explainer(shuffled) == explainer(frame(ROWS))


def test_values_add_up_to_prediction_minus_base(method: Method) -> None:
    if not method.additive:
        pytest.skip("this method does not decompose the prediction")
    explainer = method.on()
    found = explainer(ROWS)
    model = (
        forest(BACKGROUND, two_outputs(BACKGROUND)).predict
        if not method.any_model
        else (two_outputs)
    )
    total = found.values.sum(axis=1) + found.base_values
    assert np.allclose(total, model(ROWS), atol=1e-5)


def test_batches_change_no_value(method: Method) -> None:
    whole = method.on()(ROWS)
    cut = method.on(speed=Speed(batch_rows=7))(ROWS)
    assert whole.allclose(cut, atol=1e-9)


def test_progress_ends_at_all_rows(method: Method) -> None:
    seen: list[tuple[int, int]] = []
    method.on(speed=Speed(progress=lambda done, total: seen.append((done, total))))(ROWS)
    assert seen[-1] == (5, 5)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_groups_are_players(method: Method) -> None:
    groups = {"body": ["age", "weight"]}
    found = method.on(background=frame(BACKGROUND), groups=groups)(frame(ROWS))
    assert found.feature_names[:3] == ("body", "dose", "heat")
    assert found.data is None
    if method.additive:
        single = method.on(background=frame(BACKGROUND))(frame(ROWS))
        assert np.allclose(found.values.sum(axis=1), single.values.sum(axis=1), atol=1e-5)


def test_unknown_features_in_a_group_are_named(method: Method) -> None:
    with pytest.raises(InvalidInput, match="height"):
        method.on(background=frame(BACKGROUND), groups={"body": ["height"]})(frame(ROWS))


def test_nothing_that_is_handed_in_is_changed(method: Method) -> None:
    rows, background = ROWS.copy(), BACKGROUND.copy()
    found = method.on(background=background)(rows)
    assert np.array_equal(rows, ROWS)
    assert np.array_equal(background, BACKGROUND)
    with pytest.raises(ValueError, match="read-only"):
        found.values[0, 0, 0] = 1.0


def test_a_model_that_writes_into_its_input_does_no_harm(method: Method) -> None:
    if not method.any_model:
        pytest.skip("shap reads the trees themselves")

    def spoils(rows: Array) -> Array:
        found = two_outputs(rows)
        rows[:] = 99.0
        return found

    clean = method.on(two_outputs)(ROWS)
    assert np.allclose(method.on(spoils)(ROWS).values, clean.values)


def test_the_same_call_gives_the_same_answer(method: Method) -> None:
    explainer = method.on()
    assert explainer(ROWS) == explainer(ROWS)
    if method.sampled:
        errors = explainer(ROWS).standard_errors
        assert errors is not None
        # Four players have so few coalitions that the regression takes all: nothing is random.
        assert method.on(seed=1)(ROWS).allclose(explainer(ROWS)) == bool((errors == 0).all())


def test_one_row_by_itself_gets_what_it_gets_among_others(method: Method) -> None:
    if method.sampled:
        pytest.skip("rows have random numbers of their own")
    explainer = method.on()
    assert np.allclose(explainer(ROWS[:1]).values, explainer(ROWS).values[:1], atol=1e-12)


# --- inputs that are unusual but right ------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows.astype(np.float32),
        lambda rows: np.asfortranarray(rows),
        lambda rows: np.repeat(rows, 2, axis=0)[::2],
        lambda rows: rows[:, ::-1][:, ::-1],
        lambda rows: rows.tolist(),
    ],
    ids=["float32", "fortran", "strided rows", "strided columns", "lists"],
)
def test_forms_of_arrays(method: Method, form: Callable[[Array], Any]) -> None:
    rows = np.round(ROWS * 4) / 4  # exact in float32
    assert np.allclose(method.on()(form(rows)).values, method.on()(rows).values, atol=1e-12)


def test_integers_and_booleans_are_numbers(method: Method) -> None:
    rows = np.array([[1, 0, 2, -1], [0, 1, 1, 3]])
    background = (BACKGROUND > 0).astype(float)
    explainer = method.on(background=background)
    assert explainer(rows).allclose(explainer(rows.astype(float)))
    flags = rows > 0
    assert explainer(flags).allclose(explainer(flags.astype(float)))


def test_a_constant_model_has_no_attributions(method: Method) -> None:
    if not method.any_model:
        pytest.skip("a forest")
    found = method.on(lambda rows: np.full((len(rows), 3), 2.5))(ROWS)
    assert np.allclose(found.values, 0.0, atol=1e-12)
    assert np.allclose(found.base_values, 2.5)


def test_one_feature(method: Method) -> None:
    if not method.any_model:
        pytest.skip("a forest of four features")
    model = wrap(lambda rows: rows[:, 0] * 3, gradient=lambda rows, _: np.full_like(rows, 3.0))
    background = BACKGROUND[:, :1]
    found = method.build(model, background)(ROWS[:, :1])
    assert found.shape == (5, 1, 1)
    if method.additive:
        total = found.values[:, :, 0].sum(axis=1) + found.base_values[:, 0]
        assert np.allclose(total, ROWS[:, 0] * 3)


def test_one_background_row(method: Method) -> None:
    found = method.on(background=BACKGROUND[:1])(ROWS)
    assert np.isfinite(found.values).all()


# --- inputs that are wrong ------------------------------------------------------------------------


def test_a_wrong_width_says_both_widths(method: Method) -> None:
    model = None if method.any_model else "forest"
    settings = {} if method.needs_background else {"feature_names": NAMES}
    explainer = method.on(model, **settings)
    with pytest.raises(InvalidInput, match=r"must have 4 features, found 3"):
        explainer(ROWS[:, :3])


def test_missing_columns_are_named(method: Method) -> None:
    explainer = method.on(background=frame(BACKGROUND), feature_names=NAMES)
    with pytest.raises(InvalidInput, match="dose"):
        explainer(frame(ROWS).drop(columns="dose"))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_their_column(
    method: Method, bad: float
) -> None:
    rows = ROWS.copy()
    rows[2, 1] = bad
    with pytest.raises(InvalidInput, match="'dose'"):
        method.on(feature_names=NAMES)(rows)
    if method.needs_background:
        with pytest.raises(InvalidInput, match="the background must be finite"):
            method.on(background=np.vstack([BACKGROUND, rows]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[0], "two axes"),
        (np.empty((0, 4)), "at least one row"),
        (np.array([["a", "b", "c", "d"]]), "schema="),
        (ROWS.astype(complex), "numbers"),
        ([[1.0, 2.0], [3.0]], "two axes"),
        (None, "two axes"),
    ],
    ids=["one axis", "no rows", "text", "complex", "ragged", "nothing"],
)
def test_what_is_no_table_of_numbers(method: Method, rows: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        method.on()(rows)


def test_text_in_a_dataframe_asks_for_a_schema(method: Method) -> None:
    table = frame(ROWS).astype({"dose": object})
    table.loc[0, "dose"] = "high"
    with pytest.raises(InvalidInput, match="schema="):
        method.on(feature_names=NAMES)(table)


def test_no_background_rows(method: Method) -> None:
    if not method.needs_background:
        pytest.skip("has no background")
    with pytest.raises(InvalidInput, match="at least one row"):
        method.on(background=np.empty((0, 4)))


def test_names_given_twice(method: Method) -> None:
    with pytest.raises(InvalidInput, match="different"):
        method.on(feature_names=("a", "a", "b", "c"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda rows: np.zeros((len(rows) + 1, 2)), "must return an array of shape"),
        (lambda rows: np.zeros((len(rows), 2, 2)), "must return an array of shape"),
        (lambda _: 0.5, "must return an array of shape"),
        (lambda rows: np.full(len(rows), "yes"), "must return numbers"),
        (lambda rows: np.where(rows[:, :1] > -9, np.nan, 0.0), "NaN or infinity"),
    ],
    ids=["one row more", "three axes", "a number", "text", "nan"],
)
def test_a_model_that_answers_badly(
    method: Method, model: Callable[[Array], Any], message: str
) -> None:
    if not method.any_model:
        pytest.skip("shap reads the trees themselves")
    with pytest.raises(InvalidInput, match=message):
        method.on(model)(ROWS)


@pytest.mark.parametrize("exact", [ExactShapley, ShapleyInteractions])
def test_ten_thousand_features_are_too_many_for_exact_values(exact: Any) -> None:
    with pytest.raises(InvalidInput, match="found 10000; use KernelShapley"):
        exact(lambda rows: rows.sum(axis=1), np.zeros((2, 10_000)))


@pytest.mark.parametrize("sampled", [KernelShapley, PermutationShapley])
def test_ten_thousand_features_are_too_many_for_sampling(sampled: Any) -> None:
    with pytest.raises(InvalidInput, match="form groups"):
        sampled(lambda rows: rows.sum(axis=1), np.zeros((2, 10_000)))


# --- raw values through a schema ------------------------------------------------------------------

SCHEMA = Schema(
    "pets",
    (
        Feature("kind", Categories(("cat", "dog", "fish"))),
        Feature("age", Numbers(0, 20)),
        Feature("legs", Numbers(0, 4, whole=True)),
    ),
)
PETS = pd.DataFrame({"kind": ["cat", "dog", "fish"], "age": [3.0, 7.5, 1.0], "legs": [4, 4, 0]})


def pet_model(rows: Array) -> Array:
    return rows[:, 0] + 0.1 * rows[:, 1] * rows[:, 2]


def with_schema(method: Method) -> Any:
    model = wrap(pet_model, gradient=lambda rows, _: np.ones_like(rows))
    return method.build(model, PETS, schema=SCHEMA)


def test_a_schema_reads_category_names(method: Method) -> None:
    if not method.any_model:
        pytest.skip("a forest of four features")
    explainer = with_schema(method)
    found = explainer(PETS)
    assert found.feature_names[:3] == ("kind", "age", "legs")
    assert found == explainer(SCHEMA.rows(PETS))


def test_unknown_categories_and_values_outside_are_refused(method: Method) -> None:
    if not method.any_model:
        pytest.skip("a forest of four features")
    explainer = with_schema(method)
    with pytest.raises(InvalidInput, match=r"'kind': 1 × unknown category"):
        explainer(PETS.replace({"kind": {"fish": "snake"}}))
    with pytest.raises(InvalidInput, match=r"'age': 1 × above"):
        explainer(PETS.replace({"age": {7.5: 99.0}}))
    with pytest.raises(InvalidInput, match=r"outside the schema 'pets', in 'kind'"):
        explainer(np.array([[7.0, 3.0, 4.0]]))
    with pytest.raises(InvalidInput, match=r"lacks the columns 'legs'"):
        explainer(PETS.drop(columns="legs"))
