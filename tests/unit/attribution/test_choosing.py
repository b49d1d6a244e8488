"""Exact up to 16 players, sampled beyond: decided once."""

from __future__ import annotations

import numpy as np
import pytest

from voile.attribution import ExactShapley, KernelShapley, Speed, is_exact, shapley_explainer
from voile.core.schema import Feature, Numbers, Schema

GROUPS = {"all but one": [f"feature {place}" for place in range(1, 17)]}


def schema(features: int) -> Schema:
    return Schema("s", tuple(Feature(f"feature {i}", Numbers(0.0, 1.0)) for i in range(features)))


@pytest.mark.parametrize(("players", "exact"), [(1, True), (16, True), (17, False)])
def test_few_players_are_explained_exactly(players: int, exact: bool) -> None:
    assert is_exact(players) is exact
    found = shapley_explainer(_mean, np.zeros((2, players)), schema=schema(players))
    assert type(found) is (ExactShapley if exact else KernelShapley)
    assert found.title == ("exact Shapley" if exact else "kernel Shapley")


def test_groups_count_as_one_player_and_settings_are_handed_on() -> None:
    speed = Speed(batch_rows=7)
    rows = np.zeros((2, 17))
    found = shapley_explainer(_mean, rows, schema=schema(17), groups=GROUPS, speed=speed)
    assert isinstance(found, ExactShapley)
    assert found.game.players.count == 2
    assert found.game.speed is speed


def _mean(rows: np.ndarray) -> np.ndarray:
    values: np.ndarray = rows.mean(axis=1)
    return values
