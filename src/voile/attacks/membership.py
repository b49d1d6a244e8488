"""Was a row used in training? By losses, by likelihood ratios (LiRA), and by explanations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.pipelines.tables import NetworkModel, TableRecords
from voile.training import TargetLoss

Floats: TypeAlias = NDArray[np.float64]
Train: TypeAlias = Callable[[NDArray[np.intp]], Any]
"""Trains a model on the rows at these places."""
Score: TypeAlias = Callable[[Any], Floats]
"""Of every candidate row, by a trained model: numbers that may tell members, (rows,) or (rows, k).
"""


def losses(model: NetworkModel, records: TableRecords) -> Floats:
    """Of each record with a label."""
    known = records.only(~np.isnan(records.labels))
    loss = TargetLoss(model.output_head.head)
    found = loss.values(model.network(known.columns), (known.columns, known.targets))
    return np.asarray(found, dtype=np.float64)


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


def area_under_curve(members: Floats, others: Floats) -> float:
    """The chance that a member's score lies above somebody else's; equal ones count one half."""
    both = np.concatenate([members, others])
    order = both.argsort(kind="stable")
    ranks = np.empty(len(both))
    _, place, counts = np.unique(both[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks[order] = ((ends - counts + 1 + ends) / 2)[place]
    above = ranks[: len(members)].sum() - len(members) * (len(members) + 1) / 2
    return float(above / (len(members) * len(others)))


def advantage_of(members: Floats, others: Floats) -> dict[str, float]:
    """Area under the curve, and the largest gap between true and false positive rates."""
    cuts = np.unique(np.concatenate([members, others]))
    true = 1 - np.searchsorted(np.sort(members), cuts) / len(members)
    false = 1 - np.searchsorted(np.sort(others), cuts) / len(others)
    return {
        "area_under_curve": area_under_curve(members, others),
        "largest_gap": float(np.max(true - false)),
    }
