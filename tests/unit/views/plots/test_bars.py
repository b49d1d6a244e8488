"""Bars: what is drawn, what is written below, and that nothing else is touched."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import same_color
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from voile import plots
from voile.core.errors import InvalidInput, MissingDependency
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote
from voile.views.plots import bar
from voile.views.plots.style import LOWERS, PALE, RAISES

PROMISE = Guarantee(
    epsilon=0.5,
    delta=1e-6,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "clinic v3"),
    against=(Adversary.PUBLIC, Adversary.OTHER_CLIENTS),
    computational=False,
    mechanism="Laplace noise on the mean contribution of every feature, exact sampler",
    composition="one release",
)


def explanation(values: Any, **parts: Any) -> Explanation:
    values = np.asarray(values, float)
    names = [f"f{i}" for i in range(values.shape[1])]
    outputs = [f"o{i}" for i in range(values.shape[2])] if values.ndim == 3 else ["output"]
    defaults = {"base_values": 0, "feature_names": names, "output_names": outputs}
    return Explanation(**{"values": values, **defaults, **parts})


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def lengths(figure: Figure) -> list[list[float]]:
    """The bars of each output, from top to bottom."""
    return [
        [patch.get_width() for patch in container.patches]
        for container in axes_of(figure).containers
        if isinstance(container, BarContainer)
    ]


def names(figure: Figure) -> list[str]:
    return [label.get_text() for label in axes_of(figure).get_yticklabels()]


def promise(figure: Figure) -> str:
    return figure.get_supxlabel()


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


# --- what is drawn --------------------------------------------------------------------------------


def test_one_row_is_drawn_with_its_signs_the_strongest_on_top() -> None:
    figure = bar(explanation([[1.0, -3.0, 2.0]]))
    assert isinstance(figure, Figure)
    assert names(figure) == ["f1", "f2", "f0"]
    assert lengths(figure) == [[-3, 2, 1]]
    bottom, top = axes_of(figure).get_ylim()
    assert bottom > top  # the first bar is the topmost
    assert axes_of(figure).get_xlabel() == "attribution to output"
    assert [text.get_text() for text in axes_of(figure).texts] == ["-3", "+2", "+1"]


def test_raising_and_lowering_have_their_colours() -> None:
    (container,) = axes_of(bar(explanation([[1.0, -3.0]]))).containers
    assert isinstance(container, BarContainer)
    lowering, raising = container.patches
    assert same_color(lowering.get_facecolor(), LOWERS)
    assert same_color(raising.get_facecolor(), RAISES)


def test_several_rows_are_drawn_as_the_mean_of_their_sizes() -> None:
    figure = bar(explanation([[1.0, -4.0], [-3.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    assert names(figure) == ["f1", "f0"]
    assert lengths(figure) == [[1.5, 1.0]]
    assert axes_of(figure).get_xlabel() == "mean |attribution| to output"
    assert [text.get_text() for text in axes_of(figure).texts] == ["1.5", "1.0"]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("outputs", [1, 2, 9])
def test_there_is_one_bar_for_each_feature_and_output(rows: int, outputs: int) -> None:
    values = np.random.default_rng(3).normal(size=(rows, 4, outputs))
    figure = bar(explanation(values))
    strength = np.abs(values).mean(axis=0)
    order = np.argsort(-strength.sum(axis=1))
    shown = values[0] if rows == 1 else strength
    assert np.allclose(lengths(figure), shown[order].T)
    assert names(figure) == [f"f{i}" for i in order]
    legend = axes_of(figure).get_legend()
    assert (legend is None) == (outputs == 1)
    if legend is not None:
        assert [text.get_text() for text in legend.get_texts()] == [f"o{i}" for i in range(outputs)]


def test_bars_of_several_outputs_do_not_cover_each_other() -> None:
    figure = bar(explanation(np.ones((1, 2, 3))))
    spans = sorted(
        (patch.get_y(), patch.get_y() + patch.get_height())
        for container in axes_of(figure).containers
        if isinstance(container, BarContainer)
        for patch in container.patches
    )
    assert len(spans) == 6
    assert all(end <= start + 1e-12 for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize("rows", [1, 2])
def test_the_rest_is_added_up_in_a_last_bar(rows: int) -> None:
    values = np.repeat([[0.5, 4.0, -0.25, 3.0, 0.125]], rows, axis=0)
    figure = bar(explanation(values), most=2)
    assert names(figure) == ["f1", "f3", "3 others"]
    rest = 0.5 - 0.25 + 0.125 if rows == 1 else 0.5 + 0.25 + 0.125
    assert lengths(figure) == [[4, 3, rest]]


@pytest.mark.parametrize(("most", "bars"), [(1, 2), (4, 5), (5, 5), (6, 5), (1000, 5)])
def test_as_many_features_are_drawn_as_asked_for(most: int, bars: int) -> None:
    figure = bar(explanation([[5.0, 4.0, 3.0, 2.0, 1.0]]), most=most)
    assert len(names(figure)) == len(lengths(figure)[0]) == bars
    assert sum(lengths(figure)[0]) == 15


@pytest.mark.parametrize("most", [0, -1])
def test_at_least_one_feature_is_drawn(most: int) -> None:
    with pytest.raises(InvalidInput, match=f"most={most}"):
        bar(explanation([[1.0]]), most=most)


def whiskers(figure: Figure) -> list[list[tuple[float, float]]]:
    """For each output, the span of each whisker."""
    lines = [line for line in axes_of(figure).collections if isinstance(line, LineCollection)]
    return [
        [
            (float(np.min(s[:, 0])), float(np.max(s[:, 0])))
            for s in map(np.asarray, line.get_segments())
        ]
        for line in lines
    ]


def test_whiskers_span_the_standard_errors() -> None:
    figure = bar(explanation([[1.0, -3.0]], standard_errors=[[0.1, 0.2]]))
    assert np.allclose(whiskers(figure), [[(-3 - 0.392, -3 + 0.392), (1 - 0.196, 1 + 0.196)]])


def test_whiskers_of_several_rows_are_means_and_those_of_the_rest_add_up_in_quadrature() -> None:
    errors = [[0.1, 0.2, 0.0], [0.3, 0.2, 0.4]]
    figure = bar(explanation([[3.0, 2.0, 1.0]] * 2, standard_errors=errors), most=1)
    (spans,) = whiskers(figure)
    rest = 0.392 * np.sqrt(2)
    assert np.allclose(spans, [(3 - 0.392, 3 + 0.392), (3 - rest, 3 + rest)])


def test_bars_and_whiskers_span_the_same_interval() -> None:
    """Half widths, where somebody derived them, for both."""
    shown = explanation([[1.0, -3.0]], standard_errors=[[0.1, 0.2]], half_widths=[[0.5, 0.7]])
    assert np.allclose(whiskers(bar(shown)), [[(-3.7, -2.3), (0.5, 1.5)]])
    points = whiskers(plots.whiskers(shown))
    assert np.allclose(points, [[(-3.7, -2.3)], [(0.5, 1.5)]])


def test_bars_that_cannot_be_told_from_zero_are_pale() -> None:
    figure = bar(explanation([[1.0, -0.1]], standard_errors=[[0.1, 0.2]]))
    (container,) = [c for c in axes_of(figure).containers if isinstance(c, BarContainer)]
    assert [patch.get_alpha() for patch in container.patches] == [1.0, PALE]


def test_a_mean_of_sizes_is_never_below_zero() -> None:
    noisy = explanation(
        [[0.4, -0.05]], half_widths=[[0.1, 0.2]], notes=[KnownNote.ABSOLUTE], output_names=["yes"]
    )
    figure = bar(noisy)
    assert lengths(figure) == [[0.4, 0]]
    assert np.allclose(whiskers(figure), [[(0.3, 0.5), (0, 0.15)]])
    assert axes_of(figure).get_xlabel().splitlines()[0] == "mean |attribution| to yes"


def test_without_standard_errors_there_are_no_whiskers() -> None:
    assert whiskers(bar(explanation([[1.0, -3.0]]))) == []


# --- what is written ------------------------------------------------------------------------------


def without_blanks(text: str) -> str:
    return "".join(text.split())


def test_every_guarantee_is_written_into_the_picture() -> None:
    second = Guarantee.from_dict(PROMISE.to_dict() | {"dataset": "clinic v4"})
    figure = bar(explanation([[1.0]], guarantees=[PROMISE, second], notes=["measured twice"]))
    written = without_blanks(promise(figure))
    assert written == without_blanks(f"{PROMISE}{second}measured twice")
    assert all(len(line) <= 110 for line in promise(figure).splitlines())


def test_the_absence_of_a_guarantee_is_written_into_the_picture() -> None:
    assert promise(bar(explanation([[1.0]]))) == "no privacy guarantee"


def test_the_promise_is_inside_the_picture() -> None:
    figure = bar(explanation([[1.0]], guarantees=[PROMISE]))
    figure.draw_without_rendering()
    (text,) = [text for text in figure.texts if text.get_text() == promise(figure)]
    box = text.get_window_extent()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= axes_of(figure).get_window_extent().y0  # and below the bars


def test_sums_are_called_sums() -> None:
    grouped = explanation([[1.0, 2.0]]).group({"g": ["f0", "f1"]})
    assert axes_of(bar(grouped)).get_xlabel() == "sum of attributions to output"
    assert "sum of attributions" in promise(bar(grouped))
    several = explanation([[1.0, 2.0]] * 2).group({"g": ["f0", "f1"]})
    assert axes_of(bar(several)).get_xlabel() == "mean |sum of attributions| to output"


def test_names_are_shown_letter_by_letter() -> None:
    r"""Neither mathematics (\frac would not even parse) nor a hiding underscore."""
    odd = ["price in $ or $", r"$\frac$", "_hidden", "größe"]
    figure = bar(
        explanation(
            np.arange(4.0, 0, -1).reshape(1, 2, 2),
            feature_names=odd[:2],
            output_names=odd[2:],
            notes=odd[:2],
        )
    )
    png(figure)
    assert names(figure) == odd[:2]
    legend = axes_of(figure).get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == odd[2:]
    png(bar(explanation(np.ones((1, 1, 2)), output_names=odd[:2])))


# --- nothing else is touched ----------------------------------------------------------------------


def test_pyplot_knows_nothing_of_it() -> None:
    plt.close("all")
    settings = copy.deepcopy(dict(mpl.rcParams))
    png(bar(explanation([[1.0, 2.0]])))
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == settings


def test_pyplot_is_not_even_loaded() -> None:
    script = (
        "import sys, voile\nfrom voile import plots\n"
        "e = voile.Explanation(values=[[1.0]], base_values=0, feature_names=['a'])\n"
        "plots.bar(e).savefig(sys.stdout.buffer)\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=60
    )
    assert run.stdout.startswith(b"\x89PNG")


def test_the_explanation_is_not_changed() -> None:
    parts = {"standard_errors": [[0.1, 0.2]], "guarantees": [PROMISE], "data": [[7.0, 8.0]]}
    drawn = explanation([[1.0, -2.0]], **parts)
    bar(drawn, most=1)
    assert drawn == explanation([[1.0, -2.0]], **parts)


def test_data_leave_no_trace_in_the_picture() -> None:
    secret = explanation([[1.0, -2.0]], data=[[98765.5, 98765.5]])
    assert png(bar(secret)) == png(bar(explanation([[1.0, -2.0]])))


def test_every_call_gives_a_figure_of_its_own() -> None:
    assert bar(explanation([[1.0]])) is not bar(explanation([[1.0]]))


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure")
    with pytest.raises(MissingDependency, match=r"pip install 'voile\[explain\]'"):
        bar(explanation([[1.0]]))
