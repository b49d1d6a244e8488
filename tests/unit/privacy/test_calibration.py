"""The smallest noise: never too little, hardly ever too much, by the measure that is charged."""

from __future__ import annotations

import dp_accounting
import pytest
from experiments.lib.accounting.filters import RenyiFilter
from experiments.lib.accounting.noise import (
    dp_sgd_noise_in,
    laplace_noise_multiplier,
    smallest_noise_in,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.core.guarantee import Relation
from voile.privacy.accounting import Plan, PrivacyLoss, ZeroConcentratedFilter
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.privacy.events import Composed, Gaussian

BLANK = Relation.BLANK_ONE


def read(stages: list[NoisyStage], noise: float, delta: float, relation: Relation = BLANK) -> float:
    event = Composed(tuple(stage.event(noise, relation) for stage in stages))
    return PrivacyLoss().compose(event).epsilon(delta)


@pytest.mark.parametrize(
    ("stages", "epsilon", "delta"),
    [
        ([NoisyStage(0.256, 40)], 1.0, 1e-3),
        ([NoisyStage(0.256, 40)] * 3, 1.91, 1e-3),
        ([NoisyStage(0.01, 5000)], 2.0, 1e-5),
        ([NoisyStage(0.05, 500), NoisyStage(0.1, 300, 2.0)], 8.0, 1e-6),
        ([NoisyStage(1.0, 1)], 0.1, 1e-5),
        ([NoisyStage(0.5, 3)], 20.0, 1e-7),
    ],
)
def test_the_noise_meets_the_target_and_a_little_less_does_not(
    stages: list[NoisyStage], epsilon: float, delta: float
) -> None:
    noise = dp_sgd_noise(stages, epsilon=epsilon, delta=delta, relation=BLANK)
    assert read(stages, noise, delta) <= epsilon
    assert read(stages, noise * 0.999, delta) > epsilon


@settings(max_examples=15, deadline=None)
@given(st.floats(0.005, 1), st.integers(1, 500), st.floats(0.3, 8))
def test_any_target_is_met(rate: float, steps: int, epsilon: float) -> None:
    noise = dp_sgd_noise([NoisyStage(rate, steps)], epsilon=epsilon, delta=1e-5, relation=BLANK)
    assert read([NoisyStage(rate, steps)], noise, 1e-5) <= epsilon


def test_it_agrees_with_dp_accountings_own_search() -> None:
    theirs = dp_accounting.calibrate_dp_mechanism(
        dp_accounting.pld.PLDAccountant,
        lambda z: dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(0.256, dp_accounting.GaussianDpEvent(z)), 80
        ),
        2.0,
        1e-5,
        dp_accounting.ExplicitBracketInterval(2.0, 10.0),
        tol=1e-3,
    )
    ours = dp_sgd_noise([NoisyStage(0.256, 80)], epsilon=2.0, delta=1e-5, relation=BLANK)
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_replacing_needs_more_noise_than_blanking() -> None:
    blank = dp_sgd_noise([NoisyStage(0.1, 50)], epsilon=2.0, delta=1e-5, relation=BLANK)
    replaced = dp_sgd_noise(
        [NoisyStage(0.1, 50)], epsilon=2.0, delta=1e-5, relation=Relation.REPLACE_ONE
    )
    assert replaced > 1.5 * blank
    assert read([NoisyStage(0.1, 50)], replaced, 1e-5, Relation.REPLACE_ONE) <= 2.0


def test_what_was_calibrated_as_a_plan_is_accepted_as_a_plan() -> None:
    stages = [NoisyStage(0.2, 60), NoisyStage(0.3, 20)]
    noise = dp_sgd_noise(stages, epsilon=2.0, delta=1e-5, relation=BLANK)
    Plan(tuple(stage.event(noise, BLANK) for stage in stages), 2.0, 1e-5)


def test_a_filter_is_filled_but_not_overfilled() -> None:
    account = RenyiFilter(2.0, 1e-5, (6, 8, 10, 12))
    stages = [NoisyStage(0.256, 40)] * 2
    noise = dp_sgd_noise_in(account, stages, relation=BLANK)
    event = Composed(tuple(stage.event(noise, BLANK) for stage in stages))
    assert account.fits(event)
    assert account.spend(event).remaining() < 1e-3
    plan = dp_sgd_noise(stages, epsilon=2.0, delta=1e-5, relation=BLANK)
    assert noise > plan  # a filter pays for being adaptive


def test_a_release_is_calibrated_to_what_is_left() -> None:
    account = ZeroConcentratedFilter(1.0, 1e-5).spend(Gaussian(10.0))
    noise = smallest_noise_in(account, Gaussian)
    assert account.fits(Gaussian(noise))
    assert not account.fits(Gaussian(noise * 0.999))


def test_an_empty_budget_fits_no_noise() -> None:
    account = ZeroConcentratedFilter(1.0, 1e-5)
    full = account.spend(Gaussian(smallest_noise_in(account, Gaussian) * (1 + 1e-12)))
    for _ in range(60):
        if not full.fits(Gaussian(1e6)):
            break
        full = full.spend(Gaussian(smallest_noise_in(full, Gaussian)))
    with pytest.raises(BudgetExceeded, match="however large"):
        smallest_noise_in(full, Gaussian)


def test_laplace() -> None:
    assert laplace_noise_multiplier(0.5) == 2.0
    with pytest.raises(InvalidInput):
        laplace_noise_multiplier(0.0)


@pytest.mark.parametrize("relation", [BLANK, Relation.REPLACE_ONE])
def test_a_target_that_any_noise_meets_gets_the_least_noise_on_offer(relation: Relation) -> None:
    """A record that is sampled with probability 0.0006 in all is protected at delta 0.0023."""
    stages = [NoisyStage(0.0003, 2, 4.0)]
    noise = dp_sgd_noise(stages, epsilon=10.0, delta=0.0023, relation=relation)
    assert noise == pytest.approx(0.01 / 4)
    assert read(stages, noise, 0.0023, relation) <= 10.0


def test_a_delta_that_numbers_cannot_resolve_is_refused() -> None:
    with pytest.raises(InvalidInput, match="smallest delta"):
        dp_sgd_noise([NoisyStage(0.01, 10_000)], epsilon=1.0, delta=1e-12, relation=BLANK)


@pytest.mark.parametrize(
    "stage",
    [
        NoisyStage(0.0, 5),
        NoisyStage(1.5, 5),
        NoisyStage(0.1, 0),
        NoisyStage(0.1, 5, 0.0),
        NoisyStage(0.1, 5, -1.0),
    ],
)
def test_a_stage_that_is_none_is_refused(stage: NoisyStage) -> None:
    with pytest.raises(InvalidInput):
        dp_sgd_noise([stage], epsilon=1.0, delta=1e-5, relation=BLANK)


def test_no_stage_is_refused() -> None:
    with pytest.raises(InvalidInput):
        dp_sgd_noise([], epsilon=1.0, delta=1e-5, relation=BLANK)
