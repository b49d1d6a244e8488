"""What explainers have in common: how rows are read, and the game that coalitions play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from voile.attribution.game import Game
from voile.attribution.players import Groups
from voile.attribution.settings import Speed
from voile.core.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplainerSettings:
    """What every explainer of a model can be told.

    Args:
        groups: features that act together as one player; where there are no players, features whose
            attributions are added up.
        schema: reads DataFrames of raw values and category names.
        feature_names: one per column, where neither data nor model know them.
        speed: batch size, short cuts, progress; changes no value.
    """

    groups: Groups | None = None
    schema: Schema | None = None
    feature_names: Sequence[str] | None = None
    speed: Speed = field(default_factory=Speed)


@dataclass(frozen=True, eq=False)
class GameExplainer(ExplainerSettings):
    """An explainer by coalitions: absent players take their values from background rows.

    Args (in addition to those of `ExplainerSettings`):
        model: anything that `voile.models.wrap` takes.
        background: the rows that absent players take their values from.
    """

    model: Any
    background: Any
    game: Game = field(init=False, repr=False)

    def __post_init__(self) -> None:
        game = Game.from_model(
            self.model,
            self.background,
            groups=self.groups,
            schema=self.schema,
            feature_names=self.feature_names,
            speed=self.speed,
        )
        self.check_players(game.players.count)
        object.__setattr__(self, "game", game)

    def check_players(self, players: int) -> None:
        """Raise `InvalidInput` if the method does not offer so many."""
