"""Difference clipping, audited: canaries in the private columns of rows that anybody may know.

Public columns are exact there, so each row has one that shows in which steps its public part was
drawn. That must say nothing about the draws of the private part: whoever drew once for both would
be found out by looking at the private part in just those steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.assess.betting import Floats
from voile.assess.training_canaries import (
    LENGTH,
    LONG,
    PROJECTION,
    SPREAD,
    GradientRecorder,
    SlopeLoss,
    log_likelihood,
)
from voile.assess.trial import Arrangement, AuditTrial, TrialResult, fair_coins
from voile.core.guarantee import Relation
from voile.privacy.events import PrivacyEvent
from voile.training import Perceptron, perceptron
from voile.training.private.attributes import (
    AttributeSteps,
    PrivateColumns,
    fit_attributes_privately,
)

MANY, FEW = 150, 4
DRAWN: Final = "steps in which the public part was drawn"
_BEYOND: Final = 100.0
"""How many clipping norms long the private part of a canary's gradient is before it is clipped, and
the public part, which is not: noise does not hide that."""


@dataclass(frozen=True, eq=False)
class AttributeCanaries:
    """Canaries in the private columns of one client's rows.

    Args:
        privacy: as it is charged.
        name: of the arrangement.
        canaries: how many rows there are; each is a canary.
    """

    privacy: AttributeSteps
    name: str
    canaries: int
    score_names: tuple[str, ...] = (PROJECTION, SPREAD, LENGTH, DRAWN)

    def play(self, draw: np.random.Generator) -> TrialResult:
        inside = fair_coins(draw, 1, self.canaries)
        found = self._scores(self._seen(inside[0]))
        return TrialResult(inside, {name: scores[np.newaxis] for name, scores in found.items()})

    @cached_property
    def _steps(self) -> AttributeSteps:
        steps = replace(self.privacy.difference, rows=self.canaries)
        return replace(self.privacy, difference=steps)

    @cached_property
    def _network(self) -> Perceptron:
        return perceptron(2 * self.canaries, (), 1, np.random.default_rng(0))

    def _seen(self, coins: NDArray[np.bool_]) -> Floats:
        """All noisy gradients of a run: first those of private inputs, then of public ones."""
        count, steps = self.canaries, self._steps.difference
        other = -1.0 if steps.relation is Relation.REPLACE_ONE else 0.0
        inputs = np.zeros((count, 2 * count), dtype=np.float32)
        rows = np.arange(count)
        inputs[rows, rows] = LONG * np.where(coins, 1.0, other)
        inputs[rows, count + rows] = LONG
        slopes = np.full(count, _BEYOND * steps.first_norm / LONG, dtype=np.float32)
        private = np.arange(2 * count) < count
        recorder = GradientRecorder()
        fit_attributes_privately(
            self._network,
            (inputs, slopes),
            SlopeLoss(),
            PrivateColumns(private, np.zeros(2 * count, dtype=np.float32)),
            self._steps,
            optimiser=recorder,
        )
        return recorder.gradients

    def _scores(self, seen: Floats) -> dict[str, Floats]:
        count, steps = self.canaries, self._steps.difference
        unit = steps.first_norm / (steps.sampling_rate * steps.rows)
        along, public = seen[:, :count] / unit, seen[:, count : 2 * count] / unit
        drawn = public > _BEYOND / 2
        noise, rate = steps.gradient_noise(), steps.sampling_rate
        times = np.maximum(drawn.sum(axis=0), 1)
        return {
            PROJECTION: log_likelihood(along, rate, noise, steps.relation),
            SPREAD: along.var(axis=0),
            LENGTH: np.full(count, np.linalg.norm(along, axis=1).sum()),
            DRAWN: (along * drawn).sum(axis=0) / np.sqrt(times),
        }


def attribute_trial(
    name: str, privacy: AttributeSteps, charged: PrivacyEvent, *, delta: float
) -> AuditTrial:
    """Training that protects declared columns of a row, against what is charged for these."""

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        steps = privacy.difference
        less = replace(steps, noise_multiplier=steps.noise_multiplier / 2)
        tried = replace(privacy, difference=less) if halved else privacy
        return (
            AttributeCanaries(tried, "many rows", MANY),
            AttributeCanaries(tried, "few rows", FEW),
        )

    return AuditTrial(name, charged, arrangements, delta)
