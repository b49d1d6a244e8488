"""A clipping norm that follows a quantile of the records' gradient norms, privately.

Each step also asks how many drawn records lie within the norm, with noise, and moves the norm by a
factor toward the wanted share (Andrew, Thakkar, McMahan and Ramaswamy 2021). The gradient gets a
little more noise, so that both answers together cost what `PrivateSteps` states.

*Proof.* Divide each answer by its noise: s for the count, z_g·C for the gradient. One record adds
(v/(z_g·C), ±1/(2s)), a vector of norm at most √(z_g⁻² + (2s)⁻²) = 1/z; a blank one adds 0. So the
pair is one Gaussian release with multiplier z on the same Poisson sample. The norm of the next step
is a function of noisy counts, and noise is scaled by it: adaptive composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource
from voile.training import Array, Batch, Loss, Perceptron
from voile.training.optimisers import Move
from voile.training.private import Optimiser, PerceptronSum, Prepare, PrivateSteps
from voile.training.private.loop import SPEED, private_steps
from voile.training.private.settings import SMALLEST_NORM


@dataclass(frozen=True)
class AdaptedNorm:
    """How the norm moves.

    Args:
        start: the norm of the first step.
        count_noise: standard deviation of the noise on the count, in records.
        share: of the records that should lie within the norm.
        rate: how fast it moves: one step changes it by a factor of e^(rate·difference).
    """

    start: float
    count_noise: float
    share: float = 0.5
    rate: float = 0.2

    def gradient_noise(self, noise_multiplier: float) -> float:
        """The gradient's own noise multiplier, if gradient and count together have this one."""
        left = noise_multiplier**-2 - (2 * self.count_noise) ** -2
        if left <= 0:
            raise InvalidInput(f"a count with noise {self.count_noise} alone costs more than that")
        return 1 / math.sqrt(left)

    def after(self, norm: float, excess: float) -> float:
        """The next norm, if the noisy share of records within is ½ + excess."""
        share = min(max(0.5 + excess, 0.0), 1.0)
        return max(norm * math.exp(self.rate * (self.share - share)), SMALLEST_NORM)


class SeenNorms(PerceptronSum):
    """Keeps the gradient norms of the last sum; protected."""

    norms: NDArray[Any] = np.zeros(0)

    def add_up(self, batch: Batch, norm: float) -> Any:
        self.norms = super().add_up(batch, norm)
        return self.norms


@dataclass(frozen=True)
class Continued:
    """An optimiser that goes on where it was, from one run to the next."""

    move: Move

    def bind(self, parameters: Array) -> Move:  # noqa: ARG002
        return self.move


def fit_with_adapted_norm(
    network: Perceptron,
    records: Batch,
    loss: Loss,
    privacy: PrivateSteps,
    adapted: AdaptedNorm,
    *,
    optimiser: Optimiser,
    source: GeneratorSource,
    prepare: Prepare | None = None,
) -> float:
    """As `fit_privately`, at the same event; the last norm. Of `privacy` the norm is not used."""
    sums, norm = SeenNorms(network, loss), adapted.start
    going_on = Continued(optimiser.bind(sums.values))
    noise, draw = adapted.gradient_noise(privacy.noise_multiplier), source.generator()
    for _ in range(privacy.steps):
        step = replace(privacy, clipping_norm=norm, noise_multiplier=noise, steps=1)
        sums.norms = np.zeros(0)
        with one_thread():
            private_steps(sums, records, step, going_on, source, prepare, SPEED)
        count = centred_count(sums.norms, norm) + adapted.count_noise * draw.standard_normal()
        norm = adapted.after(norm, count / privacy.expected_batch)
    network.values[:] = sums.values
    return norm


def centred_count(norms: NDArray[Any], norm: float) -> float:
    """Over records: +½ for one within the norm, −½ for one beyond, 0 for one that adds nothing."""
    return int(np.count_nonzero(norms <= norm)) - len(norms) / 2
