"""Pictures return figures, show what they were given, and leave nothing behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection, PolyCollection

from voile import plots
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote, filled_note
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.views.plots.style import PALE

pytestmark = pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")

DRAW = np.random.default_rng(0)


def explanation(outputs: int = 1, *, errors: bool = True, data: bool = True) -> Explanation:
    values = DRAW.normal(size=(30, 5, outputs))
    return Explanation(
        values=values,
        base_values=np.zeros(outputs),
        feature_names=("age", "dose", "weight", "heat", "pulse"),
        output_names=tuple(f"class {k}" for k in range(outputs)),
        data=DRAW.normal(size=(30, 5)) if data else None,
        standard_errors=np.full(values.shape, 0.1) if errors else None,
    )


def texts(figure: Any) -> str:
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    found += [label.get_text() for axes in figure.axes for label in axes.get_xticklabels()]
    found += [axes.get_xlabel() + axes.get_ylabel() + axes.get_title() for axes in figure.axes]
    found += [axes.get_title(loc="left") for axes in figure.axes]
    found += [figure.get_supxlabel()]
    return "\n".join(found)


PICTURES = {
    "beeswarm": lambda: plots.beeswarm(explanation()),
    "beeswarm without data": lambda: plots.beeswarm(explanation(data=False)),
    "waterfall": lambda: plots.waterfall(explanation(), row=3),
    "whiskers": lambda: plots.whiskers(explanation()),
    "whiskers of outputs": lambda: plots.whiskers(explanation(3), row=2, most=4),
    "agreement": lambda: plots.agreement(explanation(2), explanation(2)),
}


@pytest.mark.parametrize("name", list(PICTURES))
def test_a_figure_is_returned_and_nothing_is_left_behind(name: str, tmp_path: Any) -> None:
    mine = plt.figure()
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    try:
        figure = PICTURES[name]()
        assert plt.get_fignums() == [mine.number]
        assert plt.gcf() is mine
    finally:
        plt.close(mine)
    after: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    assert np.array_equal(after["state"]["key"], state["state"]["key"])
    figure.savefig(tmp_path / "picture.png", dpi=60)
    assert (tmp_path / "picture.png").stat().st_size > 3_000
    assert "no privacy guarantee" in texts(figure)


def test_the_same_call_gives_the_same_beeswarm() -> None:
    shown = explanation()
    first, second = plots.beeswarm(shown), plots.beeswarm(shown)
    one, two = (f.axes[0].collections[0].get_offsets() for f in (first, second))
    assert np.array_equal(np.asarray(one), np.asarray(two))


def test_one_of_several_outputs_must_be_chosen() -> None:
    with pytest.raises(InvalidInput, match="class 0, class 1"):
        plots.waterfall(explanation(2))
    for draw in (plots.beeswarm, plots.waterfall):
        assert draw(explanation(2), output="class 1") is not None


def test_whiskers_span_the_intervals_and_fade_where_the_sign_is_open() -> None:
    shown = Explanation(
        values=np.array([[0.5, -0.01]]),
        base_values=np.zeros(1),
        feature_names=("sure", "open"),
        standard_errors=np.array([[0.1, 0.1]]),
    )
    figure = plots.whiskers(shown)
    bars: Any = figure.axes[0].containers
    (segment,) = bars[0][2][0].get_segments()
    assert segment[:, 0] == pytest.approx([0.5 - 0.196, 0.5 + 0.196])
    assert bars[0][0].get_alpha() == 1.0
    assert bars[1][0].get_alpha() < 1.0
    assert "sure" in texts(figure)
    with pytest.raises(InvalidInput, match="no standard errors"):
        plots.whiskers(explanation(errors=False))
    with pytest.raises(InvalidInput, match="most=0"):
        plots.whiskers(shown, most=0)


def test_the_legend_is_never_pale() -> None:
    shown = Explanation(
        values=np.array([[[0.9, 0.01], [0.1, 0.5]]]),
        base_values=np.zeros((1, 2)),
        feature_names=("first", "second"),
        output_names=("low", "high"),
        standard_errors=np.full((1, 2, 2), 0.1),
    )
    legend: Any = plots.whiskers(shown).axes[0].get_legend()
    assert [handle.get_alpha() for handle in legend.legend_handles] == [None, None]
    assert [text.get_text() for text in legend.get_texts()] == ["low", "high"]


def test_whiskers_leave_nothing_out() -> None:
    figure = plots.whiskers(explanation(), most=2)
    assert "3 others" in texts(figure)


CLINIC = Schema(
    "clinic",
    (
        Feature("age", Numbers(0, 120), unit="years"),
        Feature("ward", Categories(("north", "south"))),
    ),
    Label("readmission", Categories(("no", "yes"))),
)


def patient(**parts: Any) -> Explanation:
    given: dict[str, Any] = {
        "values": [[0.25, -0.01]],
        "base_values": 0.5,
        "feature_names": ("age", "ward"),
        "output_names": ("yes",),
        "data": [[71.0, 1.0]],
        "half_widths": [[0.1, 0.1]],
    }
    return Explanation(**given | parts)


def test_a_waterfall_shows_class_base_prediction_values_and_noise() -> None:
    figure = plots.waterfall(patient(), schema=CLINIC)
    written = texts(figure)
    for words in (
        "probability of readmission = yes",
        "age = 71 years",
        "ward = south",
        "prediction 0.74",
        "pale",
    ):
        assert words in written
    axes: Any = figure.axes[0]
    steps = [(patch.get_x(), patch.get_width(), patch.get_alpha()) for patch in axes.patches]
    assert steps == [pytest.approx((0.5, 0.25, 1.0)), pytest.approx((0.75, -0.01, PALE))]


def test_a_waterfall_of_a_protected_row_or_of_sizes_is_refused() -> None:
    row = Protected(ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, "people")
    promise = Guarantee(
        epsilon=1.0,
        delta=0.0,
        protected=row,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="noise",
        composition="one release",
    )
    for shown in (patient(data=None, guarantees=[promise]), patient(notes=[KnownNote.ABSOLUTE])):
        with pytest.raises(InvalidInput, match="no prediction that may be shown"):
            plots.waterfall(shown)


def test_a_beeswarm_carries_the_noise_of_every_line() -> None:
    figure = plots.beeswarm(explanation(), most=3)
    axes = figure.axes[0]
    bands = [c for c in axes.collections if isinstance(c, PolyCollection)]
    reach = sorted(float(np.asarray(band.get_paths()[0].vertices)[:, 0].max()) for band in bands)
    assert reach == pytest.approx([0.196, 0.196, 0.196 * 3**0.5])  # two, and three others
    assert "attribution to class 0" in axes.get_xlabel()
    assert not [
        c
        for c in plots.beeswarm(explanation(errors=False)).axes[0].collections
        if isinstance(c, PolyCollection)
    ]


def test_a_beeswarm_draws_missing_values_grey() -> None:
    shown = explanation(errors=False)
    filled = replace(shown, notes=(filled_note("age", 0.0, [3, 7]),))

    def grey(drawn: Explanation) -> int:
        found: Any = plots.beeswarm(drawn).axes[0].collections
        plain = [
            each for each in found if isinstance(each, PathCollection) and each.get_array() is None
        ]
        return sum(len(np.asarray(each.get_offsets())) for each in plain)

    assert grey(shown) == 0
    assert grey(filled) == 2


def test_agreement_with_itself_is_one() -> None:
    shown = explanation(2)
    written = texts(plots.agreement(shown, shown, names=("ours", "theirs")))
    assert "cosine 1.000" in written
    assert "1.00" in written
    assert "ours" in written
    single = explanation()[0]
    assert "one value only" in texts(plots.agreement(single, single))


def test_agreement_is_between_explanations_of_the_same_thing() -> None:
    with pytest.raises(InvalidInput, match="same rows"):
        plots.agreement(explanation(), explanation()[:5])
