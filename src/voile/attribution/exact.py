"""Exact Shapley values: every coalition, every background row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.coalitions import (
    LOW_PLAYERS,
    Block,
    blocks,
    interaction_share,
    members,
    shapley_share,
)
from voile.attribution.game import Game, GameExplainer, output_names
from voile.attribution.inputs import Columns
from voile.attribution.settings import Speed
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.schema import Schema
from voile.models import CoalitionModel, Rows

MOST_PLAYERS: Final = 20


@dataclass(frozen=True, eq=False)
class ExactShapley(GameExplainer):
    """Interventional Shapley values without sampling error, for up to 20 players.

    Attributions add up to prediction minus the mean background output. Needs 2^k model evaluations
    for each (row, background row) pair with k differing players. Arguments: see `GameExplainer`.

    >>> product = ExactShapley(lambda x: x[:, 0] * x[:, 1], [[0.0, 0.0]], feature_names=("a", "b"))
    >>> product([[3.0, 2.0]]).values.ravel().tolist()  # what two make together is shared evenly
    [3.0, 3.0]
    """

    title: ClassVar[str] = "exact Shapley"
    tag: ClassVar[str] = "exact-shapley"

    def check_players(self, players: int) -> None:
        check_player_count(players)

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows, game = self.game.read(X)
        once = DistinctRows.from_rows(rows, game)
        outputs = game.background_outputs.shape[1]
        values = np.zeros((len(once.rows), game.players.count, outputs))
        for block in blocks(game, once.rows, once.background):
            share = shapley_share(block.worths, block.active.shape[1], block.high)
            share *= once.weights[block.background][np.newaxis, :, np.newaxis]
            np.add.at(values, (block.row[:, np.newaxis], block.active), share.swapaxes(0, 1))
        return game.explanation(rows, values[once.place])


@dataclass(frozen=True, eq=False)
class SurrogateShapley:
    """Exact Shapley values of a surrogate that answers for coalitions itself, without background.

    Args:
        surrogate: a `CoalitionModel`; its players are its features.
        feature_names: one per column, where the surrogate does not know them.
        schema: reads raw values and category names.
        speed: batch size and progress.

    >>> class Surrogate:
    ...     feature_names, output_names = ("age", "bmi"), ("risk",)
    ...     def predict_present(self, rows, present):
    ...         return np.where(present, rows, 0.0).sum(axis=1, keepdims=True)
    >>> SurrogateShapley(Surrogate())([[3.0, 2.0]]).values.ravel().tolist()
    [3.0, 2.0]
    """

    surrogate: CoalitionModel
    _: KW_ONLY
    feature_names: Sequence[str] | None = None
    schema: Schema | None = None
    speed: Speed = field(default_factory=Speed)
    title: ClassVar[str] = "exact Shapley, of the surrogate,"
    tag: ClassVar[str] = "surrogate-shapley"

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        columns = Columns.from_model(
            self.surrogate, given=self.feature_names, schema=self.schema, example=X
        )
        rows = columns.read(X, "X")
        names = columns.settled(X, rows).names or ()
        check_player_count(len(names))
        explained = [self._explain(row, len(names)) for row in rows]
        return Explanation(
            values=np.stack([values for values, _ in explained]),
            base_values=np.stack([base for _, base in explained]),
            feature_names=names,
            output_names=output_names(self.surrogate, explained[0][0].shape[1]),
            data=rows,
        )

    def _explain(
        self, row: NDArray[np.float64], players: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low = min(players, LOW_PLAYERS, self.speed.batch_rows.bit_length() - 1)
        values: Any = 0.0
        base: Any = None
        present = np.empty((1 << low, players), dtype=np.bool_)
        present[:, :low] = members(low).T > 0
        repeated = np.broadcast_to(row, present.shape).copy()
        for high in range(1 << (players - low)):
            present[:, low:] = [bool(high >> t & 1) for t in range(players - low)]
            worths = self.surrogate.predict_present(repeated, present)[:, np.newaxis]
            base = worths[0, 0].copy() if high == 0 else base
            values = values + shapley_share(worths, players, high)[:, 0]
        return values, base


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The rows and background rows that have to be looked at, each once.

    Args:
        rows: distinct rows.
        place: for each row that was asked for, its place among them.
        background: distinct background rows.
        weights: the share of the background that each of them stands for.
    """

    rows: Rows
    place: NDArray[np.intp]
    background: Rows
    weights: NDArray[np.float64]

    @classmethod
    def from_rows(cls, rows: Rows, game: Game) -> DistinctRows:
        total = len(game.background)
        if not game.speed.short_cuts.duplicate_rows:
            even = np.full(total, 1 / total)
            return cls(rows, np.arange(len(rows)), game.background, even)
        few, place = np.unique(rows, axis=0, return_inverse=True)
        return cls(few, place.reshape(-1), *game.distinct_background)


def check_player_count(players: int) -> None:
    """2^20 coalitions take seconds for each background row; beyond that, sample."""
    if players > MOST_PLAYERS:
        raise InvalidInput(
            f"exact values need 2^players evaluations and are offered up to {MOST_PLAYERS} "
            f"players, found {players}; use KernelShapley or PermutationShapley, or form groups"
        )


# --- Pairwise Shapley interactions: what two players contribute together beyond each by itself ---


JOIN = " × "


@dataclass(frozen=True, eq=False)
class ShapleyInteractions(GameExplainer):
    """Exact pairwise Shapley interaction indices, for up to 20 players.

    The explanation has a column for each player and one for each pair, named "age × bmi". A pair's
    value is its interaction index; a player's is its Shapley value less half of each of its
    interactions, so that all columns add up to prediction minus base. Arguments: see
    `GameExplainer`.

    >>> product = ShapleyInteractions(
    ...     lambda x: x[:, 0] * x[:, 1], [[0.0, 0.0]], feature_names=("a", "b"))
    >>> found = product([[3.0, 2.0]])
    >>> dict(zip(found.feature_names, found.values.ravel().tolist()))
    {'a': 0.0, 'b': 0.0, 'a × b': 6.0}
    """

    title: ClassVar[str] = "interactions"
    tag: ClassVar[str] = "shapley-interactions"

    def check_players(self, players: int) -> None:
        check_player_count(players)

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows, game = self.game.read(X)
        once = DistinctRows.from_rows(rows, game)
        players, outputs = game.players.count, game.background_outputs.shape[1]
        single = np.zeros((len(once.rows), players, outputs))
        paired = np.zeros((len(once.rows), players, players, outputs))
        for block in blocks(game, once.rows, once.background):
            _add(single, paired, block, once.weights)
        left, right = np.triu_indices(players, 1)
        main = single - paired.sum(axis=2) / 2
        values = np.concatenate([main, paired[:, left, right]], axis=1)
        names = game.players.names
        together = tuple(f"{names[i]}{JOIN}{names[j]}" for i, j in zip(left, right, strict=True))
        return game.explanation(rows, values[once.place], names=(*names, *together))


def _add(
    single: NDArray[np.float64],
    paired: NDArray[np.float64],
    block: Block,
    weights: NDArray[np.float64],
) -> None:
    players = block.active.shape[1]
    weight = weights[block.background][:, np.newaxis]
    alone = shapley_share(block.worths, players, block.high) * weight
    row, active = block.row[:, np.newaxis], block.active
    np.add.at(single, (row, active), alone.swapaxes(0, 1))
    if players > 1:
        both = interaction_share(block.worths, players, block.high) * weight
        place = (row[:, :, np.newaxis], active[:, :, np.newaxis], active[:, np.newaxis])
        np.add.at(paired, place, both.transpose(2, 0, 1, 3))
