"""The picture of a trusted federation."""

from __future__ import annotations

import copy

import pytest

from voile import plots
from voile.core.errors import InvalidInput
from voile.views.plots.federations import _relative


def scores(trust: float, divergence: float, rewards: list[float]) -> list[dict[str, float]]:
    return [
        {"round": float(n), "trust": trust, "divergence": divergence, "reward": reward}
        for n, reward in enumerate(rewards, start=1)
    ]


def test_it_shows_three_panels_and_changes_nothing() -> None:
    parties = {f"clinic {n} $x_{n}$": scores(0.5 + n / 20, n / 10, [0.1, 0.2]) for n in range(9)}
    before = copy.deepcopy(parties)
    figure = plots.trust(parties, measure="Jensen-Shannon", odd=["clinic 3 $x_3$"])
    assert [axes.get_title() for axes in figure.axes] == [
        "trust",
        "divergence (Jensen-Shannon)",
        "rewards so far, equal shares = 1",
        "",
    ]
    legend = figure.axes[3].get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 7, "six parties and the median"
    assert legend.get_title().get_text() == "thin lines: all others"
    assert len(figure.axes[0].lines) == 10, "nine parties and the median"
    assert parties == before
    figure.canvas.draw()


def test_rewards_are_compared_with_equal_shares_of_the_same_rounds() -> None:
    parties = {"a": scores(0.5, 0.1, [0.75, 0.75]), "b": scores(0.5, 0.1, [0.25])}
    found = _relative(parties)
    assert [row["reward"] for row in found["a"]] == pytest.approx([1.5, 1.5 / 1.25])
    assert [row["reward"] for row in found["b"]] == pytest.approx([0.5])


def test_nobody_to_show() -> None:
    with pytest.raises(InvalidInput):
        plots.trust({"a": []}, measure="x")
