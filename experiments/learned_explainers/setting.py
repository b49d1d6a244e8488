"""What the experiments share: data, model, surrogate, and how results are written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from benchmarks import harness
from benchmarks.harness import Figure
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.lib.datasets import loaders
from experiments.lib.datasets.catalogue import SOURCES
from voile.attribution.fastshap import Surrogate, train_surrogate
from voile.core.randomness import Seeded
from voile.datasets import Dataset

MOST_ROWS = 60_000

LOADERS: Mapping[str, Callable[[], Dataset]] = {
    "dutch_census": loaders.dutch_census,
    "adult": loaders.adult,
    "acs_income": loaders.acs_income,
    "acs_employment": loaders.acs_employment,
}


def shown(what: str, found: float, unit: str = "") -> Figure:
    return Figure(what, unit, found, None, None)


def at_least(what: str, found: float, wanted: float) -> Figure:
    return Figure(what, "", found, None, None, f"at least {wanted:g}", found >= wanted)


@dataclass(frozen=True, eq=False)
class Case:
    """Training and test rows, and a surrogate of a model that was trained on the former."""

    train: Dataset
    test: Dataset
    surrogate: Surrogate


@cache
def case(name: str, seed: int = 0) -> Case:
    """Gradient-boosted trees as the black box; split, model and surrogate depend on the seed."""
    data = LOADERS[name]()
    order = np.random.default_rng(seed).permutation(len(data))[:MOST_ROWS]
    train, test = data.take(order).split(0.8, seed=seed)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    model.fit(train.rows, train.labels)
    surrogate = train_surrogate(model, train.rows, source=Seeded(seed), schema=data.schema)
    return Case(train, test, surrogate)


def write(
    name: str, peer: str, figures: Sequence[Figure], data: Sequence[str], seeds: Sequence[int]
) -> None:
    """Write `results/NAME.json`."""
    harness.write(
        name,
        peer,
        figures,
        seed=seeds,
        command=f"VOILE_DATA=... python -m experiments.learned_explainers {name}",
        data_checksum=", ".join(f"{each} {SOURCES[each].checksum}" for each in data),
        threads=1,
    )
