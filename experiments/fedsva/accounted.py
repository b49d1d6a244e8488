"""Ours: the same federation under one account, with a total that is fixed beforehand.

Every client takes part in every round with one step over all its rows: per-row clipping, noise from
the account, updates averaged with public weights. Rows of different clients are different people,
so a client's own total is everybody's. What the server sees of each client is covered.

Noise is seeded here, as everywhere in experiments: these runs have the noise of the guarantee, and
are not one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from experiments.fedsva.data import Federation
from experiments.fedsva.published import Trained
from experiments.lib.adapted_norm import AdaptedNorm, fit_with_adapted_norm
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.training import Perceptron, Softmax, TargetLoss
from voile.training.private import (
    AttributeSteps,
    PrivateColumns,
    PrivateSteps,
    Sgd,
    fit_attributes_privately,
    fit_privately,
)

DELTA: Final = 1e-5
Schedule = Callable[[int], NDArray[np.float64]]
"""Noise of each of so many rounds, relative to the others."""


@dataclass(frozen=True)
class Plan:
    """What was chosen on other data.

    Args:
        rounds, norm, rate: of clients' steps; one step a round.
        adapted: the norm follows the median gradient, at a price that is part of the event.
    """

    rounds: int
    norm: float
    rate: float
    adapted: bool = False


def even(rounds: int) -> NDArray[np.float64]:
    return np.ones(rounds)


def geometric(rounds: int) -> NDArray[np.float64]:
    """The sound counterpart of time-varying noise: amplitudes fall to a quarter."""
    return np.geomspace(1, 1 / 4, rounds)


def growing(rounds: int) -> NDArray[np.float64]:
    """The sound counterpart of dynamic allocation: precision grows with the square root."""
    return 1 / np.sqrt(np.arange(1, rounds + 1))


SCHEDULES: Final[dict[str, Schedule]] = {
    "even": even,
    "falling amplitude": geometric,
    "growing precision": growing,
}


def multipliers(epsilon: float, plan: Plan, schedule: Schedule = even) -> NDArray[np.float64]:
    """Noise multiplier of each round; all rounds together cost (epsilon, 1e-5) a row."""
    shares = schedule(plan.rounds)
    stages = [NoisyStage(1.0, 1, float(share)) for share in shares]
    if schedule is even:
        stages = [NoisyStage(1.0, plan.rounds)]
    relation = Relation.BLANK_ONE
    return shares * dp_sgd_noise(stages, epsilon=epsilon, delta=DELTA, relation=relation)


@dataclass(frozen=True, eq=False)
class Fleet:
    """What each client does in a round.

    Args:
        noise: (rounds, clients) noise multipliers.
        weights: (clients,) of the average, public.
        columns: private columns, where only these are protected.
        start: the parameters to begin with, flat; zeros if absent.
    """

    noise: NDArray[np.float64]
    weights: NDArray[np.float64]
    columns: PrivateColumns | None = None
    start: NDArray[np.float32] | None = None

    @classmethod
    def alike(
        cls, noise: NDArray[np.float64], clients: int, columns: PrivateColumns | None = None
    ) -> Fleet:
        return cls(np.repeat(noise[:, None], clients, axis=1), np.ones(clients) / clients, columns)

    @classmethod
    def levelled(cls, noise: NDArray[np.float64], *, by_precision: bool) -> Fleet:
        """Weights ∝ 1/z², or alike for clients of one size."""
        weights = noise[0] ** -2.0 if by_precision else np.ones(noise.shape[1])
        return cls(noise, weights / weights.sum())


def train(data: Federation, fleet: Fleet, plan: Plan, seed: int) -> Trained:
    """The mean of the models of the second half of the rounds: after noise, averaging is free."""
    found, start = Trained(), time.process_time()
    source = Seeded(seed)
    targets = np.eye(data.classes, dtype=np.float32)[data.y]
    widths = (data.x.shape[2], data.classes)
    values = np.zeros((widths[0] + 1) * widths[1], dtype=np.float32)
    if fleet.start is not None:
        values[:] = fleet.start
    later, norms = np.zeros_like(values), np.full(len(data.x), plan.norm)
    for number, noise in enumerate(fleet.noise):
        total = np.zeros_like(values)
        for client, weight in enumerate(fleet.weights):
            network = Perceptron(widths, values.copy())
            records = (data.x[client], targets[client])
            steps = _steps(float(norms[client]), float(noise[client]), data.rows)
            norms[client] = _fit(network, records, steps, fleet.columns, plan, source)
            total += np.float32(weight) * network.values
        values = total
        if number >= plan.rounds // 2:
            later += values / (plan.rounds - plan.rounds // 2)
        found.accuracy.append(_right(widths, values, data).mean().item())
    right = _right(widths, later, data)
    found.accuracy.append(float(right.mean()))
    found.private_accuracy = float(right[data.private_test].mean())
    found.seconds = time.process_time() - start
    return found


def _steps(norm: float, noise: float, rows: int) -> PrivateSteps:
    return PrivateSteps(
        clipping_norm=norm, noise_multiplier=noise, sampling_rate=1.0, steps=1, rows=rows
    )


def _fit(
    network: Perceptron,
    records: tuple[NDArray[np.float32], NDArray[np.float32]],
    steps: PrivateSteps,
    columns: PrivateColumns | None,
    plan: Plan,
    source: Seeded,
) -> float:
    """One step; the norm of the next one."""
    loss, optimiser = TargetLoss(Softmax()), Sgd(plan.rate)
    if plan.adapted:
        adapted = AdaptedNorm(steps.clipping_norm, count_noise=2 * steps.noise_multiplier)
        return fit_with_adapted_norm(
            network, records, loss, steps, adapted, optimiser=optimiser, source=source
        )
    if columns is None:
        fit_privately(network, records, loss, steps, optimiser=optimiser, source=source)
    else:
        attributes = AttributeSteps(difference=steps)
        fit_attributes_privately(
            network, records, loss, columns, attributes, optimiser=optimiser, source=source
        )
    return steps.clipping_norm


def _right(
    widths: tuple[int, int], values: NDArray[np.float32], data: Federation
) -> NDArray[np.bool_]:
    said = Perceptron(widths, values)(data.test_x).argmax(axis=1)
    return np.asarray(said == data.test_y)


def for_attributes(data: Federation, epsilon: float, plan: Plan, without: Trained) -> Fleet:
    """Private columns are protected, nothing else, so training begins with the model that was
    trained without them: it knows nothing of what is protected."""
    columns = PrivateColumns(data.private, data.blank)
    weights = np.array(without.weights, dtype=np.float32)
    start = np.concatenate([weights[:-1].T.ravel(), weights[-1]])
    return replace(Fleet.alike(multipliers(epsilon, plan), len(data.x), columns), start=start)
