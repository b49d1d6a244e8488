"""Networks, heads, the schedule and the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.training.twins import module_of, network, slopes_by_torch
from threadpoolctl import threadpool_info

from voile.core.errors import InvalidInput
from voile.core.one_thread import one_thread
from voile.training import (
    Batch,
    Distance,
    Head,
    Identity,
    PlainSteps,
    Sigmoid,
    Softmax,
    TargetLoss,
    TrainingPlan,
    arrays_of,
    divergence,
    fit,
    mean_loss,
    one_cycle,
    perceptron,
    squared_distance,
    with_arrays,
)
from voile.training.perceptron import Backward
from voile.training.private import Adam, Proximal


def test_one_cycle_rises_and_falls() -> None:
    rates = [one_cycle(step, 1000, 0.01) for step in range(1000)]
    top = int(np.argmax(rates))
    assert rates[top] == pytest.approx(0.01)
    assert 150 < top < 250
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[top:]) < 0).all()
    assert rates[-1] == pytest.approx(1e-6)
    assert one_cycle(0, 1, 0.01) > 0


def test_a_network_depends_on_the_generator_alone() -> None:
    first = arrays_of(perceptron(3, (4,), 2, np.random.default_rng(5)))
    second = arrays_of(perceptron(3, (4,), 2, np.random.default_rng(5)))
    assert all((first[name] == second[name]).all() for name in first)
    assert all(array.dtype == np.float32 for array in first.values())
    assert list(first) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_arrays_give_the_network_back() -> None:
    made = network(5, 3, 4, 5, 2)
    again = with_arrays(arrays_of(made))
    inputs = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    assert np.array_equal(made(inputs), again(inputs))
    assert np.array_equal(made.values, again.values)


@pytest.mark.parametrize("change", ["missing", "shape", "nan"])
def test_broken_arrays_are_refused(change: str) -> None:
    arrays = arrays_of(perceptron(3, (4,), 2, np.random.default_rng(5)))
    if change == "missing":
        del arrays["2.bias"]
    elif change == "shape":
        arrays["2.weight"] = arrays["2.weight"][:, :3]
    else:
        arrays["0.bias"][0] = np.nan
    with pytest.raises(InvalidInput):
        with_arrays(arrays)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"one.weight": np.ones((2, 2)), "one.bias": np.ones(2)},
        {"0.weight": np.array(1.0), "0.bias": np.ones(1)},
        {"0.weight": np.ones((2, 0)), "0.bias": np.ones(2)},
        {"0.weight": np.ones((2, 2), dtype=np.int64), "0.bias": np.ones(2)},
        {"0.weight": np.array([["a", "b"]]), "0.bias": np.ones(1)},
        {"0.weight": np.ones((2, 2)), "0.bias": np.array(1.0)},
        {"1.weight": np.ones((2, 2)), "1.bias": np.ones(2)},
        {"0.weight": np.full((2, 2), 1e300), "0.bias": np.ones(2)},
    ],
)
def test_arrays_of_anything_else_are_refused(arrays: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        with_arrays(arrays)


HEADS = [
    Softmax(),
    Sigmoid(np.array([0.0, -1.0], np.float32), np.array([1.0, 3.0], np.float32)),
    Identity(np.array([2.0, 0.0], np.float32), np.array([5.0, 1.0], np.float32)),
]


DISTANCES = [divergence, squared_distance]


def twin_of(head: Head, distance: Distance, targets: Any) -> Any:
    """The same figures, as torch computes them."""
    t, given = torch.from_numpy(targets.astype(np.float64)), torch.nn.functional

    def values(logits: torch.Tensor) -> torch.Tensor:
        if isinstance(head, Softmax):
            if distance is divergence:
                return -(t * logits.log_softmax(-1)).sum(-1)
            return (logits.softmax(-1) - t).square().sum(-1)
        if isinstance(head, Sigmoid):
            lower, upper = (torch.from_numpy(each).double() for each in (head.lower, head.upper))
            share = ((t - lower) / (upper - lower)).clamp(0, 1)
            if distance is divergence:
                return given.binary_cross_entropy_with_logits(
                    logits, share.expand_as(logits), reduction="none"
                ).sum(-1)
            return (logits.sigmoid() - share).square().sum(-1)
        assert isinstance(head, Identity)
        centre, spread = (torch.from_numpy(each).double() for each in (head.centre, head.spread))
        found = (logits - (t - centre) / spread).square().sum(-1)
        return found / 2 if distance is divergence else found

    return values


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("lines", [(40,), (40, 3)])
def test_slopes_are_those_of_torch(head: Head, distance: Distance, lines: tuple[int, ...]) -> None:
    draw = np.random.default_rng(len(lines))
    logits = (3 * draw.normal(size=(*lines, 2))).astype(np.float32)
    chance = draw.random((40, 1, 1)[: len(lines) + 1]).astype(np.float32)
    targets = np.concatenate([chance, 1 - chance], axis=-1)
    wanted = slopes_by_torch(twin_of(head, distance, targets), logits)
    np.testing.assert_allclose(distance.slopes(head, logits, targets), wanted, rtol=0, atol=1e-5)
    twin = twin_of(head, distance, targets)(torch.from_numpy(logits.astype(np.float64))).numpy()
    ours = distance.values(head, logits, targets)
    # Torch leaves the entropy of the targets out, which no logit changes.
    apart = (twin - ours).reshape(lines)
    assert apart.reshape(40, -1).std(axis=1).max() < 1e-5
    if distance is squared_distance:
        assert np.abs(apart).max() < 1e-5


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.parametrize("distance", DISTANCES)
def test_distances_are_zero_at_the_target_alone(head: Head, distance: Distance) -> None:
    logits = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    targets = head.outputs(logits)
    assert np.abs(distance.values(head, logits, targets)).max() < 1e-6
    assert distance.values(head, logits + np.array([0.5, -0.5], "f"), targets).min() > 1e-3
    extreme = np.array([[0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    assert np.isfinite(distance.values(head, 100 * logits[:2], extreme)).all()


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.parametrize("distance", DISTANCES)
def test_both_distances_are_smallest_at_the_mean_of_the_targets(
    head: Head, distance: Distance
) -> None:
    """This is what makes a surrogate an estimate of E[f(x) | x_S]."""
    chance = np.random.default_rng(0).random((64, 1), dtype=np.float32)
    targets = np.concatenate([chance, 1 - chance], axis=1)
    logits = np.zeros((1, 2), dtype=np.float32)
    move = Adam(0.05).bind(logits)
    for step in range(2_000):
        slopes = distance.slopes(head, np.repeat(logits, 64, axis=0), targets)
        move(slopes.mean(axis=0, keepdims=True), one_cycle(step, 2_000, 1.0))
    assert head.outputs(logits)[0] == pytest.approx(targets.mean(axis=0), abs=1e-3)


def test_how_hard_a_record_can_pull() -> None:
    """The bounds that the module states, searched for counter-examples."""
    draw = np.random.default_rng(0)
    logits = (6 * draw.normal(size=(200_000, 2))).astype(np.float32)
    targets = np.eye(2, dtype=np.float32)[draw.integers(0, 2, 200_000)]

    def largest(distance: Distance) -> float:
        return float(np.abs(distance.slopes(Softmax(), logits, targets)).max())

    assert largest(divergence) == pytest.approx(1, abs=1e-3)
    assert largest(squared_distance) == pytest.approx(16 / 27, abs=1e-3)


# --- forward and backward -------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(4, 3), (4, 8, 3), (4, 1, 16, 3)])
@pytest.mark.parametrize("lines", [(1,), (50,), (20, 5), (1_500,)])
def test_forward_and_backward_equal_torch(widths: tuple[int, ...], lines: tuple[int, ...]) -> None:
    made, draw = network(len(lines), *widths), np.random.default_rng(0)
    inputs = draw.normal(size=(*lines, 4)).astype(np.float32)
    slopes = (draw.normal(size=(*lines, 3)) / lines[0]).astype(np.float32)
    module, passes = module_of(made), Backward(made)
    logits = module(torch.from_numpy(inputs))
    logits.backward(torch.from_numpy(slopes))
    wanted = logits.detach().numpy()
    np.testing.assert_allclose(made(inputs), wanted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(passes.logits(inputs), wanted, rtol=0, atol=1e-5)
    total = passes.add_up(passes.lines(slopes))
    grads = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
    np.testing.assert_allclose(total, grads.numpy(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(made.doubled()(inputs), wanted, rtol=0, atol=1e-5)


def test_a_plain_run_equals_one_of_torch() -> None:
    """Forward, backward, Adam and the pull toward the start, for a hundred steps."""
    made, draw = network(0, 4, 16, 2, size=0.3), np.random.default_rng(1)
    module = module_of(made)
    start = [p.detach().clone() for p in module.parameters()]
    steps = PlainSteps(made, TargetLoss(Softmax()), Proximal(Adam(0.01), 0.1))
    theirs = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(100):
        rows = draw.normal(size=(32, 4)).astype(np.float32)
        labels = (rows[:, 0] > rows[:, 1]).astype(int)
        steps.step((rows, np.eye(2, dtype=np.float32)[labels]))
        theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            module(torch.from_numpy(rows)), torch.from_numpy(labels)
        )
        loss.backward()  # type: ignore[no-untyped-call]
        for parameter, anchor in zip(module.parameters(), start, strict=True):
            assert parameter.grad is not None
            parameter.grad += 0.1 * (parameter.detach() - anchor)
        theirs.step()
    wanted = torch.cat([p.detach().flatten() for p in module.parameters()]).numpy()
    np.testing.assert_allclose(made.values, wanted, rtol=0, atol=1e-4)


def test_one_thread_is_for_everybody_and_put_back() -> None:
    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    before = threads()
    with one_thread():
        with one_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == before


# --- the loop -------------------------------------------------------------------------------------


LOSS = TargetLoss(Identity(np.zeros(1, dtype="f"), np.ones(1, dtype="f")), squared_distance)


def test_fit_learns_keeps_the_best_and_reports() -> None:
    draw = np.random.default_rng(0)
    made = perceptron(1, (16,), 1, draw)
    seen: list[tuple[int, int]] = []

    def batch() -> Batch:
        x = draw.uniform(-1, 1, (32, 1)).astype(np.float32)
        return x, np.abs(x)

    plan = TrainingPlan(steps=400, batch_rows=32, peak_rate=0.02, hidden=(16,), checks=8)
    validation = batch()
    history = fit(made, batch, LOSS, plan, validation=validation,
                  progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert [point.step for point in history.points] == list(range(50, 401, 50))
    assert seen[-1] == (400, 400)
    losses = [point.validation_loss for point in history.points]
    assert history.validation_loss == min(loss for loss in losses if loss is not None)
    assert history.validation_loss is not None
    assert history.validation_loss < 0.005
    assert mean_loss(made, LOSS, validation) == pytest.approx(history.validation_loss, rel=1e-4)


def test_weights_that_got_worse_are_not_kept() -> None:
    """Training pulls toward 10, validation asks for 0: the first look is the best."""
    made, ones = perceptron(1, (4,), 1, np.random.default_rng(0)), np.ones((8, 1), dtype="f")
    history = fit(made, lambda: (ones, 10 * ones), LOSS, TrainingPlan(steps=100, checks=5),
                  validation=(ones, 0 * ones))  # fmt: skip
    assert history.kept_step == 20
    assert mean_loss(made, LOSS, (ones, 0 * ones)) == pytest.approx(
        history.points[0].validation_loss
    )


def test_a_loss_that_is_no_number_is_an_error() -> None:
    made, ones = perceptron(1, (2,), 1, np.random.default_rng(0)), np.ones((2, 1), dtype="f")
    with pytest.raises(InvalidInput, match="NaN"):
        fit(made, lambda: (ones, np.nan * ones), LOSS, TrainingPlan(steps=3))


@pytest.mark.parametrize(
    "wrong",
    [{"steps": 0}, {"batch_rows": 0}, {"peak_rate": 0.0}, {"hidden": (0,)}, {"checks": 0}],
)
def test_impossible_plans_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        TrainingPlan(**wrong)  # type: ignore[arg-type]
