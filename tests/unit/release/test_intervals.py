"""Intervals hold as often as they say; binomial tests that are wrong once in 1e6."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from tests.contract.releases import MODEL, PEOPLE, SCHEMA
from voile.core.explanation import Explanation
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.release import PUBLIC, PrivateBackgroundShapley
from voile.release.coalition_designs import (
    NO_SAMPLING,
    BackgroundRowDesigns,
    SamplingError,
    half_width,
    sampling_error,
    standard_error,
)

RISK = 1e-6


def test_noise_alone_has_the_interval_of_the_normal_law() -> None:
    assert half_width(2.0, NO_SAMPLING) == pytest.approx(2 * 1.959964, rel=1e-6)
    assert standard_error(2.0, NO_SAMPLING) == 2.0


def test_a_little_sampling_adds_a_little() -> None:
    alone = half_width(1.0, NO_SAMPLING)
    assert alone < half_width(1.0, SamplingError(1e-4, 1e-7)) < alone * 1.01
    assert standard_error(3.0, SamplingError(4.0, 0.1)) == 5.0


def test_without_noise_it_is_the_bound_on_sampling() -> None:
    error = SamplingError(1.0, 0.01)
    assert half_width(0.0, error) <= error.half_width(0.05) * 1.0001
    assert error.half_width(0.05) > 1.959964


def test_the_bound_on_sampling_follows_from_the_coalitions() -> None:
    """For one player, the squares of the weights are H² on average and (d − 1)·H² at most."""
    designs = BackgroundRowDesigns(9, 400, 60, seed=0)
    weights = designs.weights(slice(None)) * designs.pairs
    squares = (weights**2).mean(axis=(0, 1))
    assert np.allclose(squares, designs.harmonic**2, rtol=0.1)
    assert np.abs(weights).max() == pytest.approx(designs.harmonic * math.sqrt(8))
    error = sampling_error(
        harmonic=designs.harmonic, players=9, pairs=60, background_rows=400, width=1.0
    )
    draws = 400 * 60
    # One draw counts weight × (difference of two worths)/2, off its mean by twice that at most.
    assert error.deviation == pytest.approx(math.sqrt(designs.harmonic**2 / 4 / draws))
    assert error.reach == pytest.approx(2 * np.abs(weights).max() / 2 / draws)


def inside(drawn: Explanation, truth: NDArray[np.float64]) -> NDArray[np.bool_]:
    assert drawn.half_widths is not None
    held: NDArray[np.bool_] = np.abs(drawn.values - truth) <= drawn.half_widths
    return held


def test_intervals_of_exact_values_hold_as_often_as_they_say() -> None:
    release = PrivateBackgroundShapley(
        MODEL,
        PEOPLE,
        schema=SCHEMA,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "p"),
        epsilon=1.0,
        delta=1e-5,
        origins=[PUBLIC],
    )
    rows = np.repeat(PEOPLE[:1], 2000, axis=0)
    truth = release.before_noise(PEOPLE[:1])[:, :-1]
    held = int(inside(release.draw(rows), truth).sum())  # the noise of three values is independent
    low, high = binom.ppf([RISK / 2, 1 - RISK / 2], 6000, 0.95)
    assert low <= held <= high
    narrow = int((np.abs(release.draw(rows).values - truth) <= 1.5 * release.noise.sigma).sum())
    assert narrow < low


def test_intervals_of_sampled_values_hold_at_least_as_often() -> None:
    """Parity of bits, an odd number in each row: a coalition and its complement always differ."""
    schema = Schema("bits", tuple(Feature(f"b{i}", Numbers(0.0, 1.0)) for i in range(17)))
    parity = wrap(
        lambda rows: rows.sum(axis=1) % 2,
        outputs=Box(0, 1),
        digest="parity",
        treats_rows_independently=True,
    )
    background = np.random.default_rng(0).integers(0, 2, (150, 17)).astype(float)
    background[:, 0] += (background.sum(axis=1) + 1) % 2
    background[:, 0] %= 2
    truth = _parity(background)
    held, missed_by_noise_alone, cases = 0, 0, 200
    for seed in range(cases):
        release = PrivateBackgroundShapley(
            parity,
            background,
            schema=schema,
            protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "p"),
            epsilon=9.0,
            delta=1e-5,
            origins=[PUBLIC],
            pairs_a_player=1,
            seed=seed,
        )
        drawn, player = release.draw(np.zeros((1, 17))), seed % 17
        held += bool(inside(drawn, truth[:, np.newaxis])[0, player, 0])
        gap = abs(drawn.values[0, player, 0] - truth[player])
        missed_by_noise_alone += bool(gap > 1.96 * release.noise.sigma)
    assert held >= binom.ppf(RISK, cases, 0.95)
    assert missed_by_noise_alone > binom.ppf(1 - RISK, cases, 0.05)


def _parity(background: NDArray[np.float64]) -> NDArray[np.float64]:
    """φ of the row of zeros against rows of bits: players with a bit share −f(b) evenly.

    By symmetry all k players with a bit are alike, and together they give f(x) − f(b) = −(k mod 2).
    """
    counts = background.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = -(background * (counts % 2) / np.maximum(counts, 1)).mean(axis=0)
    return shares
