"""shap draws an explanation of voile directly, and voile draws it with its guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.unit.python.views import NAMES, PROMISE, plain, shap, with_words
from voile import ExplanationView, plots
from voile.core.errors import InvalidInput
from voile.python.view.plots import KINDS

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    before = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def texts(figure: Figure) -> str:
    found = [figure.get_supxlabel()]
    for axes in figure.axes:
        labels = [*axes.texts, *axes.get_yticklabels(), *axes.get_xticklabels()]
        found += [each.get_text() for each in labels]
        found += [axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")]
    return "\n".join(found)


# --- shap's functions, on our object --------------------------------------------------------------

SHAP: dict[str, Callable[[Any], Any]] = {
    "bar": lambda why: shap.plots.bar(why, show=False),
    "bar of one row": lambda why: shap.plots.bar(why[0], show=False),
    "bar of cohorts": lambda why: shap.plots.bar(
        shap.Cohorts(old=why[:9], young=why[9:]), show=False
    ),
    "bar of maxima": lambda why: shap.plots.bar(why.abs.max(0), show=False),
    "beeswarm": lambda why: shap.plots.beeswarm(why, show=False),
    "decision": lambda why: shap.plots.decision(
        why[0].base_values, why.values, feature_names=why.feature_names, show=False
    ),
    "force": lambda why: shap.plots.force(why[0], matplotlib=True, show=False),
    "force of rows": lambda why: shap.plots.force(why),
    "heatmap": lambda why: shap.plots.heatmap(why, show=False),
    "scatter": lambda why: shap.plots.scatter(why[:, "age"], color=why, show=False),
    "scatter of words": lambda why: shap.plots.scatter(
        why[:, "ward"], color=why[:, "sex"], show=False
    ),
    "scatter of all": lambda why: shap.plots.scatter(why, show=False),
    "violin": lambda why: shap.plots.violin(why, show=False),
    "waterfall": lambda why: shap.plots.waterfall(why[0], show=False),
}


@pytest.mark.parametrize("made", [plain, with_words], ids=["floats", "words"])
@pytest.mark.parametrize("name", list(SHAP))
def test_shap_draws_it_as_it_draws_its_own(name: str, made: Callable[..., Any]) -> None:
    """The same picture, pixel for pixel, as of a `shap.Explanation` with the same numbers."""
    assert _pixels(SHAP[name], made()) == _pixels(SHAP[name], made().to_shap())


def _pixels(draw: Callable[[Any], Any], shown: Any) -> bytes:
    np.random.seed(0)  # noqa: NPY002
    plt.close("all")
    draw(shown)
    figure = plt.gcf()
    figure.canvas.draw()
    return bytes(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]


def test_shap_shows_words_and_the_noise_of_each_contribution() -> None:
    why = with_words(half_widths=np.full((30, 5, 1), 0.02))
    shap.plots.waterfall(why[0], show=False)
    assert f"{why[0].display_data[3]} = ward" in texts(plt.gcf()).replace("$", "")
    assert _pixels(SHAP["waterfall"], why) != _pixels(SHAP["waterfall"], with_words())


# --- our own --------------------------------------------------------------------------------------


def picture(why: ExplanationView, kind: str) -> Figure:
    parts = dict.fromkeys(("force", "waterfall", "whiskers"), why[0]) | {"scatter": why[:, "age"]}
    return parts.get(kind, why).plot(kind)


@pytest.mark.parametrize("made", [plain, with_words], ids=["floats", "words"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_figure_with_its_guarantee(kind: str, made: Callable[..., Any]) -> None:
    mine = plt.figure()
    why = made(half_widths=np.full((30, 5, 1), 0.02), guarantees=(PROMISE,))
    figure = picture(why, kind)
    assert plt.get_fignums() == [mine.number]  # nothing is left behind
    assert isinstance(figure, Figure)
    assert figure.get_supxlabel().startswith("(ε = 0.5, δ = 1e-6) for each row of 'clinic v3'")
    figure.canvas.draw()
    assert "no privacy guarantee" in texts(picture(made(standard_errors=why.values**2), kind))


def test_the_default_suits_what_is_there() -> None:
    assert "→  prediction" in texts(plain()[0].plot())
    assert "mean |attribution| to yes" in texts(plain().plot())
    assert "attribution" in texts(plain(outputs=3)[0].plot())
    assert "mean |attribution| to yes" in texts(plain().abs.mean(0).plot())


def test_a_waterfall_shows_the_row_as_it_was_written() -> None:
    shown = texts(with_words()[1].plot())
    assert "ward = missing" in shown
    assert "admitted = 2024-03-19" in shown
    (legend,) = with_words()[1].plot().legends
    assert [each.get_text() for each in legend.get_texts()] == ["raises", "lowers"]


def test_words_are_neither_high_nor_low_in_a_beeswarm() -> None:
    def coloured(why: ExplanationView) -> dict[str, bool]:
        axes = why.plot("beeswarm").axes[0]
        names = [label.get_text() for label in axes.get_yticklabels()]
        shown = dict.fromkeys(names, False)
        for points in axes.collections:
            places = np.asarray(points.get_offsets())
            if points.get_array() is not None and len(places):
                place = round(float(np.median(places[:, 1])))
                shown[names[place]] = True
        return shown

    assert all(coloured(plain()).values())
    assert coloured(with_words()) == {n: n not in ("sex", "ward") for n in NAMES}


def test_a_beeswarm_of_several_classes_has_a_part_for_each() -> None:
    figure = plain(outputs=3).plot("beeswarm")
    parts = [axes.get_xlabel() for axes in figure.axes if "attribution" in axes.get_xlabel()]
    assert parts == [f"attribution to class {number}" for number in range(3)]
    assert figure.get_supxlabel().startswith("no privacy guarantee")


@pytest.mark.parametrize(
    ("why", "kind", "said"),
    [
        (plain(), "pie", "kind must be one of bar, beeswarm, waterfall, whiskers, decision"),
        (plain(outputs=2), "violin", r"choose one output: class 0, class 1 \(why\[\.\.\., name\]"),
        (plain(outputs=7), "beeswarm", "choose one output: class 0, class 1"),
        (plain(), "force", r"shows one row, found 30; choose one: why\[0\]"),
        (plain()[0], "heatmap", "needs several rows"),
        (plain()[0], "scatter", "needs several rows"),
        (plain()[:, "age"], "heatmap", "needs several features"),
        (plain()[:, "age"], "violin", "needs several features"),
        (plain()[:, ["age"]], "decision", "needs several features"),
        (plain()[0, "age"], "force", "needs several features"),
        (plain(data=None), "scatter", "these rows are not shown"),
    ],
)
def test_what_cannot_be_drawn_says_what_to_do(why: ExplanationView, kind: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        why.plot(kind)
    assert plt.get_fignums() == []


def test_the_functions_of_voile_take_it_as_well() -> None:
    why = with_words(half_widths=np.full((30, 5, 1), 0.02))
    assert "ward = missing" in texts(plots.waterfall(why, row=1))
    assert "age" in texts(plots.whiskers(why, row=2))
    assert "cosine 1.000" in plots.agreement(why, why.explanation).axes[0].get_title()
    assert texts(plots.bar(why)) == texts(plots.bar(why.explanation))
    with pytest.raises(InvalidInput, match="expected an explanation, found ndarray"):
        plots.agreement(why, why.values)
