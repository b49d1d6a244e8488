"""Bounds on pairwise interactions, searched the same way."""

from __future__ import annotations

import pytest

from tests.unit.privacy.sensitivity import games
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.privacy import sensitivity as s

TOLERANCE = 1 + 1e-9


def background(d: int, relation: Relation = Relation.REPLACE_ONE) -> float:
    return s.interaction_background(
        features=d, background_rows=1, output_width=1.0, relation=relation
    ).value


@pytest.mark.parametrize("d", [2, 3, 4, 5, 6, 8, 10])
def test_no_game_moves_the_interactions_further(d: int) -> None:
    found = games.ascent(games.interaction_matrix(d), games.sign_game, 1, 60 if d < 8 else 8)
    assert 0.6 * background(d) < found <= background(d) * TOLERANCE


@pytest.mark.parametrize("d", [2, 3, 4, 5, 6, 8, 10])
def test_no_vector_of_interactions_is_longer(d: int) -> None:
    bound = s.interaction_norm(features=d, output_width=1.0)
    found = games.ascent(games.interaction_matrix(d), games.unit_game, 1, 60 if d < 8 else 8)
    assert 0.6 * bound < found <= bound * TOLERANCE


@pytest.mark.parametrize("d", [2, 3])
def test_enumeration_of_all_vertices(d: int) -> None:
    matrix = games.interaction_matrix(d)
    assert games.enumerated(matrix, (-1.0, 1.0), fixed_full=True) <= background(d) * TOLERANCE


def test_two_features_attain_the_bound() -> None:
    exact = games.enumerated(games.interaction_matrix(2), (-1.0, 1.0), fixed_full=True)
    assert exact == pytest.approx(background(2))


def test_known_figure_and_half_for_blanking() -> None:
    assert background(12) == pytest.approx(6.015, abs=1e-3)
    assert background(12, Relation.BLANK_ONE) == pytest.approx(background(12) / 2)


@pytest.mark.parametrize("features", [0, 1, True, 2.5])
def test_interactions_need_two_features(features: int) -> None:
    with pytest.raises(InvalidInput):
        s.interaction_norm(features=features, output_width=1.0)
