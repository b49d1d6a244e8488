"""What was really released, against what was claimed: lower bounds on delta(epsilon).

A bound above the claim is a proof, at confidence 1 − 1e-6, that the claim is false. No mechanism
may have one on its worst pair of neighbours, and every mutant of factor two must.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tests.statistical import bounds
from tests.statistical.conftest import (
    CHOICE_EPSILON,
    DISCRETE_SCALE,
    chosen,
    neighbouring_scores,
)
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.accounting.conversion import gaussian_delta, gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianMechanism,
    LaplaceMechanism,
    SubsetSelection,
)
from voile.privacy.sensitivity import (
    Norm,
    Sensitivity,
    clipped_vector,
    count,
    shapley_background,
)

pytestmark = pytest.mark.filterwarnings(
    # Claims with delta = 0.01 can be refuted with few samples; nobody should publish with them.
    "ignore::voile.privacy.mechanisms.WeakPrivacyWarning"
)

Vector = NDArray[np.float64]
CLAIMS = [(1.0, 0.01), (2.0, 0.01)]
RELATIONS = [Relation.REPLACE_ONE, Relation.BLANK_ONE]


# --- The bound itself ---------------------------------------------------------------------------


def test_clopper_and_pearson_hold_as_often_as_they_say() -> None:
    for share in (0.001, 0.3, 0.97):
        hits = np.arange(201)
        mass = stats.binom.pmf(hits, 200, share)
        below = np.array([bounds.at_least(int(h), 200, 0.01) for h in hits])
        above = np.array([bounds.at_most(int(h), 200, 0.01) for h in hits])
        assert mass[below > share].sum() <= 0.01
        assert mass[above < share].sum() <= 0.01


def test_the_bound_stays_below_and_comes_near_a_delta_that_is_known() -> None:
    generator = np.random.default_rng(7)
    noise = generator.normal(size=200_000)
    exact = gaussian_delta(0.5, 1.0)
    found = bounds.delta_at_least(noise + 2.0, noise, 1.0)
    assert exact - 0.03 < found < exact


def test_choosing_the_event_on_the_half_that_bounds_it_would_be_noticed() -> None:
    """Equal laws, many outcomes: the sets that overfit one half mean nothing on the other."""
    generator = np.random.default_rng(8)
    first, second = generator.integers(0, 5000, size=(2, 20_000))
    assert bounds.delta_of_outcomes_at_least(first, second, 0.1) < 0


# --- Gaussian noise on Shapley values ------------------------------------------------------------

_EXPLAINED = (1, 1)
_MODEL = {(0, 0): 0.0, (1, 0): 1.0, (0, 1): 0.0, (2, 2): 1.0, (1, 2): 0.0, (2, 1): 1.0, (1, 1): 0.5}


def _coalition_values(row: tuple[int, int] | None) -> dict[frozenset[int], float]:
    """f at the explained row inside a coalition and the background row outside of it."""
    values = {}
    for size in range(3):
        for inside in map(frozenset, itertools.combinations(range(2), size)):
            if row is None and size < 2:  # the null row: mid-range, but for the full coalition
                values[inside] = 0.5
            else:
                background = row or _EXPLAINED
                point = tuple(_EXPLAINED[i] if i in inside else background[i] for i in range(2))
                values[inside] = _MODEL[point[0], point[1]]
    return values


def _shapley(row: tuple[int, int] | None) -> Vector:
    v = _coalition_values(row)
    none, first, second, both = (frozenset(c) for c in ((), (0,), (1,), (0, 1)))
    return np.array(
        [
            (v[first] - v[none] + v[both] - v[second]) / 2,
            (v[second] - v[none] + v[both] - v[first]) / 2,
        ]
    )


def _neighbours(relation: Relation) -> tuple[Vector, Vector]:
    """Means over m = 2 background rows, of which the second is replaced or blanked."""
    other = _shapley((0, 0))
    changed = _shapley((2, 2)) if relation is Relation.REPLACE_ONE else _shapley(None)
    return (other + other) / 2, (other + changed) / 2


def _bound_of_gaussian(
    pair: tuple[Vector, Vector], sigma: float, noise: Vector, epsilon: float
) -> float:
    """Both directions; the likelihood ratio of two normals grows along their difference."""
    direction = pair[0] - pair[1]
    first, second = ((mean + sigma * noise) @ direction for mean in pair)
    return max(
        bounds.delta_at_least(first, second, epsilon),
        bounds.delta_at_least(-second, -first, epsilon),
    )


def _of_shapley(relation: Relation) -> Sensitivity:
    return shapley_background(features=2, background_rows=2, output_width=1.0, relation=relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_pair_of_backgrounds_attains_the_sensitivity(relation: Relation) -> None:
    first, second = _neighbours(relation)
    assert np.linalg.norm(first - second) == pytest.approx(float(_of_shapley(relation)))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_no_event_refutes_gaussian_noise_on_shapley_values(
    relation: Relation, epsilon: float, delta: float, gaussian_noise: Vector
) -> None:
    mechanism = GaussianMechanism.calibrated(
        _of_shapley(relation), epsilon=epsilon, delta=delta, shape=(2,)
    )
    assert (
        _bound_of_gaussian(_neighbours(relation), mechanism.sigma, gaussian_noise, epsilon) < delta
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
@pytest.mark.parametrize("mutant", ["half the sensitivity", "a mean over m − 1 for m"])
def test_mutants_of_gaussian_noise_on_shapley_values_are_caught(
    relation: Relation, epsilon: float, delta: float, mutant: str, gaussian_noise: Vector
) -> None:
    sensitivity, pair = _of_shapley(relation), _neighbours(relation)
    if mutant == "half the sensitivity":
        sensitivity = sensitivity.scaled(0.5)
    else:
        pair = 2 * pair[0], 2 * pair[1]
    mechanism = GaussianMechanism.calibrated(sensitivity, epsilon=epsilon, delta=delta, shape=(2,))
    assert _bound_of_gaussian(pair, mechanism.sigma, gaussian_noise, epsilon) > delta


# --- Clipped vectors -----------------------------------------------------------------------------

_LENGTH = 0.7
_OPPOSITE = np.array([0.6, -0.8]) * _LENGTH, np.array([-0.6, 0.8]) * _LENGTH
_ON_AN_AXIS = np.array([_LENGTH, 0.0]), np.array([-_LENGTH, 0.0])


def _of_clipped(norm: Norm) -> Sensitivity:
    return clipped_vector(
        bound=_LENGTH,
        norm=norm,
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
    )


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_opposite_clipped_vectors_need_twice_their_length(
    epsilon: float, delta: float, gaussian_noise: Vector
) -> None:
    right = GaussianMechanism.calibrated(
        _of_clipped(Norm.L2), epsilon=epsilon, delta=delta, shape=(2,)
    )
    assert _bound_of_gaussian(_OPPOSITE, right.sigma, gaussian_noise, epsilon) < delta
    c_for_2c = _of_clipped(Norm.L2).scaled(0.5)
    wrong = GaussianMechanism.calibrated(c_for_2c, epsilon=epsilon, delta=delta, shape=(2,))
    assert _bound_of_gaussian(_OPPOSITE, wrong.sigma, gaussian_noise, epsilon) > delta


def _bound_of_laplace(
    pair: tuple[Vector, Vector], scale: float, noise: Vector, epsilon: float
) -> float:
    def log_ratio(mean: Vector) -> Vector:
        output = mean + scale * noise
        distances = [np.abs(output - other).sum(axis=1) for other in pair]
        ratio: Vector = (distances[1] - distances[0]) / scale
        return ratio

    first, second = log_ratio(pair[0]), log_ratio(pair[1])
    # The ratio is flat far out, with rounding errors on it: take each flat part as one value.
    return max(
        bounds.delta_at_least(np.round(first, 6), np.round(second, 6), epsilon),
        bounds.delta_at_least(-np.round(second, 6), -np.round(first, 6), epsilon),
    )


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_laplace_noise_keeps_its_pure_claim_on_opposite_vectors(
    epsilon: float, laplace_noise: Vector
) -> None:
    right = LaplaceMechanism.calibrated(_of_clipped(Norm.L1), epsilon=epsilon, shape=(2,))
    # Clipped in the l1 norm, the axes are the corners; elsewhere the vectors must fit as well.
    for pair in (_ON_AN_AXIS, (np.array([0.35, 0.35]), np.array([-0.35, -0.35]))):
        assert _bound_of_laplace(pair, right.scale, laplace_noise, epsilon) < 0
    wrong = LaplaceMechanism.calibrated(
        _of_clipped(Norm.L1).scaled(0.5), epsilon=epsilon, shape=(2,)
    )
    assert _bound_of_laplace(_ON_AN_AXIS, wrong.scale, laplace_noise, epsilon) > 0.1


# --- Counts --------------------------------------------------------------------------------------


def _bound_of_counts(noise: NDArray[np.int64], step: int, epsilon: float) -> float:
    lowest = int(noise.min())
    first, second = noise - lowest, noise + step - lowest
    return max(
        bounds.delta_of_outcomes_at_least(first, second, epsilon),
        bounds.delta_of_outcomes_at_least(second, first, epsilon),
    )


def test_discrete_laplace_noise_keeps_its_claim_on_a_count(
    discrete_laplace_noise: NDArray[np.int64],
) -> None:
    mechanism = DiscreteLaplace(
        scale=DISCRETE_SCALE, sensitivity=count(relation=Relation.REPLACE_ONE), shape=()
    )
    claim = mechanism.event().epsilon
    assert claim == pytest.approx(1 / DISCRETE_SCALE)
    assert _bound_of_counts(discrete_laplace_noise, 1, claim) < 0
    # Half the sensitivity: the count moves by two steps for which one was paid.
    assert _bound_of_counts(discrete_laplace_noise, 2, claim) > 0.05


def test_discrete_gaussian_noise_keeps_its_claim_on_a_count(
    discrete_gaussian_noise: NDArray[np.int64],
) -> None:
    mechanism = DiscreteGaussian(
        sigma=DISCRETE_SCALE, sensitivity=count(relation=Relation.REPLACE_ONE), shape=()
    )
    claim = zcdp_to_epsilon(mechanism.event().rho, 0.01)
    assert gaussian_epsilon(DISCRETE_SCALE, 0.01) < claim
    assert _bound_of_counts(discrete_gaussian_noise, 1, claim) < 0.01
    assert _bound_of_counts(discrete_gaussian_noise, 2, claim) > 0.01


# --- Choices -------------------------------------------------------------------------------------


def _both_ways(
    before: NDArray[np.int64], after: NDArray[np.int64], epsilon: float
) -> tuple[float, float]:
    return (
        bounds.delta_of_outcomes_at_least(before, after, epsilon),
        bounds.delta_of_outcomes_at_least(after, before, epsilon),
    )


@pytest.mark.parametrize(("factor", "refuted"), [(1.0, False), (2.0, True)])
def test_the_exponential_mechanism_keeps_its_claim_unless_half_the_sensitivity_is_declared(
    factor: float, refuted: bool
) -> None:
    pair = [chosen(factor, scores, 8_000) for scores in neighbouring_scores(1)]
    assert (max(_both_ways(pair[0], pair[1], CHOICE_EPSILON)) > 0) is refuted


def test_subset_selection_keeps_its_claim() -> None:
    epsilon = 2.0
    mechanism = SubsetSelection(
        epsilon=epsilon,
        items=6,
        k=2,
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
    )
    number = {frozenset(named): i for i, named in enumerate(itertools.combinations(range(6), 2))}
    first, second = (
        np.array([number[mechanism.randomise(truth)] for _ in range(40_000)])
        for truth in ((0, 1), (4, 5))
    )
    assert bounds.delta_of_outcomes_at_least(first, second, epsilon) < 0
    assert bounds.delta_of_outcomes_at_least(second, first, epsilon) < 0
    assert bounds.delta_of_outcomes_at_least(first, second, epsilon / 2) > 0
