"""Exact noise, drawn once a session: every test forms what it needs from the same draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    SubsetSelection,
)
from voile.privacy.sensitivity import Norm, Sensitivity, count

VECTORS = 100_000
"""Pairs of standard noise; one mechanism draws at most 200,000 in a session."""
DISCRETE_SCALE = 2.0


def unit_sensitivity(norm: Norm) -> Sensitivity:
    return Sensitivity(value=1.0, norm=norm, unit=ProtectedUnit.ROW, relation=Relation.REPLACE_ONE)


def _in_batches(draw: Callable[[], NDArray[np.float64]], batches: int) -> NDArray[np.float64]:
    return np.concatenate([draw() for _ in range(batches)])


@pytest.fixture(scope="session")
def laplace_noise() -> NDArray[np.float64]:
    """Pairs of Laplace noise of scale 1."""
    batch = (1000, 2)
    mechanism = LaplaceMechanism(scale=1.0, sensitivity=unit_sensitivity(Norm.L1), shape=batch)
    return _in_batches(lambda: mechanism.randomise(np.zeros(batch)), VECTORS // 1000)


@pytest.fixture(scope="session")
def gaussian_noise() -> NDArray[np.float64]:
    """Pairs of Gaussian noise of standard deviation 1."""
    batch = (1000, 2)
    mechanism = GaussianMechanism(sigma=1.0, sensitivity=unit_sensitivity(Norm.L2), shape=batch)
    return _in_batches(lambda: mechanism.randomise(np.zeros(batch)), VECTORS // 1000)


@pytest.fixture(scope="session")
def discrete_laplace_noise() -> NDArray[np.int64]:
    batch = (1000,)
    mechanism = DiscreteLaplace(
        scale=DISCRETE_SCALE, sensitivity=count(relation=Relation.REPLACE_ONE), shape=batch
    )
    zeros = np.zeros(batch, dtype=np.int64)
    return np.concatenate([mechanism.randomise(zeros) for _ in range(VECTORS // 1000)])


@pytest.fixture(scope="session")
def discrete_gaussian_noise() -> NDArray[np.int64]:
    batch = (1000,)
    mechanism = DiscreteGaussian(
        sigma=DISCRETE_SCALE, sensitivity=count(relation=Relation.REPLACE_ONE), shape=batch
    )
    zeros = np.zeros(batch, dtype=np.int64)
    return np.concatenate([mechanism.randomise(zeros) for _ in range(VECTORS // 1000)])


CANDIDATES = 8
CHOICE_EPSILON = 2.0


def neighbouring_scores(falling: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The first few fall by one step of sensitivity, all others rise: the worst for that choice."""
    rising = CANDIDATES - falling
    return (1.0,) * falling + (0.0,) * rising, (0.0,) * falling + (1.0,) * rising


def chosen(factor: float, scores: tuple[float, ...], draws: int) -> NDArray[np.int64]:
    """What the exponential mechanism says; scores times 2 are what half the sensitivity does."""
    mechanism = ExponentialMechanism(
        epsilon=CHOICE_EPSILON,
        sensitivity=unit_sensitivity(Norm.LINF),
        candidates=CANDIDATES,
    )
    scaled = factor * np.array(scores)
    return np.array([mechanism.randomise(scaled) for _ in range(draws)])


def named_sets(
    mechanism: SubsetSelection, truth: tuple[int, ...], draws: int
) -> Counter[frozenset[int]]:
    return Counter(mechanism.randomise(truth) for _ in range(draws))
