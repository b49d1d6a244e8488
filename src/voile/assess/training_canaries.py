"""A DP-SGD stage, audited: canaries with known gradients through the node that trains on rows.

Walked is what production walks: `Client`, its randomness, the stage's `NetworkTask`,
`fit_privately`. Invented are the records and what they teach. A network over a table would see
canaries only through the schema, which leaves little of them; so the objective is one whose
gradients are known, and the optimiser writes down every noisy gradient instead of moving anything.
All of that is covered by the event: it holds for every loss, and for all steps together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.assess.assessment import Arrangement, AuditTrial, TrialResult, fair_coins
from voile.assess.betting import Floats
from voile.assess.claims import group_size
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.federation.arrays import Arrays
from voile.federation.client import Client, NoGuard
from voile.federation.messages import Instruction
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import TrainingBatches
from voile.privacy.events import PrivacyEvent
from voile.training import Array, Batch, Perceptron, arrays_of, perceptron
from voile.training.optimisers import Move, Optimiser
from voile.training.private import PerceptronSum, PrivateSteps
from voile.training.private.attributes import (
    AttributeSteps,
    PrivateColumns,
    fit_attributes_privately,
)

MANY, FEW, LINES = 300, 4, 16
MOST_TOGETHER: Final = 8
AT_ONCE: Final = 4
"""Runs of one play."""
INPUTS: Final = 256
"""At least; noise falls on those that no canary uses as well, and its length is seen more exactly.
"""
PROJECTION, SPREAD, LENGTH = "projection", "spread over steps", "length of noise"
SCORES: Final = (PROJECTION, SPREAD, LENGTH)
LONG: Final = 1000.0
"""Length of a canary's input: its gradient in the bias, which all canaries share, is one part in
so many."""
_BEYOND: Final = 8.0
"""How many clipping norms long its gradient is before it is clipped."""
_STAGE: Final = "trial"


class SlopeLoss:
    """A loss with a gradient that is known beforehand. Batch: inputs, slopes."""

    def inputs(self, batch: Batch) -> Array:
        return batch[0]

    def values(self, logits: Array, batch: Batch) -> Array:
        found: Array = (self.slopes(logits, batch) * logits).reshape(len(logits), -1).sum(axis=1)
        return found

    def slopes(self, logits: Array, batch: Batch) -> Array:
        slopes: Array = batch[1].reshape(-1, *(1,) * (logits.ndim - 1))
        return np.broadcast_to(slopes, logits.shape).astype(np.float32)


@dataclass(frozen=True, eq=False)
class CanaryObjective:
    """What canaries teach: nothing, along directions of their own.

    Args:
        width: inputs of the network.
        lines: how many lines a record shows in each step, as with coalitions.
    """

    width: int
    lines: int
    answers: int = 1

    def batches(
        self,
        records: Any,
        given: Arrays,  # noqa: ARG002
        draw: np.random.Generator,  # noqa: ARG002
    ) -> TrainingBatches:
        several = None if self.lines == 1 else self._repeated
        return TrainingBatches(records, several, SlopeLoss())

    def _repeated(self, batch: Batch) -> Batch:
        return np.repeat(batch[0][:, np.newaxis], self.lines, axis=1), batch[1]

    def evaluate(self, network: Perceptron, given: Arrays, records: Any) -> Mapping[str, float]:  # noqa: ARG002
        raise InvalidInput("nothing is measured in a trial")


class GradientRecorder:
    """An optimiser that writes down every noisy gradient, and moves nothing."""

    def __init__(self) -> None:
        self._seen: list[Array] = []

    def bind(self, parameters: Array) -> Move:  # noqa: ARG002
        self._seen = []

        def move(gradient: Array, share: float = 1.0) -> None:  # noqa: ARG001
            self._seen.append(gradient.copy())

        return move

    @property
    def gradients(self) -> Floats:
        """Of the last run, (steps, parameters)."""
        return np.stack(self._seen).astype(np.float64)


@dataclass(frozen=True)
class RecordedTraining(Training):
    """The training of a stage with the recorder for an optimiser."""

    recorder: GradientRecorder = field(default_factory=GradientRecorder)

    def optimiser(self, number: int) -> Optimiser:  # noqa: ARG002
        return self.recorder


@dataclass(frozen=True, eq=False)
class TrainingCanaries:
    """Canaries in one client's training, or next to another client that has none.

    Args:
        task: the stage as it is charged.
        name: of the arrangement.
        canaries: how many coins there are.
        hidden: widths of hidden layers.
        lines: of each record.
        beside_another: look at the difference to the update of a second client, all of whose
            records are null.
        together: how many records each coin decides on, which are all alike.
        runs: of one play.
        in_the_bias: the gradient of a canary lies in the bias, which all of them share.
    """

    task: NetworkTask
    name: str
    canaries: int
    hidden: tuple[int, ...] = ()
    lines: int = 1
    beside_another: bool = False
    together: int = 1
    runs: int = 1
    in_the_bias: bool = False
    score_names: tuple[str, ...] = SCORES

    def play(self, draw: np.random.Generator) -> TrialResult:
        inside = fair_coins(draw, self.runs, self.canaries)
        found = [self._scores(self._seen(coins)) for coins in inside]
        return TrialResult(
            inside, {name: np.stack([each[name] for each in found]) for name in self.score_names}
        )

    # --- what is run ----------------------------------------------------------------------------

    @cached_property
    def _network(self) -> Perceptron:
        """Where every run begins; public."""
        draw = np.random.default_rng(0)
        network = perceptron(self._inputs, self.hidden, 1, draw)
        if self.hidden:  # a last layer of zeros would let nothing through to those before it
            last = network.layers[-1].weight
            last[:] = draw.uniform(-1, 1, last.shape) / len(last.T)
        return network

    @property
    def _inputs(self) -> int:
        return max(self.canaries, INPUTS)

    @property
    def _size(self) -> int:
        """How many records there are."""
        return self.canaries * self.together

    @cached_property
    def _audit_trials(self) -> NetworkTask:
        settings = {n: getattr(self.task.training, n) for n in Training.__dataclass_fields__}
        training = RecordedTraining(**{**settings, "hidden": self.hidden})
        return replace(
            self.task, objective=CanaryObjective(self._inputs, self.lines), training=training
        )

    @cached_property
    def _steps(self) -> PrivateSteps:
        steps = self._audit_trials.steps(self._size)
        assert steps is not None
        return steps

    def _records(self, signs: Floats) -> Batch:
        """+1: the canary; 0: the null record; −1: its opposite. NaN: no record at all."""
        places = np.arange(len(signs)) % self.canaries
        inputs = np.eye(self.canaries, self._inputs, dtype=np.float32)[places] * np.float32(LONG)
        length = LONG
        if self.in_the_bias:
            inputs, length = 0 * inputs, 1.0
        inputs[signs == 0] = np.nan
        slopes = (-signs * _BEYOND * self._steps.clipping_norm / length).astype(np.float32)
        there = ~np.isnan(signs)
        return inputs[there], slopes[there]

    def _signs(self, coins: NDArray[np.bool_]) -> Floats:
        other = {
            Relation.BLANK_ONE: 0.0,
            Relation.REPLACE_ONE: -1.0,
            Relation.ADD_OR_REMOVE_ONE: np.nan,
        }[self.task.relation]
        return np.tile(np.where(coins, 1.0, other), self.together)

    def _seen(self, coins: NDArray[np.bool_]) -> Floats:
        """All noisy gradients of a run, and what was sent besides."""
        found = self._gradients("first client", self._signs(coins))
        if not self.beside_another:
            return found
        return found - self._gradients("second client", np.zeros(self._size))

    def _gradients(self, client: str, signs: Floats) -> Floats:
        task = self._audit_trials
        node = Client(client, self._size, self._records(signs), {_STAGE: task}, NoGuard())
        sent = node.answer(Instruction(_STAGE, 1, arrays_of(self._network))).arrays
        assert isinstance(task.training, RecordedTraining)
        # Nothing was moved, so the change that is sent is zero: all was written down.
        besides = np.concatenate([change.ravel() for change in sent.values()])
        return np.concatenate([task.training.recorder.gradients, besides[np.newaxis]])

    # --- what an attacker makes of it -----------------------------------------------------------

    @cached_property
    def _directions(self) -> Floats:
        """Of the clipped gradient of each canary, (canaries, parameters), of length 1."""
        sums, found = PerceptronSum(self._network, SlopeLoss()), []
        inputs, slopes = self._records(np.ones(self.canaries))
        for place in range(self.canaries):
            one = slice(place, place + 1)
            sums.add_up((inputs[one], slopes[one]), 1e6 * self._steps.clipping_norm)
            gradient = sums.total.astype(np.float64)
            found.append(gradient / np.linalg.norm(gradient))
        return np.stack(found)

    def _scores(self, seen: Floats) -> dict[str, Floats]:
        steps = self._steps
        unit = steps.clipping_norm / (steps.sampling_rate * steps.rows)
        along = seen @ self._directions.T / unit
        noise = steps.noise_multiplier * (2**0.5 if self.beside_another else 1)
        likely = log_likelihood(
            along, steps.sampling_rate, noise, self.task.relation, together=self.together
        )
        return gradient_scores(along, seen / unit, likely)


def gradient_scores(along: Floats, seen: Floats, likely: Floats) -> dict[str, Floats]:
    """What an attacker makes of noisy gradients.

    Args:
        along: the share of each canary in them, (steps, canaries).
        seen: all of them, in the same unit.
        likely: by `log_likelihood`.
    """
    length = np.linalg.norm(seen, axis=1).sum()
    return {
        PROJECTION: likely,
        SPREAD: along.var(axis=0),
        LENGTH: np.full(along.shape[1], length),
    }


def log_likelihood(
    along: Floats, rate: float, noise: float, relation: Relation, *, together: int = 1
) -> Floats:
    """The log-likelihood ratio of "in", if all is as it should be: the best test then.

    Args:
        together: how many records are in or out; in a step, each is drawn by itself.
    """
    drawn = np.arange(together + 1)
    chances = np.array(
        [math.comb(together, int(n)) * rate**n * (1 - rate) ** (together - n) for n in drawn]
    )

    def likelihood(moved: Floats) -> Floats:
        exponents = (moved[..., np.newaxis] - drawn / 2) * drawn / noise**2
        summed = (chances * np.exp(np.clip(exponents, -700, 700))).sum(axis=-1)
        found: Floats = np.log(summed).sum(axis=0)
        return found

    with np.errstate(divide="ignore"):
        both = likelihood(along) - (likelihood(-along) if relation is Relation.REPLACE_ONE else 0.0)
    return np.nan_to_num(both)


def stage_trial(
    name: str, task: NetworkTask, charged: PrivacyEvent | None = None, *, delta: float
) -> AuditTrial:
    """One participation in a stage that is trained with noise.

    Args:
        name: of the stage.
        task: what is trained, and how.
        charged: what a participation is charged, where something else charges it; else its cost.
        delta: at which epsilons are told.
    """
    event = task.cost(1) if charged is None else charged
    if event is None or task.noise_multiplier is None:
        raise InvalidInput(f"{name!r} is trained without noise: there is no claim to refute")
    hidden, together = task.training.hidden, group_size(event, MOST_TOGETHER)

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        noise = task.noise_multiplier or 0.0
        tried = partial(
            TrainingCanaries,
            replace(task, noise_multiplier=noise / 2) if halved else task,
            together=together,
        )
        return (
            tried(name="many records", canaries=MANY // together, runs=AT_ONCE),
            tried(name="few records, many lines each", canaries=FEW, lines=LINES, runs=AT_ONCE),
            # Slow: noise for all of its layers, which tells no more than that of one.
            tried(name="one record, the stage's own layers", canaries=1, hidden=hidden),
            tried(name="two clients", canaries=FEW, beside_another=True, runs=AT_ONCE),
            tried(name="one record, in the bias", canaries=1, in_the_bias=True, runs=AT_ONCE),
        )

    return AuditTrial(name, event, arrangements, delta, together)


# --------------------------------------------------------------------------------------------------
# Difference clipping, audited: canaries in the private columns of rows that anybody may know.
# Public columns are exact there, so each row has one that shows in which steps its public part was
# drawn. That must say nothing about the draws of the private part: whoever drew once for both
# would be found out by looking at the private part in just those steps.


MANY_ROWS: Final = 150
DRAWN: Final = "steps in which the public part was drawn"
_FAR_BEYOND: Final = 100.0
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
        slopes = np.full(count, _FAR_BEYOND * steps.clipping_norm / LONG, dtype=np.float32)
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
        unit = steps.clipping_norm / (steps.sampling_rate * steps.rows)
        along, public = seen[:, :count] / unit, seen[:, count : 2 * count] / unit
        drawn = public > _FAR_BEYOND / 2
        noise, rate = steps.noise_multiplier, steps.sampling_rate
        times = np.maximum(drawn.sum(axis=0), 1)
        return {
            **gradient_scores(along, along, log_likelihood(along, rate, noise, steps.relation)),
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
            AttributeCanaries(tried, "many rows", MANY_ROWS),
            AttributeCanaries(tried, "few rows", FEW),
        )

    return AuditTrial(name, charged, arrangements, delta)
