"""Rows on which a surrogate agrees with itself: features that depend on each other, without data.

Let features become known one after the other. Under the law of the data the surrogate learned from,
its answers form a martingale: on average over the next feature, given those known,

    E[v(S ∪ {i}) | x_S] = v(S).

Rows of independent features break this badly (a child in retirement), and the surrogate then
answers for combinations it never saw. Here each next value is drawn from the law nearest to a given
one (in Kullback-Leibler divergence) for which the equation holds: candidates from the given law,
weighed by exp(θ·v(S ∪ {i})), with θ solved for each row. One equation does not determine a law of
many values, but what it leaves open is what the surrogate's answers do not depend on.

Surrogate and schema are all that is read, so this is post-processing of the surrogate.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.marginals import Marginals
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.schema import Rows
from voile.core.schema.draws import draw_rows

CANDIDATES: Final = 16
BLOCK: Final = 256
"""Rows that share one order of the players."""
RIDGE: Final = 0.01
"""How much a law may be bent: where no weights meet the equation, this ends the attempt."""


def consistent_rows(
    surrogate: Surrogate, marginals: Marginals, count: int, draw: np.random.Generator
) -> Rows:
    """Rows inside the schema, drawn player by player in random orders.

    The given law is a mixture of the inferred frequencies and the uniform law; each row has a share
    of its own, because either alone leaves corners unseen.
    """
    scale = surrogate.predict(draw_rows(marginals.schema, 1_024, draw)).std(axis=0).max() or 1.0
    blocks = [
        _block(surrogate, marginals, min(BLOCK, count - done), draw, float(scale))
        for done in range(0, count, BLOCK)
    ]
    return np.concatenate(blocks) if blocks else np.empty((0, len(marginals.values)))


def _block(
    surrogate: Surrogate, marginals: Marginals, n: int, draw: np.random.Generator, scale: float
) -> Rows:
    offered = _candidates(marginals, n, draw)
    rows = np.zeros((n, offered.shape[2]))
    present = np.zeros(offered.shape, dtype=np.bool_)
    known = np.repeat(surrogate.base[np.newaxis], n, axis=0)
    everyone = np.arange(n)
    for player in draw.permutation(surrogate.players.count):
        own = surrogate.players.owner == player
        present[:, :, own] = True
        asked = np.where(own, offered, rows[:, np.newaxis])
        width = asked.shape[2]
        worths = surrogate.predict_present(asked.reshape(-1, width), present.reshape(-1, width))
        worths = worths.reshape(n, CANDIDATES, -1)
        chances = _tilted((worths - known[:, np.newaxis]) / scale)
        chosen = (chances.cumsum(1) < draw.random((n, 1))).sum(1).clip(max=CANDIDATES - 1)
        rows, known = asked[everyone, chosen], worths[everyone, chosen]
    return rows


def _candidates(marginals: Marginals, n: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Shape (n, candidates, features): independent features, a share of them uniform."""
    total = n * CANDIDATES
    uniform = draw_rows(marginals.schema, total, draw).reshape(n, CANDIDATES, -1)
    likely = marginals.draw(total, draw).reshape(uniform.shape)
    return np.where(draw.random(uniform.shape) < draw.random((n, 1, 1)), uniform, likely)


def _tilted(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances (n, k) ∝ exp(θ·gap) under which the mean gap is as near to 0 as the ridge allows.

    θ minimises log Σ exp(θ·gap) + ridge·|θ|²/2, which is convex: Newton's steps, none too long.
    """
    n, _, outputs = gaps.shape
    theta = np.zeros((n, outputs, 1))
    chances = np.empty((*gaps.shape[:2], 1))
    for _ in range(12):
        marks = gaps @ theta
        chances = np.exp(marks - marks.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        mean = gaps.swapaxes(1, 2) @ chances
        centred = gaps - mean.swapaxes(1, 2)
        curvature = (chances * centred).swapaxes(1, 2) @ centred
        curvature += RIDGE * np.eye(outputs)
        step = np.linalg.solve(curvature, mean + RIDGE * theta)
        length = np.linalg.norm(step, axis=1, keepdims=True)
        theta -= step * np.minimum(1.0, 5.0 / np.maximum(length, 1e-12))
    return chances[..., 0]
