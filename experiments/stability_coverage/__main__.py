"""Coverage of the ± on one person's page: `python -m experiments.stability_coverage [runs]`.

About ten minutes of one core. The generated clinic federation at three sizes, of two draws each,
is trained again and again with other noise on the same rows. Each run makes its own estimate, as
`voile federate` does, and has its own pages. A case is one contribution on one of them. It is asked
how often the page's ± reaches

- the mean: what the other runs say on average, which is what ± is made to estimate;
- the twin: what the same training says without noise, which a reader may take it for.

Cases of one run depend on each other, so intervals are over runs: 95 %, by Student's t. Runs of one
draw share its rows, so the two draws are shown apart.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from benchmarks.harness import Figure, write
from numpy.typing import NDArray
from scipy.stats import t as student

from experiments.stability_coverage.setting import (
    DELTA,
    EPSILON,
    PEOPLE,
    REFERENCE,
    STABILITY_RUNS,
    Studied,
    clinic,
    study,
)
from voile.core.description import WIDTH

ROWS: Final = (100, 500, 2_000)
SEEDS: Final = (1, 2)
RUNS: Final = 20
WANTED: Final = 0.9
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Held:
    """Which share of the cases a ± reaches, over runs; the worst and the best feature."""

    share: float
    half: float
    lowest_feature: float
    highest_feature: float
    width_for_95: float

    @classmethod
    def of(cls, gaps: Array, deviations: Array) -> Held:
        """Gaps of shape (runs, people, features), in the unit of contributions."""
        inside = gaps <= WIDTH * deviations[:, np.newaxis, :]
        runs = inside.mean(axis=(1, 2))
        features = inside.mean(axis=(0, 1))
        reach = student.ppf(0.975, len(runs) - 1) * runs.std(ddof=1) / np.sqrt(len(runs))
        needed = np.quantile(gaps / deviations[:, np.newaxis, :], 0.95)
        return cls(
            float(runs.mean()),
            float(reach),
            float(features.min()),
            float(features.max()),
            float(needed),
        )


@dataclass(frozen=True)
class Covered:
    """One federation."""

    name: str
    mean: Held
    twin: Held

    @classmethod
    def of(cls, studied: Studied, name: str) -> Covered:
        runs = len(studied.values)
        others = (studied.values.sum(axis=0) - studied.values) / (runs - 1)
        return cls(
            name,
            Held.of(np.abs(studied.values - others), studied.deviations),
            Held.of(np.abs(studied.values - studied.plain), studied.deviations),
        )


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    start, found = time.time(), []
    for rows in ROWS:
        for seed in SEEDS:
            studied = study(clinic(rows, seed), runs)
            found.append(Covered.of(studied, f"{studied.name}, draw {seed}"))
            print(found[-1], flush=True)
    record(found, runs, time.time() - start)
    return 0


def record(found: list[Covered], runs: int, seconds: float) -> None:
    """For the documentation, and for the sentence on the page."""
    shares = [(each.mean.share, each.twin.share) for each in found]
    overall = [float(np.mean(column)) for column in zip(*shares, strict=True)]
    target = f"at least {WANTED}"
    write(
        "stability_coverage",
        "share of contributions that the ± of a page reaches",
        [
            Figure(f"± reaches {what}", "", share, None, None, target, share >= WANTED)
            for what, share in zip(("the mean over noise", "the twin"), overall, strict=True)
        ],
        command=f"python -m experiments.stability_coverage {runs}",
        seed=f"data {SEEDS}, noise 1000 to {999 + runs}",
        data_checksum="generated: voile.datasets.clinic_federation",
        seconds=round(seconds),
        setting={
            "epsilon": EPSILON,
            "delta": DELTA,
            "rows": ROWS,
            "runs": runs,
            "people": PEOPLE,
            "reference": REFERENCE,
            "stability_runs": STABILITY_RUNS,
        },
        federations=[asdict(each) for each in found],
        columns=[
            "hospitals, ε = 2",
            "± holds the mean over noise",
            "by feature",
            "± holds the value without noise",
            "by feature",
        ],
        rows=[[each.name, *_cells(each.mean), *_cells(each.twin)] for each in found],
    )


def _cells(held: Held) -> list[Any]:
    said = f"{100 * held.share:.0f} % ± {100 * held.half:.0f}"
    return [said, f"{100 * held.lowest_feature:.0f} to {100 * held.highest_feature:.0f} %"]


if __name__ == "__main__":
    raise SystemExit(main())
