"""The experiment on FedSVA: noise is what the paper prints, accounts are right, runs are kept."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.fedsva import accounted
from experiments.fedsva.accounted import SCHEDULES, Fleet, Plan, multipliers
from experiments.fedsva.data import DIGITS, Federation, federation
from experiments.fedsva.filters import filtered
from experiments.fedsva.kept import Kept
from experiments.fedsva.published import (
    DELTA,
    FEDAVG,
    FEDSVA,
    METHODS,
    NBAFL_ONE,
    LocalRows,
    Round,
    Setting,
    train,
    with_bias,
)
from experiments.fedsva.table import costs_of, epsilon_of

from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import Composed, Gaussian

SETTING = Setting(epsilon=0.5, rounds=6, seed=3, norm=0.5, rate=1.0)
PLAN = Plan(rounds=4, norm=1.0, rate=20.0)


@pytest.fixture(scope="module")
def digits() -> Federation:
    return federation(DIGITS)


def seen(rates: list[float]) -> Round:
    given = np.array(rates)
    return Round(SETTING, 0, 100, np.full(len(given), 0.1), given)


def test_the_noise_of_fedsva_is_the_printed_formula_and_hardly_follows_r() -> None:
    assert FEDSVA.noise is not None
    low, high = FEDSVA.noise(seen([0.0, 1.0]))
    assert low == pytest.approx(2 * 0.5 * math.sqrt(-math.log(DELTA**2)) / (0.5 * 100))
    assert high / low < 1.07
    assert NBAFL_ONE.noise is not None
    classic = NBAFL_ONE.noise(seen([0.0]))[0]
    same = FEDSVA.noise(seen([2 * math.log(1.25)]))[0]
    assert same == pytest.approx(classic), "at R = 0.446 FedSVA is the classic Gaussian"


def test_all_methods_spend_what_they_say_and_draw_the_same_noise(digits: Federation) -> None:
    for method in METHODS:
        run = train(digits, method, SETTING)
        assert len(run.noise) == len(run.epsilon) == len(run.accuracy) == SETTING.rounds
        if method.name in ("time-varying DP", "dynamic privacy allocation"):
            assert sum(run.epsilon) == pytest.approx(SETTING.rounds * SETTING.epsilon)
            assert run.noise[-1] < run.noise[0]
    none, whole = (train(digits, FEDSVA.rated(r), SETTING) for r in (0.0, 1.0))
    ratios = np.array(whole.noise) / none.noise
    np.testing.assert_allclose(ratios, math.sqrt(1 - 1 / math.log(DELTA**2)), rtol=1e-5)


def test_averaging_learns_and_stops_where_it_is_told(digits: Federation) -> None:
    run = train(digits, FEDAVG, replace(SETTING, rounds=30))
    assert run.accuracy[-1] > 0.5
    stopped = train(digits, FEDAVG, replace(SETTING, rounds=30), until=0.7)
    assert stopped.accuracy[-1] >= 0.7 > max(stopped.accuracy[:-1])


@pytest.mark.parametrize("groups", [2, 3])
def test_contribution_rates_of_all_groups_add_up(digits: Federation, groups: int) -> None:
    setting = replace(SETTING, groups=groups)
    own = LocalRows(digits, with_bias(digits.x), digits.y, 7)
    start = np.zeros((digits.x.shape[2] + 1, 10), dtype=np.float32)
    draw = np.random.default_rng(0)
    batches = own.batches(draw)
    local, _ = own.fit(start, None, batches, setting)
    alone, _ = own.fit(start, frozenset({0}), batches, setting)
    rates = own.rates(start, local, batches, setting, draw)
    assert rates.shape == (20,)
    if groups == 2:
        rest, _ = own.fit(start, frozenset({1}), batches, setting)
        u0, ua, ub, uall = map(own.utility, (start, alone, rest, local))
        with np.errstate(all="ignore"):
            expected = (ua - u0 + uall - ub) / 2 / (uall - u0)
        np.testing.assert_allclose(rates, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_costs_the_total(schedule: str) -> None:
    noise = multipliers(0.5, PLAN, SCHEDULES[schedule])
    spent = PrivacyLoss().compose(Composed(tuple(Gaussian(float(z)) for z in noise)))
    assert spent.epsilon(1e-5) == pytest.approx(0.5, rel=2e-3)
    assert spent.epsilon(1e-5) <= 0.5


def test_noise_costs_accuracy_and_precision_deserves_weight(digits: Federation) -> None:
    little, much = (
        accounted.train(digits, Fleet.alike(np.full(4, z), 20), PLAN, 0).accuracy[-1]
        for z in (0.1, 50.0)
    )
    assert little > much + 0.2
    levels = Fleet.levelled(np.array([[1.0, 2.0]] * 4), by_precision=True)
    np.testing.assert_allclose(levels.weights, [0.8, 0.2])


def test_costs_grow_with_what_a_row_can_move(digits: Federation) -> None:
    run = train(digits, NBAFL_ONE, SETTING)
    counted, held, enforced = costs_of([run], digits.rows, SETTING.rounds)
    assert counted == "3; 0.188"  # six rounds
    assert float(enforced.replace(",", "")) > digits.rows * float(held) > 0
    assert epsilon_of(1.0) == pytest.approx(4.377, abs=0.01)  # one release with noise multiplier 1


def test_filters_see_one_picture_at_a_time() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (3, 28, 28)).astype(np.uint8)
    whole = filtered(pictures)
    np.testing.assert_array_equal(whole[1:2], filtered(pictures[1:2]))
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, rtol=1e-5)
    assert not filtered(np.zeros((1, 28, 28), dtype=np.uint8)).any()


def test_a_run_is_kept_under_what_it_depends_on(tmp_path: Path) -> None:
    kept, made = Kept(tmp_path / "runs"), []

    def make() -> list[int]:
        made.append(1)
        return made.copy()

    assert kept.run("a", [1], make) == kept.run("a", [1], make) == [1]
    assert kept.run("a", [2], make) == [1, 1]
