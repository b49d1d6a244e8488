"""Charts: what lies where, and what is said to those who do not see it."""

from __future__ import annotations

import itertools

import pytest

from voile.core.description import FeatureContribution, OutputDescription, Prediction
from voile.core.errors import InvalidInput
from voile.views.charts import MOST_POINTS, Axis, Band, Chart, Line, thinned
from voile.views.dashboard import wilson
from voile.views.html import place_steps


def chart() -> Chart:
    return Chart("t", "d", Axis(0, 10), Axis(0, 1), ("a",), (("1",),))


def test_values_lie_between_the_ends() -> None:
    drawn = chart()
    assert (drawn.x(0), drawn.x(10)) == (drawn.left, drawn.right)
    assert (drawn.y(0), drawn.y(1)) == (drawn.bottom, drawn.top)
    assert drawn.x(5) == pytest.approx((drawn.left + drawn.right) / 2)
    assert drawn.y(7) == drawn.top, "what lies outside is drawn at the edge"
    assert drawn.path(Line(((0, 0), (10, 1)))).split() == [
        f"{drawn.x(0)},{drawn.y(0)}",
        f"{drawn.x(10)},{drawn.y(1)}",
    ]


def test_a_band_goes_there_and_back() -> None:
    drawn = chart()
    found = drawn.outline(Band(((0, 0, 1), (10, 0, 1)))).split()
    assert len(found) == 4
    assert found[0].split(",")[0] == found[-1].split(",")[0]


def test_an_axis_needs_room() -> None:
    with pytest.raises(InvalidInput):
        Axis(1, 1)


def test_a_line_is_thinned_and_keeps_its_ends() -> None:
    points = [(float(n), float(n)) for n in range(10_001)]
    found = thinned(points)
    assert len(found) <= MOST_POINTS + 1
    assert (found[0], found[-1]) == (points[0], points[-1])
    assert thinned(points[:5]) == tuple(points[:5])


def test_a_waterfall_leads_from_the_average_to_the_result() -> None:
    amounts = (0.4, -0.2, 0.1)
    output = OutputDescription(
        "yes",
        "yes",
        Prediction(0.3, "0.3", 0.6, "0.6"),
        tuple(
            FeatureContribution(name, each, str(each), each - 0.15, each + 0.15)
            for name, each in zip("abc", amounts, strict=True)
        ),
    )
    steps = place_steps(output)
    lines = steps["lines"]
    assert lines[0]["start"] == steps["base"]
    scale = lines[0]["width"] / 0.4
    assert [line["width"] / scale for line in lines] == pytest.approx([0.4, 0.2, 0.1], abs=1e-3)
    for before, after in itertools.pairwise(lines):
        grown = before["shown"].amount * scale
        assert after["start"] == pytest.approx(before["start"] + grown, abs=0.01)
    assert steps["end"] - steps["base"] == pytest.approx(0.3 * scale, abs=0.01)
    assert [("pale" in line["kind"]) for line in lines] == [False, False, True]
    for line in lines:
        assert line["high"] - line["low"] == pytest.approx(0.3 * scale, abs=0.01)


def test_intervals_of_shares_stay_within_0_and_1() -> None:
    assert wilson(0.0, 10)[0] == 0.0
    assert wilson(1.0, 10)[1] == pytest.approx(1.0)
    low, high = wilson(0.5, 1_000_000)
    assert high - low < 0.002
