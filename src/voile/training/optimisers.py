"""What a gradient does to the parameters. After noise all of it is post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from voile.core.errors import InvalidInput
from voile.training.perceptron import Array

FIRST_DECAY: Final = 0.9
SECOND_DECAY: Final = 0.999
ADAM_FLOOR: Final = 1e-8


class Move(Protocol):
    """Moves flat parameters, in place, along a flat gradient."""

    def __call__(self, gradient: Array, share: float = 1.0) -> None:
        """`share` of the full rate; the gradient may be overwritten."""


class Optimiser(Protocol):
    """How parameters follow gradients; one for a run, with a fresh memory each."""

    def bind(self, parameters: Array) -> Move: ...


@dataclass(frozen=True)
class Sgd:
    """Gradient descent, with momentum if it is above 0."""

    rate: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0 <= self.momentum < 1:
            raise InvalidInput(f"momentum must lie in [0, 1), found {self.momentum}")

    def bind(self, parameters: Array) -> Move:
        speed = np.zeros_like(parameters)

        def move(gradient: Array, share: float = 1.0) -> None:
            np.multiply(speed, self.momentum, out=speed)
            np.add(speed, gradient, out=speed)
            np.multiply(speed, self.rate * share, out=gradient)
            np.subtract(parameters, gradient, out=parameters)

        return move


@dataclass(frozen=True)
class Adam:
    """Adam with its usual constants (Kingma and Ba 2015).

    Args:
        decay: in each step parameters shrink by this, times the rate, besides (Loshchilov and
            Hutter 2019). It knows no record, and adds nothing to what a step costs.
    """

    rate: float
    decay: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0 <= self.decay * self.rate < 1:
            raise InvalidInput(f"decay must lie in [0, 1/rate), found {self.decay}")

    def bind(self, parameters: Array) -> Move:
        first, second = np.zeros_like(parameters), np.zeros_like(parameters)
        scratch = np.empty_like(parameters)
        steps = 0

        def move(gradient: Array, share: float = 1.0) -> None:
            nonlocal steps, first, second, parameters
            steps += 1
            second *= SECOND_DECAY
            np.multiply(gradient, gradient, out=scratch)
            second += np.multiply(scratch, 1 - SECOND_DECAY, out=scratch)
            first *= FIRST_DECAY
            first += np.multiply(gradient, 1 - FIRST_DECAY, out=gradient)
            np.sqrt(second, out=scratch)
            np.multiply(scratch, 1 / math.sqrt(1 - SECOND_DECAY**steps), out=scratch)
            np.add(scratch, ADAM_FLOOR, out=scratch)
            np.divide(first, scratch, out=scratch)
            if self.decay:
                parameters *= 1 - self.decay * self.rate * share
            rate = self.rate * share / (1 - FIRST_DECAY**steps)
            np.subtract(parameters, np.multiply(scratch, rate, out=scratch), out=parameters)

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

    def bind(self, parameters: Array) -> Move:
        start, follow = parameters.copy(), self.optimiser.bind(parameters)

        def move(gradient: Array, share: float = 1.0) -> None:
            gradient += self.strength * (parameters - start)
            follow(gradient, share)

        return move


def _check_rate(rate: float) -> None:
    if not 0 < rate < math.inf:
        raise InvalidInput(f"rate must be finite and above 0, found {rate}")
