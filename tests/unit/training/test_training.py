"""Networks, heads, the schedule and the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from voile.core.errors import InvalidInput
from voile.training import (
    Batch,
    Head,
    Identity,
    Sigmoid,
    Softmax,
    TrainingPlan,
    arrays_of,
    divergence,
    fit,
    one_cycle,
    perceptron,
    squared_distance,
    with_arrays,
)


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
    torch.manual_seed(1)
    first = arrays_of(perceptron(3, (4,), 2, np.random.default_rng(5)))
    state = torch.get_rng_state()
    second = arrays_of(perceptron(3, (4,), 2, np.random.default_rng(5)))
    assert all((first[name] == second[name]).all() for name in first)
    assert (torch.get_rng_state() == state).all()
    assert all(array.dtype == np.float32 for array in first.values())


def test_arrays_give_the_network_back() -> None:
    network = perceptron(3, (4, 5), 2, np.random.default_rng(5))
    with torch.no_grad():
        network.get_parameter("4.weight").add_(1.0)
    again = with_arrays(arrays_of(network))
    inputs = torch.rand(7, 3)
    assert torch.equal(network(inputs), again(inputs))


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


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.parametrize("loss", [divergence, squared_distance])
def test_both_losses_are_smallest_at_the_mean_of_the_targets(head: Head, loss: object) -> None:
    """This is what makes a surrogate an estimate of E[f(x) | x_S]."""
    draw = np.random.default_rng(0)
    chance = draw.random((64, 1), dtype=np.float32)
    targets = torch.from_numpy(np.concatenate([chance, 1 - chance], 1))
    logits = torch.zeros(1, 2, requires_grad=True)
    optimiser = torch.optim.LBFGS([logits], max_iter=200, line_search_fn="strong_wolfe")

    def close() -> float:
        optimiser.zero_grad()
        mean = loss(head, logits.expand(64, 2), targets).mean()  # type: ignore[operator]
        mean.backward()
        return float(mean.detach())

    optimiser.step(close)  # type: ignore[no-untyped-call]
    found = head.outputs(logits.detach())[0].numpy()
    assert found == pytest.approx(targets.numpy().mean(axis=0), abs=1e-3)


def test_how_hard_a_record_can_pull() -> None:
    """The bounds that the module states, searched for counter-examples."""
    draw = torch.Generator().manual_seed(0)
    logits = (6 * torch.randn(200_000, 2, generator=draw)).requires_grad_(True)
    share = (torch.rand(200_000, generator=draw) > 0.5).float()
    targets = torch.stack([share, 1 - share], 1)

    def largest(loss: Tensor) -> float:
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        return float(gradient.abs().max())

    assert largest(Softmax().divergence(logits, targets)) == pytest.approx(1, abs=1e-3)
    assert largest(Softmax().squared_distance(logits, targets)) == pytest.approx(16 / 27, abs=1e-3)


def test_fit_learns_keeps_the_best_and_reports() -> None:
    draw = np.random.default_rng(0)
    network = perceptron(1, (16,), 1, draw)
    seen: list[tuple[int, int]] = []

    def batch() -> Batch:
        x = torch.from_numpy(draw.uniform(-1, 1, (32, 1)).astype(np.float32))
        return x, x.abs()

    def loss(learner: nn.Module, given: Batch) -> Tensor:
        found: Tensor = (learner(given[0]) - given[1]).square().sum(1)
        return found

    plan = TrainingPlan(steps=400, batch_rows=32, peak_rate=0.02, hidden=(16,), checks=8)
    validation = batch()
    history = fit(network, batch, loss, plan, validation=validation,
                  progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert [point.step for point in history.points] == list(range(50, 401, 50))
    assert seen[-1] == (400, 400)
    losses = [point.validation_loss for point in history.points]
    assert history.validation_loss == min(loss for loss in losses if loss is not None)
    assert history.validation_loss is not None
    assert history.validation_loss < 0.005
    with torch.no_grad():
        now = float(loss(network, validation).mean())
    assert now == pytest.approx(history.validation_loss, rel=1e-4)
    assert not network.training


def test_weights_that_got_worse_are_not_kept() -> None:
    """Training pulls toward 10, validation asks for 0: the first look is the best."""
    network = perceptron(1, (4,), 1, np.random.default_rng(0))

    def loss(learner: nn.Module, given: Batch) -> Tensor:
        found: Tensor = (learner(given[0]) - given[1]).square().sum(1)
        return found

    ones = torch.ones(8, 1)
    history = fit(network, lambda: (ones, 10 * ones), loss, TrainingPlan(steps=100, checks=5),
                  validation=(ones, 0 * ones))  # fmt: skip
    assert history.kept_step == 20
    with torch.no_grad():
        now = float(loss(network, (ones, 0 * ones)).mean())
    assert now == pytest.approx(history.points[0].validation_loss)


def test_a_loss_that_is_no_number_is_an_error() -> None:
    network = perceptron(1, (2,), 1, np.random.default_rng(0))

    def loss(learner: nn.Module, given: Batch) -> Tensor:
        found: Tensor = learner(given[0])[:, 0] * float("nan")
        return found

    with pytest.raises(InvalidInput, match="NaN"):
        fit(network, lambda: (torch.ones(2, 1),), loss, TrainingPlan(steps=3))


@pytest.mark.parametrize(
    "wrong",
    [{"steps": 0}, {"batch_rows": 0}, {"peak_rate": 0.0}, {"hidden": (0,)}, {"checks": 0}],
)
def test_impossible_plans_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        TrainingPlan(**wrong)  # type: ignore[arg-type]
