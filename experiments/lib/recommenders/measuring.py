"""How good a list of recommendations is, under a protocol that is named.

The same model has an NDCG of 0.38, 0.49 or 0.78 depending on what is ranked: a figure without its
protocol says nothing. Figures on protected users are exact, and so not for release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.lib.evaluation.ranking import ndcg, recall
from voile.core.errors import InvalidInput
from voile.recommenders.models import Recommender
from voile.recommenders.moments import Matrix
from voile.recommenders.shop import Interactions

# -------------------------------------------------------------------------------------------------
# How interactions are held out to judge a recommender. Each gives two parts with the same users.
#
# Which lines are held out is drawn from a stated seed: figures, not promises, depend on it.


class Split(NamedTuple):
    """What a model learns from, and what it is asked about."""

    given: Interactions
    held_out: Interactions


def per_user_holdout(interactions: Interactions, *, share: float, seed: int) -> Split:
    """A random share of each user's interactions is held out, rounded to whole ones."""
    if not 0 < share < 1:
        raise InvalidInput(f"a share lies between 0 and 1, found {share}")
    draw = np.random.default_rng(seed)
    rank = ranks(interactions, draw.random(len(interactions.item)))
    counts = np.bincount(interactions.user, minlength=len(interactions))
    held = rank < np.round(share * counts).astype(np.int64)[interactions.user]
    return Split(interactions.where(~held), interactions.where(held))


def ranks(interactions: Interactions, keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place of each interaction among those of its user, by a key."""
    order = np.lexsort((keys, interactions.user))
    counts = np.bincount(interactions.user, minlength=len(interactions))
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, counts)
    return ranks


# --------------------------------------------------------------------------------------------------


_AT_A_TIME = 512


@dataclass(frozen=True)
class RankingQuality:
    """Means over all users of whom something is held out; the protocol stands beside them."""

    protocol: str
    k: int
    ndcg: float
    recall: float
    users: int

    def __str__(self) -> str:
        return (
            f"NDCG@{self.k} {self.ndcg:.4f}, recall@{self.k} {self.recall:.4f} "
            f"({self.protocol}; {self.users} users; not for release)"
        )


class RankingProtocol(Protocol):
    """What is ranked, and what counts."""

    @property
    def name(self) -> str: ...

    def lists(
        self, split: Split, users: NDArray[np.int64], scores: Matrix
    ) -> tuple[Matrix, Matrix]:
        """Gains and scores of the candidates of some users, shape (users, candidates)."""


@dataclass(frozen=True)
class FullRanking:
    """Every item that a user has not touched is ranked; all held-out ones count alike."""

    name: str = "full ranking"

    def lists(
        self, split: Split, users: NDArray[np.int64], scores: Matrix
    ) -> tuple[Matrix, Matrix]:
        gains = split.held_out.matrix[users].toarray()
        touched = split.given.matrix[users].toarray() > 0
        return gains, np.where(touched, below(scores), scores)


FULL_RANKING: Final = FullRanking()


def measure(
    model: Recommender, split: Split, *, protocol: RankingProtocol = FULL_RANKING, k: int = 10
) -> RankingQuality:
    """Mean NDCG and recall over users of whom something is held out."""
    (found,) = measure_each(model, split, [protocol], k=k)
    return found


def measure_each(
    model: Recommender, split: Split, protocols: Sequence[RankingProtocol], *, k: int = 10
) -> list[RankingQuality]:
    """The same under several protocols; scores are computed once."""
    users = np.unique(split.held_out.user)
    if not len(users):
        raise InvalidInput("nothing is held out: there is nothing to be judged by")
    sums = np.zeros((len(protocols), 2))
    for start in range(0, len(users), _AT_A_TIME):
        some = users[start : start + _AT_A_TIME]
        scores = model.scores(split.given.matrix[some])
        for total, protocol in zip(sums, protocols, strict=True):
            gains, ranked = protocol.lists(split, some, scores)
            total += ndcg(gains, ranked, k=k).sum(), recall(gains, ranked, k=k).sum()
    return [
        RankingQuality(protocol.name, k, float(gained), float(recalled), len(users))
        for protocol, (gained, recalled) in zip(protocols, sums / len(users), strict=True)
    ]


def below(scores: Matrix) -> Matrix:
    """For each user a score below all others."""
    return np.asarray(scores.min(axis=1, keepdims=True) - 1.0)
