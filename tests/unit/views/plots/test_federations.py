"""Pictures of a federation show every client, every round and both figures of a budget."""

from __future__ import annotations

import pytest

from voile import plots
from voile.core.errors import InvalidInput

ROUNDS = {
    "black box": [{"north": True, "south": False}, {"south": True}],
    "surrogate": [{"north": True, "south": True}],
}


def test_rounds_show_who_counted_and_who_fell_out() -> None:
    (axes,) = plots.rounds(ROUNDS).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["north", "south"]
    places = [tuple(map(tuple, dots.get_offsets())) for dots in axes.collections]  # type: ignore[arg-type]
    assert places == [((0, 0), (1, 1)), ((0, 1),), ((2, 0), (2, 1))]
    assert {text.get_text() for text in axes.texts} == set(ROUNDS)


def test_budgets_show_spent_and_promised_at_a_delta() -> None:
    (axes,) = plots.budgets({"north": 1.5, "south": 0.5}, promised=2.0, delta=1e-5).axes
    assert [bar.get_width() for bar in axes.patches] == [1.5, 0.5]  # type: ignore[attr-defined]
    assert "1e-05" in axes.get_xlabel()
    assert any("promised 2" in text.get_text() for text in axes.texts)
    assert axes.get_xlim()[1] > 2.0


def test_learning_curves_end_at_their_last_value() -> None:
    figure = plots.learning({"accuracy": [0.6, 0.8], "fidelity": [0.9]}, measured_on="held out")
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[0.6, 0.8], [0.9]]  # type: ignore[arg-type]
    said = [text.get_text() for text in axes.get_legend().get_texts()]  # type: ignore[union-attr]
    assert said == ["accuracy: 0.800", "fidelity: 0.900"]
    assert "held out" in axes.get_xlabel()


def test_empty_pictures_are_refused() -> None:
    with pytest.raises(InvalidInput):
        plots.rounds({"stage": [{}]})
    with pytest.raises(InvalidInput):
        plots.budgets({}, promised=1.0, delta=1e-5)
    with pytest.raises(InvalidInput):
        plots.learning({"accuracy": []}, measured_on="x")
