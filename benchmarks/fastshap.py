"""Learned explanations: rows a second beside exact values and shap's Kernel; time to be good.

Speed: 12 numbers, a network with two classes as the model, 100 background rows where a method needs
them. Quality: the Dutch census (skipped without VOILE_DATA), explainers of one surrogate trained
for ever longer; the curve is drawn into the documentation.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Figure, alternate, write
from voile.attribution import ExactShapley
from voile.attribution.fastshap import (
    EXPLAINER_PLAN,
    FastShap,
    Surrogate,
    exact_values,
    train_explainer,
    train_surrogate,
)
from voile.core.one_thread import one_thread
from voile.core.randomness import Seeded
from voile.evaluation import cosine_similarity, r_squared
from voile.models import Rows
from voile.training import Softmax, TrainingPlan, perceptron

SEED = 0
FEATURES = 12
STEPS = (75, 150, 300, 600, 1_200, 2_400)
PICTURE = ROOT / "docs" / "learned-explainers.png"


def run() -> None:
    at_hand = bool(os.environ.get("VOILE_DATA"))
    with one_thread():  # the explainer's own threads work side by side
        figures = speed()
        if at_hand:
            figures += growth()
        else:
            print("the Dutch census is not at hand (VOILE_DATA): no figures on quality")
    write(
        "fastshap",
        "learned explanations beside exact ones",
        figures,
        seed=SEED,
        data_checksum=_checksum() if at_hand else None,
    )


def _checksum() -> str:
    from experiments.lib.datasets.catalogue import SOURCES

    return SOURCES["dutch_census"].checksum


# --- speed ----------------------------------------------------------------------------------------


def speed() -> list[Figure]:
    draw = np.random.default_rng(SEED)
    background = draw.normal(size=(100, FEATURES))
    network = perceptron(FEATURES, (64, 64), 2, draw)
    network.layers[-1].weight[:] = draw.normal(size=(2, 64))

    def model(given: Rows) -> Any:
        return Softmax().outputs(network(given))

    rows = draw.normal(size=(400_000, FEATURES))
    short = TrainingPlan(steps=20, hidden=(64, 64))
    surrogate = train_surrogate(model, rows[:2_000], source=Seeded(SEED), plan=short)
    short = replace(EXPLAINER_PLAN, steps=20)
    learned = train_explainer(surrogate, rows[:2_000], source=Seeded(SEED), plan=short)
    two = replace(learned, threads=2)
    bare, whole, per_core = alternate(
        [
            lambda: rate(two.values, rows),
            lambda: rate(two, rows),
            lambda: rate(two.values, rows, clock=time.process_time),
        ],
        rounds=5,
    )
    exact = ExactShapley(model, background)
    kernel = shap_kernel(model, background)
    of_surrogate, of_model, of_shap = alternate(
        [
            lambda: rate(lambda x: exact_values(surrogate, x), rows[:50]),
            lambda: rate(exact, rows[:8]),
            lambda: rate(kernel, rows[:4]),
        ],
        rounds=3,
    )
    # Time of the processor, not of the wall: others may be using the machine.
    return [
        Figure("attributions alone, two threads", "rows per core-second",
               per_core, None, None, "at least 500,000 (10^6 on two cores)", per_core >= 5e5),
        Figure("attributions alone, two threads; peer: the surrogate's exact values",
               "rows/s (wall)", bare, of_surrogate, bare / of_surrogate),
        Figure("checked rows to `Explanation`, two threads; peer: `ExactShapley`",
               "rows/s (wall)", whole, of_model, whole / of_model),
        Figure("checked rows to `Explanation`, two threads; peer: shap's Kernel",
               "rows/s (wall)", whole, of_shap, whole / of_shap),
    ]  # fmt: skip


def rate(
    explain: Callable[[Rows], Any], rows: Rows, clock: Callable[[], float] = time.perf_counter
) -> float:
    start = clock()
    explain(rows)
    return len(rows) / (clock() - start)


def shap_kernel(model: Any, background: Rows) -> Callable[[Rows], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

    explainer = shap.KernelExplainer(model, background)
    return lambda rows: explainer.shap_values(rows, silent=True)


# --- quality against time -------------------------------------------------------------------------


@dataclass(frozen=True)
class Reached:
    seconds: float
    cosine: float
    r_squared: float


def growth() -> list[Figure]:
    from experiments.lib.datasets.loaders import dutch_census
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, test = dutch_census().split(0.8, seed=SEED)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=SEED)
    model.fit(train.rows, train.labels)
    surrogate = train_surrogate(model, train.rows, source=Seeded(SEED), schema=train.schema)
    rows = test.rows[:300]
    truth = exact_values(surrogate, rows).values[:, :, 1]
    reached = [_after(surrogate, train.rows, steps, rows, truth) for steps in STEPS]
    draw_curve(reached)
    good = [point.seconds for point in reached if point.cosine >= 0.99]
    first = min(good) if good else float("inf")
    last = reached[-1]
    return [
        Figure("Dutch census: training to cosine 0.99", "s of one core", first, None, None,
               "at most 30 s", first <= 30),
        Figure(f"Dutch census: cosine after {last.seconds:.0f} s of one core", "", last.cosine,
               None, None),
    ]  # fmt: skip


def _after(surrogate: Surrogate, train: Rows, steps: int, rows: Rows, truth: Any) -> Reached:
    start = time.process_time()
    plan = replace(EXPLAINER_PLAN, steps=steps)
    explainer: FastShap = train_explainer(surrogate, train, source=Seeded(SEED), plan=plan)
    seconds = time.process_time() - start
    values = explainer.values(rows)[:, :, 1]
    found = Reached(
        seconds, float(cosine_similarity(truth, values).mean()), r_squared(truth, values)
    )
    print(f"  {steps} steps, {seconds:.1f} s: {found}", flush=True)
    return found


def draw_curve(reached: list[Reached]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    seconds = [point.seconds for point in reached]
    axes.plot(seconds, [1 - p.cosine for p in reached], "o-", label="1 − cosine")
    axes.plot(seconds, [1 - p.r_squared for p in reached], "s--", label="1 − R²")
    axes.axhline(0.01, color="0.6", linewidth=1, zorder=0)
    axes.annotate("cosine 0.99", (seconds[-1], 0.01), xytext=(0, 3), textcoords="offset points",
                  ha="right", color="0.4", fontsize=9)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="training time (seconds of one core)",
             ylabel="distance from exact values",
             title="Learned explanations of the Dutch census")  # fmt: skip
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)
