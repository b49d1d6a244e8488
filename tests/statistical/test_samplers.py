"""Samplers against their laws. One test in ten million may fail by chance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tests.statistical.conftest import (
    CANDIDATES,
    CHOICE_EPSILON,
    DISCRETE_SCALE,
    chosen,
    named_sets,
)
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.mechanisms import SubsetSelection

CHANCE = 1e-7


def _fits(
    observed: Sequence[int] | NDArray[np.int64], law: Sequence[float] | NDArray[np.float64]
) -> bool:
    """Chi-square over outcomes; the rare ones, and whatever the law leaves out, count as one."""
    counts, expected = np.array(observed, dtype=float), np.array(law) * sum(observed)
    common = expected >= 20
    rest = counts[~common].sum(), max(0.0, counts.sum() - expected[common].sum())
    grouped = np.append(counts[common], rest[0]), np.append(expected[common], rest[1])
    if rest[1] < 20:  # too few to be approximated by a normal law: a bound on their number
        assert stats.poisson.sf(rest[0] - 1, max(rest[1], 1e-9)) > CHANCE
        grouped = counts[common], expected[common] * counts[common].sum() / expected[common].sum()
    return float(stats.chisquare(*grouped).pvalue) > CHANCE


def test_laplace_noise_follows_its_law(laplace_noise: NDArray[np.float64]) -> None:
    assert stats.kstest(laplace_noise.ravel(), "laplace").pvalue > CHANCE


def test_laplace_noise_of_another_scale_would_be_noticed(
    laplace_noise: NDArray[np.float64],
) -> None:
    assert stats.kstest(1.06 * laplace_noise.ravel(), "laplace").pvalue < CHANCE


def test_gaussian_noise_follows_its_law(gaussian_noise: NDArray[np.float64]) -> None:
    assert stats.kstest(gaussian_noise.ravel(), "norm").pvalue > CHANCE


def test_gaussian_noise_of_another_deviation_would_be_noticed(
    gaussian_noise: NDArray[np.float64],
) -> None:
    assert stats.kstest(1.06 * gaussian_noise.ravel(), "norm").pvalue < CHANCE


@pytest.mark.parametrize("name", ["laplace_noise", "gaussian_noise"])
def test_values_of_one_release_carry_independent_noise(
    name: str, request: pytest.FixtureRequest
) -> None:
    noise = request.getfixturevalue(name)
    # Quadrants of signs and of sizes: four equally likely cells each.
    for halves in (noise > 0, np.abs(noise) > np.median(np.abs(noise))):
        cells = np.bincount(2 * halves[:, 0] + halves[:, 1], minlength=4)
        assert stats.chi2_contingency(cells.reshape(2, 2)).pvalue > CHANCE
    assert np.unique(noise.ravel()).size > 0.999 * noise.size


def test_discrete_laplace_noise_follows_its_law(
    discrete_laplace_noise: NDArray[np.int64],
) -> None:
    decay = math.exp(-1 / DISCRETE_SCALE)
    law = [(1 - decay) / (1 + decay) * decay ** abs(k) for k in range(-40, 41)]
    inside = discrete_laplace_noise[np.abs(discrete_laplace_noise) <= 40]
    assert _fits(np.bincount(inside + 40, minlength=81), law)
    assert not _fits(np.bincount(np.minimum(inside + 41, 80), minlength=81), law)


def test_discrete_gaussian_noise_follows_its_law(
    discrete_gaussian_noise: NDArray[np.int64],
) -> None:
    masses = np.exp(-(np.arange(-20, 21) ** 2) / (2 * DISCRETE_SCALE**2))
    law = masses / masses.sum()
    inside = discrete_gaussian_noise[np.abs(discrete_gaussian_noise) <= 20]
    assert inside.size == discrete_gaussian_noise.size
    assert _fits(np.bincount(inside + 20, minlength=41), law)
    wider = np.exp(-(np.arange(-20, 21) ** 2) / (2 * (1.1 * DISCRETE_SCALE) ** 2))
    assert not _fits(np.bincount(inside + 20, minlength=41), wider / wider.sum())


SCORES = (0.0, 0.5, 1.0, 1.5, 2.0, -1.0, 0.0, 3.0)


def _odds(epsilon: float) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.exp(epsilon * np.array(SCORES) / 2)
    return weights


def test_the_exponential_mechanism_follows_its_law() -> None:
    observed = np.bincount(chosen(1.0, SCORES, 15_000), minlength=CANDIDATES)
    weights = _odds(CHOICE_EPSILON)
    assert _fits(observed, weights / weights.sum())
    flipped = np.sqrt(weights)  # half of epsilon
    assert not _fits(observed, flipped / flipped.sum())


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 5.0])
def test_subset_selection_is_uniform_on_each_side_of_its_threshold(epsilon: float) -> None:
    mechanism = SubsetSelection(
        epsilon=epsilon,
        items=7,
        k=3,
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
    )
    truth = (1, 4, 6)
    observed = named_sets(mechanism, truth, 30_000)
    sets = [frozenset(named) for named in itertools.combinations(range(7), 3)]
    near = [len(named & set(truth)) >= mechanism.threshold for named in sets]
    weights = np.where(near, math.exp(epsilon), 1.0)
    assert set(observed) <= set(sets)
    assert _fits([observed[named] for named in sets], weights / weights.sum())
    assert not _fits([observed[named] for named in sets], [1 / len(sets)] * len(sets))
