"""How well scores tell members from others."""

from __future__ import annotations

import numpy as np
import pytest

from voile.assess.members_count import advantage_of, area_under_curve


def test_the_area_counts_equal_scores_as_half() -> None:
    assert area_under_curve(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == pytest.approx(0.875)
    assert area_under_curve(np.zeros(3), np.zeros(5)) == 0.5
    figures = advantage_of(np.array([3.0, 4.0]), np.array([1.0, 2.0]))
    assert figures == {"area_under_curve": 1.0, "largest_gap": 1.0}
