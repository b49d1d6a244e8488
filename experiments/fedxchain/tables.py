"""Tables I and II, and the figures: accuracy, NSDS and trust over rounds, rewards against trust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.harness import Figure, write

from experiments.fedxchain.kept import Kept
from experiments.fedxchain.setting import (
    BREAST_CANCER,
    FOREST,
    IID,
    LOGISTIC,
    PERCEPTRON,
    SYNTHETIC,
    Case,
    Outcome,
    averaged,
    forests,
    trusted,
)
from experiments.fedxchain.statistics import Interval, not_below
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging import ImportanceDesign
from voile.pipelines.trusted_averaging.tasks import LocalTraining

PUBLISHED: Final = {
    (BREAST_CANCER, LOGISTIC): (96.50, 1.70, 0.577),
    (BREAST_CANCER, PERCEPTRON): (95.50, 1.13, 0.375),
    (BREAST_CANCER, FOREST): (94.33, 1.33, 0.193),
    (SYNTHETIC, LOGISTIC): (77.40, 10.71, 1.235),
}
"""Accuracy in percent with its standard deviation, and NSDS, of Table I."""
PROXIMAL: Final = 0.1
"""The strength of FedProx; the paper states none."""


@dataclass(frozen=True, eq=False)
class OnOwnRows(LocalTraining):
    """As published: exact importance and accuracy over a party's own rows. For this page only."""

    def _looked_at(self, model: Any, given: Any, records: Any, size: int) -> Any:
        del given, size
        own: TableRecords = records.readable()
        rows = own.rows[:64]
        background = own.rows if len(own.rows) > 1 else np.repeat(own.rows, 2, axis=0)
        strengths = ImportanceDesign(self.schema, rows, background).strengths(model)
        right = model.predict(own.rows).argmax(axis=1) == own.labels
        return strengths, float(np.mean(right))


def as_published(local: LocalTraining) -> OnOwnRows:
    return OnOwnRows(local.schema, local.network, local.longest)


def ours(case: Case) -> Outcome:
    return forests(case) if case.model == FOREST else trusted(case)


def write_tables(kept: Kept, seeds: Sequence[int], name: str) -> None:
    figures = [*table_one(kept, seeds), *baselines(kept, seeds), *uneven(kept, seeds)]
    write(
        name,
        "mean of five seeds; the peer is the paper, or the method that is named",
        figures,
        seed=list(seeds),
        command="python -m experiments.fedxchain tables",
        setting="10 clients, 10 rounds, 5 local epochs, batches of 32, all take part",
    )


def table_one(kept: Kept, seeds: Sequence[int]) -> list[Figure]:
    found = []
    for (data, model), (accuracy, spread, divergence) in PUBLISHED.items():
        case = Case(data, model)
        runs = [kept.run(replace(case, seed=seed), "trusted", ours) for seed in seeds]
        reached = Interval.of([100 * run.final for run in runs])
        what = f"{data}, {model}"
        met = not_below([100 * run.final for run in runs], accuracy, spread)
        target = "not significantly below"
        unit = f"% ± {reached.half:.2f}, variation {reached.variation:.2f} %"
        found.append(_figure(f"{what}: accuracy", unit, reached.mean, accuracy, target, met))
        f1 = Interval.of([100 * run.f1 for run in runs])
        found.append(_figure(f"{what}: macro F1", f"% ± {f1.half:.2f}", f1.mean, accuracy))
        nsds = Interval.of([run.divergence[-1] for run in runs])
        where = "tree-path values" if model == FOREST else "on public rows"
        found.append(_figure(f"{what}: NSDS, {where}", f"± {nsds.half:.3f}", nsds.mean, divergence))
        if model != FOREST:
            own = [
                kept.run(
                    replace(case, seed=seed),
                    "as published",
                    lambda c: trusted(c, local=as_published),
                )
                for seed in seeds
            ]
            nsds = Interval.of([run.divergence[-1] for run in own])
            found.append(
                _figure(f"{what}: NSDS, own rows", f"± {nsds.half:.3f}", nsds.mean, divergence)
            )
    return found


def baselines(kept: Kept, seeds: Sequence[int]) -> list[Figure]:
    """Table II with equal alpha and seeds: the paired difference and its interval."""
    found = []
    for data, model in (
        (BREAST_CANCER, LOGISTIC),
        (BREAST_CANCER, PERCEPTRON),
        (SYNTHETIC, LOGISTIC),
    ):
        for alpha in (0.5, 0.3):
            cases = [Case(data, model, seed, alpha) for seed in seeds]
            mine = [kept.run(case, "trusted", ours) for case in cases]
            for way, proximal in (("FedAvg", 0.0), ("FedProx", PROXIMAL)):
                runs = [
                    kept.run(case, way, lambda c, p=proximal: averaged(c, proximal=p))  # type: ignore[misc]
                    for case in cases
                ]
                apart = Interval.of(
                    [100 * (m.final - r.final) for m, r in zip(mine, runs, strict=True)]
                )
                reached, other = (
                    100 * float(np.mean([run.final for run in each])) for each in (mine, runs)
                )
                unit = f"%, {apart.mean:+.2f} ± {apart.half:.2f} points"
                what = f"{data}, {model}, alpha {alpha}: trusted against {way}"
                target = "not significantly below"
                found.append(_figure(what, unit, reached, other, target, apart.high >= 0))
    return found


def uneven(kept: Kept, seeds: Sequence[int]) -> list[Figure]:
    """As the paper compares: three methods, each with another split. Not a fair comparison."""
    ways: dict[str, tuple[float | None, Any, float]] = {
        "ours, alpha 0.3": (0.3, ours, 96.5),
        "FedAvg, independent": (IID, lambda c: averaged(c), 96.0),
        "FedProx, alpha 0.5": (0.5, lambda c: averaged(c, proximal=PROXIMAL), 89.5),
    }
    names = {"ours, alpha 0.3": "trusted", "FedAvg, independent": "FedAvg"}
    found = []
    for what, (alpha, make, published) in ways.items():
        way = names.get(what, "FedProx")
        runs = [kept.run(Case(seed=seed, alpha=alpha), way, make) for seed in seeds]
        reached = Interval.of([100 * run.final for run in runs])
        found.append(
            _figure(
                f"the paper's uneven comparison: {what}",
                f"% ± {reached.half:.2f}",
                reached.mean,
                published,
            )
        )
    return found


def draw(kept: Kept, seeds: Sequence[int], path: Path) -> Path:
    """Accuracy, NSDS and trust over rounds, and rewards against trust (Figures 1 to 3 and 7).

    Bands reach from the lowest to the highest seed: an interval around a mean of five would leave
    what is possible, above an accuracy of 1.
    """
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(11, 6.4), layout="constrained")
    axes = picture.subplots(2, 2)
    colours = {LOGISTIC: "#3b6fb6", PERCEPTRON: "#d9772b", FOREST: "#4a9d6f"}
    for model, colour in colours.items():
        runs = [kept.run(Case(model=model, seed=seed), "trusted", ours) for seed in seeds]
        rows = [("accuracy on rows held out", "accuracy"), ("NSDS, mean of parties", "divergence"),
                ("trust, mean of parties", "trust")]  # fmt: skip
        for place, (title, what) in zip(axes.flat, rows, strict=False):
            values = np.array([getattr(run, what) for run in runs])
            numbers = np.arange(1, values.shape[1] + 1)
            place.plot(numbers, values.mean(axis=0), "o-", color=colour, label=model, markersize=3)
            low, high = values.min(axis=0), values.max(axis=0)
            place.fill_between(numbers, low, high, color=colour, alpha=0.12, linewidth=0)
            place.set_title(title, fontsize=10)
            place.set_xlabel("round", fontsize=9)
        pairs = np.array([pair for run in runs for pair in run.rewards])
        axes.flat[3].scatter(pairs[:, 0], pairs[:, 1], s=6, color=colour, alpha=0.35)
    together = np.array(
        [
            pair
            for model in colours
            for seed in seeds
            for pair in kept.run(Case(model=model, seed=seed), "trusted", ours).rewards
        ]
    )
    r = float(np.corrcoef(together.T)[0, 1])
    axes.flat[3].set_title(
        f"reward of a round against trust, r = {r:.2f} (paper 0.92)", fontsize=10
    )
    axes.flat[3].set_xlabel("trust", fontsize=9)
    axes.flat[3].set_ylabel("share of the round's reward", fontsize=9)
    for place in axes.flat:
        place.spines[["top", "right"]].set_visible(False)
        place.grid(axis="y", alpha=0.2)
    axes.flat[0].legend(
        frameon=False,
        fontsize=8,
        loc="lower right",
        title="mean; band: lowest to highest seed",
        title_fontsize=8,
    )
    picture.savefig(path, dpi=110)
    return path


def _figure(
    what: str,
    unit: str,
    ours_: float,
    peer: float,
    target: str | None = None,
    met: bool | None = None,
) -> Figure:
    return Figure(what, unit, ours_, peer, ours_ / peer if peer else None, target, met)
