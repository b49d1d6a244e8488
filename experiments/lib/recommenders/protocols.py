"""Ranking protocols of published figures; each is easier than a full ranking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.lib.recommenders.measuring import Split, below
from voile.recommenders.moments import Matrix


@dataclass(frozen=True)
class SampledNegatives:
    """One held-out item of each user among 99 that she never touched; far easier."""

    seed: int
    negatives: int = 99

    @property
    def name(self) -> str:
        return f"{self.negatives} sampled negatives"

    def lists(
        self, split: Split, users: NDArray[np.int64], scores: Matrix
    ) -> tuple[Matrix, Matrix]:
        gains = np.zeros((len(users), self.negatives + 1))
        found = np.empty_like(gains)
        for row, user in enumerate(users):
            draw = np.random.default_rng([self.seed, int(user)])
            held = split.held_out.history_at(user)
            untouched = np.ones(scores.shape[1], dtype=np.bool_)
            untouched[held] = untouched[split.given.history_at(user)] = False
            left = np.flatnonzero(untouched)
            others = draw.choice(left, self.negatives, replace=len(left) < self.negatives)
            # Shuffled: ties must not favour the item that counts.
            candidates = np.concatenate([[draw.choice(held)], others])
            place = draw.permutation(len(candidates))
            gains[row], found[row] = place == 0, scores[row, candidates[place]]
        return gains, found


@dataclass(frozen=True)
class RatedOnly:
    """Only what a user has rated and was held out is ranked, with gains 2^rating − 1.

    Nothing else competes: even a random order does well.
    """

    name: str = "rated items only"

    def lists(
        self, split: Split, users: NDArray[np.int64], scores: Matrix
    ) -> tuple[Matrix, Matrix]:
        held = split.held_out
        gains, found = np.zeros_like(scores), np.tile(below(scores), (1, scores.shape[1]))
        rows = {int(user): row for row, user in enumerate(users)}
        chosen = np.isin(held.user, users) & ~np.isnan(held.rating)
        row = np.array([rows[user] for user in held.user[chosen].tolist()], dtype=np.int64)
        item = held.item[chosen]
        gains[row, item] = 2.0 ** held.rating[chosen] - 1
        found[row, item] = scores[row, item]
        return gains, found
