"""What can be told a third party about one person's explanation, and what post-processing adds.

    python -m experiments.explained_row [rows]

Patients of the clinic federation, whose risk function is public; exact Shapley values over 50
public reference rows. The clipping length is the 95th percentile of the lengths of *public* rows'
vectors. For each epsilon (delta = 1e-5):

- the whole vector (`ClippedRelease`): cosine to the truth, l2 error in units of the truth's mean
  length, how often its largest entry is the top feature; the same for the four categories;
- the top feature by randomised response (`TopFeaturesOfRow`), of twelve features and of four
  categories;
- the exponential mechanism on raw scores, for comparison (its law, not drawn).

Then what post-processing takes off the mean l2 error: of the whole vector, and of values over a
private background of 1,000 rows, where noise and values are of one size.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.harness import Figure, write
from numpy.typing import NDArray

from voile import datasets
from voile.attribution import ExactShapley
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.models import Box, wrap
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import shapley_background_with_base, shapley_norm
from voile.release import (
    PUBLIC,
    ClippedRelease,
    PublicTotal,
    ReleasedTotal,
    TopFeaturesOfRow,
    agreeing,
    projected,
    shrunk,
    within,
)

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-5
LONGEST = shapley_norm(features=12, output_width=1.0)
Array = NDArray[np.float64]


class Remembered:
    """An explainer that looks up what was computed beforehand: rows are explained often here."""

    def __init__(self, explainer: ExactShapley, *known: Array) -> None:
        rows = np.concatenate(known)
        self._explained: Explanation = explainer(rows)
        self._place = {row.tobytes(): place for place, row in enumerate(rows)}
        self._explainer = explainer

    def __call__(self, rows: Array) -> Explanation:
        keys = [row.tobytes() for row in rows]
        if not all(key in self._place for key in keys):
            return self._explainer(rows)
        return self._explained[[self._place[key] for key in keys]]


def released(release: Any, rows: Array) -> Array:
    return np.asarray(release.draw(rows).values[:, :, 0])


def cosine(found: Array, truth: Array) -> float:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(truth, axis=1)
    return float(np.mean((found * truth).sum(axis=1) / lengths))


def error(found: Array, truth: Array) -> float:
    gap = np.linalg.norm(found - truth, axis=1).mean()
    return float(gap / np.linalg.norm(truth, axis=1).mean())


def hits(found: Array, truth: Array) -> float:
    top = np.abs(truth).argmax(axis=1)
    return float((np.abs(found).argmax(axis=1) == top).mean())


def by_scores(truth: Array, epsilon: float) -> float:
    """The exponential mechanism on |φ| of width 1: the probability of the top feature."""
    weights = np.exp(epsilon * np.abs(truth) / 2)
    top = np.abs(truth).argmax(axis=1)
    return float((weights[np.arange(len(truth)), top] / weights.sum(axis=1)).mean())


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    start = time.time()
    clinic = datasets.clinic_federation(500, reference_rows=250, seed=1)
    model = wrap(clinic.risk, outputs=Box(0, 1), digest="clinic risk")
    background, public = clinic.reference[:50], clinic.reference[50:]
    rows = np.concatenate([h.rows for h in clinic.hospitals.values()])
    rows = rows[np.random.default_rng(1).choice(len(rows), count, replace=False)]
    features = Remembered(ExactShapley(model, background, schema=clinic.schema), rows, public)
    groups = clinic.schema.semantic_groups()
    categories = Remembered(
        ExactShapley(model, background, schema=clinic.schema, groups=groups), rows, public
    )
    figures: list[Figure] = []

    def add(what: str, unit: str, ours: float, peer: float | None = None) -> None:
        ratio = None if peer is None else ours / peer
        figures.append(Figure(what, unit, ours, peer, ratio))

    truth, coarse = features(rows).values[:, :, 0], categories(rows).values[:, :, 0]
    bound = length_of(features, public)
    common: dict[str, Any] = {
        "schema": clinic.schema,
        "dataset": "patients",
        "origins": [PUBLIC],
        "model": model.digest,
        "name": "exact",
    }
    add("mean length of the true vectors", "of width 1", np.linalg.norm(truth, axis=1).mean())
    add("clipping length, from public rows", "of width 1", bound)
    add("longest vector there can be", "of width 1", LONGEST)
    for epsilon in EPSILONS:
        privacy = {"epsilon": epsilon, "delta": DELTA, **common}
        whole = ClippedRelease(features, bound=bound, **privacy)
        found = released(whole, rows)
        few = ClippedRelease(categories, bound=length_of(categories, public), **privacy)
        grouped = released(few, rows)
        named = released(TopFeaturesOfRow(features, k=1, epsilon=epsilon, **common), rows)
        of_four = released(TopFeaturesOfRow(categories, k=1, epsilon=epsilon, **common), rows)
        at = f"ε = {epsilon:g}: "
        add(at + "whole vector, cosine to the truth", "cosine", cosine(found, truth))
        add(at + "whole vector, l2 error", "lengths of the truth", error(found, truth))
        add(at + "four categories, cosine to the truth", "cosine", cosine(grouped, coarse))
        add(
            at + "top feature is right: randomised response (peer: whole vector)",
            "share of rows",
            hits(named, truth),
            hits(found, truth),
        )
        add(
            at + "top category is right: randomised response (peer: vector of four)",
            "share of rows",
            hits(of_four, coarse),
            hits(grouped, coarse),
        )
        add(at + "top feature by raw scores", "share of rows", by_scores(truth, epsilon))
    better = refined(features, categories, rows, bound, common)
    about: dict[str, Any] = {
        "command": f"python -m experiments.explained_row {count}",
        "seed": "data 1; noise from the operating system",
        "rows": count,
        "delta": DELTA,
    }
    write("refining", "mean l2 error (peer: without post-processing)", better, **about)
    write(
        "explained_row",
        "the whole vector where not said otherwise",
        figures,
        seconds=round(time.time() - start),
        **about,
    )
    return 0


def length_of(explainer: Callable[[Array], Explanation], public: Array) -> float:
    """A clipping length that 95 % of public rows stay below."""
    lengths = np.linalg.norm(explainer(public).values[:, :, 0], axis=1)
    return float(np.quantile(lengths, 0.95))


def refined(
    explainer: Remembered,
    categories: Remembered,
    rows: Array,
    bound: float,
    common: dict[str, Any],
) -> list[Figure]:
    """The mean l2 error left by each kind of post-processing, and that without it."""
    truth, coarse = (one(rows).values[:, :, 0] for one in (explainer, categories))
    totals = truth.sum(axis=1, keepdims=True)
    figures = []

    def add(at: str, kinds: dict[str, Explanation], before: float, target: Array) -> None:
        for name, better in kinds.items():
            after = error(better.values[:, :, 0], target)
            figures.append(
                Figure(f"{at}: {name}", "lengths of the truth", after, before, after / before)
            )

    for epsilon in (5.0, 10.0):
        privacy = {"epsilon": epsilon, "delta": DELTA, **common}
        drawn = ClippedRelease(explainer, bound=bound, **privacy).draw(rows)
        kinds = {
            "shrunk": shrunk(drawn),
            "within the clipping length": within(drawn, bound),
            "prediction and base public, projected": projected(drawn, PublicTotal(totals)),
        }
        before = error(drawn.values[:, :, 0], truth)
        add(f"explained row, ε = {epsilon:g}", kinds, before, truth)
    for epsilon in (0.02, 0.1, 0.5):
        drawn, total = over_background(explainer(rows), epsilon)
        few, _ = over_background(categories(rows), epsilon)
        fine, whole = agreeing(drawn, few)
        at = f"1,000 background rows, ε = {epsilon:g}"
        kinds = {
            "shrunk": shrunk(drawn),
            "within the longest length": within(drawn, LONGEST),
            "with the released base, projected": projected(drawn, total),
            "agreeing with a release of four categories": fine,
            "projected, then shrunk": shrunk(projected(drawn, total)),
        }
        add(at, kinds, error(drawn.values[:, :, 0], truth), truth)
        before = error(few.values[:, :, 0], coarse)
        add(at, {"four categories, agreeing with the features": whole}, before, coarse)
    return figures


def over_background(explained: Explanation, epsilon: float) -> tuple[Explanation, ReleasedTotal]:
    """Values and base with the noise of `PrivateBackgroundShapley` over 1,000 rows, zero-out.

    The prediction is public, the base was released: their difference has the noise of the base.
    """
    rows, features, _ = explained.shape
    sensitivity = shapley_background_with_base(
        features=features, background_rows=1000, output_width=1.0, relation=Relation.BLANK_ONE
    )
    noise = GaussianMechanism.calibrated(
        sensitivity, epsilon=epsilon, delta=DELTA, shape=(rows, features + 1)
    )
    joint = np.concatenate([explained.values[:, :, 0], explained.base_values], axis=1)
    noisy = noise.randomise(joint)
    prediction = explained.values.sum(axis=1) + explained.base_values
    promise = Guarantee(
        epsilon=epsilon,
        delta=DELTA,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "background"),
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="Gaussian noise",
        composition="one explained row",
    )
    drawn = replace(
        explained,
        guarantees=(promise,),
        values=noisy[:, :-1],
        base_values=noisy[:, -1:],
        standard_errors=np.full((rows, features, 1), noise.sigma),
    )
    return drawn, ReleasedTotal(prediction - noisy[:, -1:], noise.sigma, (promise,))


if __name__ == "__main__":
    raise SystemExit(main())
