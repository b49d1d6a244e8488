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

Then what post-processing takes off the l2 error of the whole vector.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.harness import Figure, write
from numpy.typing import NDArray

from voile import datasets
from voile.attribution import ExactShapley
from voile.core.explanation import Explanation
from voile.models import Box, wrap
from voile.privacy.sensitivity import shapley_norm
from voile.release import PUBLIC, ClippedRelease, TopFeaturesOfRow
from voile.release.refining import PublicTotal, projected, shrunk, within

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-5
Array = NDArray[np.float64]


class Remembered:
    """An explainer that looks up what was computed beforehand: rows are explained often here."""

    def __init__(self, explainer: Any, *known: Array) -> None:
        rows = np.concatenate(known)
        self._explained = explainer(rows)
        self._place = {row.tobytes(): place for place, row in enumerate(rows)}
        self._explainer = explainer

    def __call__(self, rows: Array) -> Explanation:
        places = [self._place.get(row.tobytes()) for row in rows]
        if None in places:
            return self._explainer(rows)
        return self._explained[places]


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
    add("longest vector there can be", "of width 1", shapley_norm(features=12, output_width=1.0))
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
    refined(add, features, truth, rows, bound, common)
    write(
        "explained_row",
        "the whole vector where not said otherwise",
        figures,
        command=f"python -m experiments.explained_row {count}",
        seed="data 1; noise from the operating system",
        seconds=round(time.time() - start),
        rows=count,
        delta=DELTA,
    )
    return 0


def length_of(explainer: Callable[[Array], Explanation], public: Array) -> float:
    """A clipping length that 95 % of public rows stay below."""
    lengths = np.linalg.norm(explainer(public).values[:, :, 0], axis=1)
    return float(np.quantile(lengths, 0.95))


def refined(
    add: Callable[..., None],
    explainer: Remembered,
    truth: Array,
    rows: Array,
    bound: float,
    common: dict[str, Any],
) -> None:
    """The l2 error left by each kind of post-processing, as a share of that without it."""
    totals = truth.sum(axis=1, keepdims=True)
    for epsilon in (5.0, 10.0):
        privacy = {"epsilon": epsilon, "delta": DELTA, **common}
        drawn = ClippedRelease(explainer, bound=bound, **privacy).draw(rows)
        before = error(drawn.values[:, :, 0], truth)
        kinds = {
            "prediction and base public: projected": projected(drawn, PublicTotal(totals)),
            "shrunk (James and Stein)": shrunk(drawn),
            "within the clipping length": within(drawn, bound),
            "projected, then within": within(projected(drawn, PublicTotal(totals)), bound),
        }
        for name, better in kinds.items():
            after = error(better.values[:, :, 0], truth)
            add(f"ε = {epsilon:g}: l2 error, {name}", "lengths of the truth", after, before)


if __name__ == "__main__":
    raise SystemExit(main())
