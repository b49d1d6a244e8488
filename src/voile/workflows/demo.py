"""`voile demo`: one explanation with a guarantee, made, saved, loaded again and drawn.

A public scoring rule is applied to private patient records. The mean contribution of each feature
is published with Laplace noise.

Why the guarantee is true. The rule is linear with public weights w, features are clamped to the
public bounds of the schema and scaled to [0, 1], and contributions are measured from the middle of
the range: a record contributes w_j (x_j − 1/2) to feature j, in the l1 norm at most Σ|w_j|/2.
A blank record contributes nothing. The rest is `clipped_mean` and `Laplace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voile import plots
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Relation
from voile.core.randomness import Seeded
from voile.core.schema import Schema
from voile.privacy.mechanisms import Laplace
from voile.privacy.sensitivity import Norm, Sensitivity, clipped_mean

PATIENTS = 2_000
EPSILON = 1.0
SCHEMA = """
name = "clinic demo v1"

[features.age]
kind = "continuous"
bounds = [18, 95]
semantic = "demographics"

[features.blood_pressure]
kind = "continuous"
bounds = [80, 220]
semantic = "vital signs"

[features.oxygen_saturation]
kind = "continuous"
bounds = [70, 100]
semantic = "vital signs"

[features.creatinine]
kind = "continuous"
bounds = [0.2, 8]
semantic = "laboratory"

[features.previous_admissions]
kind = "integer"
bounds = [0, 12]
semantic = "history"
"""
WEIGHTS = np.array([0.8, 0.5, -0.9, 0.6, 0.7])


@dataclass(frozen=True)
class Demo:
    """What the demo made, and where it lies."""

    explanation: Explanation
    noise_scale: float
    saved: Path
    picture: Path


def run(output: Path) -> Demo:
    """Make the explanation, save it, load it, draw it."""
    schema = Schema.loads(SCHEMA)
    scaled = schema.encode(schema.rows(_patients()))
    bound = clipped_mean(
        bound=float(np.abs(WEIGHTS).sum()) / 2,
        rows=PATIENTS,
        norm=Norm.L1,
        relation=Relation.BLANK_ONE,
    )
    noise = Laplace.calibrated(bound, epsilon=EPSILON, shape=(len(WEIGHTS),))
    mean = ((scaled - 0.5) * WEIGHTS).mean(axis=0)
    explanation = Explanation(
        values=noise.randomise(mean)[np.newaxis],
        base_values=WEIGHTS.sum() / 2,  # the score of a record in the middle of every range: public
        feature_names=schema.feature_names,
        output_names=("risk score",),
        standard_errors=np.full((1, len(WEIGHTS)), noise.preview().standard_deviation),
        guarantees=(_guarantee(schema.name, bound),),
        notes=("mean contribution over all patients",),
    )
    output.mkdir(parents=True, exist_ok=True)
    saved = explanation.save(output / "explanation.voile")
    loaded = Explanation.load(saved)
    picture = output / "explanation.png"
    plots.bar(loaded).savefig(picture, dpi=150)
    return Demo(loaded, noise.scale, saved, picture)


def _guarantee(dataset: str, bound: Sensitivity) -> Guarantee:
    return Guarantee(
        epsilon=EPSILON,
        delta=0.0,
        unit=bound.unit,
        relation=bound.relation,
        dataset=dataset,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="Laplace noise on the mean contribution, exact sampler",
        composition="one release",
        public_facts=(f"number of patients: {PATIENTS}", "schema", "weights of the scoring rule"),
        assumptions=(*bound.conditions, "running time is not observed"),
    )


def _patients() -> dict[str, NDArray[np.float64]]:
    """Invented records: the seed makes data here, never noise."""
    draw = Seeded(2026).generator()
    return {
        "age": draw.normal(62, 16, PATIENTS),
        "blood_pressure": draw.normal(138, 22, PATIENTS),
        "oxygen_saturation": 100 - draw.gamma(2.0, 1.8, PATIENTS),
        "creatinine": draw.lognormal(0.1, 0.5, PATIENTS),
        "previous_admissions": draw.poisson(1.4, PATIENTS).astype(float),
    }
