"""What a noisy gradient does to the parameters. All of it is post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from voile.core.errors import InvalidInput
from voile.core.optional import optional

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


class Optimiser(Protocol):
    """Makes a torch optimiser of one flat tensor."""

    def over(self, parameters: Tensor) -> Optimizer: ...


@dataclass(frozen=True)
class Sgd:
    """Gradient descent, with momentum if it is above 0."""

    rate: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0 <= self.momentum < 1:
            raise InvalidInput(f"momentum must lie in [0, 1), found {self.momentum}")

    def over(self, parameters: Tensor) -> Optimizer:
        torch = optional("torch", extra="torch")
        made: Any = torch.optim.SGD([parameters], self.rate, momentum=self.momentum, fused=True)
        return made  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Adam:
    """Adam with its usual constants."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def over(self, parameters: Tensor) -> Optimizer:
        torch = optional("torch", extra="torch")
        made: Any = torch.optim.Adam([parameters], self.rate, fused=True)
        return made  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Proximal:
    """The proximal term of FedProx: parameters are drawn to where the run began.

    Its gradient, strength·(parameters − start), knows no record; it is added after clipping and
    noise, so it neither uses up the norm nor costs anything.
    """

    strength: float

    def __post_init__(self) -> None:
        if not 0 <= self.strength < float("inf"):
            raise InvalidInput(f"strength must be finite and at least 0, found {self.strength}")


def _check_rate(rate: float) -> None:
    if not 0 < rate < float("inf"):
        raise InvalidInput(f"rate must be finite and above 0, found {rate}")
