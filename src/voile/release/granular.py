"""`PrivateInteractions`: Shapley values, base value and all pairwise interactions, in one release.

The background rows are protected, as in `PrivateBackgroundShapley`. Values and base move by at most
Δ₁, the vector of all pairs (each once) by at most Δ₂, so everything together moves by at most
√(Δ₁² + Δ₂²) and gets Gaussian noise at that: the composition of the two parts at equal noise.

`voile.attribution.ShapleyInteractions` gives features what is left of their Shapley value after
half of each interaction. No bound covers that column by itself; here a feature's column is its
Shapley value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution import is_exact
from voile.attribution.choosing import MOST_EXACT_PLAYERS
from voile.attribution.coalitions import interaction_share
from voile.attribution.interactions import JOIN
from voile.core.errors import Refused
from voile.core.explanation import Explanation
from voile.core.schema import Rows
from voile.privacy.sensitivity import Sensitivity, interaction_background, interaction_norm
from voile.release.background import PrivateBackgroundShapley
from voile.release.charged import Accuracy
from voile.release.evaluation import answers, pair_blocks
from voile.release.output_sets import SAME_ANSWER
from voile.release.silence import silenced

NOT_ADDITIVE: Final = (
    "a feature's column is its Shapley value, a pair's its interaction index: values of features "
    "alone add up to prediction minus base, pairs are not to be added to them"
)


@dataclass(frozen=True, eq=False)
class PrivateInteractions(PrivateBackgroundShapley):
    """Values, base and pairwise interactions over a private background; one output.

    Guarantees
        1. (epsilon, delta) for each background row and each explained row, for all columns.
        2. Otherwise those of `PrivateBackgroundShapley`.

    Args: those of `PrivateBackgroundShapley`; two to 16 players.
    """

    level: str = field(default="granular", kw_only=True)
    tag: ClassVar = "background-interactions"
    explains: ClassVar = "Shapley values and interactions"
    columns: ClassVar = "values, base value and interactions"

    @property
    def released(self) -> int:
        return super().released + math.comb(self.players, 2)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Of all columns and the base value together."""
        pairs, single = self.sensitivity_of_pairs, self.sensitivity_of_values
        conditions = dict.fromkeys((*single.conditions, *pairs.conditions))
        both = math.hypot(single.value, pairs.value)
        return replace(pairs, value=both, conditions=tuple(conditions))

    @cached_property
    def sensitivity_of_pairs(self) -> Sensitivity:
        """Refused where no bound is known."""
        outputs, players = self.games.bounded.outputs, self.players
        if outputs != 1 or players < 2 or not is_exact(players):
            raise Refused(
                f"interactions are bounded for one output and 2 to {MOST_EXACT_PLAYERS} players, "
                f"found {outputs} and {players}; choose an output with model.only(name), or "
                "form groups"
            )
        width = self.outputs.diameter
        bound = interaction_background(
            features=players,
            background_rows=self.background_rows,
            output_width=width,
            relation=self.protected.relation,
        )
        # All other rows' answers may change in their last digits: a game inside ± so much is added.
        beside = interaction_norm(features=players, output_width=2 * SAME_ANSWER * width)
        return replace(bound, value=bound.value + beside)

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        share = self.sensitivity_of_values.value / self.sensitivity.value
        return Accuracy.of(
            self.noise.preview(),
            f"without interactions the noise would be {share:.2g} times this",
            *self.games.bounded.remarks,
        )

    def draw(self, rows: Any) -> Explanation:
        games = self.games
        explained = games.read(rows)
        joint = np.concatenate([self.before_noise(explained), self.pairs(explained)], axis=1)
        noisy = np.stack([self.noise.randomise(one) for one in joint])
        players = games.game.players
        values = np.delete(noisy, players.count, axis=1)
        shown = self.noise.preview()
        return Explanation(
            values=values,
            base_values=noisy[:, players.count],
            feature_names=(*players.names, *self._pair_names),
            output_names=games.bounded.names,
            standard_errors=np.full(values.shape, shown.standard_deviation),
            half_widths=np.full(values.shape, shown.half_width),
            guarantees=self.guarantees(len(values)),
            notes=self.notes(NOT_ADDITIVE),
        )

    @property
    def _pair_names(self) -> tuple[str, ...]:
        names = self.games.game.players.names
        left, right = np.triu_indices(len(names), 1)
        return tuple(f"{names[i]}{JOIN}{names[j]}" for i, j in zip(left, right, strict=True))

    def pairs(self, rows: Rows) -> NDArray[np.float64]:
        """The interactions of all pairs i < j, before noise, shape (rows, pairs, 1)."""
        with silenced():
            few, place = np.unique(rows, axis=0, return_inverse=True)
            left, right = np.triu_indices(self.players, 1)
            found: NDArray[np.float64] = self._paired(few)[:, left, right]
            return found[place.reshape(-1)]

    def _paired(self, rows: Rows) -> NDArray[np.float64]:
        games, players = self.games, self.players
        records, counts = games.looked_at
        weights = counts / counts.sum()
        paired = np.zeros((len(rows), players, players, 1))
        game, together = games.game, games.together
        own = answers(game, rows, together=together)
        for block in pair_blocks(game, rows, own, records.rows, together=together):
            if (size := block.active.shape[1]) < 2:
                continue
            weight = np.where(records.blank, 0.0, weights)[block.background][:, np.newaxis]
            both = interaction_share(block.worths, size, block.high) * weight
            row, active = block.row[:, np.newaxis, np.newaxis], block.active
            np.add.at(
                paired,
                (row, active[:, :, np.newaxis], active[:, np.newaxis]),
                both.transpose(2, 0, 1, 3),
            )
        # A null record's game is the centre everywhere but in the full coalition: the same for all.
        even = (own - games.bounded.centre) / (players - 1)
        blank = weights[records.blank].sum()
        whole: NDArray[np.float64] = paired + blank * even[:, np.newaxis, np.newaxis]
        return whole
