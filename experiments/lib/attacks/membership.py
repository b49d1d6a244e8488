"""Was a row used in training? By likelihood ratios (LiRA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.assess.members_count import Floats

Train: TypeAlias = Callable[[NDArray[np.intp]], Any]
"""Trains a model on the rows at these places."""


Score: TypeAlias = Callable[[Any], Floats]
"""Of every candidate row, by a trained model: numbers that may tell members, (rows,) or (rows, k).
"""


def likelihood_ratios(
    train: Train, score: Score, rows: int, *, shadows: int, seed: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """LiRA (Carlini and others 2022) against one target model, with models of one's own.

    Each of `shadows` models is trained on a random half of the rows; so is the target. Of each row
    the scores of models with and without it are two normal laws; the target's score is compared by
    both. Gives the log-likelihood ratio of each row, and which rows the target was trained on.
    """
    draw = np.random.default_rng(seed)
    inside = draw.integers(0, 2, (shadows + 1, rows)).astype(np.bool_)
    scores = np.stack([_wide(score(train(np.flatnonzero(each)))) for each in inside])
    target, others = scores[-1], scores[:-1]
    spread = np.concatenate(
        [others - _mean(others, inside[:-1]), others - _mean(others, ~inside[:-1])]
    )
    variance = np.nanvar(spread, axis=(0, 1)) + 1e-12
    first, second = _mean(others, inside[:-1]), _mean(others, ~inside[:-1])
    ratio = (np.square(target - second) - np.square(target - first)) / (2 * variance)
    return np.nan_to_num(ratio.sum(axis=1)), inside[-1]


def _wide(scores: Floats) -> Floats:
    return scores[:, np.newaxis] if scores.ndim == 1 else scores


def _mean(scores: Floats, inside: NDArray[np.bool_]) -> Floats:
    """Over models that were trained with a row (where `inside`), (rows, k)."""
    weights = inside[..., np.newaxis].astype(np.float64)
    found: Floats = (scores * weights).sum(axis=0) / np.maximum(weights.sum(axis=0), 1)
    return found
