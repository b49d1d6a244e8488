"""Pictures of experiments: what they show, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from experiments.lib.plots import QualityPoint, partition, privacy_quality

from voile.core.errors import InvalidInput

PICTURES: dict[str, Any] = {
    "partition": lambda: partition({"north": {"yes": 3, "no": 5}, "south": {"no": 2}}),
    "many clients": lambda: partition({f"{k}": {"a": k + 1} for k in range(50)}, title="x"),
    "privacy and quality": lambda: privacy_quality(
        {"a": [QualityPoint(1, 0.5, 0.4, 0.6), QualityPoint(0.5, 0.3, 0.2, 0.4)]},
        delta=1e-5,
        without_privacy=0.9,
    ),
}


@pytest.mark.parametrize("name", list(PICTURES))
def test_a_figure_is_returned(name: str, tmp_path: Path) -> None:
    figure = PICTURES[name]()
    figure.savefig(tmp_path / "picture.png", dpi=60)
    assert (tmp_path / "picture.png").stat().st_size > 3_000
    if name != "privacy and quality":
        assert "no privacy guarantee" in figure.get_supxlabel()


def test_names_of_many_clients_are_turned_and_few() -> None:
    figure = partition({f"hospital number {n}": {"yes": 1 + n} for n in range(50)})
    labels = figure.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels[:2]] == ["hospital number 0", "hospital number 5"]
    assert {label.get_rotation() for label in labels} == {45.0}
    assert "every fifth" in figure.axes[0].get_xlabel()


def test_pictures_of_nothing() -> None:
    for wrong in (
        lambda: privacy_quality({}, delta=0.0),
        lambda: privacy_quality({"a": []}, delta=0.0),
        lambda: partition({}),
        lambda: QualityPoint(0.0, 1.0),
        lambda: QualityPoint(1.0, 1.0, low=0.5),
    ):
        with pytest.raises(InvalidInput):
            wrong()


def test_quality_shows_epsilon_with_delta() -> None:
    figure = privacy_quality({"a": [QualityPoint(0.5, 0.3), QualityPoint(2, 0.9)]}, delta=1e-6)
    (axes,) = figure.axes
    assert "delta = 1e-06" in axes.get_xlabel()
    assert "0.5" in [label.get_text() for label in axes.get_xticklabels()]
