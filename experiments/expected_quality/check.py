"""Write `results/expected_quality_check.json`: what was expected beside what was measured.

`VOILE_DATA=... python -m experiments.expected_quality.check`: twenty federations of census and
clinical data, none of which the table was made from. About three minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from benchmarks.harness import Figure, write

from experiments.expected_quality.setting import HELD_OUT, Case, divided, outcome
from experiments.lib.datasets import loaders
from experiments.lib.datasets.catalogue import SOURCES
from voile import datasets
from voile.app.federate.expectation import ExpectedFigure, expected_of
from voile.datasets import Dataset

LEAST_HELD: Final = 16
PIPELINE: Final = "private explainer"
SETS: Final[dict[str, Callable[[], Dataset]]] = {
    "adult": loaders.adult,
    "acs income": loaders.acs_income,
    "acs employment": loaders.acs_employment,
    "dutch census": loaders.dutch_census,
    "clinics": lambda: datasets.clinic_federation(5_000, correlation=0.3, seed=11).together(),
}
SIZES: Final = ((3, 150, 2.0), (5, 500, 1.0), (8, 1_200, 2.0), (4, 2_500, 4.0))
"""Parties, rows of each, epsilon."""


def cases() -> Iterator[Case]:
    for name, load in SETS.items():
        data = load()
        for number, (parties, rows, epsilon) in enumerate(SIZES):
            draw = np.random.default_rng([number, len(name)])
            chosen = draw.permutation(len(data))[: HELD_OUT + parties * rows]
            yield divided(name, data.take(chosen), parties, rows, epsilon)


def main() -> int:
    figures, within = [], {"accuracy": 0, "fidelity": 0}
    for number, case in enumerate(cases()):
        found = outcome(case, PIPELINE, seed=5_000 + number)
        for expected in expected_of(found.noise, found.attainable, PIPELINE):
            figure = compared(case.name, expected, found.figures[expected.figure])
            figures.append(figure)
            within[expected.figure.split()[0]] += bool(figure.met)
            print(figure, found.attainable, flush=True)
    runs = number + 1
    counted = [
        Figure(
            f"{what}: runs of {runs} within the interval",
            "",
            count,
            None,
            None,
            f"at least {LEAST_HELD}",
            count >= LEAST_HELD,
        )
        for what, count in within.items()
    ]
    shown = [Figure(f.what, "", f.ours, None, None) for f in figures]
    write(
        "expected_quality_check",
        "measured, and the interval that the preview states",
        [*counted, *shown],
        seed=5_000,
        command="VOILE_DATA=... python -m experiments.expected_quality.check",
        data_checksum=str({name: dict(SOURCES[name].files) for name in _SOURCES}),
    )
    return 0


_SOURCES: Final = ("adult", "acs_income", "acs_employment", "dutch_census")


def compared(case: str, expected: ExpectedFigure, measured: float) -> Figure:
    what = f"{case}: {expected.figure}, expected {expected.low:.3f} to {expected.high:.3f}"
    return Figure(what, "", measured, None, None, None, expected.low <= measured <= expected.high)


if __name__ == "__main__":
    raise SystemExit(main())
