"""What can be wrapped, what it then says about itself, and what is done to its answers."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import voile.models as package
from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import (
    Box,
    DifferentiableModel,
    Model,
    Simplex,
    Unbounded,
    compare_predictions,
    wrap,
)

pd: Any = pytest.importorskip("pandas")
Array = NDArray[np.float64]
DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(30, 3))
LABELS = np.where(ROWS[:, 0] > 0, "yes", "no")


@pytest.fixture(scope="module")
def classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(ROWS, LABELS)


@pytest.fixture(scope="module")
def network() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).eval()


def test_a_classifier_gives_probabilities_with_the_names_of_its_classes(classifier: Any) -> None:
    model = wrap(classifier)
    assert isinstance(model, Model)
    assert model.output_names == ("no", "yes")
    assert model.outputs == Simplex()
    assert model.width == 3
    assert np.allclose(model.predict(ROWS), classifier.predict_proba(ROWS))


def test_a_regressor_gives_numbers_without_bounds() -> None:
    from sklearn.linear_model import LinearRegression

    model = wrap(LinearRegression().fit(ROWS, ROWS[:, 0]))
    assert model.outputs == Unbounded()
    assert model.predict(ROWS).shape == (30, 1)


def test_an_estimator_fitted_on_a_dataframe_gets_dataframes() -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    by_name = make_column_transformer((StandardScaler(), ["c", "a"]))
    fitted = make_pipeline(by_name, LogisticRegression()).fit(frame, LABELS)
    model = wrap(fitted)
    assert model.feature_names == ("a", "b", "c")
    assert np.allclose(model.predict(ROWS), fitted.predict_proba(frame))


def test_an_estimator_of_raw_values_is_fed_through_the_schema() -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"kind": ["cat", "dog", "cat", "dog"], "age": [1.0, 2.0, 3.0, 4.0]})
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    fitted = make_pipeline(encode, LogisticRegression()).fit(frame, [0, 1, 0, 1])
    features = (Feature("kind", Categories(("dog", "cat"))), Feature("age", Numbers(0, 9)))
    schema = Schema("pets", features)
    model = wrap(fitted, schema)
    assert np.allclose(model.predict(schema.rows(frame)), fitted.predict_proba(frame))
    with pytest.raises(InvalidInput, match="the schema declares"):
        wrap(fitted, schema=Schema("other", features[:1]))


def test_a_model_gets_its_own_spelling_of_a_category() -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"kind": ["cat ", "dog"] * 4, "age": np.arange(8.0)})
    known = OneHotEncoder(handle_unknown="ignore")
    encode = make_column_transformer((known, ["kind"]), remainder="passthrough")
    fitted = make_pipeline(encode, LogisticRegression()).fit(frame, [0, 1] * 4)
    features = (Feature("kind", Categories(("dog", "cat"))), Feature("age", Numbers(0, 9)))
    schema = Schema("pets", features)
    model = wrap(fitted, schema)
    assert np.allclose(model.predict(schema.rows(frame)), fitted.predict_proba(frame), atol=1e-9)


@pytest.mark.parametrize(
    ("own", "listed"),
    [
        ([1, 2, 3], ("1", "2", "3")),
        ([1.0, 2.0, 3.5], ("1", "2.0", "3.5")),
        ([True, False], ("true", "False")),
    ],
)
def test_a_model_gets_numbers_and_truth_values_that_a_schema_writes_as_text(
    own: list[Any], listed: tuple[str, ...]
) -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"kind": own * 6})
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]))
    fitted = make_pipeline(encode, LogisticRegression()).fit(
        frame, np.arange(len(frame)) % len(own) == 0
    )
    schema = Schema("kinds", (Feature("kind", Categories(listed)),))
    model = wrap(fitted, schema)
    rows = np.arange(len(own), dtype=float)[:, None]
    assert np.allclose(model.predict(rows), fitted.predict_proba(frame[: len(own)]), atol=1e-9)


def test_a_category_that_the_schema_lacks_is_compared_as_well() -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"kind": ["A", "b", "c"] * 4})
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]))
    fitted = make_pipeline(encode, LogisticRegression()).fit(frame, [1, 0, 0] * 4)
    schema = Schema("kinds", (Feature("kind", Categories(("c", "b", "a"))),))
    with pytest.raises(InvalidInput, match="in 4 of 12 rows"):
        wrap(fitted, schema, public_rows=frame)
    unknown = pd.DataFrame({"kind": ["b", "never seen"]})
    assert compare_predictions(wrap(fitted, schema), unknown).rows == 1


def test_a_pipeline_that_takes_no_drawn_rows_is_wrapped_as_before() -> None:
    class Picky(_Blanks):
        def predict(self, frame: Any) -> Any:
            raise ValueError(f"too many cats: {len(frame)}")

    schema = Schema("pets", (Feature("kind", Categories(("dog", "cat"))),))
    assert wrap(Picky(), schema).feature_names == ("kind",)


class _Blanks:
    """Tells "cat " from "cat", without an encoder that says so."""

    feature_names_in_ = np.array(["kind"], dtype=object)

    def get_params(self) -> dict[str, Any]:
        return {}

    def predict(self, frame: Any) -> Any:
        return (frame["kind"] == "cat ").to_numpy().astype(float)


def test_predictions_that_wrapping_would_change_are_refused() -> None:
    schema = Schema("pets", (Feature("kind", Categories(("dog", "cat"))),))
    table = pd.DataFrame({"kind": ["cat ", "dog", "cat", None]})
    with pytest.raises(InvalidInput, match=r"in 1 of 3 rows, by up to 1\. .*Fit the pipeline"):
        wrap(_Blanks(), schema, public_rows=table)
    found = compare_predictions(wrap(_Blanks(), schema), table)  # for a custodian: no refusal
    assert (found.rows, found.changed, found.largest) == (3, 1, 1.0)
    wrap(_Blanks(), schema, public_rows=table[1:])
    with pytest.raises(InvalidInput, match="needs `schema=`"):
        wrap(_Blanks(), public_rows=table)


def test_rows_drawn_from_the_schema_show_a_changed_spelling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"kind": ["cat ", "dog"] * 4})
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]))
    fitted = make_pipeline(encode, LogisticRegression()).fit(frame, [0, 1] * 4)
    schema = Schema("pets", (Feature("kind", Categories(("dog", "cat", "bird"))),))
    wrap(fitted, schema)
    monkeypatch.setattr("voile.models.wrapping.own_spelling", lambda *_: {})
    with pytest.raises(InvalidInput, match="predicts otherwise than the pipeline"):
        wrap(fitted, schema)


def test_categories_that_differ_in_blanks_alone_are_refused() -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"kind": ["cat ", "cat"] * 4})
    encode = make_column_transformer((OneHotEncoder(), ["kind"]))
    fitted = make_pipeline(encode, LogisticRegression()).fit(frame, [0, 1] * 4)
    with pytest.raises(InvalidInput, match="differ in blanks alone"):
        wrap(fitted, Schema("pets", (Feature("kind", Categories(("dog", "cat"))),)))


@pytest.mark.parametrize(
    "columns", [["kind"], slice("kind", "kind"), [1], slice(1, 2), [False, True]]
)
@pytest.mark.parametrize("other", ["dog", "cat"])
def test_the_spelling_is_found_behind_an_imputer(columns: Any, other: str) -> None:
    """An encoder behind an imputer gets an array, so it does not know the name of its column."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"age": np.arange(8.0), "kind": ["cat ", other] * 4})
    filled = SimpleImputer(strategy="constant", fill_value=other)
    encode = make_pipeline(filled, OneHotEncoder(handle_unknown="ignore"))
    by_column = make_column_transformer((encode, columns), remainder="passthrough")
    fitted = make_pipeline(by_column, LogisticRegression()).fit(frame, [0, 1] * 4)
    features = (Feature("age", Numbers(0, 9)), Feature("kind", Categories(("dog", "cat"))))
    schema = Schema("pets", features)
    if other == "cat":
        with pytest.raises(InvalidInput, match="differ in blanks alone"):
            wrap(fitted, schema)
        return
    model = wrap(fitted, schema)
    assert np.allclose(model.predict(schema.rows(frame)), fitted.predict_proba(frame), atol=1e-9)


def test_a_network_predicts_and_differentiates_in_its_own_precision(network: Any) -> None:
    import torch

    model = wrap(network, output_names=("a", "b"))
    assert isinstance(model, DifferentiableModel)
    expected = network(torch.tensor(ROWS, dtype=torch.float32)).detach().numpy()
    assert np.array_equal(model.predict(ROWS), expected.astype(float))
    step = 1e-3
    for output in range(2):
        slope = model.gradient(ROWS, output)
        for feature in range(3):
            moved = ROWS.copy()
            moved[:, feature] += step
            ahead = model.predict(moved)[:, output]
            moved[:, feature] -= 2 * step
            behind = model.predict(moved)[:, output]
            assert np.allclose(slope[:, feature], (ahead - behind) / (2 * step), atol=2e-3)


def test_a_network_with_one_flat_output() -> None:
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 1)

        def forward(self, rows: Any) -> Any:
            return self.inner(rows)[:, 0]

    module = Flat().double().eval()
    model = wrap(module)
    assert model.predict(ROWS).shape == (30, 1)
    weights = module.inner.weight.detach().numpy()
    assert np.allclose(model.gradient(ROWS, 0), np.broadcast_to(weights, (30, 3)))


def test_a_network_in_training_mode_is_refused(network: Any) -> None:
    import copy

    training = copy.deepcopy(network).train()
    with pytest.raises(InvalidInput, match=r"eval\(\)"):
        wrap(training).predict(ROWS)
    assert training.training


def onnx_file(classifier: Any, folder: Path) -> Path:
    to_onnx: Any = pytest.importorskip("skl2onnx").to_onnx
    path = folder / "model.onnx"
    proto = to_onnx(classifier, ROWS[:1].astype(np.float32), options={"zipmap": False})
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_onnx_gives_what_the_estimator_gives(classifier: Any, tmp_path: Path) -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    path = onnx_file(classifier, tmp_path)
    model = wrap(path)
    assert model.outputs == Simplex()
    assert np.allclose(model.predict(ROWS), classifier.predict_proba(ROWS), atol=1e-6)
    session = onnxruntime.InferenceSession(path.read_bytes())
    opened = wrap(session, digest=model.digest)
    assert np.array_equal(opened.predict(ROWS), model.predict(ROWS))
    with pytest.raises(InvalidInput, match="digest="):
        _ = wrap(session).digest
    with pytest.raises(InvalidInput, match="takes 3 features"):
        model.predict(ROWS[:, :2])


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("kind", "labels", "stated"),
    [
        ("linear_model.LogisticRegression", ("yes", "no"), ("no", "yes")),
        ("linear_model.LogisticRegression", (0, 1), ("0", "1")),
        ("tree.DecisionTreeClassifier", ("yes", "no"), ("no", "yes")),
        ("neural_network.MLPClassifier", ("yes", "no"), None),  # words in an order not stated
    ],
)
def test_an_onnx_classifier_states_its_labels_in_the_order_of_its_outputs(
    kind: str, labels: tuple[Any, ...], stated: tuple[str, ...] | None, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    package, name = kind.split(".")
    made = getattr(pytest.importorskip(f"sklearn.{package}"), name)()
    fitted = made.fit(ROWS, np.resize(np.array(labels), len(ROWS)))
    assert wrap(onnx_file(fitted, tmp_path)).class_labels == stated


def fake_booster(home: str) -> Any:
    """The native models of XGBoost and LightGBM, which are not among our dependencies."""
    kind = type("Booster", (), {"__module__": f"{home}.core"})
    booster = kind()
    booster.feature_names = ["a", "b", "c"]
    return booster


def test_boosters_are_told_by_their_home(monkeypatch: pytest.MonkeyPatch) -> None:
    lightgbm = fake_booster("lightgbm.basic")
    lightgbm.predict = lambda rows: rows[:, 0]
    lightgbm.feature_name = lambda: ["a", "b", "c"]
    lightgbm.model_to_string = lambda: "tree"
    model = wrap(lightgbm)
    assert model.feature_names == ("a", "b", "c")
    assert np.array_equal(model.predict(ROWS)[:, 0], ROWS[:, 0])
    assert len(model.digest) == 64

    module: Any = types.ModuleType("xgboost")
    module.DMatrix = lambda rows, feature_names: (rows, feature_names)
    monkeypatch.setitem(sys.modules, "xgboost", module)
    xgboost = fake_booster("xgboost")
    xgboost.predict = lambda matrix: matrix[0][:, 1]
    xgboost.save_raw = lambda form: bytearray(form, "ascii")
    model = wrap(xgboost)
    assert np.array_equal(model.predict(ROWS)[:, 0], ROWS[:, 1])
    assert len(model.digest) == 64


def test_what_does_not_predict_is_refused() -> None:
    with pytest.raises(InvalidInput, match="found int"):
        wrap(3)


def test_wrapping_twice_changes_what_is_said_again() -> None:
    once = wrap(lambda rows: rows[:, :2], output_names=("a", "b"))
    assert wrap(once) is once
    assert wrap(once, output_names=("c", "d")).output_names == ("c", "d")
    for wrong in (("a",), ("a", "a"), ("a", "")):
        with pytest.raises(InvalidInput):
            wrap(once, output_names=wrong)


def test_the_only_output_of_a_plain_list_of_scores() -> None:
    model = wrap(lambda rows: rows[:, 0], output_names=("score",), digest="first column")
    assert model.only("score").predict(np.array([[3.0, 1.0]])).tolist() == [[3.0]]


def test_some_outputs_only(classifier: Any, network: Any) -> None:
    model = wrap(classifier)
    yes = model.only("yes")
    assert yes.output_names == ("yes",)
    assert yes.outputs == Box(0.0, 1.0)
    assert np.array_equal(yes.predict(ROWS)[:, 0], model.predict(ROWS)[:, 1])
    assert yes.digest != model.digest
    with pytest.raises(InvalidInput, match="maybe"):
        model.only("maybe")
    both = wrap(network, output_names=("a", "b"), outputs=Box((-1.0, -2.0), (1.0, 2.0)))
    second = both.only("b")
    assert second.outputs == Box((-2.0,), (2.0,))
    assert np.array_equal(second.gradient(ROWS, 0), both.gradient(ROWS, 1))


# --- output sets ----------------------------------------------------------------------------------


def test_outputs_outside_the_box_are_clamped_and_counted() -> None:
    model = wrap(lambda rows: rows[:, 0] * 10, outputs=Box(-1, 1))
    answers = model.predict(ROWS)
    assert np.array_equal(answers[:, 0], np.clip(ROWS[:, 0] * 10, -1, 1))
    outside = int((np.abs(ROWS[:, 0] * 10) > 1).sum())
    assert (model.diagnostics.rows, model.diagnostics.clamped) == (30, outside)
    assert "clamped" in repr(model.diagnostics)


def test_the_nearest_probabilities() -> None:
    """Against a search over the simplex."""
    given = np.array([[0.5, 0.5, 0.5], [2.0, 0.0, 0.0], [-1.0, 0.2, 0.3], [0.2, 0.3, 0.5]])
    found, moved = Simplex().clamp(given)
    assert moved == 3
    assert np.allclose(found.sum(axis=1), 1.0)
    assert (found >= 0).all()
    assert np.array_equal(found[3], given[3])
    candidates = np.random.default_rng(0).dirichlet(np.full(3, 0.5), size=40_000)
    for point, target in zip(found, given, strict=True):
        nearest = np.linalg.norm(candidates - target, axis=1).min()
        assert np.linalg.norm(point - target) <= nearest + 1e-12


def test_rounding_of_probabilities_is_no_clamping() -> None:
    almost = np.array([[0.3, 0.7000002]])
    found, moved = Simplex().clamp(almost)
    assert moved == 0
    assert found is almost


@pytest.mark.parametrize(
    ("outputs", "count", "width", "radius"),
    [
        (Simplex(), 2, np.sqrt(2), np.sqrt(1 / 2)),
        (Simplex(), 5, np.sqrt(2), np.sqrt(4 / 5)),
        (Box(0, 1), 1, 1.0, 0.5),
        (Box(-1, 3), 4, 8.0, 4.0),
        (Box((0.0, 0.0), (3.0, 4.0)), 2, 5.0, 2.5),
    ],
)
def test_widths_and_radii(outputs: Any, count: int, width: float, radius: float) -> None:
    assert outputs.width(count) == pytest.approx(width)
    assert outputs.radius(count) == pytest.approx(radius)
    draw = np.random.default_rng(1).normal(size=(500, count)) * 10
    inside, _ = outputs.clamp(draw)
    far = np.linalg.norm(inside[:, np.newaxis] - inside[np.newaxis], axis=2).max()
    assert far <= width + 1e-12
    assert np.linalg.norm(inside - outputs.centre(count), axis=1).max() <= radius + 1e-12


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Box(1, 1),
        lambda: Box(0, float("inf")),
        lambda: Box((0.0, 1.0), (1.0,)),
        lambda: Box((0.0, 0.0), (1.0, 1.0)).width(3),
        lambda: Unbounded().centre(2),
    ],
)
def test_sets_that_make_no_sense(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        wrong()


def test_gaps_become_the_centre_where_the_model_is_made_total() -> None:
    def gappy(rows: Array) -> Array:
        return np.where(rows[:, :2] > 0, rows[:, :2], np.nan)

    model = wrap(gappy, outputs=Box(0, 4))
    with pytest.raises(InvalidInput, match=f"of {len(ROWS)} rows"):
        model.predict(ROWS)
    answers = model.made_total().predict(ROWS)
    broken = ~(ROWS[:, :2] > 0).all(axis=1)
    assert (answers[broken] == 2.0).all()
    assert model.diagnostics.not_finite > 0
    with pytest.raises(InvalidInput, match="no centre"):
        wrap(gappy).made_total().predict(ROWS)


def test_gradients_of_the_wrong_shape() -> None:
    model = wrap(lambda rows: rows[:, 0], gradient=lambda rows, _: rows[:, :1])
    with pytest.raises(InvalidInput, match="gradient must be finite"):
        model.gradient(ROWS, 0)
    with pytest.raises(InvalidInput, match="has no gradients"):
        wrap(lambda rows: rows[:, 0]).gradient(ROWS, 0)


def test_exports_are_there() -> None:
    assert all(hasattr(package, name) for name in package.__all__)
