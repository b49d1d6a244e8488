"""To shap and back, and every picture that shap can draw of what it is given."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from voile.core.errors import InvalidInput, MissingDependency
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation

with warnings.catch_warnings():  # shap uses what matplotlib is about to deprecate
    warnings.simplefilter("ignore", PendingDeprecationWarning)
    import shap

PROMISE = Guarantee(
    epsilon=0.5,
    delta=0.0,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "clinic v3"),
    against=(Adversary.PUBLIC,),
    computational=False,
    mechanism="Laplace noise",
    composition="one release",
)


def explain(**parts: Any) -> Explanation:
    """Any array-like will do at run time."""
    return Explanation(**parts)


def example(rows: int, features: int, outputs: int, *, data: bool = True) -> Explanation:
    draw = np.random.default_rng(rows + 10 * features + 100 * outputs)
    return explain(
        values=draw.normal(size=(rows, features, outputs)),
        base_values=draw.normal(size=(rows, outputs)),
        feature_names=[f"f{i}" for i in range(features)],
        output_names=[f"o{i}" for i in range(outputs)],
        data=draw.normal(size=(rows, features)) if data else None,
    )


SHAPES = [(1, 3, 1), (1, 3, 2), (4, 3, 1), (4, 3, 2), (3, 3, 1), (3, 3, 3), (1, 1, 1), (1, 3, 3)]


# --- to shap and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("data", [True, False], ids=["data", "no data"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_explanation_survives_shap(shape: tuple[int, int, int], data: bool) -> None:
    explanation = example(*shape, data=data)
    assert Explanation.from_shap(explanation.to_shap()) == explanation


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_single_output_axis_is_dropped(shape: tuple[int, int, int]) -> None:
    rows, features, outputs = shape
    converted = example(*shape).to_shap()
    assert converted.values.shape == (shape if outputs > 1 else (rows, features))
    assert converted.base_values.shape == ((rows, outputs) if outputs > 1 else (rows,))
    assert converted.data.shape == (rows, features)
    assert converted.feature_names == [f"f{i}" for i in range(features)]


@pytest.mark.parametrize("data", [True, False], ids=["data", "no data"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_row_taken_by_shap_is_one_row(shape: tuple[int, int, int], data: bool) -> None:
    explanation = example(*shape, data=data)
    converted = explanation.to_shap()
    for row in range(shape[0]):
        assert Explanation.from_shap(converted[row]) == explanation[row]


@pytest.mark.parametrize("data", [True, False], ids=["data", "no data"])
@pytest.mark.parametrize("shape", [(1, 3, 2), (4, 3, 2), (3, 3, 3)], ids=str)
def test_one_output_taken_by_shap_is_one_output(shape: tuple[int, int, int], data: bool) -> None:
    explanation = example(*shape, data=data)
    converted = explanation.to_shap()
    for output in range(shape[2]):
        assert Explanation.from_shap(converted[:, :, output]) == explanation[:, :, output]
        assert Explanation.from_shap(converted[0, :, output]) == explanation[0, :, output]


def test_some_rows_taken_by_shap_are_the_same_rows() -> None:
    explanation = example(4, 3, 2)
    assert Explanation.from_shap(explanation.to_shap()[1:3]) == explanation[1:3]


def test_text_survives_shap() -> None:
    explanation = explain(
        values=[[1, 2]], base_values=0, feature_names=["a", "b"], data=[["x", "männlich"]]
    )
    assert Explanation.from_shap(explanation.to_shap()) == explanation


def test_what_shap_left_unnamed_is_numbered() -> None:
    one = Explanation.from_shap(shap.Explanation(values=np.ones((4, 2)), base_values=0.5))
    assert one.feature_names == ("feature 0", "feature 1")
    assert one.output_names == ("output",)
    assert one.base_values.tolist() == [[0.5]] * 4
    several = Explanation.from_shap(
        shap.Explanation(values=np.ones((4, 2, 2)), base_values=np.array([0.5, 0.6]))
    )
    assert several.output_names == ("output 0", "output 1")
    assert several.base_values.tolist() == [[0.5, 0.6]] * 4


def test_an_explanation_made_by_shap_can_be_read() -> None:
    background = np.array([[0.0, 0.0], [2.0, 4.0]])
    explainer = shap.explainers.Linear((np.array([1.0, 10.0]), 0.0), background)
    explanation = Explanation.from_shap(explainer(np.array([[1.0, 1.0], [3.0, 2.0]])))
    assert explanation.shape == (2, 2, 1)
    assert np.allclose(explanation.values[..., 0], [[0, -10], [2, 0]])
    assert np.allclose(explanation.base_values, 21)


def test_guarantees_stay_behind_and_are_not_invented() -> None:
    explanation = explain(values=[[1.0]], base_values=0, feature_names=["a"], guarantees=[PROMISE])
    back = Explanation.from_shap(explanation.to_shap())
    assert back.guarantees == ()
    assert "no privacy guarantee" in repr(back)


def test_shap_gets_copies() -> None:
    explanation = example(4, 3, 2)
    converted = explanation.to_shap()
    for array in (converted.values, converted.base_values, converted.data):
        array[...] = 0
    converted.feature_names.clear()
    assert explanation == example(4, 3, 2)
    given = example(4, 3, 2).to_shap()
    kept = Explanation.from_shap(given)
    given.values[...] = 0
    assert kept == example(4, 3, 2)


@pytest.mark.parametrize("values", [np.ones(()), np.ones((1, 2, 3, 4)), np.full((2, 2), np.nan)])
def test_what_no_explanation_can_hold_is_refused(values: Any) -> None:
    given = shap.Explanation(values=np.ones((2, 2)), base_values=0.0)
    given.values = values
    with pytest.raises(InvalidInput):
        Explanation.from_shap(given)


def test_a_column_is_not_taken_for_a_row() -> None:
    with pytest.raises(InvalidInput):
        Explanation.from_shap(example(4, 3, 1).to_shap()[:, 0])
    with pytest.raises(InvalidInput):
        Explanation.from_shap(example(4, 3, 2).to_shap()[:, 0])


def test_without_shap_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(MissingDependency, match=r"pip install 'voile\[explain\]'"):
        example(1, 3, 1).to_shap()


# --- shap's pictures ------------------------------------------------------------------------------

ROW_PLOTS: dict[str, Callable[[Any], Any]] = {
    "waterfall": lambda e: shap.plots.waterfall(e[0], show=False),
    "bar of a row": lambda e: shap.plots.bar(e[0], show=False),
    "force of a row": lambda e: shap.plots.force(e[0], matplotlib=True, show=False),
    "force of a row, interactive": lambda e: shap.plots.force(e[0]),
    "decision of a row": lambda e: shap.plots.decision(
        e.base_values[0], e.values[0], feature_names=e.feature_names, show=False
    ),
}
PLOTS: dict[str, Callable[[Any], Any]] = ROW_PLOTS | {
    "bar": lambda e: shap.plots.bar(e, show=False),
    "beeswarm": lambda e: shap.plots.beeswarm(e, show=False),
    "violin": lambda e: shap.plots.violin(e, show=False),
    "heatmap": lambda e: shap.plots.heatmap(e, show=False),
    "scatter": lambda e: shap.plots.scatter(e[:, "f1"], show=False),
    "scatter in colour": lambda e: shap.plots.scatter(e[:, 0], color=e[:, 1], show=False),
    "scatter of all": lambda e: shap.plots.scatter(e, show=False),
    "force": lambda e: shap.plots.force(e),
    "decision": lambda e: shap.plots.decision(
        e.base_values[0], e.values, features=e.data, feature_names=e.feature_names, show=False
    ),
}


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("plot", list(PLOTS))
def test_shap_can_draw_it(plot: str, outputs: int) -> None:
    explanation = example(12, 4, outputs)
    converted = explanation.to_shap()
    before = converted.values.copy()
    slices = [converted] if outputs == 1 else [converted[:, :, i] for i in range(outputs)]
    for one_output in slices:
        PLOTS[plot](one_output)
        plt.gcf().canvas.draw()
    assert np.array_equal(converted.values, before)


@pytest.mark.parametrize("plot", list(ROW_PLOTS))
def test_shap_can_draw_a_row_without_data(plot: str) -> None:
    ROW_PLOTS[plot](example(5, 4, 1, data=False).to_shap())
    plt.gcf().canvas.draw()


@pytest.mark.parametrize("plot", ["bar", "heatmap", "beeswarm", "violin", "decision"])
def test_shap_can_draw_rows_without_data(plot: str) -> None:
    PLOTS[plot](example(12, 4, 1, data=False).to_shap())
    plt.gcf().canvas.draw()


# --- nothing leaks --------------------------------------------------------------------------------


def test_what_has_no_data_hands_none_to_shap() -> None:
    with_data = explain(
        values=[[1.0, 2.0]], base_values=0, feature_names=["a", "b"], data=[[98765.5, 98765.5]]
    )
    converted = with_data.group({"g": ["a"]}).to_shap()
    assert converted.data is None
    assert converted.display_data is None
    assert "98765" not in repr(converted)
    shap.plots.waterfall(converted[0], show=False)
    drawn = [text.get_text() for axes in plt.gcf().axes for text in axes.get_yticklabels()]
    assert any("g" in text for text in drawn)
    assert not any("98" in text for text in drawn)
    plt.close("all")
    shap.plots.waterfall(with_data.to_shap()[0], show=False)  # the picture would have shown it
    drawn = [text.get_text() for axes in plt.gcf().axes for text in axes.get_yticklabels()]
    assert any("98" in text for text in drawn)
