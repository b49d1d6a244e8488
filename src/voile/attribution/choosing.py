"""Chooses between exact and sampled Shapley values."""

from __future__ import annotations

from typing import Any, Final

from voile.attribution.exact import ExactShapley
from voile.attribution.kernel import KernelShapley
from voile.attribution.players import Groups, Players
from voile.attribution.settings import Speed
from voile.core.schema import Schema

MOST_EXACT_PLAYERS: Final = 16


def is_exact(players: int) -> bool:
    """Whether Shapley values are computed from all coalitions: up to 16 players.

    >>> is_exact(16), is_exact(17)
    (True, False)
    """
    return players <= MOST_EXACT_PLAYERS


def shapley_explainer(
    model: Any,
    background: Any,
    *,
    schema: Schema,
    groups: Groups | None = None,
    speed: Speed | None = None,
) -> ExactShapley | KernelShapley:
    """Choose an explainer by Shapley values over background rows: exact if there are few players.

    Above 16 players values are sampled, and come with standard errors.

    >>> from voile.core.schema import Feature, Numbers
    >>> schema = Schema("t", (Feature("age", Numbers(0, 120)), Feature("bmi", Numbers(10, 60))))
    >>> explainer = shapley_explainer(lambda x: x.sum(axis=1), [[40.0, 20.0]], schema=schema)
    >>> explainer([[50.0, 25.0]]).values.ravel().tolist()
    [10.0, 5.0]
    """
    kind = (
        ExactShapley
        if is_exact(Players.from_groups(schema.feature_names, groups).count)
        else KernelShapley
    )
    return kind(model, background, schema=schema, groups=groups, speed=speed or Speed())
