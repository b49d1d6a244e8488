"""The training loop: Adam on a one-cycle rate, validated now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.one_thread import one_thread
from voile.training.losses import Batch, Batches, Loss, slopes_of
from voile.training.optimisers import Adam, Optimiser
from voile.training.perceptron import Backward, Perceptron

# --- How long and how hard a network is trained, and what came of it -----------------------------


Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of steps done and of all steps."""


@dataclass(frozen=True)
class TrainingPlan:
    """What changes a trained network.

    Args:
        steps: how many batches.
        batch_rows: records in a batch.
        peak_rate: the highest learning rate of the cycle (Adam).
        hidden: the widths of the hidden layers.
        checks: how often the validation loss is looked at; the weights of the best look are kept.
    """

    steps: int = 3_000
    batch_rows: int = 256
    peak_rate: float = 3e-3
    hidden: tuple[int, ...] = (128, 128)
    checks: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for name in ("steps", "batch_rows", "checks"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, found {getattr(self, name)}")
        if not 0 < self.peak_rate < 1:
            raise InvalidInput(f"peak_rate must lie between 0 and 1, found {self.peak_rate}")
        if any(width < 1 for width in self.hidden):
            raise InvalidInput(f"hidden layers need at least one unit, found {self.hidden}")

    def is_check(self, step: int) -> bool:
        """Whether to look at the validation loss after this step (counted from 1)."""
        done = step * self.checks // self.steps
        return step == self.steps or done > (step - 1) * self.checks // self.steps


@digest_name("voile.training.plan.TrainingPoint")
@dataclass(frozen=True)
class TrainingPoint:
    """Losses during training: mean training loss since the point before, and validation loss."""

    step: int
    seconds: float
    training_loss: float
    validation_loss: float | None = None


@digest_name("voile.training.plan.TrainingHistory")
@dataclass(frozen=True)
class TrainingHistory:
    """How training went.

    Args:
        points: the looks, in order.
        kept_step: the step whose weights were kept.
        seconds: wall time of all steps, looks included.
    """

    points: tuple[TrainingPoint, ...]
    kept_step: int
    seconds: float

    @property
    def validation_loss(self) -> float | None:
        """That of the weights that were kept."""
        kept = [point for point in self.points if point.step == self.kept_step]
        return kept[0].validation_loss if kept else None


# --------------------------------------------------------------------------------------------------


WARM_UP: Final = 0.2
START: Final = 1 / 25
END: Final = 1e-4


class PlainSteps:
    """Steps along the gradient of a batch's mean loss, in place."""

    def __init__(self, network: Perceptron, loss: Loss, optimiser: Optimiser) -> None:
        self._passes, self._loss = Backward(network), loss
        self._move = optimiser.bind(network.values)

    def step(self, batch: Batch, share: float = 1.0) -> float:
        """The mean loss before the step, which uses this share of the full rate."""
        logits = self._passes.logits(self._loss.inputs(batch))
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
        self._network, self._loss, self._step = network, math.inf, 0
        self._values = network.values

    def consider(self, point: TrainingPoint) -> None:
        loss = -point.step if point.validation_loss is None else point.validation_loss
        if loss < self._loss:
            self._loss, self._step = loss, point.step
            self._values = self._network.values.copy()

    def restore(self) -> int:
        self._network.values[:] = self._values
        return self._step


def one_cycle(step: int, steps: int, peak: float) -> float:
    """The rate of a step, counted from 0: up to the peak along a cosine, then down to almost 0.

    A high rate in the middle finds a good region, the long way down averages the noise of the
    batches out. Both are needed: targets here are noisy by design.
    """
    turn = WARM_UP * steps
    if step < turn:
        return _between(START * peak, peak, step / turn)
    return _between(peak, END * peak, (step - turn) / max(steps - 1 - turn, 1))


def _between(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * min(share, 1.0))) / 2
