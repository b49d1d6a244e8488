"""Difference clipping: what it adds up, what it draws, what it says it costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.training.private.stubs import Known, KnownSource, Showing

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import PrivacyEvent
from voile.training import Array, Batch, Perceptron, Softmax, TargetLoss, perceptron
from voile.training.private import (
    AttributeSteps,
    PrivateColumns,
    PrivateSteps,
    Sgd,
    fit_attributes_privately,
    fit_privately,
)

ROWS, INPUTS, NORM = 9, 5, 0.3
COLUMNS = PrivateColumns(
    np.array([False, True, False, True, False]), np.array([9, 0.5, 9, -1, 9], dtype=np.float32)
)
LOSS = TargetLoss(Softmax())


def steps(**changed: object) -> PrivateSteps:
    given = {
        "clipping_norm": NORM,
        "noise_multiplier": 1.0,
        "sampling_rate": 1.0,
        "steps": 1,
        "rows": ROWS,
    }
    return PrivateSteps(**(given | changed))  # type: ignore[arg-type]


def network(seed: int = 0) -> Perceptron:
    made = perceptron(INPUTS, (4,), 3, np.random.default_rng(seed))
    made.values[:] = np.random.default_rng(seed).normal(size=len(made.values)).astype(np.float32)
    return made


def records(seed: int = 1, rows: int = ROWS) -> Batch:
    draw = np.random.default_rng(seed)
    targets = np.eye(3, dtype=np.float32)[draw.integers(0, 3, rows)]
    return draw.normal(size=(rows, INPUTS)).astype(np.float32), targets


def gradient(batch: Batch, privacy: AttributeSteps, normal: float = 0.0, seed: int = 0) -> Array:
    """What an optimiser is given in a step, in which all normal values are the same."""
    showing = Showing()
    fit_attributes_privately(
        network(),
        batch,
        LOSS,
        COLUMNS,
        privacy,
        optimiser=showing,
        source=KnownSource(Known(seed, normal)),
    )
    (found,) = showing.gradients
    return found


def alone(batch: Batch, norm: float) -> Array:
    """The clipped sum of DP-SGD itself, without noise."""
    showing = Showing()
    privacy = steps(clipping_norm=norm, rows=len(batch[0]))
    source = KnownSource(Known(0, 0.0))
    fit_privately(network(), batch, LOSS, privacy, optimiser=showing, source=source)
    return showing.gradients[0] * len(batch[0])


def blanked(batch: Batch) -> Batch:
    inputs = batch[0].copy()
    inputs[:, [1, 3]] = [0.5, -1]
    return inputs, batch[1]


def difference(batch: Batch, norm: float) -> Array:
    """Record by record: g − g₀, and only then clipped."""
    total = np.zeros_like(network().values)
    for place in range(len(batch[0])):
        one: Batch = tuple(part[place : place + 1] for part in batch)
        found = alone(one, 1e6) - alone(blanked(one), 1e6)
        total += found * min(1.0, norm / float(np.linalg.norm(found)))
    return total


@pytest.mark.parametrize("norm", [0.1, 0.5, 100.0])
def test_a_step_is_the_public_sum_and_the_clipped_differences(norm: float) -> None:
    """Blanking comes before clipping: the difference of clipped gradients is something else."""
    batch = records()
    wanted = alone(blanked(batch), 1e6) + difference(batch, norm)
    found = gradient(batch, AttributeSteps(difference=steps(clipping_norm=norm))) * ROWS
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    after_clipping = alone(blanked(batch), 1e6) + alone(batch, norm) - alone(blanked(batch), norm)
    assert norm == 100.0 or np.abs(found - after_clipping).max() > 0.01


def test_noise_is_that_of_the_differences_alone() -> None:
    exact = gradient(records(), AttributeSteps(difference=steps()))
    noisy = gradient(records(), AttributeSteps(difference=steps()), normal=1.0)
    np.testing.assert_allclose((noisy - exact) * ROWS, NORM * (1 + 1e-3), rtol=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_one_rows_private_columns_move_a_step_by_the_norm_at_most(seed: int) -> None:
    """Blanked or not readable by C, replaced by 2C; the draws are the same."""
    privacy = AttributeSteps(difference=steps(sampling_rate=0.5))
    batch = records(seed)
    draw = np.random.default_rng(seed)
    moved = []
    for value in (COLUMNS.blank[COLUMNS.private], np.nan, 10.0 ** draw.uniform(-3, 6, 2)):
        other = batch[0].copy()
        other[4, COLUMNS.private] = value
        pair = [gradient(each, privacy, seed=seed) for each in (batch, (other, batch[1]))]
        moved.append(float(np.linalg.norm((pair[0] - pair[1]) * 0.5 * ROWS)))
    assert moved[0] == pytest.approx(moved[1], abs=1e-6)
    assert max(moved[:2]) <= NORM * (1 + 1e-3)
    assert moved[2] <= 2 * NORM * (1 + 1e-3)


def test_opposite_differences_attain_twice_the_norm() -> None:
    """So C would not do under "replace one"."""
    targets = np.array([[1, 0, 0]], dtype=np.float32)
    made = perceptron(2, (), 3, np.random.default_rng(0))
    columns = PrivateColumns(np.array([False, True]), np.zeros(2, dtype=np.float32))
    found = []
    for value in (100.0, -100.0):
        showing = Showing()
        fit_attributes_privately(
            made,
            (np.array([[1, value]], dtype=np.float32), targets),
            LOSS,
            columns,
            AttributeSteps(difference=steps(rows=1)),
            optimiser=showing,
            source=KnownSource(Known(0, 0.0)),
        )
        found.append(showing.gradients[0])
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(2 * NORM, rel=1e-3)


def test_a_row_without_a_public_value_adds_nothing_and_one_without_private_ones_stays() -> None:
    batch = records()
    without = (batch[0][1:], batch[1][1:])
    wanted = alone(blanked(without), 1e6) + difference(without, NORM)
    for place, spoilt in ((0, 0), (0, 2), (1, 0)):
        changed = [part.copy() for part in batch]
        changed[place][0, spoilt] = np.nan
        found = gradient((changed[0], changed[1]), AttributeSteps(difference=steps()))
        np.testing.assert_allclose(found * ROWS, wanted, atol=2e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, np.nan])
def test_a_private_value_too_large_to_hold_is_a_blank_one_and_nobody_is_warned(
    value: float,
) -> None:
    privacy, batch = AttributeSteps(difference=steps()), records()
    large = batch[0].astype(np.float64)
    large[4, 1] = value
    empty = batch[0].copy()
    empty[4, COLUMNS.private] = COLUMNS.blank[COLUMNS.private]
    found, wanted = (gradient((each, batch[1]), privacy) for each in (large, empty))
    np.testing.assert_array_equal(found, wanted)


class _OfUnitLength(TargetLoss):
    """What it shows of a row in each place depends on all of its columns."""

    def inputs(self, batch: Batch) -> Array:
        found: Array = batch[0] / np.linalg.norm(batch[0], axis=1, keepdims=True)
        return found


@pytest.mark.parametrize("value", [0.0, 3.0, 1e4])
def test_what_a_loss_computes_of_a_row_takes_nothing_private_into_the_public_sum(
    value: float,
) -> None:
    """By the norm at most: rows of unit length have private values in all of their places."""
    privacy = AttributeSteps(difference=steps(clipping_norm=1e-3))
    found = []
    for private in (COLUMNS.blank[COLUMNS.private], value):
        inputs, targets = records(rows=ROWS)
        inputs[4, COLUMNS.private] = private
        showing = Showing()
        fit_attributes_privately(
            network(),
            (inputs, targets),
            _OfUnitLength(Softmax()),
            COLUMNS,
            privacy,
            optimiser=showing,
            source=KnownSource(Known(0, 0.0)),
        )
        found.append(showing.gradients[0] * ROWS)
    assert np.linalg.norm(found[0] - found[1]) <= 1e-3 * (1 + 1e-2)


def test_both_sums_have_draws_of_their_own() -> None:
    """With few enough rows drawn it is seen whether the same ones are in both sums."""
    batch, same = records(), 0
    privacy = AttributeSteps(difference=steps(sampling_rate=0.5, steps=64))
    showing = Showing()
    fit_attributes_privately(
        network(), batch, LOSS, COLUMNS, privacy, optimiser=showing, source=KnownSource(Known(5, 0))
    )
    rows = range(ROWS)
    public = np.stack([alone(blanked(_one(batch, row)), 1e6) for row in rows])
    private = np.stack([difference(_one(batch, row), NORM) for row in rows])
    drawn = np.array([_members(g * ROWS * 0.5, public, private) for g in showing.gradients])
    same = int((drawn[:, 0] == drawn[:, 1]).all(axis=1).sum())
    assert same <= 2  # one in 2⁹ by chance
    assert 0.4 < drawn.mean() < 0.6


def _one(batch: Batch, row: int) -> Batch:
    return tuple(part[row : row + 1] for part in batch)


def _members(total: Array, public: Array, private: Array) -> Array:
    """Which rows are in either sum: all are linearly independent, so coefficients are 0 or 1."""
    found = np.linalg.lstsq(np.concatenate([public, private]).T, total, rcond=None)[0]
    np.testing.assert_allclose(found, found.round(), atol=0.02)
    rounded: Array = found.round().reshape(2, -1)
    return rounded


def epsilon(event: PrivacyEvent | None) -> float:
    assert event is not None
    return PrivacyLoss().compose(event).epsilon(1e-5)


def test_what_it_costs() -> None:
    many = steps(sampling_rate=0.1, steps=50)
    exact = AttributeSteps(difference=many)
    assert exact.event() == many.event()
    replaced = steps(sampling_rate=0.1, steps=50, relation=Relation.REPLACE_ONE)
    twice = AttributeSteps(difference=replaced)
    assert epsilon(twice.event()) > 1.3 * epsilon(exact.event())


def test_under_replace_one_all_rows_drawn_cost_twice_the_norm() -> None:
    """Without sampling a step is Gaussian noise of z·C on a sum that moves by 2C."""
    event = AttributeSteps(difference=steps(relation=Relation.REPLACE_ONE)).event()
    half = AttributeSteps(difference=steps(noise_multiplier=0.5)).event()
    assert epsilon(event) == pytest.approx(epsilon(half), rel=1e-3)


REFUSED: dict[str, Callable[[], object]] = {
    "columns of a row are blanked": lambda: AttributeSteps(
        difference=steps(relation=Relation.ADD_OR_REMOVE_ONE)
    ),
    "some public": lambda: PrivateColumns(np.ones(2, dtype=np.bool_), np.zeros(2, np.float32)),
    "truth value": lambda: PrivateColumns(
        np.ones(2, dtype=np.int64),
        np.zeros(2, np.float32),
    ),
    "finite number": lambda: PrivateColumns(COLUMNS.private, np.zeros(2, np.float32)),
    "shape": lambda: gradient(
        (np.zeros((ROWS, 4), np.float32), records()[1]), AttributeSteps(difference=steps())
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_promised_is_refused(message: str) -> None:
    with pytest.raises((InvalidInput, Refused), match=message):
        REFUSED[message]()


def test_it_learns_from_private_columns() -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(2_000, 4)).astype(np.float32)
    labels = (rows[:, 0] + rows[:, 3] > 0).astype(np.int64)
    columns = PrivateColumns(np.array([False, False, True, True]), np.zeros(4, np.float32))
    made = perceptron(4, (), 2, draw)
    run = fit_attributes_privately(
        made,
        (rows, np.eye(2, dtype=np.float32)[labels]),
        LOSS,
        columns,
        AttributeSteps(difference=steps(rows=2_000, steps=60, sampling_rate=0.1)),
        optimiser=Sgd(1.0),
        source=Seeded(0),
    )
    assert (made(rows).argmax(1) == labels).mean() > 0.9  # 0.75 without the private columns
    assert run.event == steps(rows=2_000, steps=60, sampling_rate=0.1).event()
