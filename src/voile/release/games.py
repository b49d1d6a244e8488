"""Shapley values of public rows over protected background rows, before noise.

Each background row plays a game of its own with the explained row, and the values are the mean over
these games. A null record's game is worth the centre of the output set in every coalition but the
full one, where it is f(x) like every other's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution import Speed
from voile.attribution.coalitions import shapley_share
from voile.attribution.game import Game
from voile.attribution.inputs import Columns
from voile.attribution.players import Players
from voile.core.schema import Rows, Schema
from voile.models import Outputs
from voile.release.coalition_designs import BackgroundRowDesigns
from voile.release.evaluation import Evaluation, PairByPair, Together
from voile.release.output_sets import BoundedModel
from voile.release.records import Records
from voile.release.silence import silenced

Joint: TypeAlias = NDArray[np.float64]
"""Shape (rows, players + 1, outputs): the values of all players, and last the base value."""
Vectors: TypeAlias = NDArray[np.float64]
"""Shape (rows, players, outputs, background rows): the values of single games."""

CELLS_AT_ONCE = 1 << 23


@dataclass(frozen=True, eq=False)
class BackgroundGames:
    """The games of any row against every record of a background.

    Guarantees
        1. No record of the background makes `joint` raise or warn, or changes a shape.
        2. A record's own game depends on no other record, up to the rounding of the model: see
           `voile.release.evaluation`.
        3. Sums over records are pairwise.

    Args:
        game: a model that always answers, and who plays.
        records: the background.
        bounded: the same model, and where its outputs lie.
        designs: which coalitions are looked at; None: all of them.
    """

    game: Game
    records: Records
    bounded: BoundedModel
    designs: BackgroundRowDesigns | None

    @classmethod
    def of(
        cls,
        bounded: BoundedModel,
        records: Records,
        *,
        schema: Schema,
        players: Players,
        speed: Speed,
        designs: BackgroundRowDesigns | None,
    ) -> BackgroundGames:
        columns = Columns(schema.feature_names, len(schema.features), schema)
        game = Game(bounded.model, columns, records.rows, players, speed)
        return cls(game, records, bounded, designs)

    def read(self, given: Any) -> Rows:
        """Rows to explain; they are public, so whatever is wrong with them is said."""
        return self.game.read(given)[0] + 0.0  # one zero, as protected rows have

    def joint(self, rows: Rows) -> Joint:
        with silenced():
            few, place = np.unique(rows, axis=0, return_inverse=True)
            values = self._sampled(few) if self.designs else self._exact(few)
            base = np.broadcast_to(self._base, (len(few), 1, self.bounded.outputs))
            return np.concatenate([values, base], axis=1)[place.reshape(-1)]

    # --- all coalitions -------------------------------------------------------------------------

    def _exact(self, rows: Rows) -> NDArray[np.float64]:
        records, counts = self._looked_at
        parts = [_mean(vectors, counts) for vectors in self.single_games(rows, records)]
        return np.concatenate(parts)

    def single_games(self, rows: Rows, records: Records) -> Iterator[Vectors]:
        """The values of every game, a few rows at a time."""
        shape = (self.game.players.count, self.bounded.outputs, len(records))
        together = max(1, CELLS_AT_ONCE // math.prod(shape))
        for start in range(0, len(rows), together):
            part = rows[start : start + together]
            vectors = np.zeros((len(part), *shape))
            own = self.evaluation.outputs(part)
            for block in self.evaluation.blocks(part, own, records.rows):
                share = shapley_share(block.worths, block.active.shape[1], block.high)
                mine, other = block.row[:, np.newaxis], block.background[:, np.newaxis]
                vectors[mine, block.active, :, other] += share.swapaxes(0, 1)
            vectors[..., records.blank] = self._of_null_record(own)[..., np.newaxis]
            yield vectors

    @cached_property
    def _looked_at(self) -> tuple[Records, NDArray[np.float64]]:
        if self.game.speed.short_cuts.duplicate_rows:
            return self.records.distinct()
        return self.records, np.ones(len(self.records))

    # --- some coalitions ------------------------------------------------------------------------

    def _sampled(self, rows: Rows) -> NDArray[np.float64]:
        ones = np.ones(len(self.records))
        return np.concatenate([_mean(vectors, ones) for vectors in self._estimated_games(rows)])

    def _estimated_games(self, rows: Rows) -> Iterator[Vectors]:
        """Estimates of the values of every game, a few rows at a time."""
        designs = self._designs
        shape = (self.game.players.count, self.bounded.outputs, len(self.records))
        together = max(1, CELLS_AT_ONCE // math.prod(shape))
        for start in range(0, len(rows), together):
            explained = rows[start : start + together]
            own = self.evaluation.outputs(explained)
            gap = own[:, np.newaxis] - self._outputs
            even = gap / self.game.players.count
            vectors = np.empty((len(explained), *shape))
            for part in designs.parts():
                weights = designs.weights(part).swapaxes(1, 2) / 2
                coalitions, others = designs.coalitions[part], self.records.rows[part]
                for place, row in enumerate(explained):
                    responses = self.evaluation.responses(row, others, coalitions)
                    share = weights @ responses + even[place, part, np.newaxis]
                    vectors[place, ..., part] = np.moveaxis(share, 0, -1)
            vectors[..., self.records.blank] = self._of_null_record(own)[..., np.newaxis]
            yield vectors

    @property
    def _designs(self) -> BackgroundRowDesigns:
        assert self.designs is not None
        return self.designs

    # --- what both need -------------------------------------------------------------------------

    @cached_property
    def evaluation(self) -> Evaluation:
        return PairByPair(self.game) if self.bounded.row_wise is None else Together(self.game)

    def _of_null_record(self, outputs: Outputs) -> NDArray[np.float64]:
        """Of rows with these outputs."""
        players = self.game.players.count
        even = (outputs - self.bounded.centre) / players
        return np.repeat(even[:, np.newaxis], players, axis=1)

    @cached_property
    def _outputs(self) -> Outputs:
        """Of the background records, each."""
        found = self.evaluation.outputs(self.records.rows)
        return np.where(self.records.blank[:, np.newaxis], self.bounded.centre, found)

    @cached_property
    def _base(self) -> Outputs:
        mean: Outputs = _mean(self._outputs.T, np.ones(len(self.records)))
        return mean


def _mean(vectors: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the last axis; numpy adds up pairwise along an axis that lies together in memory."""
    weighted = np.ascontiguousarray(vectors * counts)
    mean: NDArray[np.float64] = weighted.sum(axis=-1) / counts.sum()
    return mean
