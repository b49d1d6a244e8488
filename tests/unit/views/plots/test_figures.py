"""Figures belong to whoever gets them; in a notebook each is shown once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from voile.core.explanation import Explanation
from voile.views.plots import bar, waterfall
from voile.views.plots.figures import drawn_by_shap, empty_figure

ONE = Explanation(
    values=np.array([[0.4, -0.3]]),
    base_values=np.array(0.5),
    feature_names=("a", "b"),
    half_widths=np.array([[0.2, 0.1]]),
)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a notebook with matplotlib's inline backend displays."""
    found: list[Any] = []
    module = SimpleNamespace(display=found.append, Image=lambda data: data)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    plt.close("all")
    yield found
    plt.close("all")


def test_a_notebook_shows_a_figure_at_the_end_of_the_cell(shown: list[Any]) -> None:
    figure = bar(ONE)
    assert plt.gcf() is figure
    assert shown == []


def test_the_last_figure_of_a_cell_is_not_shown_twice(shown: list[Any]) -> None:
    figure: Any = bar(ONE)
    figure._ipython_display_()
    (picture,) = shown
    assert picture.startswith(b"\x89PNG")
    assert plt.get_fignums() == []


@pytest.mark.usefixtures("shown")
def test_in_a_notebook_pyplot_knows_what_shap_has_drawn() -> None:
    with drawn_by_shap(3, 2) as figure:
        pass
    assert plt.gcf() is figure


def test_elsewhere_pyplot_knows_nothing_of_it() -> None:
    before = plt.get_fignums()
    empty_figure(3, 2)
    with drawn_by_shap(3, 2):
        np.random.random()  # noqa: NPY002
    assert plt.get_fignums() == before


def test_amounts_stand_beside_a_waterfall_however_wide_the_noise() -> None:
    figure = waterfall(ONE)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    right = axes.get_window_extent().x1
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == ["+0.40 ± 0.20", "-0.30 ± 0.10"]
    assert all(right < box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
