"""`PrivateBackgroundShapley` as it leaves the house, against what it claims.

Two players, two background rows, a model for which the joint bound of values and base value is
attained. Everything in an explanation is looked at: a statistic whose hockey-stick divergence
exceeds the claim, at confidence 1 − 1e-6, refutes it. The exact noise is drawn once, by `draw`.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.statistical import bounds
from tests.unit.release.lookup import background, model, release
from voile.core.explanation import Explanation
from voile.core.guarantee import Relation
from voile.privacy.accounting.conversion import gaussian_noise_multiplier
from voile.release import PrivateBackgroundShapley
from voile.release.games import background_outputs
from voile.release.games import joint as played

pytestmark = pytest.mark.filterwarnings(
    # Claims with delta = 0.01 can be refuted with few samples; nobody should publish with them.
    "ignore::voile.privacy.mechanisms.WeakPrivacyWarning"
)

Vectors = NDArray[np.float64]
RELATIONS = [Relation.REPLACE_ONE, Relation.BLANK_ONE]
CLAIMS = [(1.0, 0.01), (2.0, 0.01)]
BATCH, BATCHES = 1000, 100

TABLE = np.zeros((5, 5))
TABLE[1, 1] = TABLE[0, 1] = TABLE[2, 0] = 1.0  # the explained row 0 against rows 1 and 2
TABLE[1, 3] = 1.0  # another explained row, 3
FIRST, OTHER, ALWAYS = 1.0, {Relation.REPLACE_ONE: 2.0, Relation.BLANK_ONE: np.nan}, 4.0


def neighbours(
    relation: Relation,
    kind: type[PrivateBackgroundShapley] = PrivateBackgroundShapley,
    table: Vectors = TABLE,
    **settings: Any,
) -> tuple[PrivateBackgroundShapley, PrivateBackgroundShapley]:
    """The same release of two data sets that differ in one row."""
    chosen = {"epsilon": 1.0, "delta": 0.01, **settings}
    both = [
        release(table, background(2, row, ALWAYS), relation, **chosen)
        for row in (FIRST, OTHER[relation])
    ]
    first, second = (_as(kind, one) for one in both)
    return first, second


def _as(kind: type[PrivateBackgroundShapley], one: PrivateBackgroundShapley) -> Any:
    names = ("schema", "protected", "epsilon", "delta", "origins")
    settings = {name: getattr(one, name) for name in names}
    return kind(one.model, one.background, **settings)


def joint(explanation: Explanation) -> Vectors:
    """(rows, players + 1): values, and last the base value."""
    return np.column_stack([explanation.values[:, :, 0], explanation.base_values])


def exact(one: PrivateBackgroundShapley, row: float = 0.0) -> Vectors:
    found: Vectors = played(one.games, np.full((1, 2), row), background_outputs(one.games))[0, :, 0]
    return found


@pytest.fixture(scope="module")
def noise() -> Vectors:
    """Standard noise on values and base value, from explanations that were really drawn."""
    one, _ = neighbours(Relation.REPLACE_ONE)
    rows = np.zeros((BATCH, 2))
    drawn = np.concatenate([joint(one.draw(rows)) for _ in range(BATCHES)])
    standard: Vectors = (drawn - exact(one)) / one.noise.sigma
    return standard


def refutation(
    pair: tuple[Vectors, Vectors], sigma: float, noise: Vectors, epsilon: float
) -> float:
    """The likelihood ratio of two normals grows along their difference."""
    direction = pair[0] - pair[1]
    first, second = ((mean + sigma * noise) @ direction for mean in pair)
    return max(
        bounds.delta_at_least(first, second, epsilon),
        bounds.delta_at_least(-second, -first, epsilon),
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_two_data_sets_attain_the_bound(relation: Relation) -> None:
    first, second = neighbours(relation)
    distance = float(np.linalg.norm(exact(first) - exact(second)))
    assert distance == pytest.approx(first.sensitivity.value, rel=1e-4)
    assert distance < first.sensitivity.value


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_no_event_refutes_the_claim(
    relation: Relation, epsilon: float, delta: float, noise: Vectors
) -> None:
    first, second = neighbours(relation, epsilon=epsilon, delta=delta)
    pair = exact(first), exact(second)
    assert refutation(pair, first.noise.sigma, noise, epsilon) < delta


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
@pytest.mark.parametrize("mutant", ["half the sensitivity", "m − 1 for m", "no clamp"])
def test_too_little_noise_is_refuted(
    relation: Relation, epsilon: float, delta: float, mutant: str, noise: Vectors
) -> None:
    first, second = neighbours(relation, epsilon=epsilon, delta=delta)
    sigma = first.noise.sigma
    pair = exact(first), exact(second)
    if mutant == "half the sensitivity":
        sigma = sigma / 2
    elif mutant == "m − 1 for m":
        pair = 2 * pair[0], 2 * pair[1]
    else:
        pair = _unclamped(relation)
    assert refutation(pair, sigma, noise, epsilon) > delta


def _unclamped(relation: Relation) -> tuple[Vectors, Vectors]:
    """The model says −1 and 2, declares [0, 1], and nobody clamps."""
    wide = 3 * TABLE - 1
    both = []
    for row in (FIRST, OTHER[relation]):
        loose = model(wide, -1.0, 2.0)
        both.append(exact(release(wide, background(2, row, ALWAYS), relation, wrapped=loose)))
    return both[0], both[1]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_model_beyond_its_declared_range_is_clamped(relation: Relation) -> None:
    wild = TABLE * 1e6 - 5e5 * (TABLE == 0)
    first, second = neighbours(relation, table=wild)
    tame = neighbours(relation)
    assert np.array_equal(exact(first), exact(tame[0]))
    assert np.array_equal(exact(second), exact(tame[1]))


# --- Everything else in the explanation -----------------------------------------------------------


class ExactBase(PrivateBackgroundShapley):
    def draw(self, rows: Any) -> Explanation:
        base = self.before_noise(self.games.read(rows))[:, -1]
        return replace(super().draw(rows), base_values=base)


class ErrorOfBackground(PrivateBackgroundShapley):
    def draw(self, rows: Any) -> Explanation:
        drawn = super().draw(rows)
        spread = float(self.games.game.model.predict(self.games.records.rows).std())
        return replace(drawn, standard_errors=np.full(drawn.shape, spread))


class BackgroundKept(PrivateBackgroundShapley):
    def draw(self, rows: Any) -> Explanation:
        drawn = super().draw(rows)
        kept = np.resize(self.games.records.rows, (len(drawn), 2))
        return replace(drawn, data=kept)


class NoiseShared(PrivateBackgroundShapley):
    def draw(self, rows: Any) -> Explanation:
        drawn = super().draw(rows)
        found = self.before_noise(self.games.read(rows))
        noisy = found + (self.noise.randomise(found[0]) - found[0])
        return replace(drawn, values=noisy[:, :-1], base_values=noisy[:, -1])


class ClampedCounted(PrivateBackgroundShapley):
    def draw(self, rows: Any) -> Explanation:
        drawn = super().draw(rows)
        return replace(drawn, notes=(*drawn.notes, f"{self.games.records.rows.sum()} clamped"))


def statistics(drawn: Explanation) -> dict[str, Vectors]:
    """Numbers that somebody who gets a pair of rows, 0 and 3, may look at; one for each pair."""
    both = joint(drawn).reshape(-1, 2, 3)
    data = np.zeros((len(drawn), 2)) if drawn.data is None else np.asarray(drawn.data)
    errors, widths = drawn.standard_errors, drawn.half_widths
    assert errors is not None
    assert widths is not None
    return {
        "base value": both[:, 0, 2],
        "gap in the first value": both[:, 0, 0] - both[:, 1, 0],
        "gap in the second value": both[:, 0, 1] - both[:, 1, 1],
        "standard error": errors[::2, 0, 0],
        "half width": widths[::2, 0, 0],
        "data": data[::2].sum(axis=1),
        "notes": np.full(len(both), float(zlib.crc32("".join(map(str, drawn.notes)).encode()))),
    }


def findings(kind: type[PrivateBackgroundShapley], relation: Relation) -> set[str]:
    """Which statistics refute the claim about a pair of explained rows."""
    first, second = neighbours(relation, kind)
    rows = np.tile(np.array([[0.0, 0.0], [3.0, 3.0]]), (BATCH, 1))
    one, two = statistics(first.draw(rows)), statistics(second.draw(rows))
    (claim,) = first.guarantees(2)
    return {
        name
        for name in one
        if max(
            bounds.delta_at_least(one[name], two[name], claim.epsilon),
            bounds.delta_at_least(two[name], one[name], claim.epsilon),
            bounds.delta_at_least(-one[name], -two[name], claim.epsilon),
            bounds.delta_at_least(-two[name], -one[name], claim.epsilon),
        )
        > claim.delta
    }


@pytest.mark.parametrize("relation", RELATIONS)
def test_nothing_in_an_explanation_refutes_the_claim(relation: Relation) -> None:
    assert findings(PrivateBackgroundShapley, relation) == set()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (ExactBase, "base value"),
        (ErrorOfBackground, "standard error"),
        (BackgroundKept, "data"),
        (NoiseShared, "gap in the first value"),
        (ClampedCounted, "notes"),
    ],
)
def test_leaking_explanations_are_refuted(
    kind: type[PrivateBackgroundShapley], found: str, relation: Relation
) -> None:
    assert found in findings(kind, relation)


def test_the_noise_has_the_deviation_that_was_calculated(noise: Vectors) -> None:
    """Chi-square of 300,000 draws; wrong once in 1e6."""
    first, _ = neighbours(Relation.REPLACE_ONE)
    assert first.noise.sigma == pytest.approx(
        first.sensitivity.value * gaussian_noise_multiplier(1.0, 0.01), rel=1e-6
    )
    assert abs((noise**2).mean() - 1) < 5 * np.sqrt(2 / noise.size)
