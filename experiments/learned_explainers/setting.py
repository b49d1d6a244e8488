"""What the experiments share: data, model, surrogate, and how results are written down."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import voile
from voile import datasets
from voile.attribution.fastshap import Surrogate, train_surrogate
from voile.core.randomness import Seeded
from voile.datasets import SOURCES, Dataset

ROOT = Path(__file__).resolve().parents[2]
MOST_ROWS = 60_000


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


COMMIT = _commit()  # of the code that is running, not of the moment of writing

LOADERS: Mapping[str, Callable[[], Dataset]] = {
    "dutch_census": datasets.dutch_census,
    "adult": datasets.adult,
    "acs_income": datasets.acs_income,
    "acs_employment": datasets.acs_employment,
}


@dataclass(frozen=True)
class Figure:
    """One line of a result; `docs/tables.py` shows it."""

    what: str
    unit: str
    ours: float
    peer: float | None = None
    ratio: float | None = None
    target: str | None = None
    met: bool | None = None


def at_least(what: str, unit: str, found: float, wanted: float) -> Figure:
    return Figure(what, unit, found, target=f"at least {wanted:g}", met=found >= wanted)


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
    content: dict[str, Any] = {
        "name": name,
        "command": f"VOILE_DATA=... python -m experiments.learned_explainers {name}",
        "commit": COMMIT,
        "version": voile.__version__,
        "machine": {"threads": 1, "python": platform.python_version()},
        "seeds": list(seeds),
        "data_checksum": {d: dict(SOURCES[d].files) for d in data},
        "peer": peer,
        "figures": [asdict(figure) for figure in figures],
        "targets_met": all(figure.met is not False for figure in figures),
    }
    path = ROOT / "results" / f"{name}.json"
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for figure in figures:
        print(f"{figure.what:<60} {figure.ours:.4g} {figure.unit} {figure.target} {figure.met}")
