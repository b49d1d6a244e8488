"""Shapley values of public rows over protected background rows, before noise.

Each background row plays a game of its own with the explained row, and the values are the mean over
these games. A null record's game is worth the centre of the output set in every coalition but the
full one, where it is f(x) like every other's.

Guarantees
    1. No record of the background makes `joint` raise or warn, or changes a shape.
    2. A record's own game depends on no other record, up to the rounding of the model.
    3. Sums over records are pairwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution import ShortCuts, Speed
from voile.attribution.coalitions import Block, blocks, shapley_share
from voile.attribution.game import Game
from voile.attribution.inputs import Columns
from voile.attribution.players import Players
from voile.attribution.sampling import Values, paired_responses
from voile.attribution.tree_patterns import LeafSums, TreePatterns
from voile.core.schema import Rows, Schema
from voile.models import Outputs
from voile.release.bounded_trees import BoundedTrees
from voile.release.coalition_designs import BackgroundRowDesigns
from voile.release.output_sets import BoundedModel
from voile.release.records import Records
from voile.release.silence import silenced

# --- How a model is asked about protected rows: many in a call, or one pair at a time ------------
# The sensitivity of a mean over m games rests on two things: a record's game depends on no other
# record, and every game is worth f(x) when all players are in. Models that treat the rows of a
# batch one by one give both, however they are asked. Of all others neither is true: one record can
# turn the answers of all. So they get one pair of rows in a call, an explained one and one of the
# background; whatever they make of it is a game of that pair alone. And f(x) is asked for once,
# alone, and stands in every game for the full coalition; else two games could differ by as much
# there as elsewhere.


def answers(game: Game, rows: Rows, *, together: bool) -> Outputs:
    """f of each row.

    Args:
        together: the model treats the rows of a batch one by one.
    """
    if together:
        return game.outputs(rows.copy())  # a model may write into what it is given
    return np.concatenate([game.model.predict(row[np.newaxis].copy()) for row in rows])


def pair_blocks(
    game: Game, rows: Rows, outputs: Outputs, background: Rows, *, together: bool
) -> Iterator[Block]:
    """All coalitions of all pairs of a row and a background row; `outputs` is f of the rows."""
    if together:
        yield from blocks(game, rows, background)
        return
    silent = replace(game, speed=replace(game.speed, progress=None))
    for i, row in enumerate(rows):
        game.speed.report(i, len(rows))
        for j, other in enumerate(background):
            for block in blocks(silent, row[np.newaxis], other[np.newaxis]):
                here = replace(block, row=block.row + i, background=block.background + j)
                yield _with_full(here, outputs[i])
    game.speed.report(len(rows), len(rows))


def responses(
    game: Game,
    row: NDArray[np.float64],
    background: Rows,
    coalitions: NDArray[np.bool_],
    *,
    together: bool,
) -> Values:
    """v(T) − v(complement of T) of the games of one row, for coalitions of each game's own."""
    if together:
        return paired_responses(game, row, background, coalitions)
    one_each = zip(background, coalitions, strict=True)
    return np.concatenate(
        [paired_responses(game, row, b[np.newaxis], t[np.newaxis]) for b, t in one_each]
    )


def _with_full(block: Block, output: NDArray[np.float64]) -> Block:
    """With f(x) for the full coalition, which is the last one of a pair's last block."""
    if (block.high + 1) * len(block.worths) < 1 << block.active.shape[1]:
        return block
    worths = block.worths.copy()
    worths[-1] = output
    return replace(block, worths=worths)


# --------------------------------------------------------------------------------------------------


Joint: TypeAlias = NDArray[np.float64]
"""Shape (rows, players + 1, outputs): the values of all players, and last the base value."""
Vectors: TypeAlias = NDArray[np.float64]
"""Shape (rows, players, outputs, background rows): the values of single games."""

CELLS_AT_ONCE = 1 << 23


@dataclass(frozen=True, eq=False)
class BackgroundGames:
    """The games of any row against every record of a background.

    Args:
        game: a model that always answers, and who plays.
        records: the background.
        bounded: the same model, and where its outputs lie.
        designs: which coalitions are looked at; None: all of them.
        from_leaves: values may be read off the leaves of trees.
    """

    game: Game
    records: Records
    bounded: BoundedModel
    designs: BackgroundRowDesigns | None
    from_leaves: bool = False

    @classmethod
    def from_model(
        cls,
        bounded: BoundedModel,
        records: Records,
        *,
        schema: Schema,
        players: Players,
        speed: Speed,
        designs: BackgroundRowDesigns | None,
        from_leaves: bool = False,
    ) -> BackgroundGames:
        columns = Columns(schema.feature_names, len(schema.features), schema)
        game = Game(bounded.model, columns, records.rows, players, speed)
        return cls(game, records, bounded, designs, from_leaves)

    def read(self, given: Any) -> Rows:
        """Rows to explain; they are public, so whatever is wrong with them is said."""
        return self.game.read(given)[0] + 0.0  # one zero, as protected rows have

    @property
    def together(self) -> bool:
        """Whether the model may be asked about several records in one call."""
        return self.bounded.row_wise is not None

    @cached_property
    def trees(self) -> BoundedTrees | None:
        """Trees, where coalitions of single features are all looked at and work need not be
        constant: how many nodes of a tree are reached follows from what a row holds."""
        is_offered = self.from_leaves and self.designs is None and self.game.players.single
        if not is_offered or self.game.speed.short_cuts != ShortCuts():
            return None
        return self.bounded.trees

    @property
    def leaf_sums(self) -> LeafSums | None:
        """The leaves that values are read off; None: coalitions are enumerated."""
        return self.trees.sums if self.trees is not None and self.trees.fits else None

    @cached_property
    def patterns(self) -> TreePatterns:
        """All records but null records, counted by the leaves that they reach."""
        assert self.leaf_sums is not None
        rows = self.records.rows[~self.records.blank]
        return TreePatterns.from_leaves(self.leaf_sums, rows, self.game.players.count)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a preview says about how values come about."""
        said = () if self.trees is None else self.trees.remarks(self.bounded.model)
        return said if self.leaf_sums is not None else (*self.bounded.remarks, *said)

    @cached_property
    def looked_at(self) -> tuple[Records, NDArray[np.float64]]:
        """The records whose games are played, and how often each counts."""
        if self.game.speed.short_cuts.duplicate_rows:
            return self.records.distinct()
        return self.records, np.ones(len(self.records))


def background_outputs(games: BackgroundGames) -> Outputs:
    """f of the background records, each."""
    sums, rows = games.leaf_sums, games.records.rows
    with silenced():
        if sums is None:
            found = answers(games.game, rows, together=games.together)
        else:
            found = sums.outputs(rows)
    # A null record counts as the centre, not as the model's answer for the null row: every output
    # lies within the radius of the centre, and the bound for "zero out" rests on that.
    return np.where(games.records.blank[:, np.newaxis], games.bounded.centre, found)


def joint(games: BackgroundGames, rows: Rows, background: Outputs) -> Joint:
    """Values and base value of rows; `background` is what `background_outputs` gives."""
    with silenced():
        few, place = rows, np.arange(len(rows))
        if games.game.speed.short_cuts.duplicate_rows:
            # Equal rows are explained once. Where they are protected (a population over itself),
            # the guarantee assumes that running time is not observed.
            few, place = np.unique(rows, axis=0, return_inverse=True)
        values = _values(games, few, background)
        mean = _mean(background.T, np.ones(len(background)))
        base = np.broadcast_to(mean, (len(few), 1, games.bounded.outputs))
        return np.concatenate([values, base], axis=1)[place.reshape(-1)]


def _values(games: BackgroundGames, rows: Rows, background: Outputs) -> NDArray[np.float64]:
    if games.designs:
        return _sampled(games, rows, background)
    return _exact(games, rows) if games.leaf_sums is None else _of_leaves(games, rows)


# --- leaves of trees ------------------------------------------------------------------------------


def _of_leaves(games: BackgroundGames, rows: Rows) -> NDArray[np.float64]:
    """The mean over all records; of null records by formula, they reach no leaf."""
    sums, blank = games.leaf_sums, games.records.blank
    assert sums is not None
    found = np.zeros((len(rows), games.game.players.count, games.bounded.outputs))
    if blank.any():
        found += _of_null_record(games, sums.outputs(rows)) * blank.sum()
    if not blank.all():
        found += games.patterns.values(rows) * (~blank).sum()
    mean: NDArray[np.float64] = found / len(blank)
    return mean


# --- all coalitions -------------------------------------------------------------------------------


def _exact(games: BackgroundGames, rows: Rows) -> NDArray[np.float64]:
    _, counts = games.looked_at
    return np.concatenate([_mean(vectors, counts) for vectors in _single_games(games, rows)])


def _single_games(games: BackgroundGames, rows: Rows) -> Iterator[Vectors]:
    """The values of every game, a few rows at a time."""
    game, (records, _), together = games.game, games.looked_at, games.together
    shape = (game.players.count, games.bounded.outputs, len(records))
    for part in _few_at_once(rows, shape):
        vectors = np.zeros((len(part), *shape))
        own = answers(game, part, together=together)
        for block in pair_blocks(game, part, own, records.rows, together=together):
            share = shapley_share(block.worths, block.active.shape[1], block.high)
            mine, other = block.row[:, np.newaxis], block.background[:, np.newaxis]
            # A player with equal values on both sides is not active: it adds 0 to its own value and
            # changes no other's (the null-player axiom), so it may be left out.
            vectors[mine, block.active, :, other] += share.swapaxes(0, 1)
        vectors[..., records.blank] = _of_null_record(games, own)[..., np.newaxis]
        yield vectors


# --- some coalitions ------------------------------------------------------------------------------


def _sampled(games: BackgroundGames, rows: Rows, background: Outputs) -> NDArray[np.float64]:
    ones, estimated = np.ones(len(background)), _estimated_games(games, rows, background)
    return np.concatenate([_mean(vectors, ones) for vectors in estimated])


def _estimated_games(games: BackgroundGames, rows: Rows, background: Outputs) -> Iterator[Vectors]:
    """Estimates of the values of every game, a few rows at a time."""
    game, records, designs, together = games.game, games.records, games.designs, games.together
    assert designs is not None
    shape = (game.players.count, games.bounded.outputs, len(records))
    for explained in _few_at_once(rows, shape):
        own = answers(game, explained, together=together)
        # v(N) − v(∅), shared out evenly, is exact; only the zero-sum rest is estimated.
        even = (own[:, np.newaxis] - background) / game.players.count
        vectors = np.empty((len(explained), *shape))
        for part in designs.parts():
            # Drawn before any record was read, and for each record anew: a record moves its own
            # estimate only, and the stretch of these weights bounds by how much.
            weights = designs.weights(part).swapaxes(1, 2) / 2
            coalitions, others = designs.coalitions[part], records.rows[part]
            for place, row in enumerate(explained):
                moved = responses(game, row, others, coalitions, together=together)
                share = weights @ moved + even[place, part, np.newaxis]
                vectors[place, ..., part] = np.moveaxis(share, 0, -1)
        vectors[..., records.blank] = _of_null_record(games, own)[..., np.newaxis]
        yield vectors


# --- what both need -------------------------------------------------------------------------------


def _few_at_once(rows: Rows, shape: tuple[int, ...]) -> Iterator[Rows]:
    together = max(1, CELLS_AT_ONCE // math.prod(shape))
    for start in range(0, len(rows), together):
        yield rows[start : start + together]


def _of_null_record(games: BackgroundGames, outputs: Outputs) -> NDArray[np.float64]:
    """Values in the game of a null record, of rows with these outputs."""
    players = games.game.players.count
    # Worth the centre everywhere but f(x) in the full coalition: symmetric, so shared out evenly.
    even = (outputs - games.bounded.centre) / players
    return np.repeat(even[:, np.newaxis], players, axis=1)


def _mean(vectors: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the last axis; numpy adds up pairwise along an axis that lies together in memory."""
    # The margin of the mechanism covers pairwise sums up to about 100,000 records, and a plain loop
    # only up to about 2,000 (docs/guarantees/mechanisms.md).
    weighted = np.ascontiguousarray(vectors * counts)
    mean: NDArray[np.float64] = weighted.sum(axis=-1) / counts.sum()
    return mean
