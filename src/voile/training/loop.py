"""The training loop: Adam on a one-cycle rate, validated now and then."""

from __future__ import annotations

import time

from voile.core.errors import InvalidInput
from voile.training.losses import Batch, Batches, Loss, seen_by_network, slopes_of
from voile.training.one_thread import one_thread
from voile.training.optimisers import Adam, Optimiser
from voile.training.perceptron import Array, Backward, Perceptron
from voile.training.plan import Progress, TrainingHistory, TrainingPlan, TrainingPoint
from voile.training.schedule import one_cycle


class PlainSteps:
    """Steps along the gradient of a batch's mean loss, in place."""

    def __init__(self, network: Perceptron, loss: Loss, optimiser: Optimiser) -> None:
        self._passes, self._loss = Backward(network), loss
        self._move = optimiser.over(network.values)

    def step(self, batch: Batch, share: float = 1.0) -> float:
        """The mean loss before the step, which uses this share of the full rate."""
        logits = self._passes.logits(seen_by_network(self._loss, batch))
        mean = float(self._loss.values(logits, batch).mean())
        slopes = slopes_of(self._loss, logits, batch)
        slopes /= len(slopes)
        self._move(self._passes.add_up(self._passes.lines(slopes)), share)
        return mean


def mean_loss(network: Perceptron, loss: Loss, batch: Batch) -> float:
    return float(loss.values(network(loss.inputs(batch)), batch).mean())


def fit(
    network: Perceptron,
    batches: Batches,
    loss: Loss,
    plan: TrainingPlan,
    *,
    validation: Batch | None = None,
    progress: Progress | None = None,
) -> TrainingHistory:
    """Train a network in place.

    With `validation`, the weights of the look with the lowest loss are kept, else the last ones.
    """
    steps = PlainSteps(network, loss, Adam(plan.peak_rate))
    best = _Best(network)
    points: list[TrainingPoint] = []
    total, counted, start = 0.0, 0, time.perf_counter()
    with one_thread():
        for step in range(1, plan.steps + 1):
            total += steps.step(batches(), one_cycle(step - 1, plan.steps, 1.0))
            counted += 1
            if plan.is_check(step):
                found = None if validation is None else mean_loss(network, loss, validation)
                point = TrainingPoint(step, time.perf_counter() - start, total / counted, found)
                points.append(_checked(point))
                best.consider(point)
                total, counted = 0.0, 0
                if progress is not None:
                    progress(step, plan.steps)
    return TrainingHistory(tuple(points), best.restore(), time.perf_counter() - start)


def _checked(point: TrainingPoint) -> TrainingPoint:
    losses = (point.training_loss, point.validation_loss)
    if any(loss is not None and loss != loss for loss in losses):
        raise InvalidInput(
            f"training left the numbers at step {point.step} (the loss is NaN); lower peak_rate, "
            "and check that rows and outputs are on a moderate scale"
        )
    return point


class _Best:
    """The weights with the lowest validation loss so far; without validation, the last ones."""

    def __init__(self, network: Perceptron) -> None:
        self._network = network
        self._loss, self._step = float("inf"), 0
        self._values: Array | None = None

    def consider(self, point: TrainingPoint) -> None:
        if point.validation_loss is None:
            self._step = point.step
        elif point.validation_loss < self._loss:
            self._loss, self._step = point.validation_loss, point.step
            self._values = self._network.values.copy()

    def restore(self) -> int:
        if self._values is not None:
            self._network.values[:] = self._values
        return self._step
