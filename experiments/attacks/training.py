"""Attacks on training: membership by outputs and by explanations, rows read from gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.attacks.explanations import DELTA, ON
from experiments.lib.attacks.findings import AttackFinding
from experiments.lib.attacks.gradient_leakage import (
    gradient,
    read_exactly,
    row_of_gradient,
    rows_of_staggered,
    staggered,
)
from experiments.lib.attacks.membership import likelihood_ratios
from experiments.lib.datasets import loaders
from experiments.private_background.setting import Array
from voile.assess.members_count import area_under_curve
from voile.assess.training_canaries import GradientRecorder
from voile.attribution import ExactShapley
from voile.core.guarantee import Relation
from voile.models import Box, wrap
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.training import Perceptron, PlainSteps, TargetLoss, perceptron
from voile.training.private import Adam, PrivateSteps, fit_privately

CANDIDATES, SHADOWS = 200, 32
STEPS, RATE = 60, 0.25
EPSILON = 2.0
EXPLAINED = 60


@dataclass(frozen=True, eq=False)
class Trained:
    """Small networks on a hundred rows of the census: overfitted, so that there is much to find."""

    records: TableRecords

    @classmethod
    def dutch(cls) -> Trained:
        data = loaders.dutch_census()
        chosen = np.random.default_rng(3).permutation(len(data))[:1_000]
        return cls(TableRecords.from_dataset(data).only(chosen))

    @cached_property
    def head(self) -> OutputHead:
        return OutputHead.of_label(self.records.schema)

    @property
    def loss(self) -> TargetLoss:
        return TargetLoss(self.head.head)

    def fresh(self) -> Perceptron:
        width, outputs = self.records.columns.shape[1], len(self.head.names)
        return perceptron(width, (64,), outputs, np.random.default_rng(0))

    def batch(self, places: NDArray[np.intp]) -> tuple[NDArray[Any], ...]:
        return self.records.columns[places], self.records.targets[places]

    def plain(self, places: NDArray[np.intp]) -> Perceptron:
        network = self.fresh()
        steps = PlainSteps(network, self.loss, Adam(0.02))
        for _ in range(10 * STEPS):
            steps.step(self.batch(places))
        return network

    def private(self, places: NDArray[np.intp]) -> Perceptron:
        network = self.fresh()
        fit_privately(network, self.batch(places), self.loss, self.steps(len(places)),
                      optimiser=Adam(0.02))  # fmt: skip
        return network

    def steps(self, rows: int) -> PrivateSteps:
        noise = dp_sgd_noise(
            [NoisyStage(RATE, STEPS)], epsilon=EPSILON, delta=DELTA, relation=Relation.BLANK_ONE
        )
        return PrivateSteps(
            clipping_norm=0.5, noise_multiplier=noise, sampling_rate=RATE, steps=STEPS, rows=rows
        )

    def model(self, network: Perceptron) -> NetworkModel:
        return NetworkModel(self.records.schema, self.head, network)


def by_outputs(trained: Trained) -> Callable[[Perceptron], Array]:
    """The logit of each row's own class, as LiRA has it."""

    def score(network: Perceptron) -> Array:
        rows = trained.records.only(np.arange(CANDIDATES))
        own = (trained.model(network).of_columns(rows.columns) * rows.targets).sum(axis=1)
        sure = np.clip(own.astype(np.float64), 1e-6, 1 - 1e-6)
        return np.asarray(np.log(sure / (1 - sure)))

    return score


def by_explanations(trained: Trained) -> Callable[[Perceptron], Array]:
    """The Shapley values of each row over three other rows."""

    def score(network: Perceptron) -> Array:
        model = trained.model(network)
        wrapped = wrap(lambda rows: model.predict(rows)[:, -1], outputs=Box(0, 1), digest="x")
        schema, rows = trained.records.schema, trained.records.rows
        explainer = ExactShapley(wrapped, rows[CANDIDATES : CANDIDATES + 3], schema=schema)
        return explainer(rows[:EXPLAINED]).values[:, :, 0]

    return score


def membership(trained: Trained, what: str, score: Any, rows: int) -> AttackFinding:
    """LiRA on one target model for each of a few seeds, plain and private."""
    areas: dict[str, list[float]] = {"plain": [], "private": []}
    for how, found in areas.items():
        for seed in range(3):
            train = getattr(trained, how)
            ratios, inside = likelihood_ratios(train, score, rows, shadows=SHADOWS, seed=seed)
            found.append(area_under_curve(ratios[inside], ratios[~inside]))
        print(what, how, found, flush=True)
    return AttackFinding(
        attack=f"membership of training rows by {what} (LiRA, {SHADOWS} models of one's own)",
        measure="area under the curve",
        plain=float(np.mean(areas["plain"])),
        protected=float(np.mean(areas["private"])),
        blind=0.5,
        release="a network of 64 units, trained on about half of the rows",
        epsilon=EPSILON,
        delta=DELTA,
        rows=rows // 2,
        trials=3,
        on=ON,
    )


# --- gradients ------------------------------------------------------------------------------------


def noisy_gradient(trained: Trained, network: Perceptron, places: NDArray[np.intp]) -> Any:
    """One step of the private training, as it leaves a client."""
    recorder = GradientRecorder()
    steps = replace(trained.steps(len(places)), steps=1, sampling_rate=1.0)
    fit_privately(network, trained.batch(places), trained.loss, steps, optimiser=recorder)
    return recorder.gradients[0].astype(np.float32)


def gradients(trained: Trained) -> list[AttackFinding]:
    draw, columns = np.random.default_rng(4), trained.records.columns
    width, outputs = columns.shape[1], len(trained.head.names)
    open_network = trained.fresh()
    open_network.layers[-1].weight[:] = draw.normal(size=open_network.layers[-1].weight.shape)
    direction = np.asarray(draw.normal(size=width), dtype=np.float32)
    levels = np.linspace(0, 0.998, 512)
    cuts = np.asarray(np.quantile(columns[500:] @ direction, levels), dtype=np.float32)
    sent = staggered(width, 512, outputs, cuts, direction)

    def single(flat: Any) -> Any:
        return row_of_gradient(open_network, flat)[np.newaxis]

    def several(flat: Any) -> Any:
        return rows_of_staggered(sent, flat)

    cases = [
        ("one row, closed form", open_network, single, 1, 1),
        ("8 rows, a malicious server", sent, several, 8, 1),
        ("64 rows, a malicious server", sent, several, 64, 1),
        ("8 rows each of 8 clients, a malicious server that sees their sum", sent, several, 8, 8),
    ]
    return [_read(trained, *case) for case in cases]


def _read(
    trained: Trained, what: str, network: Perceptron, read: Any, rows: int, clients: int
) -> AttackFinding:
    draw, trials = np.random.default_rng(5), 50
    shares: dict[str, list[float]] = {"plain": [], "noisy": []}
    for _ in range(trials):
        places = draw.choice(500, rows * clients, replace=False)
        mine = np.split(places, clients)
        seen = {
            "plain": [gradient(network, trained.loss, trained.batch(each)) for each in mine],
            "noisy": [noisy_gradient(trained, network, each) for each in mine],
        }
        for how, found in seen.items():
            shares[how].append(read_exactly(read(sum(found)), trained.records.columns[places]))
    return AttackFinding(
        attack=f"rows read from gradients: {what}",
        measure="share read exactly",
        plain=float(np.mean(shares["plain"])),
        protected=float(np.mean(shares["noisy"])),
        blind=0.0,
        release="one step of DP-SGD, of 60",
        epsilon=EPSILON,
        delta=DELTA,
        rows=rows * clients,
        trials=trials,
        on=ON,
    )
