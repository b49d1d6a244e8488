"""The training loop: Adam on a one-cycle rate, validated now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.training.plan import Progress, TrainingHistory, TrainingPlan, TrainingPoint
from voile.training.schedule import one_cycle

if TYPE_CHECKING:
    from torch import Tensor, nn

Batch: TypeAlias = "tuple[Tensor, ...]"
"""Everything a loss needs about some records; the first axis of each tensor is the record."""
Batches: TypeAlias = Callable[[], Batch]
"""Draws the next batch."""
Loss: TypeAlias = "Callable[[nn.Module, Batch], Tensor]"
"""The loss of each record, shape (n,). What records share (a mean, a penalty) has no place here, so
that gradients can be bounded record by record."""


def fit(
    network: nn.Module,
    batches: Batches,
    loss: Loss,
    plan: TrainingPlan,
    *,
    validation: Batch | None = None,
    progress: Progress | None = None,
) -> TrainingHistory:
    """Train a network in place; afterwards it is in evaluation mode.

    With `validation`, the weights of the look with the lowest loss are kept, else the last ones.
    """
    torch = optional("torch", extra="torch")
    optimiser = torch.optim.Adam(network.parameters(), lr=plan.peak_rate, fused=True)
    network.train()
    best = _Best()
    points: list[TrainingPoint] = []
    total, counted, start = 0.0, 0, time.perf_counter()
    for step in range(1, plan.steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = one_cycle(step - 1, plan.steps, plan.peak_rate)
        optimiser.zero_grad(set_to_none=True)
        mean: Any = loss(network, batches()).mean()
        mean.backward()
        optimiser.step()
        total, counted = total + float(mean.detach()), counted + 1
        if plan.is_check(step):
            point = _measured(network, loss, validation, step, total / counted, start)
            points.append(point)
            best.consider(network, point)
            total, counted = 0.0, 0
            if progress is not None:
                progress(step, plan.steps)
    kept = best.restore(network)
    network.eval()
    return TrainingHistory(tuple(points), kept, time.perf_counter() - start)


def _measured(
    network: nn.Module,
    loss: Loss,
    validation: Batch | None,
    step: int,
    training_loss: float,
    start: float,
) -> TrainingPoint:
    torch = optional("torch", extra="torch")
    found = None
    if validation is not None:
        network.eval()
        with torch.no_grad():
            found = float(loss(network, validation).mean())
        network.train()
    if training_loss != training_loss or (found is not None and found != found):
        raise InvalidInput(
            f"training left the numbers at step {step} (the loss is NaN); lower peak_rate, and "
            "check that rows and outputs are on a moderate scale"
        )
    return TrainingPoint(step, time.perf_counter() - start, training_loss, found)


class _Best:
    """The weights with the lowest validation loss so far; without validation, the last ones."""

    def __init__(self) -> None:
        self._loss = float("inf")
        self._step = 0
        self._state: dict[str, Any] | None = None

    def consider(self, network: nn.Module, point: TrainingPoint) -> None:
        if point.validation_loss is None:
            self._step = point.step
        elif point.validation_loss < self._loss:
            self._loss, self._step = point.validation_loss, point.step
            self._state = {name: value.clone() for name, value in network.state_dict().items()}

    def restore(self, network: nn.Module) -> int:
        if self._state is not None:
            network.load_state_dict(self._state)
        return self._step
