"""The model that is made: it predicts, its errors hold, and without noise it is the plain one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from experiments.private_statistics.noise_free import noise_free_model
from numpy.typing import NDArray
from scipy.special import expit

from tests.unit.release.statistics.examples import SCHEMA, budget, people, records, released
from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.models.additive import AdditiveModel, bin_codes
from voile.models.additive.model import summed
from voile.release.statistics import PrivateStatistics
from voile.release.statistics.calibrating import fitted_slope
from voile.release.statistics.first_model import FirstModel, logit_scale, normal_nodes
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.solving import Coefficients, Estimates
from voile.release.statistics.sums import cell_table, centred_products, centred_sums


def log_loss(chance: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    right = np.where(labels == 1, chance, 1 - chance)
    return float(-np.log(right).mean())


def area(scores: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """The share of pairs in the right order."""
    one, none = scores[labels == 1], scores[labels == 0]
    return float((one[:, None] > none).mean())


def test_it_predicts_as_the_truth_nearly_does() -> None:
    found = released(records(3000), budget(3000, rho=0.125))
    rows, labels = people(2000, seed=5)
    chance = found.model.predict(rows)[:, 1]
    rate = labels.mean()
    constant = -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))
    assert area(chance, labels) > 0.75
    assert log_loss(chance, labels) < constant - 0.08
    assert chance.mean() == pytest.approx(rate, abs=0.06)


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
@pytest.mark.parametrize("rows", [2, 40, 300])
def test_little_data_and_much_noise_still_make_a_model(rows: int, relation: Relation) -> None:
    for seed in range(5):
        given = budget(rows, rho=0.01, relation=relation)
        model = released(records(rows, seed), given).model
        assert np.isfinite(model.predict(people(10)[0])).all()
        assert (model.standard_errors >= 0).all()


def test_a_model_needs_all_three_releases_paid_for() -> None:
    found = released(records(100))
    with pytest.raises(Refused, match="nobody was charged"):
        replace(found, calibration=replace(found.calibration))
    assert found.origin.guarantees == (found.guarantee,)
    assert found.model.guarantees == (found.guarantee,)


def test_without_noise_it_is_least_squares_on_the_bins() -> None:
    """The prior is weak beside 20,000 rows: coefficients follow from the rows' own moments."""
    rows, labels = people(20_000)
    given = budget(20_000, rho=1e7)
    found = released(records(20_000), given)
    merged = MergedTables(given, found.tables.blocks)
    estimates = Estimates(merged, found.moments.blocks)
    solved = Coefficients.solved(estimates.label)
    codes = bin_codes(merged.bins, SCHEMA, rows)
    design = np.hstack(
        [np.eye(each.count)[codes[:, place]] for place, each in enumerate(merged.bins)]
    )
    target = 2 * labels - 1
    plain, *_ = np.linalg.lstsq(design - design.mean(axis=0), target - target.mean(), rcond=None)
    fitted = (design - design.mean(axis=0)) @ plain
    ours = design @ (estimates.basis @ solved.mean / np.sqrt(estimates.masses))
    assert np.corrcoef(ours, fitted)[0, 1] > 0.998
    assert solved.variance == pytest.approx(fitted.var(), rel=0.05)
    assert np.allclose(estimates.masses, design.mean(axis=0), atol=1e-3)


def test_estimates_agree_with_the_rows_when_noise_is_small() -> None:
    rows, labels = people(2000)
    given = budget(2000, rho=1e6)
    found = released(records(2000), given)
    merged = MergedTables(given, found.tables.blocks)
    estimates = Estimates(merged, found.moments.blocks)
    counts = [each.count for each in merged.bins]
    codes = bin_codes(merged.bins, SCHEMA, rows)
    exact = [*centred_sums(codes, labels.astype(int), counts), *centred_products(codes, counts)]
    without = Estimates(merged, exact)
    assert np.allclose(estimates.centred_counts[0], without.centred_counts[0], atol=0.5)
    assert np.allclose(estimates.pairs, without.pairs, atol=0.01)
    assert estimates.label.mean[0] == pytest.approx(2 * labels.mean() - 1, abs=1e-3)


def test_stated_noise_is_the_noise_of_the_estimates() -> None:
    """Of 15 draws the mean squared error in units of what is stated: 1 within 9 of its errors.

    Directions of one draw are dependent at most through the weights, so draws are counted alone.
    """
    found, given = records(600), budget(600, rho=0.125)
    rows, labels = people(600)
    squared = []
    for _ in range(15):
        drawn = released(found, given)
        merged = MergedTables(given, drawn.tables.blocks)
        estimates = Estimates(merged, drawn.moments.blocks)
        counts = [each.count for each in merged.bins]
        codes = bin_codes(merged.bins, SCHEMA, rows)
        exact = centred_sums(codes, labels.astype(int), counts)
        truth = np.concatenate(
            [block / k for block, k in zip(exact[len(counts) :], counts, strict=False)]
        )
        value, covariance = estimates.label.sums
        error = value - truth
        squared.append(float(error @ error) / float(np.trace(covariance)))
    assert np.mean(squared) == pytest.approx(1.0, abs=9 * float(np.std(squared)) / math.sqrt(15))


def covered(draws: int, *, rows: int = 3000) -> list[float]:
    """Of each draw, the share of bins whose interval holds the noise-free Shapley value."""
    found = records(rows)
    shares = []
    for _ in range(draws):
        private = released(found, budget(rows, rho=0.125))
        plain = noise_free_model(private, found)
        off = np.abs(private.model.centred_scores - plain.centred_scores)
        shares.append(float((off <= 1.96 * private.model.standard_errors).mean()))
    return shares


def test_intervals_hold() -> None:
    """Of 120 draws 95.1 % of bins were inside, with a deviation of 4.1 % from draw to draw. The
    mean of 12 draws is below 87 % with a chance far below 10^-6 (6.8 of its deviations)."""
    assert np.mean(covered(12)) > 0.87


def test_errors_that_are_too_small_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = AdditiveModel.standard_errors.func  # type: ignore[attr-defined]
    monkeypatch.setattr(AdditiveModel, "standard_errors", property(lambda self: plain(self) / 2))
    assert np.mean(covered(12)) < 0.87


def test_errors_are_not_idle() -> None:
    """They grow with the noise, and are far smaller than scores where there is little."""
    found = records(3000)
    errors = [
        float(np.median(released(found, budget(3000, rho=rho)).model.standard_errors))
        for rho in (0.02, 0.5, 50.0)
    ]
    assert errors[0] > 1.5 * errors[1] > 3 * errors[2]
    assert errors[2] < 0.05


@pytest.mark.parametrize(("rate", "spread"), [(0.5, 0.1), (0.2, 0.15), (0.02, 0.03), (0.9, 0.2)])
def test_the_logit_scale_keeps_rate_and_slope(rate: float, spread: float) -> None:
    scale, intercept = logit_scale(rate, spread)
    chance = expit(intercept + scale * spread * normal_nodes(200))
    assert chance.mean() == pytest.approx(rate, abs=1e-9)
    if 1 < scale < 20:
        assert scale * (chance * (1 - chance)).mean() == pytest.approx(1.0, abs=1e-9)


def test_two_draws_agree_with_each_other_and_with_the_model_without_noise() -> None:
    found, rows = records(4000), people(300, seed=3)[0]
    one, two = (released(found, budget(4000, rho=0.5)) for _ in range(2))
    plain = noise_free_model(one, found)

    def cosine(first: AdditiveModel, second: AdditiveModel) -> float:
        x, y = (each.explain(rows).values.ravel() for each in (first, second))
        return float(x @ y / math.sqrt(float(x @ x) * float(y @ y)))

    assert cosine(one.model, two.model) > 0.9
    assert cosine(one.model, plain) > 0.9
    assert isinstance(one, PrivateStatistics)


def test_the_slope_varies_as_it_says() -> None:
    """Of 200 tables with new noise: the spread of slopes is what is stated, within a factor of
    1.5, where a spread from 200 draws is off by 1.5 with a chance below 10^-6."""
    found, given = records(3000), budget(3000, rho=0.5)
    drawn = released(found, given)
    merged = MergedTables(given, drawn.tables.blocks)
    first = FirstModel.solved(Estimates(merged, drawn.moments.blocks))
    rows, labels = people(3000)
    scores = summed(first.intercept, first.scores, first.bins, bin_codes(first.bins, SCHEMA, rows))
    places = np.searchsorted(first.score_edges, scores)
    exact = cell_table(places, labels.astype(int), given.calibration_bins)
    slopes = [fitted_slope(first, given.calibration_noise.randomise(exact)) for _ in range(200)]
    seen = float(np.std([math.log(slope.factor) for slope in slopes]))
    stated = float(np.mean([slope.deviation for slope in slopes]))
    assert stated / 1.5 < seen < stated * 1.5


def test_an_uncertain_slope_is_part_of_the_errors() -> None:
    drawn = released(records(500), budget(500))
    merged = MergedTables(drawn.budget, drawn.tables.blocks)
    first = FirstModel.solved(Estimates(merged, drawn.moments.blocks))
    slope = fitted_slope(first, drawn.calibration.blocks[0])
    scores = drawn.model.scores
    stretch = slope.deviation**2 + first.error_share**2
    expected = slope.factor**2 * first.covariance + stretch * np.outer(scores, scores)
    assert drawn.model.covariance == pytest.approx(expected)
    assert slope.deviation > 0.05
