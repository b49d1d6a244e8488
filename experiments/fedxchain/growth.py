"""More parties, drop-outs, attackers among many, and the price of private mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from benchmarks.harness import Figure, write

from experiments.fedxchain.attackers import ATTACKS
from experiments.fedxchain.kept import Kept
from experiments.fedxchain.robustness import shared
from experiments.fedxchain.setting import (
    BREAST_CANCER,
    LARGE,
    Case,
    Change,
    Outcome,
    averaged,
    trusted,
    verified,
)
from experiments.fedxchain.statistics import Interval
from voile.pipelines.facts import classifier_training
from voile.pipelines.trusted_averaging import TrustRule

EPSILONS = (1.0, 2.0, 8.0)
DROPPED = 0.2
ATTACKED = 100
"""Parties at most among which attackers are tried out."""


class Unsteady:
    """A party that is away in some rounds, drawn beforehand."""

    def __init__(self, node: object, seed: int) -> None:
        self._node = node
        self.name: str = node.name  # type: ignore[attr-defined]
        self._seed = seed

    def handle(self, message: object) -> object:
        number = getattr(message, "round", 1)
        draw = np.random.default_rng([self._seed, number, *self.name.encode()])
        if draw.random() < DROPPED:
            raise ConnectionError("away")
        return self._node.handle(message)  # type: ignore[attr-defined]


def private(case: Case, epsilon: float | None, *, measured: bool = False) -> Outcome:
    """By the frozen rule of private training; its twin without noise, where epsilon is None."""
    training = classifier_training(case.facts, hidden=())
    make = verified if measured else trusted
    return make(case, epsilon=epsilon, training=training)


def write_growth(kept: Kept, seeds: Sequence[int], name: str, *, most: int = 500) -> None:
    figures = [*many(kept, seeds, most), *away(kept, seeds), *price(kept, seeds, LARGE)]
    write(
        name,
        "accuracy on rows held out; the peer is named in the line",
        figures,
        seed=list(seeds),
        command="python -m experiments.fedxchain growth",
        setting="synthetic set of 20,000 rows, alpha 0.5 (500 parties: of equal size), 10 rounds; "
        "noise seeded: utility only",
    )


def many(kept: Kept, seeds: Sequence[int], most: int) -> list[Figure]:
    found = []
    attack = next(each for each in ATTACKS if each.name == "label flipping")
    for count in (count for count in (10, 100, 500) if count <= most):
        cases = [Case(LARGE, seed=seed, clients=count) for seed in seeds]
        mine = [kept.run(case, "trusted", trusted) for case in cases]
        other = [kept.run(case, "FedAvg", averaged) for case in cases]
        found.append(_pair(f"{count} parties: trusted against FedAvg", mine, other))
        if count > ATTACKED:
            continue
        sound = [kept.run(case, "measured", verified) for case in cases]
        bad = [
            kept.run(
                case,
                "measured, label flipping",
                lambda c: verified(c, change=attack.change(c, TrustRule())),
            )
            for case in cases
        ]
        same = float(np.mean([shared(a, b) for a, b in zip(bad, sound, strict=True)]))
        what = f"{count} parties, 30 % flip labels: measured trust against no attack"
        found.append(_pair(f"{what} ({same:.1f} of 5 features)", bad, sound))
    return found


def away(kept: Kept, seeds: Sequence[int]) -> list[Figure]:
    cases = [Case(LARGE, seed=seed, clients=100) for seed in seeds]
    steady = [kept.run(case, "trusted", trusted) for case in cases]

    def unsteady(case: Case) -> Outcome:
        return trusted(case, change=Change(node=lambda node: Unsteady(node, case.seed)))

    runs = [kept.run(case, f"trusted, {DROPPED} away", unsteady) for case in cases]
    return [_pair("100 parties, each away in 20 % of rounds, against none away", runs, steady)]


def write_price(kept: Kept, seeds: Sequence[int], name: str) -> None:
    """The same where parties have forty rows each, instead of 1,600."""
    write(
        name,
        "accuracy on rows held out; the peer is the same training without noise",
        price(kept, seeds, BREAST_CANCER),
        seed=list(seeds),
        command="python -m experiments.fedxchain price",
        setting="breast cancer, alpha 0.5, 10 rounds; noise seeded: utility only",
    )


def price(kept: Kept, seeds: Sequence[int], data: str) -> list[Figure]:
    cases = [Case(data, seed=seed) for seed in seeds]
    found = []
    for way, measured in (("reported", False), ("measured", True)):
        plain = [
            kept.run(
                case,
                f"trusted, {way}, without noise",
                lambda c, m=measured: private(c, None, measured=m),  # type: ignore[misc]
            )
            for case in cases
        ]
        for epsilon in EPSILONS:
            runs = [
                kept.run(
                    case,
                    f"trusted, {way}, epsilon {epsilon}",
                    lambda c, e=epsilon, m=measured: private(c, e, measured=m),  # type: ignore[misc]
                )
                for case in cases
            ]
            what = f"10 parties, trust {way}, ({epsilon:g}, 1e-5) for each row, against no noise"
            found.append(_pair(what, runs, plain))
    return found


def _pair(what: str, runs: Sequence[Outcome], other: Sequence[Outcome]) -> Figure:
    apart = Interval.of([100 * (a.final - b.final) for a, b in zip(runs, other, strict=True)])
    now, before = (100 * float(np.mean([r.final for r in each])) for each in (runs, other))
    unit = f"%, {apart.mean:+.2f} ± {apart.half:.2f} points"
    return Figure(what, unit, now, before, now / before)
