"""A step of DP-SGD is exactly what the guarantee says, and planted mistakes are found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from tests.unit.training.private.reference import clipped, gradients
from tests.unit.training.private.stubs import Known, KnownSource, Showing
from tests.unit.training.twins import Linear, Lines, lines, module_of, tensors
from tests.unit.training.twins import network as wild_network

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded, StreamCipher
from voile.core.row_note import KnownNote
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import Gaussian, PoissonSampled, Repeated
from voile.training import (
    Array,
    Batch,
    Perceptron,
    Softmax,
    TargetLoss,
    arrays_of,
    perceptron,
)
from voile.training.optimisers import Move
from voile.training.private import (
    Adam,
    PerceptronSum,
    PrivateSteps,
    Proximal,
    Sgd,
    TrainingSpeed,
    fit_privately,
    loop,
)
from voile.training.private.loop import poisson_samples
from voile.training.private.settings import ROUNDING_MARGIN

ROWS, NORM, NOISE, RATE = 40, 0.3, 1.7, 0.25


def records(rows: int = ROWS) -> Batch:
    draw = np.random.default_rng(3)
    targets = Softmax().means(draw.normal(size=(rows, 4, 2)).astype(np.float32))
    return 2 * draw.normal(size=(rows, 4, 3)).astype(np.float32), targets


def network() -> Perceptron:
    return wild_network(0, 3, 5, 2)


def exact_gradients(data: Batch) -> NDArray[np.float64]:
    return gradients(module_of(network()), lines, tensors(data))


def promise(**changed: Any) -> PrivateSteps:
    given = {"clipping_norm": NORM, "noise_multiplier": NOISE, "sampling_rate": RATE}
    return PrivateSteps(**{**given, "steps": 6, "rows": ROWS, **changed})


# --- what a step must be --------------------------------------------------------------------------


def each_step_is_exact() -> None:
    """Sum of clipped records, plus noise of z·C, over q·n: for every step, drawn few or many."""
    made, data = network(), records()
    seen = Showing()
    fit_privately(made, data, Lines(), promise(), optimiser=seen, source=KnownSource(Known(seed=1)))
    exact = exact_gradients(data)
    samples = list(poisson_samples(Known(seed=1), ROWS, RATE, 6))
    assert len({len(drawn) for drawn in samples}) > 2
    for drawn, gradient in zip(samples, seen.gradients, strict=True):
        noise = NOISE * NORM * (1 + ROUNDING_MARGIN)
        wanted = (clipped(exact[drawn], NORM) + noise) / (RATE * ROWS)
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-6)


def empty_steps_have_noise_and_count() -> None:
    seen = Showing()
    rare = promise(sampling_rate=1e-9)
    source = KnownSource(Known())
    run = fit_privately(network(), records(), Lines(), rare, optimiser=seen, source=source)
    assert run.event == Repeated(PoissonSampled(Gaussian(NOISE), 1e-9, Relation.BLANK_ONE), 6)
    for gradient in seen.gradients:
        wanted = NOISE * NORM * (1 + ROUNDING_MARGIN) / (1e-9 * ROWS)
        assert gradient == pytest.approx(wanted, rel=1e-5)
    assert len(seen.gradients) == 6


def samples_are_independent_coins() -> None:
    """Counts of 3,000 steps over 50 records, and of pairs of records; false alarms below 1e-6."""
    steps, rows, rate = 3_000, 50, 0.3
    drawn = np.zeros((steps, rows), dtype=bool)
    samples = vars(loop)["poisson_samples"](np.random.default_rng(5), rows, rate, steps)
    for place, sample in enumerate(samples):
        drawn[place, sample] = True
    sizes = drawn.sum(1)
    spread = ((sizes - rows * rate) ** 2).sum() / (rows * rate * (1 - rate))
    assert 2e-7 < stats.chi2.cdf(spread, steps) < 1 - 2e-7
    each = drawn.sum(0)
    assert stats.binom.cdf(each.max(), steps, rate) < 1 - 1e-8
    assert stats.binom.cdf(each.min(), steps, rate) > 1e-8


CHECKS: dict[str, Callable[[], None]] = {
    "exact": each_step_is_exact,
    "empty": empty_steps_have_noise_and_count,
    "samples": samples_are_independent_coins,
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_loop(check: str) -> None:
    CHECKS[check]()


# --- planted mistakes -----------------------------------------------------------------------------


def clip_each_line(patch: pytest.MonkeyPatch) -> None:
    right = PerceptronSum._clip

    def wrong(self: Any, lines: Any, _records: int, norm: float) -> Array:
        return right(self, lines, len(lines[0].inputs), norm)

    patch.setattr(PerceptronSum, "_clip", wrong)


def divide_by_the_drawn_batch(patch: pytest.MonkeyPatch) -> None:
    right = loop.Noise.add_to
    sizes = iter([len(drawn) for drawn in poisson_samples(Known(seed=1), ROWS, RATE, 6)])

    def wrong(self: Any, total: Array, deviation: float) -> None:
        right(self, total, deviation)
        total *= RATE * ROWS / next(sizes)

    patch.setattr(loop.Noise, "add_to", wrong)


def noise_without_the_norm(patch: pytest.MonkeyPatch) -> None:
    right = loop.Noise.add_to
    patch.setattr(loop.Noise, "add_to", lambda self, total, sd: right(self, total, sd / NORM))


def no_noise_on_empty_steps(patch: pytest.MonkeyPatch) -> None:
    right = loop.Noise.add_to

    def wrong(self: Any, total: Array, deviation: float) -> None:
        if total.any():
            right(self, total, deviation)

    patch.setattr(loop.Noise, "add_to", wrong)


def samples_of_one_size(patch: pytest.MonkeyPatch) -> None:
    def wrong(
        draw: np.random.Generator, rows: int, rate: float, steps: int
    ) -> Iterator[NDArray[np.intp]]:
        for _ in range(steps):
            yield draw.choice(rows, round(rows * rate), replace=False)

    patch.setattr(loop, "poisson_samples", wrong)


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (clip_each_line, "exact"),
        (divide_by_the_drawn_batch, "exact"),
        (noise_without_the_norm, "exact"),
        (no_noise_on_empty_steps, "empty"),
        (samples_of_one_size, "samples"),
    ],
)
def test_planted_mistakes_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check]()


# --- the promise, measured ------------------------------------------------------------------------

STEPS, EPSILON = 12_000, 0.5


def noisy_sums(record: float, factor: float) -> NDArray[np.float64]:
    """What an attacker sees of many single steps over one record, whose gradient has norm C."""
    seen = Showing()
    one = promise(
        clipping_norm=1.0, noise_multiplier=factor, sampling_rate=0.5, steps=STEPS, rows=1
    )
    fit_privately(
        wild_network(0, 1, 1),
        (np.array([[record]], dtype="f"), np.array([[50.0]], dtype="f")),
        Linear(),
        one,
        optimiser=seen,
        source=Seeded(int(100 * factor) + (record == record)),
    )
    return np.stack(seen.gradients)[:, 0].astype(np.float64)


def measured_delta(factor: float) -> tuple[float, float]:
    """A lower bound of delta at EPSILON that is wrong with probability below 1e-6, and the claim.

    The event {first coordinate above t} is chosen on one half and measured on the other.
    """
    # A weight gradient alone: the record is large, so nearly all of the norm lies there.
    there, blank = noisy_sums(1e4, factor), noisy_sums(float("nan"), factor)
    half = STEPS // 2
    places = np.quantile(blank[:half], np.linspace(0.3, 0.99, 30))
    gaps = [(there[:half] > t).mean() - np.exp(EPSILON) * (blank[:half] > t).mean() for t in places]
    best = places[int(np.argmax(gaps))]
    hits = (there[half:] > best).sum(), (blank[half:] > best).sum()
    low = stats.beta.ppf(5e-7, hits[0], half - hits[0] + 1)
    high = stats.beta.ppf(1 - 5e-7, hits[1] + 1, half - hits[1])
    event = PoissonSampled(Gaussian(1.0), 0.5, Relation.BLANK_ONE)
    return float(low - np.exp(EPSILON) * high), PrivacyLoss().compose(event).delta(EPSILON)


def test_an_attacker_measures_no_more_than_is_claimed() -> None:
    found, claimed = measured_delta(1.0)
    assert found <= claimed


def test_half_the_noise_is_found_out() -> None:
    found, claimed = measured_delta(0.5)
    assert found > claimed


# --- everything else ------------------------------------------------------------------------------


def test_a_blank_record_is_like_none() -> None:
    data = records()
    blank = tuple(part.copy() for part in data)
    blank[0][7] = float("nan")
    shorter = tuple(np.delete(part, 7, axis=0) for part in data)
    every = promise(sampling_rate=1.0, relation=Relation.ADD_OR_REMOVE_ONE)
    found = []
    for given in (blank, shorter):
        seen = Showing()
        source = KnownSource(Known())
        fit_privately(network(), given, Lines(), every, optimiser=seen, source=source)
        found.append(seen.gradients[0])
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-7)


def test_a_blank_record_is_blank_whatever_is_made_of_it() -> None:
    """Also if coalitions hide the NaN, or the loss never looks at the array that holds it."""
    data = (*records(), np.zeros(ROWS, dtype=np.float32))
    data[2][3:] = float("nan")
    seen: list[int] = []

    def prepare(batch: Batch) -> Batch:
        seen.append(len(batch[0]))
        return np.nan_to_num(batch[0], nan=0.7), batch[1]

    shown = Showing()
    every = promise(sampling_rate=1.0)
    fit_privately(
        network(),
        data,
        Lines(),
        every,
        optimiser=shown,
        source=KnownSource(Known(normal=0.0)),
        prepare=prepare,
    )
    assert set(seen) == {3}
    wanted = clipped(exact_gradients(records())[:3], NORM) / ROWS
    np.testing.assert_allclose(shown.gradients[0], wanted, rtol=0, atol=1e-6)


def test_the_pull_is_added_after_noise() -> None:
    made, seen, still = network(), Showing(), Showing()

    class Jumping(Showing):
        def bind(self, parameters: Array) -> Move:
            def move(gradient: Array, share: float = 1.0) -> None:  # noqa: ARG001
                seen.gradients.append(gradient.copy())
                np.add(parameters, 1.0, out=parameters)

            return move

    for optimiser in (Proximal(Jumping(), 100.0), still):
        source = KnownSource(Known(normal=0.0))
        fit_privately(
            made,
            records(),
            Linear(0.0),
            promise(),
            optimiser=optimiser,
            source=source,
        )
    # After k jumps of 1 the pull is 100·k, far beyond the norm: it is not clipped.
    for step, gradient in enumerate(seen.gradients):
        assert gradient == pytest.approx(100.0 * step, rel=1e-5)
    assert all(not gradient.any() for gradient in still.gradients)


def test_it_learns_and_says_where_noise_came_from() -> None:
    rows = np.random.default_rng(0).normal(size=(2_000, 4)).astype(np.float32)
    labels = (rows[:, 0] + rows[:, 1] * rows[:, 2] > 0).astype(int)
    given, loss = (rows, np.eye(2, dtype=np.float32)[labels]), TargetLoss(Softmax())
    privacy = promise(
        clipping_norm=0.5, noise_multiplier=1.0, sampling_rate=0.1, steps=200, rows=2_000
    )
    notes = []
    for source in (StreamCipher(), Seeded(1), None):
        made = perceptron(4, (32,), 2, np.random.default_rng(0))
        run = fit_privately(made, given, loss, privacy, optimiser=Adam(0.02), source=source)
        notes.append(run.note)
        assert (made(rows).argmax(1) == labels).mean() > 0.85
    assert notes == [None, KnownNote.SEEDED_NOISE, None]


def test_runs_depend_on_the_source_alone() -> None:
    found = []
    for _ in range(2):
        made = network()
        fit_privately(
            made, records(), Lines(), promise(), optimiser=Sgd(0.1, 0.9), source=Seeded(4)
        )
        found.append(arrays_of(made))
    for name, value in found[0].items():
        assert np.array_equal(value, found[1][name])


def test_fresh_randomness_differs_between_runs() -> None:
    made = [network(), network()]
    for each in made:
        fit_privately(each, records(), Lines(), promise(), optimiser=Sgd(0.1))
    assert (made[0].values != made[1].values).any()


def test_a_run_that_breaks_off_changes_nothing() -> None:
    made = network()
    before = arrays_of(made)

    def stop(done: int, _steps: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_privately(
            made,
            records(),
            Lines(),
            promise(),
            optimiser=Sgd(0.1),
            speed=TrainingSpeed(progress=stop),
        )
    assert all(np.array_equal(before[name], value) for name, value in arrays_of(made).items())


def test_prepare_sees_drawn_records_only() -> None:
    sizes: list[int] = []

    def prepare(batch: Batch) -> Batch:
        sizes.append(len(batch[0]))
        return batch[0] * 0.5, batch[1]

    source = KnownSource(Known(seed=1))
    fit_privately(
        network(),
        records(),
        Lines(),
        promise(),
        optimiser=Sgd(0.1),
        source=source,
        prepare=prepare,
    )
    assert sizes == [len(drawn) for drawn in poisson_samples(Known(seed=1), ROWS, RATE, 6)]
    with pytest.raises(InvalidInput, match="first axis"):
        fit_privately(
            network(),
            records(),
            Lines(),
            promise(sampling_rate=1.0),
            optimiser=Sgd(0.1),
            prepare=lambda batch: (batch[0][:2], batch[1][:2]),
        )


def test_public_sizes_must_be_right_and_private_ones_may_be_anything() -> None:
    with pytest.raises(InvalidInput, match="declared public size is 40, found 39"):
        fit_privately(network(), records(39), Lines(), promise(), optimiser=Sgd(0.1))
    hidden = promise(relation=Relation.ADD_OR_REMOVE_ONE)
    for rows in (0, 1, 39, 80):
        fit_privately(network(), records(rows), Lines(), hidden, optimiser=Sgd(0.1))


def test_losses_that_are_not_per_record_are_refused() -> None:
    every = promise(sampling_rate=1.0)

    class Summed(Lines):
        def slopes(self, logits: Array, batch: Batch) -> Array:
            found: Array = super().slopes(logits, batch).sum(axis=0)
            return found

    class Flat(Lines):
        def inputs(self, batch: Batch) -> Array:
            return batch[0].reshape(-1, 3)

    for loss in (Summed(), Flat()):
        with pytest.raises(InvalidInput, match="first axis are its 40 records"):
            fit_privately(network(), records(), loss, every, optimiser=Sgd(0.1))


def test_impossible_promises_are_refused() -> None:
    for changed in (
        {"clipping_norm": 0.0},
        {"clipping_norm": 1e-6},
        {"clipping_norm": float("nan")},
        {"noise_multiplier": 0.0},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.5},
        {"steps": 0},
        {"rows": 0},
    ):
        with pytest.raises(InvalidInput):
            promise(**changed)


@pytest.mark.parametrize("ours", [Sgd(0.05), Sgd(0.05, 0.9), Adam(0.02), Adam(0.02, 3)])
def test_optimisers_equal_those_of_torch(ours: Sgd | Adam) -> None:
    draw = np.random.default_rng(0)
    mine, steps = draw.normal(size=50).astype("f"), draw.normal(size=(30, 50)).astype("f")
    theirs = torch.from_numpy(mine.copy())
    move = ours.bind(mine)
    if isinstance(ours, Sgd):
        peer: torch.optim.Optimizer = torch.optim.SGD([theirs], ours.rate, momentum=ours.momentum)
    else:
        peer = torch.optim.AdamW([theirs], ours.rate, weight_decay=ours.decay)
    for gradient in steps:
        move(gradient.copy())
        theirs.grad = torch.from_numpy(gradient)
        peer.step()
    np.testing.assert_allclose(mine, theirs.numpy(), rtol=0, atol=2e-6)


def test_a_share_of_the_rate_moves_by_that_share() -> None:
    for optimiser in (Sgd(0.1), Adam(0.1), Proximal(Sgd(0.1), 0.0)):
        whole, half = np.zeros(3, dtype="f"), np.zeros(3, dtype="f")
        optimiser.bind(whole)(np.arange(3, dtype="f"))
        optimiser.bind(half)(np.arange(3, dtype="f"), 0.5)
        np.testing.assert_allclose(half, whole / 2, rtol=1e-6)


def test_a_share_of_the_rate_decays_by_that_share() -> None:
    for share, left in ((1.0, 0.7), (0.5, 0.85)):
        found = np.ones(3, dtype="f")
        Adam(0.1, decay=3.0).bind(found)(np.zeros(3, dtype="f"), share)
        np.testing.assert_allclose(found, left, rtol=1e-6)


def test_protected_values_that_overflow_are_not_heard_of() -> None:
    """No warning: the suite turns warnings into errors."""
    data = records()
    data[0][::3] = 3e38
    data[0][1::3, 2] = np.inf
    fit_privately(network(), data, Lines(), promise(), optimiser=Adam(0.1), source=Seeded(0))
