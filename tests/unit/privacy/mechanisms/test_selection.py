"""Choices by score: what they cost, and the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.mechanisms import ExponentialMechanism, selection
from voile.privacy.sensitivity import Norm, Sensitivity, mean_absolute_shapley_coordinate


def of(value: float = 1.0, norm: Norm = Norm.LINF) -> Sensitivity:
    return Sensitivity(
        value=value, norm=norm, unit=ProtectedUnit.ROW, relation=Relation.REPLACE_ONE
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
def test_the_stated_cost_is_not_below_what_the_sampler_says_of_itself(epsilon: float) -> None:
    sensitivity = mean_absolute_shapley_coordinate(
        rows=300, output_width=1.0, relation=Relation.REPLACE_ONE
    )
    one = ExponentialMechanism(epsilon=epsilon, sensitivity=sensitivity, candidates=12)
    own = selection._selector(one.scale).map(sensitivity.value)
    assert own <= one.event().epsilon ** 2 / 8 < own * (1 + 1e-8)


def test_any_norm_bounds_the_largest_coordinate() -> None:
    for norm in Norm:
        mechanism = ExponentialMechanism(epsilon=1.0, sensitivity=of(norm=norm), candidates=3)
        assert mechanism.scale == pytest.approx(2.0)


def test_a_clear_winner_is_named() -> None:
    scores = np.array([0.0, 400.0, 200.0, 600.0])
    choice = ExponentialMechanism(epsilon=1.0, sensitivity=of(), candidates=4)
    assert choice.randomise(scores) == 3


def test_a_single_candidate_is_named_without_a_choice() -> None:
    choice = ExponentialMechanism(epsilon=1.0, sensitivity=of(), candidates=1)
    assert choice.randomise([5.0]) == 0


@pytest.mark.parametrize("scores", [(1e308, -1e308, 0.0), (1e-320, 0.0, 1e-310), (1e308,) * 3])
def test_extreme_scores_are_chosen_among_exactly(scores: tuple[float, ...]) -> None:
    choice = ExponentialMechanism(epsilon=1.0, sensitivity=of(), candidates=3)
    named = {choice.randomise(scores) for _ in range(200)}
    assert named == ({0} if scores[1] < 0 else {0, 1, 2})


def test_the_gap_of_a_preview_is_where_two_candidates_are_told_apart() -> None:
    choice = ExponentialMechanism(epsilon=0.5, sensitivity=of(0.2), candidates=9)
    gap = choice.preview().gap
    assert gap is not None
    odds = math.exp(0.5 * gap / (2 * 0.2))
    assert odds / (1 + odds) == pytest.approx(0.95)
