"""Shapley values over a private background, on the Dutch census.

    VOILE_DATA=... python -m experiments.private_background

How near are released values to the same values without noise? 500 explained rows over 1,000
background rows from beginning to end; 200 of them over backgrounds of 100 to 3,000 rows; for each
explanation (epsilon, 1e-5), zero-out and replace one. Beside it: a synthetic background that is
paid for once, importance over 10,000 private rows, and what the bound saves against adding up the
bounds of single features. Draws docs/private-background.png.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from benchmarks.harness import ROOT, Figure, write
from matplotlib import pyplot as plt

from experiments.lib.datasets.catalogue import SOURCES
from experiments.private_background.setting import Array, Setting, cosines, dutch
from voile.attribution import ExactShapley
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.models import Box
from voile.privacy.sensitivity import shapley_background, shapley_background_with_base
from voile.release import (
    PUBLIC,
    ByExplainer,
    PrivateBackgroundShapley,
    PrivateGlobalImportance,
    PrivateHistograms,
    trained_on,
)

SIZES = (100, 300, 1_000, 3_000)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
RELATIONS = (Relation.BLANK_ONE, Relation.REPLACE_ONE)
DELTA = 1e-5
PRIVATE_ROWS = "dutch census, private rows"
TABLE_ROWS = 200


def release(
    setting: Setting, size: int, relation: Relation, epsilon: float
) -> PrivateBackgroundShapley:
    return PrivateBackgroundShapley(
        setting.model,
        setting.private[:size],
        schema=setting.schema,
        protected=Protected(ProtectedUnit.ROW, relation, PRIVATE_ROWS),
        epsilon=epsilon,
        delta=DELTA,
        origins=[trained_on("dutch census, training rows")],
    )


def noisy(one: PrivateBackgroundShapley, joint: Array) -> Array:
    """What `draw` does after computing; the values before noise are the same for every epsilon."""
    sensitivity = one.sensitivity.stacked(len(joint))
    found: Array = replace(one.noise, sensitivity=sensitivity, shape=joint.shape).randomise(joint)[
        :, :-1, 0
    ]
    return found


def table(setting: Setting) -> dict[tuple[Relation, int, float], float]:
    """Mean cosine by relation, size of the background and epsilon."""
    found = {}
    for size in SIZES:
        start = time.time()
        joint = release(setting, size, RELATIONS[0], 1.0).before_noise(
            setting.explained[:TABLE_ROWS]
        )
        print(f"{size} background rows: {time.time() - start:.0f} s", flush=True)
        for relation in RELATIONS:
            for epsilon in EPSILONS:
                drawn = noisy(release(setting, size, relation, epsilon), joint)
                found[relation, size, epsilon] = float(cosines(drawn, joint[:, :-1, 0]).mean())
    return found


def headline(setting: Setting, relation: Relation, truth: Array) -> Figure:
    """From beginning to end: `draw` on 500 rows over 1,000 private rows at (1, 1e-5) each."""
    one = release(setting, 1_000, relation, 1.0)
    cosine = float(cosines(one.draw(setting.explained).values[:, :, 0], truth).mean())
    what = f"mean cosine of 500 rows, {relation}, 1,000 background rows, (1, 1e-5) each"
    return Figure(what, "", cosine, None, None, "at least 0.99", cosine >= 0.99)


def synthetic(setting: Setting, exact: Array) -> list[Figure]:
    """Histograms of the same 1,000 rows, published once; explanations are free from then on."""
    private = setting.private[:1_000]
    figures = []
    for epsilon in (1.0, 3.0):
        made = PrivateHistograms(
            private,
            setting.schema,
            protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, PRIVATE_ROWS),
            epsilon=epsilon,
            delta=DELTA,
            size=1_000,
            seed=0,
        ).draw()
        found = ExactShapley(setting.model, made.rows)(setting.explained).values[:, :, 0]
        what = f"the same with a synthetic background, ({epsilon:g}, 1e-5) once and for all"
        figures.append(Figure(what, "", float(cosines(found, exact).mean()), None, None))
    return figures


def population(setting: Setting) -> list[Figure]:
    rows = setting.private[:10_000]
    reference = setting.private[10_000:10_050]
    explainer = ExactShapley(setting.model, reference, schema=setting.schema)
    figures = []
    for relation in RELATIONS:
        one = PrivateGlobalImportance(
            ByExplainer(explainer, Box(0, 1), setting.schema),
            protected=Protected(ProtectedUnit.ROW, relation, PRIVATE_ROWS),
            epsilon=1.0,
            delta=DELTA,
            origins=[trained_on("dutch census, training rows"), PUBLIC],
            model=setting.model.digest,
            name="exact",
        )
        sigma = one.noise(len(rows)).sigma
        what = f"noise on importance over 10,000 rows, {relation}, (1, 1e-5)"
        figures.append(Figure(what, "", sigma, None, None, "below 0.001", sigma < 1e-3))
    mean = one.means(rows)[0]
    truth, drawn = mean.T, one.noise(len(rows)).randomise(mean).T  # as `draw` does, computing once
    cosine = float(cosines(drawn, truth)[0])
    return [*figures, Figure(f"cosine of that importance, {relation}", "", cosine, None, None)]


def bounds() -> list[Figure]:
    """At twelve features, against 2√d from adding up the bounds of single features."""
    facts: dict[str, Any] = {
        "features": 12,
        "background_rows": 1,
        "output_width": 1.0,
        "relation": Relation.REPLACE_ONE,
    }
    naive = 2 * math.sqrt(12)
    cases = {
        "values": (shapley_background(**facts).value, 2.87),
        "values and base": (shapley_background_with_base(**facts).value, 2.65),
    }
    return [
        Figure(
            f"sensitivity of {name} at 12 features times m/R, and 2√d",
            "",
            bound,
            naive,
            bound / naive,
            f"1/{times} of it",
            abs(naive / bound - times) < 0.01,
        )
        for name, (bound, times) in cases.items()
    ]


def draw_plot(found: dict[tuple[Relation, int, float], float]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, relation in zip(axes, RELATIONS, strict=True):
        for epsilon in EPSILONS:
            line = [found[relation, size, epsilon] for size in SIZES]
            axis.plot(SIZES, line, marker="o", label=f"ε = {epsilon:g}")
        axis.axhline(0.99, color="grey", linewidth=0.8, linestyle="--")
        axis.set(
            xscale="log", title=str(relation), xlabel="private background rows", ylim=(0, 1.02)
        )
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean cosine to values without noise")
    axes[1].legend(title="for each explanation,\nδ = 1e-5", loc="lower right")
    figure.savefig(ROOT / "docs" / "private-background.png", dpi=110)
    plt.close(figure)


def main() -> int:
    start = time.time()
    setting = dutch()
    accuracy = Figure(
        "accuracy of the explained network",
        "",
        setting.accuracy,
        None,
        None,
        "at least 0.82",
        setting.accuracy >= 0.82,
    )
    one = release(setting, 1_000, RELATIONS[0], 1.0)
    truth = one.before_noise(setting.explained)[:, :-1, 0]
    figures = [accuracy, *(headline(setting, relation, truth) for relation in RELATIONS)]
    figures += [*synthetic(setting, truth), *population(setting), *bounds()]
    found = table(setting)
    draw_plot(found)
    figures += [
        Figure(
            f"cosine, {relation}, {size:,} background rows, ε = {epsilon:g}", "", value, None, None
        )
        for (relation, size, epsilon), value in found.items()
    ]
    write(
        "private_background",
        "Dutch census, 500 explained rows, values with noise against values without",
        figures,
        seed=0,
        command="VOILE_DATA=... python -m experiments.private_background",
        data_checksum=str(dict(SOURCES["dutch_census"].files)),
        seconds=round(time.time() - start),
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
