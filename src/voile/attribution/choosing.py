"""Exact or sampled: decided here, for whoever does not choose a method."""

from __future__ import annotations

from typing import Any, Final

from voile.attribution.exact import ExactShapley
from voile.attribution.kernel import KernelShapley
from voile.attribution.players import Groups, Players
from voile.attribution.settings import Speed
from voile.core.schema import Schema

MOST_EXACT_PLAYERS: Final = 16


def is_exact(players: int) -> bool:
    """Up to 16 players every coalition is looked at; above that, some are drawn."""
    return players <= MOST_EXACT_PLAYERS


def shapley_explainer(
    model: Any,
    background: Any,
    *,
    schema: Schema,
    groups: Groups | None = None,
    speed: Speed | None = None,
) -> ExactShapley | KernelShapley:
    """An explainer by Shapley values over background rows, exact if there are few players."""
    kind = (
        ExactShapley
        if is_exact(Players.from_groups(schema.feature_names, groups).count)
        else KernelShapley
    )
    return kind(model, background, schema=schema, groups=groups, speed=speed or Speed())
