"""What 30 % attackers of each kind do to each configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from benchmarks.harness import Figure, write

from experiments.fedxchain.attackers import ATTACKS, BACKDOOR, SHARE, Attack
from experiments.fedxchain.kept import Kept
from experiments.fedxchain.setting import (
    BREAST_CANCER,
    HONEST,
    SYNTHETIC,
    Case,
    Change,
    Outcome,
    averaged,
    trusted,
    verified,
)
from voile.federation import CentredClipping, CoordinateMedian, Krum, TrimmedMean
from voile.pipelines.trusted_averaging import DivergenceMeasure, TrustRule

Way = Callable[[Case, Change], Outcome]
REPORTED: Final = TrustRule()
BOUNDED: Final = TrustRule(tau=1.4, divergence=DivergenceMeasure.JENSEN_SHANNON)
WAYS: Final[Mapping[str, tuple[TrustRule, Way]]] = {
    "FedAvg": (REPORTED, lambda case, change: averaged(case, change=change)),
    "trust, reported": (REPORTED, lambda c, change: trusted(c, rule=REPORTED, change=change)),
    "trust, reported, Jensen-Shannon": (
        BOUNDED,
        lambda case, change: trusted(case, rule=BOUNDED, change=change),
    ),
    "trust, measured": (REPORTED, lambda case, change: verified(case, change=change)),
    "median": (
        REPORTED,
        lambda case, change: averaged(case, aggregator=CoordinateMedian(), change=change),
    ),
    "trimmed mean": (
        REPORTED,
        lambda case, change: averaged(case, aggregator=TrimmedMean(0.3), change=change),
    ),
    "Krum": (REPORTED, lambda case, change: averaged(case, aggregator=Krum(3), change=change)),
    "centred clipping": (
        REPORTED,
        lambda case, change: averaged(case, aggregator=CentredClipping(), change=change),
    ),
}
IN_SECRET: Final = {"FedAvg", "trust, reported", "trust, reported, Jensen-Shannon"}
"""What works with a secure sum; all others need to see single updates."""
OFFERED: Final = "trust, measured"
"""The configuration that is meant to withstand all of them."""
LEFT_OUT: Final = "attackers left out"
MOST_LOST, LEAST_SHARED = 3.0, 4.0


class Gone:
    """A party that never answers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle(self, message: object) -> object:
        raise ConnectionError(f"gone: {type(message).__name__}")


def without(case: Case) -> Change:
    """The best that any defence could do: the attackers are known and left out."""
    bad = set(sorted(case.parties)[: max(1, round(SHARE * len(case.parties)))])
    return Change(node=lambda node: Gone(node.name) if node.name in bad else node)


def shared(first: Outcome, second: Outcome) -> int:
    """Of the five most important features of one, those among the five of the other."""
    tops = [set(np.argsort(run.importance)[-5:].tolist()) for run in (first, second)]
    return len(tops[0] & tops[1])


def write_robustness(kept: Kept, seeds: Sequence[int], name: str) -> None:
    figures: list[Figure] = []
    withstood: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for data in (SYNTHETIC, BREAST_CANCER):
        for way, (rule, run) in WAYS.items():
            cases = [Case(data, seed=seed) for seed in seeds]
            sound = [kept.run(case, way, lambda c, r=run: r(c, HONEST)) for case in cases]  # type: ignore[misc]
            for attack in ATTACKS:
                figure, held = under(
                    kept, cases, sound, attack, way, rule, run, aimed=way == OFFERED
                )
                figures.append(figure)
                withstood.setdefault((data, attack.name), []).append((way, held))
        figures.append(_best(kept, [Case(data, seed=seed) for seed in seeds], data))
    write(
        name,
        "accuracy under attack; the peer is the same configuration without attackers",
        figures,
        seed=list(seeds),
        command="python -m experiments.fedxchain robustness",
        setting="3 of 10 parties attack, alpha 0.5, 10 rounds, logistic regression, "
        f"tau {REPORTED.tau}, 60 public rows",
        withstand={
            f"{data}: {attack}": [way for way, held in ways if held]
            for (data, attack), ways in withstood.items()
        },
    )


def under(
    kept: Kept,
    cases: Sequence[Case],
    sound: Sequence[Outcome],
    attack: Attack,
    way: str,
    rule: TrustRule,
    run: Way,
    *,
    aimed: bool,
) -> tuple[Figure, bool]:
    """One attack on one configuration, and whether it held; a target where it is meant to."""
    runs = [
        kept.run(case, f"{way}, {attack.name}", lambda c: run(c, attack.change(c, rule)))
        for case in cases
    ]
    figure = compared(f"{cases[0].data}: {attack.name}, {way}", runs, sound)
    lost = 100 * float(np.mean([b.final - a.final for a, b in zip(runs, sound, strict=True)]))
    held = lost <= MOST_LOST and kept_features(runs, sound) >= LEAST_SHARED
    unit = figure.unit
    if attack.name == BACKDOOR:
        rate = float(np.mean([r.backdoor for r in runs if r.backdoor is not None]))
        unit += f", trigger works {100 * rate:.0f} %"
    where = "" if way in IN_SECRET else " (in clear)"
    target = f"at most {MOST_LOST:g} points and at least {LEAST_SHARED:g} features"
    return replace(
        figure,
        what=f"{figure.what}{where}",
        unit=unit,
        target=target if aimed else None,
        met=held if aimed else None,
    ), held


def _best(kept: Kept, cases: Sequence[Case], data: str) -> Figure:
    sound = [kept.run(case, "FedAvg", lambda c: averaged(c)) for case in cases]
    runs = [kept.run(case, LEFT_OUT, lambda c: averaged(c, change=without(c))) for case in cases]
    return compared(f"{data}: {LEFT_OUT}, FedAvg", runs, sound)


def compared(what: str, runs: Sequence[Outcome], sound: Sequence[Outcome]) -> Figure:
    """Accuracy beside that of other runs, and how many of the five top features both have."""
    now, before = (100 * float(np.mean([r.final for r in each])) for each in (runs, sound))
    apart = round(now - before, 1) + 0.0  # never −0.0
    unit = f"%, {apart:+.1f} points, {kept_features(runs, sound):.1f} of 5 features"
    return Figure(what, unit, now, before, now / before)


def kept_features(runs: Sequence[Outcome], sound: Sequence[Outcome]) -> float:
    """Of the five most important ones, on average over seeds."""
    return float(np.mean([shared(a, b) for a, b in zip(runs, sound, strict=True)]))
