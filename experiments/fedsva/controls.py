"""What must be looked at beside Table 1: does R do anything, and would less have done?"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from benchmarks.harness import Figure, compare, write
from numpy.typing import NDArray

from experiments.fedsva import accounted
from experiments.fedsva.accounted import Fleet
from experiments.fedsva.data import ADULT, CIFAR, CLIENTS, MNIST, Federation, blanked, federation
from experiments.fedsva.frozen import OURS, PUBLISHED_NORM, PUBLISHED_RATE
from experiments.fedsva.published import (
    FEDAVG,
    FEDSVA,
    NBAFL_ONE,
    PRINTED_NORM,
    LocalRows,
    Setting,
    Trained,
    train,
    with_bias,
)
from experiments.fedsva.table import Runs, checksums, final_five, mean
from experiments.lib.datasets.partitions import evenly_by_label
from voile.pipelines.shapley_guided_noise import contribution_rate

LEVELS: Final = (0.2, 2.0)
"""Declared in public: the strict one and the weak one, half of the clients each."""
GUIDED, RANDOM, REVERSED = "guided by R", "random", "reversed"


def write_controls(runs: Runs) -> None:
    figures = [*same_seeds(runs), *printed_norm(runs), *left_out(runs), *levels(runs)]
    write(
        "fedsva_controls",
        "control, on rows held out",
        figures,
        seed=list(runs.seeds),
        command="python -m experiments.fedsva controls",
        data_checksum=checksums(),
        setting=f"as published: {runs.rounds} rounds, {len(runs.seeds)} runs of each, one with C = "
        "20; levels: balanced Dirichlet by digit, alpha 0.3, one run of each",
    )


def same_seeds(runs: Runs) -> list[Figure]:
    """FedSVA with R = 0, measured and 1, and the classic Gaussian, with the same noise drawn."""
    found = []
    for name in (MNIST, CIFAR):
        classic = runs.published(name, NBAFL_ONE, 0.2)
        none, whole = (runs.published(name, FEDSVA.rated(r), 0.2) for r in (0.0, 1.0))
        measured = runs.published(name, FEDSVA, 0.2)
        for label, made in (("R = 0", none), ("R measured", measured), ("R = 1", whole)):
            what = f"{name}, ε 0.2 a round: FedSVA, {label}; peer: NbAFL, L = 1"
            found.append(compare(what, "accuracy", final_five(made), final_five(classic)))
        sigmas = [mean([mean(run.sigma) for run in made]) for made in (whole, none)]
        what = f"{name}: noise at R = 1; peer: at R = 0"
        found.append(compare(what, "2C/rows", *sigmas, at_most=1.07))
        sigmas = [mean([mean(run.sigma) for run in made]) for made in (measured, classic)]
        what = f"{name}: noise at measured R; peer: NbAFL, L = 1"
        found.append(compare(what, "2C/rows", *sigmas))
        outside = mean([mean(run.outside[-20:]) for run in measured])
        what = f"{name}: R undefined or outside [0, 1], last 20 rounds"
        found.append(Figure(what, "of clients", outside, None, None))
    return found


def printed_norm(runs: Runs) -> list[Figure]:
    """C = 20 and a learning rate of 0.1, as printed; once."""
    once = Runs(runs.kept, runs.seeds[:1], runs.rounds)
    found = []
    for name, chance in ((MNIST, 0.1), (CIFAR, 0.1), (ADULT, 0.76)):
        made = once.published(name, FEDSVA, 0.2, norm=PRINTED_NORM, rate=0.1)
        what = f"{name}: FedSVA with the printed C = 20 and η = 0.1, ε 0.2; peer: largest class"
        found.append(compare(what, "accuracy", final_five(made), chance))
    return found


def without_attribute(runs: Runs) -> list[Trained]:
    """FedAvg on Adult without the private columns: no noise at all."""

    def make(seed: int) -> Trained:
        setting = Setting(0.2, runs.rounds, seed, PUBLISHED_NORM, PUBLISHED_RATE)
        return train(blanked(federation(ADULT)), FEDAVG, setting)

    return runs.kept.trained("left out", [ADULT, runs.rounds], runs.seeds, make)


def left_out(runs: Runs) -> list[Figure]:
    without, found = final_five(without_attribute(runs)), []
    for epsilon in (0.2, 0.5):
        guided = final_five(runs.published(ADULT, FEDSVA, epsilon))
        what = f"{ADULT}: FedSVA at ε {epsilon} a round; peer: FedAvg without the private columns"
        found.append(compare(what, "accuracy", guided, without))
    return found


def levels(runs: Runs) -> list[Figure]:
    """Half of the clients at 0.2 and half at 2, weights ∝ 1/z²: who gets which?"""
    made = {way: levelled(runs, way) for way in (GUIDED, RANDOM, REVERSED)}
    found = []
    for way in (GUIDED, REVERSED):
        for kind, of in (("all rows", _all), ("private rows", _private)):
            what = f"{MNIST}, digits unevenly spread, levels {way}: {kind}; peer: random levels"
            found.append(compare(what, "accuracy", of(made[way]), of(made[RANDOM])))
    return found


def _all(run: Trained) -> float:
    return run.accuracy[-1]


def _private(run: Trained) -> float:
    return run.private_accuracy


def levelled(runs: Runs, way: str) -> Trained:
    def make(seed: int) -> Trained:
        data = uneven(seed)
        order = np.argsort(contribution_rates(data))  # the largest R last
        if way == RANDOM:
            order = np.random.default_rng(seed).permutation(CLIENTS)
        strict = order[CLIENTS // 2 :] if way != REVERSED else order[: CLIENTS // 2]
        low, high = (accounted.multipliers(epsilon, OURS) for epsilon in LEVELS)
        noise = np.repeat(high[:, np.newaxis], CLIENTS, axis=1)
        noise[:, strict] = low[:, np.newaxis]
        return accounted.train(data, Fleet.levelled(noise, by_precision=True), OURS, seed)

    facts = [way, OURS.rounds, OURS.norm, OURS.rate]
    return runs.kept.trained("levels", facts, runs.seeds[:1], make)[0]


def uneven(seed: int) -> Federation:
    """The rows of MNIST by writer, dealt anew so that clients have different digits."""
    data = federation(MNIST)
    x, y = data.x.reshape(-1, data.x.shape[2]), data.y.ravel()
    parts = evenly_by_label(y, CLIENTS, alpha=0.3, seed=seed)
    rows = min(len(places) for places in parts.clients.values())
    places = np.stack([places[:rows] for places in parts.clients.values()])
    return replace(data, x=x[places], y=y[places])


def contribution_rates(data: Federation) -> NDArray[np.float64]:
    """R of each client with two groups, the utility of no group being 0; not charged, so these
    levels are as published."""
    own = LocalRows(data, with_bias(data.x), data.y, data.rows // 10)
    setting = Setting(0.2, 1, 0, PUBLISHED_NORM, PUBLISHED_RATE)
    start = np.zeros((data.x.shape[2] + 1, data.classes), dtype=np.float32)
    batches = own.batches(np.random.default_rng(0))
    worths = {
        groups: own.utility(own.fit(start, groups, batches, setting)[0])
        for groups in (frozenset({0}), frozenset({1}), frozenset({0, 1}))
    }

    def rate(client: int) -> float:
        return contribution_rate(lambda groups: float(worths[groups][client]), 2, 0)

    return np.array([rate(client) for client in range(len(data.x))])
