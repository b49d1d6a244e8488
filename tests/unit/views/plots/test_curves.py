"""Curves of an additive model: what is drawn for numbers, categories and several outputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.models.additive import AdditiveModel, FeatureBins
from voile.views.plots import curves

LEVELS = Categories(("no", "yes"))
TOWNS = Categories(("north", "south", "a town with a very long name"))
SCHEMA = Schema(
    "people",
    (
        Feature("age", Numbers(0, 100), unit="years"),
        Feature("income", Numbers(0, 100_000)),
        Feature("town", TOWNS),
        Feature("unused", Numbers(0, 1)),
    ),
    Label("ill", LEVELS),
)
BINS = (
    FeatureBins("age", edges=(40.0, 60.0)),
    FeatureBins("income", edges=(1.0, 5.0, 20.0, 500.0)),
    FeatureBins("town", groups=(0, 1, 1)),
)
SCORES = np.array([-1.0, 0.0, 1.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.5, -0.5])
MASSES = np.array([0.3, 0.4, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.5, 0.5])


def model(**changes: Any) -> AdditiveModel:
    given: dict[str, Any] = {
        "schema": SCHEMA,
        "bins": BINS,
        "intercept": 0.0,
        "scores": SCORES,
        "masses": MASSES,
        "covariance": np.eye(len(SCORES)) * 0.01,
    }
    return AdditiveModel(**(given | changes))


def pairs(figure: Figure) -> dict[str, tuple[Axes, Axes]]:
    """The curve and the shares of each feature, by its title."""
    found = {}
    for above, below in zip(figure.axes[::2], figure.axes[1::2], strict=True):
        found[above.get_title().partition(":")[0]] = (above, below)
    return found


def test_the_feature_that_matters_most_comes_first() -> None:
    assert list(pairs(curves(model()))) == ["age (years)", "town", "income"]
    assert pairs(curves(model()))["age (years)"][0].get_title().endswith(": 0.60")


def test_a_curve_has_steps_with_a_band_and_shares_below() -> None:
    above, below = pairs(curves(model()))["age (years)"]
    (line,) = (each for each in above.lines if each.get_drawstyle() == "steps-post")
    assert np.asarray(line.get_xdata()).tolist() == [0, 40, 60, 100]
    assert np.asarray(line.get_ydata()).tolist() == [-1, 0, 1, 1]
    (band,) = above.collections
    heights: Any = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert heights.min() == pytest.approx(-1 - 0.196, abs=1e-4)
    assert heights.max() == pytest.approx(1 + 0.196, abs=1e-4)
    areas = [patch.get_width() * patch.get_height() for patch in below.patches]  # type: ignore[attr-defined]
    assert areas == pytest.approx([0.3, 0.4, 0.3])


def test_a_missing_value_is_marked_where_it_is_read() -> None:
    above = pairs(curves(model()))["age (years)"][0]
    (mark,) = (each for each in above.lines if each.get_marker() == "^")
    assert np.asarray(mark.get_xdata()).tolist() == [50]


def test_categories_are_bars_with_whiskers_named_after_their_levels() -> None:
    above, below = pairs(curves(model()))["town"]
    heights = [patch.get_height() for patch in above.patches]  # type: ignore[attr-defined]
    assert heights == [0.5, -0.5]
    assert len(above.collections) == 1  # whiskers
    assert [each.get_text() for each in below.get_xticklabels()] == ["north", "south +1"]


def test_a_crowded_axis_is_stretched_and_others_are_not() -> None:
    found = pairs(curves(model()))
    assert found["income"][0].get_xscale() == "asinh"
    assert found["age (years)"][0].get_xscale() == "linear"


def test_only_so_many_are_drawn_and_the_others_are_counted() -> None:
    figure = curves(model(), most=1)
    assert list(pairs(figure)) == ["age (years)"]
    assert "2 features left out" in str(figure.get_supylabel())


def test_what_has_no_influence_and_no_promise_is_said() -> None:
    said = str(curves(model()).get_supxlabel())
    assert "without influence: unused" in said
    assert "no privacy guarantee" in said


def test_a_model_without_features_has_no_curves() -> None:
    empty = model(bins=(), scores=np.zeros(0), masses=np.zeros(0), covariance=np.zeros((0, 0)))
    with pytest.raises(InvalidInput, match="uses no feature"):
        curves(empty)


def test_it_is_drawn_in_all_formats(tmp_path: Any) -> None:
    for ending in ("png", "svg", "pdf"):
        curves(model()).savefig(tmp_path / f"curves.{ending}")


def test_several_outputs_have_a_colour_each_and_a_legend() -> None:
    told = model().description()
    for feature in told["features"]:
        for each in feature["bins"]:
            each["score"] = [each["score"], -each["score"]]
            each["standard_error"] = [each["standard_error"]] * 2
    several: Any = SimpleNamespace(
        description=lambda: told | {"classes": ["well", "ill"]}, schema=SCHEMA, guarantees=()
    )
    above, _ = pairs(curves(several))["age (years)"]
    lines = [each for each in above.lines if each.get_drawstyle() == "steps-post"]
    assert len({str(each.get_color()) for each in lines}) == 2
    legend = above.get_legend()
    assert legend is not None
    assert [each.get_text() for each in legend.get_texts()] == ["well", "ill"]
