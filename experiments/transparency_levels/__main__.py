"""The four transparency levels: the published epsilons beside those of a stated noise level.

    python -m experiments.transparency_levels [rows]

Patients of the clinic federation, 1,000 of them as private background (replace one, delta = 1e-5);
the model is the public risk function; explained rows are public reference rows. Published: epsilon
0.02, 0.05, 0.1 and 0.2. voile: noise of 0.02 of the output's width on every value, and the epsilon
that follows. The cosine is that of noisy to noise-free values, over rows and 20 draws each.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.harness import Figure, write
from numpy.typing import NDArray

from voile import datasets
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.models import Box, wrap
from voile.privacy.mechanisms import WeakPrivacyWarning
from voile.release import (
    PUBLIC,
    Level,
    PrivateBackground,
    PrivateInteractions,
    Role,
    at_level,
    public_clusters,
)
from voile.release.levels import NOISE_SHARE

PUBLISHED = dict(zip(Level, (0.02, 0.05, 0.1, 0.2), strict=True))
BACKGROUND, DRAWS = 1000, 20
Array = NDArray[np.float64]


def truth_of(release: Any, rows: Array) -> Array:
    """All columns and the base value before noise."""
    if isinstance(release, PrivateInteractions):
        joint = release.before_noise(rows)
        return np.concatenate([joint, release.pairs(rows)], axis=1)
    found: Array = release.before_noise(rows)
    return found


def cosine(release: Any, truth: Array, players: int) -> float:
    """Over what is released beside the base value."""
    found = []
    for one in truth:
        exact = np.delete(one[:, 0], players)
        for _ in range(DRAWS):
            noisy = np.delete(release.noise.randomise(one)[:, 0], players)
            lengths = np.linalg.norm(noisy) * np.linalg.norm(exact)
            found.append(float(noisy @ exact / lengths))
    return float(np.mean(found))


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    start = time.time()
    clinic = datasets.clinic_federation(500, reference_rows=500, seed=1)
    model = wrap(
        clinic.risk, outputs=Box(0, 1), digest="clinic risk", treats_rows_independently=True
    )
    people = np.random.default_rng(1).permutation(clinic.together().rows)[:BACKGROUND]
    rows = clinic.reference[:count]
    private = PrivateBackground(
        people, protected=Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, "patients"), delta=1e-5
    )
    settings: dict[str, Any] = {
        "role": Role.AUDITOR,
        "model": model,
        "schema": clinic.schema,
        "origins": [PUBLIC],
        "clusters": public_clusters(clinic.reference, schema=clinic.schema),
    }
    figures = []
    for level in Level:
        ours: Any = at_level(level, background=private, **settings)
        theirs: Any = at_level(
            level, background=replace(private, epsilon=PUBLISHED[level]), **settings
        )
        truth = truth_of(ours, rows)
        for what, unit, mine, peer in (
            ("epsilon", "", ours.epsilon, PUBLISHED[level]),
            ("noise on one value", "of width 1", ours.noise.sigma, theirs.noise.sigma),
            (
                "cosine to the truth",
                "",
                cosine(ours, truth, ours.players),
                cosine(theirs, truth, ours.players),
            ),
        ):
            name = f"{level}, {ours.players} players: {what}"
            figures.append(Figure(name, unit, mine, peer, mine / peer))
    write(
        "transparency_levels",
        "noise of 0.02 (peer: the published epsilon)",
        figures,
        command=f"python -m experiments.transparency_levels {count}",
        seed="data 1; noise from the operating system",
        seconds=round(time.time() - start),
        background_rows=BACKGROUND,
        noise_share=NOISE_SHARE,
    )
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore", WeakPrivacyWarning)
    raise SystemExit(main())
