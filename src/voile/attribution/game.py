"""The game behind interventional Shapley values.

A coalition of players keeps the values of the explained row; the others take theirs from a
background row. The worth of a coalition is the model's output, averaged over the background. So the
game of a row is the mean of *single-baseline* games, one for each background row, and so are its
Shapley values: everything in this package works on (row, background row) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.attribution.inputs import Columns
from voile.attribution.players import Groups, Players
from voile.attribution.settings import Speed
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import or_numbered
from voile.core.row_note import KnownNote, Note
from voile.core.schema import Schema
from voile.models import Model, Outputs, Rows, wrap


@dataclass(frozen=True, eq=False)
class Game:
    """A model, the background rows, and who plays.

    Args:
        model: what is explained.
        columns: which features there are.
        background: shape (m, d).
        players: who plays.
        speed: how the work is cut up.
    """

    model: Model
    columns: Columns
    background: Rows
    players: Players
    speed: Speed

    def read(self, given: Any) -> tuple[Rows, Game]:
        """Rows to explain, and this game with the names they brought along."""
        if self.columns.width is None:
            width = Columns(self.columns.names, self.background.shape[1], self.columns.schema)
        else:
            width = self.columns
        rows = width.read(given, "X")
        named = width.settled(given, rows)
        if named.names == self.players.names or not self.players.single:
            return rows, self
        players = Players(named.names or (), self.players.owner)
        game = Game(self.model, named, self.background, players, self.speed)
        for known in ("background_outputs", "distinct_background"):
            if known in self.__dict__:
                game.__dict__[known] = self.__dict__[known]
        return rows, game

    def outputs(self, rows: Rows) -> Outputs:
        """Predictions, in batches."""
        size = self.speed.batch_rows
        if len(rows) <= size:
            return self.model.predict(rows)
        return np.concatenate(
            [self.model.predict(rows[start : start + size]) for start in range(0, len(rows), size)]
        )

    @cached_property
    def background_outputs(self) -> Outputs:
        """The outputs of the background rows, shape (m, outputs)."""
        return self.outputs(self.background.copy())  # a model may write into what it is given

    @cached_property
    def distinct_background(self) -> tuple[Rows, NDArray[np.float64]]:
        """The background rows, each once, and the share of the background each stands for."""
        rows, counts = np.unique(self.background, axis=0, return_counts=True)
        return rows, counts / len(self.background)

    @property
    def base(self) -> NDArray[np.float64]:
        """The worth of the empty coalition, shape (outputs,)."""
        mean: NDArray[np.float64] = self.background_outputs.mean(axis=0)
        return mean

    def explanation(
        self,
        rows: Rows,
        values: NDArray[np.float64],
        *,
        errors: NDArray[np.float64] | None = None,
        base: NDArray[np.float64] | None = None,
        names: tuple[str, ...] | None = None,
        notes: tuple[Note, ...] = (),
    ) -> Explanation:
        """Values of shape (rows, players, outputs) with everything that belongs to them."""
        keeps_data = names is None and self.players.single
        return Explanation(
            values=values,
            base_values=self.base if base is None else base,
            feature_names=self.players.names if names is None else names,
            output_names=output_names(self.model, values.shape[2]),
            data=rows if keeps_data else None,
            standard_errors=errors,
            notes=notes,
        )


def output_names(model: Any, count: int) -> tuple[str, ...]:
    """The model's names for its outputs, or numbers."""
    return or_numbered(model.output_names, "output", count)


def as_model(given: Any) -> Model:
    """A model as it is; anything else wrapped."""
    return given if isinstance(given, Model) and not callable(given) else wrap(given)


# --- What explainers have in common: how rows are read, and the game that coalitions play ---------


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

    def columns_of(self, model: Model, example: Any) -> Columns:
        """Which features rows must have, as far as model and an example of rows tell."""
        return Columns.from_model(
            model, given=self.feature_names, schema=self.schema, example=example
        )

    def summed(
        self,
        rows: Rows,
        names: tuple[str, ...],
        values: NDArray[np.float64],
        base: NDArray[np.float64],
        outputs: tuple[str, ...],
        notes: tuple[Note, ...] = (),
    ) -> Explanation:
        """Attributions of features, added up where groups of them are asked for."""
        players = Players.from_groups(names, self.groups)
        return Explanation(
            values=players.summed(values),
            base_values=base,
            feature_names=players.names,
            output_names=outputs,
            data=rows if players.single else None,
            notes=notes if players.single else (*notes, KnownNote.SUMMED),
        )


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
        game = self._game()
        self.check_players(game.players.count)
        object.__setattr__(self, "game", game)

    def check_players(self, players: int) -> None:
        """Raise `InvalidInput` if the method does not offer so many."""

    def _game(self) -> Game:
        """Check everything that can be checked before a row is explained."""
        if self.background is None:
            raise InvalidInput("this method needs background rows: pass some rows of typical data")
        model = as_model(self.model)
        columns = self.columns_of(model, self.background)
        rows = columns.read(self.background, "the background")
        named = columns.settled(self.background, rows)
        # While nobody has named the features, the explained DataFrame may still do so.
        players = Players.from_groups(named.names or (), self.groups)
        known = columns if self.groups is None else named
        return Game(model, known, rows, players, self.speed)
