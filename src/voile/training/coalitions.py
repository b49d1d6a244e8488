"""Random coalitions in bulk, as 0/1 arrays in float32, shape (..., players)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput

Coalitions: TypeAlias = NDArray[np.float32]


def uniform_sizes(draw: np.random.Generator, shape: tuple[int, ...], players: int) -> Coalitions:
    """Coalitions whose size is uniform on 0 … players; of one size, all are equally likely."""
    return _of_sizes(draw, draw.integers(0, players + 1, shape), players)


def kernel_pairs(draw: np.random.Generator, rows: int, count: int, players: int) -> Coalitions:
    """Coalitions (rows, count, players) from the Shapley kernel, each beside its complement.

    The kernel gives a size s the weight 1/(s·(players − s)), and the empty and the full coalition
    none: their worths are met by normalisation. Pairs cancel everything that is even under
    complement, which is most of the sampling noise.
    """
    if count < 2 or count % 2:
        raise InvalidInput(f"coalitions come in pairs: give an even number, found {count}")
    if players < 2:
        raise InvalidInput(f"the Shapley kernel needs two players or more, found {players}")
    sizes = np.arange(1, players)
    weights = 1 / (sizes * (players - sizes))
    edges = np.cumsum(weights / weights.sum())
    chosen = 1 + np.searchsorted(edges[:-1], draw.random((rows, count // 2)), side="right")
    half = _of_sizes(draw, chosen, players)
    return np.concatenate([half, 1 - half], axis=1)


def _of_sizes(draw: np.random.Generator, sizes: NDArray[np.intp], players: int) -> Coalitions:
    """The players with the smallest marks are in; ties of marks are too rare to matter."""
    marks = draw.random((*sizes.shape, players), dtype=np.float32)
    ranked = np.sort(marks, axis=-1)
    limit = np.take_along_axis(ranked, np.maximum(sizes - 1, 0)[..., np.newaxis], axis=-1)
    inside = (marks <= limit) & (sizes > 0)[..., np.newaxis]
    return inside.astype(np.float32)


@dataclass(frozen=True, eq=False)
class CoalitionChains:
    """Random orders of the players, each with its reverse, and the coalitions along them.

    Joining one after the other, in an order and in its reverse, every player adds something; the
    mean of the two is an unbiased estimate of its Shapley value, exact for additive games. The
    prefixes of the reverse are the complements of the prefixes, so an order costs 2·(players − 1)
    evaluations beside the empty and the full coalition, which all orders share.

    Args:
        place: the position of each player in its order, shape (n, players).
    """

    place: NDArray[np.intp]

    @classmethod
    def drawn(cls, draw: np.random.Generator, count: int, players: int) -> CoalitionChains:
        marks = draw.random((count, players), dtype=np.float32)
        return cls(marks.argsort(axis=1).argsort(axis=1))

    @property
    def coalitions(self) -> Coalitions:
        """Shape (n, 2·(players − 1), players): prefixes of sizes 1, 2, …, then complements."""
        players = self.place.shape[1]
        prefixes = self.place[:, np.newaxis, :] < np.arange(1, players)[:, np.newaxis]
        return np.concatenate([prefixes, ~prefixes], axis=1).astype(np.float32)

    def estimates(
        self, worths: NDArray[np.float32], empty: NDArray[np.float32], full: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Shapley estimates (n, players, outputs).

        Args:
            worths: of `coalitions`, shape (n, 2·(players − 1), outputs).
            empty: the worth of the empty coalition, shape (outputs,).
            full: that of the full one, shape (n, outputs).
        """
        n, players = self.place.shape
        half = players - 1
        path = np.empty((n, players + 1, worths.shape[2]), dtype=np.float32)
        # v(prefix) − v(complement) climbs from v(∅) − v(N) to v(N) − v(∅): its steps, halved, are
        # the mean of what a player adds in the order and in the reverse.
        path[:, 1:-1] = worths[:, :half] - worths[:, half:]
        path[:, 0], path[:, -1] = empty - full, full - empty
        path /= 2
        steps = path[:, 1:] - path[:, :-1]
        return steps[np.arange(n)[:, np.newaxis], self.place]
