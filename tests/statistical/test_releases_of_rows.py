"""Releases about explained rows and top features, end to end, against what they claim.

A bound above the claim is a proof, at confidence 1 − 1e-6, that the claim is false. No release may
have one on its worst pair of neighbours; every mutant must. Mutants that differ before the noise
reuse the noise that was drawn by the real release.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from tests.protecting import explained_row_of, row_of
from tests.statistical import bounds
from voile.core.explanation import Explanation
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.privacy.accounting.conversion import gaussian_noise_multiplier
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.release import (
    PUBLIC,
    ClippedRelease,
    NoisyValues,
    PrivateInteractions,
    PrivateTopFeatures,
    TopFeaturesOfRow,
)
from voile.release.clipped import clipped

pytestmark = pytest.mark.filterwarnings(
    # Claims with delta = 0.01 can be refuted with few samples; nobody should publish with them.
    "ignore::voile.privacy.mechanisms.WeakPrivacyWarning"
)

Array = NDArray[np.float64]
RUNS, FEW = 100_000, 10_000
BOUND, DELTA = 0.7, 0.01
CLAIMS = [1.0, 2.0]


def common(features: int) -> dict[str, Any]:
    names = [f"f{i}" for i in range(features)]
    schema = Schema("wide", tuple(Feature(name, Numbers(-10.0, 10.0), 0.0) for name in names))
    return {
        "schema": schema,
        "protected": explained_row_of("d"),
        "origins": [PUBLIC],
        "model": "m",
        "name": "itself",
    }


def itself(rows: Array) -> Explanation:
    """Attributions are the row; the base value gives it away."""
    names = tuple(f"f{i}" for i in range(rows.shape[1]))
    return Explanation(values=rows, base_values=rows[:, :1], feature_names=names, data=rows)


def refuted(first: Array, second: Array, epsilon: float) -> float:
    """The largest delta that is proved, in both directions; `first` is the larger one."""
    return max(
        bounds.delta_at_least(first, second, epsilon),
        bounds.delta_at_least(-second, -first, epsilon),
    )


# --- the whole vector ---------------------------------------------------------------------------


def clipped_release(epsilon: float) -> ClippedRelease:
    return ClippedRelease(itself, bound=BOUND, epsilon=epsilon, delta=DELTA, **common(1))


@pytest.fixture(scope="module")
def drawn() -> tuple[Explanation, Explanation]:
    """10⁵ runs at epsilon 1 of a row far above the clipping length, and some of one far below.

    The other side of the 10⁵ is what the release computes for the row below, with the same noise:
    bounds need no independence between the two sides.
    """
    release = clipped_release(1.0)
    above, below = release.draw(np.full((RUNS, 1), 9.0)), release.draw(np.full((FEW, 1), -3.0))
    return above, below


def test_no_event_refutes_the_clipped_release(drawn: tuple[Explanation, Explanation]) -> None:
    above, below = (side.values[:, 0, 0] for side in drawn)
    assert refuted(above, below, 1.0) < DELTA
    inner = clipped_release(1.0)._inner
    truth = [float(clipped(inner.vectors([[row]]), BOUND)[0, 0, 0]) for row in (9.0, -3.0)]
    assert truth == pytest.approx([BOUND, -BOUND])
    assert refuted(above, above - truth[0] + truth[1], 1.0) < DELTA
    assert below.mean() == pytest.approx(-BOUND, abs=6 * below.std() / np.sqrt(FEW))


def _noise(drawn: tuple[Explanation, Explanation], epsilon: float) -> Array:
    """What was drawn, without the clipped value, at the size that another claim needs."""
    size = gaussian_noise_multiplier(epsilon, DELTA) / gaussian_noise_multiplier(1.0, DELTA)
    noise: Array = (drawn[0].values[:, 0, 0] - BOUND) * size
    return noise


@pytest.mark.parametrize("epsilon", CLAIMS)
@pytest.mark.parametrize(
    ("mutant", "reach", "size"),
    [
        ("none", BOUND, 1.0),
        ("noise at C for 2C", BOUND, 0.5),
        ("no clipping", 9.0, 1.0),
        ("clipping to 2C", 2 * BOUND, 1.0),
    ],
)
def test_mutants_before_the_noise_are_caught(
    drawn: tuple[Explanation, Explanation], epsilon: float, mutant: str, reach: float, size: float
) -> None:
    noise = _noise(drawn, epsilon) * size
    assert (refuted(reach + noise, -reach + noise, epsilon) > DELTA) is (mutant != "none")


def test_rows_of_one_call_share_no_noise(drawn: tuple[Explanation, Explanation]) -> None:
    """The difference of two rows of one call tells no more than each of them."""
    above, below = (side.values[:, 0, 0].reshape(-1, 2) for side in drawn)
    apart = above[:, 0] - above[:, 1], below[:, 0] - above[: len(below), 1]
    assert refuted(*apart, 1.0) < DELTA
    shared = [np.full(len(above), value - BOUND) for value in (BOUND, -BOUND)]
    assert refuted(shared[0], shared[1], 1.0) > DELTA


def test_the_base_value_is_not_that_of_the_row(drawn: tuple[Explanation, Explanation]) -> None:
    above, below = (side.base_values[:, 0] for side in drawn)
    assert refuted(above, below, 1.0) < DELTA
    attached = [np.full(RUNS, value) for value in (9.0, -3.0)]
    assert refuted(attached[0], attached[1], 1.0) > DELTA


def test_nothing_else_in_the_release_differs(drawn: tuple[Explanation, Explanation]) -> None:
    first, second = drawn
    assert first.data is second.data is None
    assert first.guarantees == second.guarantees
    assert first.notes == second.notes
    for side in (first, second):
        assert side.standard_errors is not None
        assert np.unique(side.standard_errors).size == 1
    assert first[0].standard_errors == second[0].standard_errors


def test_intervals_hold_the_clipped_value_as_often_as_they_say(
    drawn: tuple[Explanation, Explanation],
) -> None:
    assert drawn[0].half_widths is not None
    inside = np.abs(drawn[0].values - BOUND) <= drawn[0].half_widths
    assert binomtest(int(inside.sum()), RUNS, 0.95).pvalue > 1e-6
    narrow = np.abs(drawn[0].values - BOUND) <= 0.95 * drawn[0].half_widths
    assert binomtest(int(narrow.sum()), RUNS, 0.95).pvalue < 1e-6


# --- top features of a population ---------------------------------------------------------------

FEATURES, CHOICES = 8, 10_000
OTHER = np.ones(FEATURES)
FALLING = np.r_[1.0, -np.ones(FEATURES - 1)], np.r_[-1.0, np.ones(FEATURES - 1)]
"""The first feature falls by all that one row can do, all others rise by it."""


def of_people(relation: Relation) -> PrivateTopFeatures:
    return PrivateTopFeatures(
        itself,
        k=1,
        output_width=1.0,
        epsilon=2.0,
        delta=0.0,
        signed=relation is Relation.REPLACE_ONE,
        **common(FEATURES) | {"protected": row_of("d", relation)},
    )


def peeled(
    release: PrivateTopFeatures, vectors: Array, factor: float, draws: int
) -> NDArray[np.int64]:
    """The first choice; a mean over n − 1 = 1 for n = 2 doubles every score."""
    scores = factor * release.scores(vectors)
    return np.array([release._peel(scores, len(vectors))[0] for _ in range(draws)])


@pytest.mark.parametrize(
    ("factor", "caught"), [(1.0, False), (2.0, True)], ids=["real", "n - 1 for n"]
)
def test_choices_from_a_population_keep_their_claim(factor: float, caught: bool) -> None:
    release = of_people(Relation.REPLACE_ONE)
    draws = CHOICES if caught else CHOICES // 5
    sides = [peeled(release, np.array([OTHER, row]), factor, draws) for row in FALLING]
    found = max(
        bounds.delta_of_outcomes_at_least(sides[0], sides[1], 2.0),
        bounds.delta_of_outcomes_at_least(sides[1], sides[0], 2.0),
    )
    assert (found > 0) is caught


def test_choices_end_to_end_and_without_the_clamp() -> None:
    """Rows of 9 where attributions are at most 1: unclamped, one row outvotes everybody."""
    release = of_people(Relation.REPLACE_ONE)
    rows = [np.array([OTHER, 9 * row]) for row in FALLING]
    sides = [
        np.array([release.draw(side).values[0, :, 0].argmax() for _ in range(700)]) for side in rows
    ]
    assert bounds.delta_of_outcomes_at_least(sides[0], sides[1], 2.0) < 0
    assert bounds.delta_of_outcomes_at_least(sides[1], sides[0], 2.0) < 0
    unclamped = [peeled(release, side, 1.0, 1_000) for side in rows]
    assert bounds.delta_of_outcomes_at_least(unclamped[0], unclamped[1], 2.0) > 0


# --- top features of a row ----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", CLAIMS)
def test_the_top_feature_of_a_row_is_said_with_its_claim(epsilon: float) -> None:
    release = TopFeaturesOfRow(itself, k=1, epsilon=epsilon, **common(4))
    sides = [
        release.draw(np.tile(np.eye(4)[place], (6_000, 1))).values[:, :, 0].argmax(axis=1)
        for place in (0, 1)
    ]
    assert bounds.delta_of_outcomes_at_least(sides[0], sides[1], epsilon) < 0
    assert bounds.delta_of_outcomes_at_least(sides[1], sides[0], epsilon) < 0
    # Twice the epsilon that is charged would be noticed.
    assert bounds.delta_of_outcomes_at_least(sides[0], sides[1], epsilon / 2) > 0


def test_sets_of_top_features_are_said_with_their_claim() -> None:
    release = TopFeaturesOfRow(itself, k=2, epsilon=2.0, **common(5))
    truths = np.array([[3.0, 3, 0, 0, 0], [0.0, 0, 0, 3, 3]])
    weights = 2.0 ** np.arange(5)
    sides = [
        (release.draw(np.tile(row, (10_000, 1))).values[:, :, 0] @ weights).astype(np.int64)
        for row in truths
    ]
    assert bounds.delta_of_outcomes_at_least(sides[0], sides[1], 2.0) < 0
    assert bounds.delta_of_outcomes_at_least(sides[1], sides[0], 2.0) < 0
    assert bounds.delta_of_outcomes_at_least(sides[0], sides[1], 1.0) > 0


# --- interactions over a private background ------------------------------------------------------

_TABLES = [np.array(bits, dtype=float) for bits in itertools.product([0.0, 1.0], repeat=7)]
_CORNERS = ((0, 0), (0, 1), (1, 0), (2, 2), (2, 1), (1, 2), (1, 1))


def with_pairs(bits: Array, background: list[list[float]], epsilon: float) -> PrivateInteractions:
    table = np.zeros((3, 3))
    for corner, bit in zip(_CORNERS, bits, strict=True):
        table[corner] = bit
    return PrivateInteractions(
        wrap(lambda rows: table[tuple(rows.astype(int).T)], outputs=Box(0, 1), digest="table"),
        background,
        schema=Schema("grid", tuple(Feature(name, Categories((0, 1, 2))) for name in "ab")),
        protected=Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, "d"),
        epsilon=epsilon,
        delta=DELTA,
        origins=[PUBLIC],
    )


def everything(release: PrivateInteractions) -> Array:
    row = np.ones((1, 2))
    return np.concatenate([release.before_noise(row), release.pairs(row)], axis=1).ravel()


@pytest.mark.parametrize("epsilon", CLAIMS)
def test_interactions_keep_their_claim_on_the_worst_pair_that_was_found(
    epsilon: float, gaussian_noise: Array
) -> None:
    """m = 2, the second row is replaced; along the difference, noise is that of one value."""
    kept, new = [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [2.0, 2.0]]
    gaps = [
        np.linalg.norm(
            everything(with_pairs(bits, kept, epsilon)) - everything(with_pairs(bits, new, epsilon))
        )
        for bits in _TABLES
    ]
    gap, sigma = float(max(gaps)), with_pairs(_TABLES[0], kept, epsilon).noise.sigma
    noise = sigma * gaussian_noise[:, 0]
    assert refuted(gap + noise, noise, epsilon) < DELTA
    # Half the sensitivity, and a mean over m − 1 = 1 for m = 2.
    assert refuted(gap + noise / 2, noise / 2, epsilon) > DELTA
    assert refuted(2 * gap + noise, noise, epsilon) > DELTA


# --- values that somebody brings ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "delta"), [(Norm.L2, DELTA), (Norm.L1, 0.0)], ids=["Gaussian", "Laplace"]
)
def test_noise_on_declared_values_keeps_its_claim_and_half_of_it_does_not(
    norm: Norm, delta: float
) -> None:
    """10⁵ rows of one call, each with noise of its own, against rows one sensitivity below."""
    declared = Sensitivity(
        value=1.0,
        norm=norm,
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
    )
    release = NoisyValues(
        declared,
        epsilon=1.0,
        delta=delta,
        protected=explained_row_of("d"),
        feature_names=["a"],
        name="itself",
        model="m",
    )
    above = release.draw(np.ones((RUNS, 1))).values[:, 0, 0]
    assert refuted(above, above - 1, 1.0) <= delta
    halved = 1 + (above - 1) / 2
    assert refuted(halved, halved - 1, 1.0) > delta
