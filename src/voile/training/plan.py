"""How long and how hard a network is trained, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput

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
