"""The Dutch census, and a network trained on rows that are neither explained nor protected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier

from experiments.lib.datasets import loaders
from voile.core.schema import Schema
from voile.models import Box, WrappedModel, wrap

Array = NDArray[np.float64]
EXPLAINED = 500
PRIVATE = 13_000
TEST = 5_000


@dataclass(frozen=True, eq=False)
class Setting:
    """Disjoint rows: the network saw none of those that are explained or protected."""

    schema: Schema
    model: WrappedModel
    accuracy: float
    private: Array
    explained: Array


@cache
def dutch(seed: int = 0) -> Setting:
    data = loaders.dutch_census()
    order = np.random.default_rng(seed).permutation(len(data))
    private, explained, test, train = np.split(order, np.cumsum([PRIVATE, EXPLAINED, TEST]))
    network = MLPClassifier((64, 64), max_iter=60, early_stopping=True, random_state=seed)
    schema = data.schema
    network.fit(schema.encode(data.rows[train]), data.labels[train])

    def probability(rows: Array) -> Any:
        return network.predict_proba(schema.encode(rows))[:, 1]

    right = (probability(data.rows[test]) > 0.5) == (data.labels[test] > 0)
    model = wrap(
        probability,
        outputs=Box(0, 1),
        output_names=["high"],
        digest=f"network {seed}",
        treats_rows_independently=True,
    )
    return Setting(schema, model, float(right.mean()), data.rows[private], data.rows[explained])


def cosines(found: Array, truth: Array) -> Array:
    """Of each row's vector with the true one."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(truth, axis=1)
    product: Array = (found * truth).sum(axis=1) / lengths
    return product
