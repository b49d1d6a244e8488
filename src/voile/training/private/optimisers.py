"""What a noisy gradient does to the parameters. All of it is post-processing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from voile.core.errors import InvalidInput
from voile.core.optional import optional

if TYPE_CHECKING:
    from torch import Tensor

Move: TypeAlias = "Callable[[Tensor], None]"
"""Moves flat parameters, in place, along a flat gradient."""

FIRST_DECAY: Final = 0.9
SECOND_DECAY: Final = 0.999
ADAM_FLOOR: Final = 1e-8


class Optimiser(Protocol):
    """How parameters follow noisy gradients; one for a run, with a fresh memory each."""

    def over(self, parameters: Tensor) -> Move: ...


@dataclass(frozen=True)
class Sgd:
    """Gradient descent, with momentum if it is above 0."""

    rate: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0 <= self.momentum < 1:
            raise InvalidInput(f"momentum must lie in [0, 1), found {self.momentum}")

    def over(self, parameters: Tensor) -> Move:
        torch: Any = optional("torch", extra="torch")
        speed = torch.zeros_like(parameters)

        def move(gradient: Tensor) -> None:
            speed.mul_(self.momentum).add_(gradient)
            parameters.sub_(speed, alpha=self.rate)

        return move


@dataclass(frozen=True)
class Adam:
    """Adam with its usual constants (Kingma and Ba 2015)."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def over(self, parameters: Tensor) -> Move:
        torch: Any = optional("torch", extra="torch")
        first, second = torch.zeros_like(parameters), torch.zeros_like(parameters)
        scale = torch.empty_like(parameters)
        steps = 0

        def move(gradient: Tensor) -> None:
            nonlocal steps
            steps += 1
            first.lerp_(gradient, 1 - FIRST_DECAY)
            second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
            torch.sqrt(second, out=scale)
            scale.div_(math.sqrt(1 - SECOND_DECAY**steps)).add_(ADAM_FLOOR)
            parameters.addcdiv_(first, scale, value=-self.rate / (1 - FIRST_DECAY**steps))

        return move


@dataclass(frozen=True)
class Proximal:
    """An optimiser with the proximal term of FedProx: parameters are drawn to where the run began.

    Its gradient, strength·(parameters − start), knows no record; it is added after clipping and
    noise, so it neither uses up the norm nor costs anything.
    """

    optimiser: Optimiser
    strength: float

    def __post_init__(self) -> None:
        if not 0 <= self.strength < math.inf:
            raise InvalidInput(f"strength must be finite and at least 0, found {self.strength}")

    def over(self, parameters: Tensor) -> Move:
        start, follow = parameters.clone(), self.optimiser.over(parameters)

        def move(gradient: Tensor) -> None:
            follow(gradient.add_(parameters - start, alpha=self.strength))

        return move


def _check_rate(rate: float) -> None:
    if not 0 < rate < math.inf:
        raise InvalidInput(f"rate must be finite and above 0, found {rate}")
