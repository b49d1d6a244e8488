"""Attacks on explanations: the day after, background membership, the explained row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.lib.attacks.explanation_attacks import background_scores, name_newcomer, name_row
from experiments.lib.attacks.findings import AttackFinding, OpenRows
from experiments.private_background.setting import Array, Setting
from voile.assess.members_count import area_under_curve
from voile.attribution import ExactShapley
from voile.core.explanation import Explanation
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.privacy.accounting.conversion import gaussian_epsilon, gaussian_noise_multiplier
from voile.release import ClippedRelease, PrivateBackgroundShapley, trained_on

DELTA = 1e-5
BACKGROUND = 100
CANDIDATES = 300
EXPLANATIONS = 60
TRIALS = 300
MEMBERSHIP_TRIALS = 20
ON = OpenRows("a published census, as if it were protected")
TRAINED = trained_on("dutch census, training rows")


@dataclass(frozen=True, eq=False)
class Attacked:
    """Rows of the census, and the vector of every background row for every explained one."""

    setting: Setting

    @cached_property
    def people(self) -> Array:
        """All different: who looks like somebody else cannot be named."""
        rows = np.unique(self.setting.private, axis=0)
        return rows[np.random.default_rng(0).permutation(len(rows))[: BACKGROUND + CANDIDATES]]

    @cached_property
    def vectors(self) -> Array:
        """Values and base value, (people, explained rows, players + 1)."""
        explained = self.setting.explained[:EXPLANATIONS]
        found = []
        for place, row in enumerate(self.people):
            one = ExactShapley(self.setting.model, row[np.newaxis], schema=self.setting.schema)
            values = one(explained)
            base = np.broadcast_to(values.base_values, (len(explained), 1))
            found.append(np.concatenate([values.values[:, :, 0], base], axis=1))
            if place % 100 == 0:
                print(f"vectors of {place} rows", flush=True)
        return np.stack(found)

    def noise(self, releases: int, epsilon: float) -> PrivateBackgroundShapley:
        """Of one of so many releases that cost (epsilon, 1e-5) together, replace one."""
        share = gaussian_noise_multiplier(epsilon, DELTA) * np.sqrt(releases)
        return PrivateBackgroundShapley(
            self.setting.model,
            self.people[:BACKGROUND],
            schema=self.setting.schema,
            protected=Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, "dutch census"),
            epsilon=gaussian_epsilon(float(share), DELTA),
            delta=DELTA,
            origins=[TRAINED],
        )


def released(one: PrivateBackgroundShapley, exact: Array) -> Array:
    """What `draw` makes of exact values, without computing them once more."""
    stacked = exact[..., np.newaxis]
    return one._noise_for(len(exact)).randomise(stacked)[..., 0]


def day_after(attacked: Attacked, epsilon: float = 2.0) -> AttackFinding:
    """One background row of 100 was replaced over night: who is new?"""
    draw, one = np.random.default_rng(1), attacked.noise(2, epsilon)
    right = {"plain": 0, "protected": 0}
    for _ in range(TRIALS):
        place = int(draw.integers(EXPLANATIONS))
        known = attacked.vectors[:BACKGROUND, place]
        candidates = attacked.vectors[BACKGROUND:, place]
        left, new = int(draw.integers(BACKGROUND)), int(draw.integers(CANDIDATES))
        before = known.mean(axis=0)
        after = before + (candidates[new] - known[left]) / BACKGROUND
        noisy = released(one, np.stack([before, after]))
        for how, (first, second) in {"plain": (before, after), "protected": tuple(noisy)}.items():
            right[how] += name_newcomer(first, second, known, candidates) == new
    return AttackFinding(
        attack="the day after: who of 300 took the place of one of 100 background rows",
        measure="share named right",
        plain=right["plain"] / TRIALS,
        protected=right["protected"] / TRIALS,
        blind=1 / CANDIDATES,
        release="one explanation before and one after, values and base value",
        epsilon=epsilon,
        delta=DELTA,
        rows=BACKGROUND,
        trials=TRIALS,
        on=ON,
    )


def background_membership(attacked: Attacked, epsilon: float = 2.0) -> AttackFinding:
    """Which rows are in the background of 60 explanations?"""
    from scipy.special import ndtr

    draw, one = np.random.default_rng(2), attacked.noise(EXPLANATIONS, epsilon)
    areas: dict[str, list[float]] = {"plain": [], "protected": []}
    for _ in range(MEMBERSHIP_TRIALS):
        order = draw.permutation(len(attacked.people))
        members, others, reference = np.split(order, [BACKGROUND, 2 * BACKGROUND])
        exact = attacked.vectors[members].mean(axis=0)
        tried = attacked.vectors[np.concatenate([members, others])]
        open_rows = attacked.vectors[reference]
        for how, seen, noise in (
            ("plain", exact, 0.0),
            ("protected", released(one, exact), one.noise.sigma),
        ):
            scores = background_scores(seen, tried, open_rows, rows=BACKGROUND, noise=noise)
            areas[how].append(area_under_curve(scores[:BACKGROUND], scores[BACKGROUND:]))
    mu = 1 / gaussian_noise_multiplier(epsilon, DELTA)
    return AttackFinding(
        attack="background membership over 60 explanations",
        measure="area under the curve",
        plain=float(np.mean(areas["plain"])),
        protected=float(np.mean(areas["protected"])),
        blind=0.5,
        bound=float(ndtr(mu / np.sqrt(2))),
        release="60 explanations, values and base value",
        epsilon=epsilon,
        delta=DELTA,
        rows=BACKGROUND,
        trials=MEMBERSHIP_TRIALS,
        on=ON,
    )


def explained_row(attacked: Attacked, epsilon: float = 1.0) -> AttackFinding:
    """Whose explanation is it, of 300 whose rows are known?"""
    schema, background = attacked.setting.schema, attacked.people[:10]
    rows = attacked.people[BACKGROUND:]
    explained = ExactShapley(attacked.setting.model, background, schema=schema)(rows)
    place = {row.tobytes(): number for number, row in enumerate(rows)}

    def look_up(given: Any) -> Explanation:
        keys = [row.tobytes() for row in np.asarray(given, dtype=np.float64)]
        return explained[[place.get(key, 0) for key in keys]]

    release = ClippedRelease(
        look_up,
        schema=schema,
        bound=0.5,
        epsilon=epsilon,
        delta=DELTA,
        protected=Protected(ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, "dutch census"),
        origins=[TRAINED],
        model=attacked.setting.model.digest,
        name="exact",
    )
    vectors = explained.values[:, :, 0]
    noisy = np.concatenate([release.draw(rows).values[:, :, 0] for _ in range(5)])
    right = [name_row(each, vectors) == i % CANDIDATES for i, each in enumerate(noisy)]
    plain = [name_row(each, vectors) == i for i, each in enumerate(vectors)]
    return AttackFinding(
        attack="the explained row named from its values, of 300",
        measure="share named right",
        plain=float(np.mean(plain)),
        protected=float(np.mean(right)),
        blind=1 / CANDIDATES,
        release="all values of one explanation, clipped to length 0.5",
        epsilon=epsilon,
        delta=DELTA,
        rows=1,
        trials=len(noisy),
        on=ON,
    )
