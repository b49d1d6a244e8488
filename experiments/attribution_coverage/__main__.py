"""Coverage of the intervals of KernelShapley and PermutationShapley, over 10^5 cases each.

    python -m experiments.attribution_coverage [cases]

A case is one player of one row under one seed: the players of a row depend on each other, rows and
seeds do not. The truth is `ExactShapley`. Settings: a function with interactions of every order and
the risk of the clinic federation, with efforts that look at some background rows, at each once, or
at each several times: three different formulas for the standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benchmarks.harness import Figure, write
from numpy.typing import NDArray
from scipy.stats import binomtest

from voile import datasets
from voile.attribution import Evaluations, ExactShapley, KernelShapley, PermutationShapley

LEVEL = 1e-6
ROWS = 250
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    name: str
    model: Callable[[Array], Array]
    background: Array
    rows: Array
    evaluations: int


@dataclass(frozen=True)
class Coverage:
    """What one method reached in one setting, or in all of them."""

    method: str
    setting: str
    evaluations: int | None
    cases: int
    inside: int
    coverage: float
    p_value: float
    error: float | None
    standard_error: float | None

    @classmethod
    def of(cls, method: str, setting: str, cases: int, inside: int, **more: Any) -> Coverage:
        p = float(binomtest(inside, cases, 0.95).pvalue)
        return cls(
            method,
            setting,
            more.pop("evaluations", None),
            cases,
            inside,
            inside / cases,
            p,
            more.pop("error", None),
            more.pop("standard_error", None),
        )


def settings() -> list[Setting]:
    draw = np.random.default_rng(1)
    weights = draw.normal(size=(8, 5)) / 2

    def wavy(rows: Array) -> Array:
        return np.asarray(np.sin(2 * rows @ weights).sum(axis=1))

    background, rows = draw.normal(size=(400, 8)), draw.normal(size=(ROWS, 8))
    clinic = datasets.clinic_federation(200, reference_rows=100, seed=1)
    patients = clinic.hospitals["city"].rows[:ROWS]
    few = background[:30]
    return [
        Setting("waves, a quarter of the background rows", wavy, background, rows, 2_000),
        Setting("waves, several looks at each background row", wavy, few, rows, 2_600),
        Setting(
            "clinic, one look at each background row",
            datasets.risk,
            clinic.reference,
            patients,
            3_000,
        ),
        Setting(
            "clinic, several looks at each background row",
            datasets.risk,
            clinic.reference,
            patients,
            8_000,
        ),
    ]


def measure(method: Any, setting: Setting, truth: Array, cases: int) -> Coverage:
    inside, done, squares, claimed = 0, 0, 0.0, 0.0
    players = setting.rows.shape[1]
    for seed in range(-(-cases // ROWS)):
        count = min(ROWS, cases - done)
        explainer = method(
            setting.model, setting.background, effort=Evaluations(setting.evaluations), seed=seed
        )
        found = explainer(setting.rows[:count])
        which = (np.arange(count) + seed) % players
        gap = (found.values - truth[:count])[np.arange(count), which, 0]
        error = np.asarray(found.standard_errors)[np.arange(count), which, 0]
        inside += int((np.abs(gap) <= 1.96 * error).sum())
        squares, claimed = squares + float((gap**2).sum()), claimed + float((error**2).sum())
        done += count
    return Coverage.of(
        method.__name__,
        setting.name,
        done,
        inside,
        evaluations=setting.evaluations,
        error=float(np.sqrt(squares / done)),
        standard_error=float(np.sqrt(claimed / done)),
    )


def main() -> int:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    start, found = time.time(), []
    for method in (KernelShapley, PermutationShapley):
        parts = []
        for setting in settings():
            truth = ExactShapley(setting.model, setting.background)(setting.rows).values
            parts.append(measure(method, setting, truth, cases // 4))
            print(parts[-1], flush=True)
        total = sum(part.cases for part in parts), sum(part.inside for part in parts)
        found += [*parts, Coverage.of(method.__name__, "all settings", *total)]
        print(found[-1], flush=True)
    _write(found, cases, time.time() - start)
    return 0


def _write(found: list[Coverage], cases: int, seconds: float) -> None:
    write(
        "attribution_coverage",
        "share of 95 % intervals that hold the exact value",
        [_figure(one) for one in found],
        command=f"python -m experiments.attribution_coverage {cases}",
        seed=f"data 1, coalitions 0 to {-(-cases // 4 // ROWS) - 1}",
        seconds=round(seconds),
        cases=[asdict(one) for one in found],
    )


def _figure(one: Coverage) -> Figure:
    target = f"binomial test of 0.95 at {LEVEL:g}"
    what = f"{one.method}: {one.setting}"
    return Figure(what, "inside", one.coverage, None, None, target, one.p_value > LEVEL)


if __name__ == "__main__":
    raise SystemExit(main())
