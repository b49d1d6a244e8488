"""How often do the 95 % intervals of released values hold the truth? Over 10^5 cases each.

    python -m experiments.private_background.coverage [cases]

Exact values: noise is all there is, and intervals should hold 95 %; a binomial test at 1e-6. The
noise of different values is independent, so every value is a case.

Sampled values (17 players): noise and sampling error, whose bound holds for every model, so
intervals hold more often than 95 %. A case is one player of one row under one draw of coalitions;
rows share the draw. The model adds up four games of four and five players, so that exact values are
known.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
from benchmarks.harness import Figure, write
from numpy.typing import NDArray
from scipy.stats import binomtest

from voile.attribution import ExactShapley
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.release import PUBLIC, PrivateBackgroundShapley

Array = NDArray[np.float64]
LEVEL = 1e-6
EPSILONS = (1.0, 9.0)
TEAMS = (range(0, 4), range(4, 8), range(8, 12), range(12, 17))
DRAW = np.random.default_rng(3)
BACKGROUND = DRAW.normal(size=(30, 17)).clip(-3, 3)
ROWS = DRAW.normal(size=(500, 17)).clip(-3, 3)


def team(rows: Array) -> Array:
    """The product of waves of all features: interactions of the highest order only."""
    found: Array = (1 + np.prod(np.sin(2 * rows), axis=1)) / 2
    return found


def model(rows: Array) -> Array:
    found: Array = np.mean([team(rows[:, list(which)]) for which in TEAMS], axis=0)
    return found


def released(players: int, epsilon: float, seed: int) -> PrivateBackgroundShapley:
    features = tuple(Feature(f"f{i}", Numbers(-3.0, 3.0)) for i in range(players))
    whole = model if players == 17 else team
    return PrivateBackgroundShapley(
        wrap(whole, outputs=Box(0, 1), digest="waves", treats_rows_independently=True),
        BACKGROUND[:, :players],
        schema=Schema("waves", features),
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "waves"),
        epsilon=epsilon,
        delta=1e-5,
        origins=[PUBLIC],
        pairs_a_player=1,
        seed=seed,
    )


def exact(cases: int) -> Figure:
    one = released(5, 1.0, 0)
    rows = ROWS[:, :5]
    truth = one.before_noise(rows)[:, :-1]
    held = done = 0
    while done < cases:
        drawn = one.draw(rows)
        inside = np.abs(drawn.values - truth) <= np.asarray(drawn.half_widths)
        take = min(cases - done, inside.size)
        held, done = held + int(inside.ravel()[:take].sum()), done + take
    p = float(binomtest(held, done, 0.95).pvalue)
    return Figure("exact values", "of cases", held / done, 0.95, None, "p ≥ 1e-6", p >= LEVEL)


def sampled(cases: int) -> list[Figure]:
    truth = np.concatenate(
        [
            ExactShapley(team, BACKGROUND[:, list(which)])(ROWS[:, list(which)]).values / len(TEAMS)
            for which in TEAMS
        ],
        axis=1,
    )[:, :, 0]
    seeds = cases // len(ROWS)
    held, alone = dict.fromkeys(EPSILONS, 0), dict.fromkeys(EPSILONS, 0)
    squares = 0.0
    for seed in range(seeds):
        chosen = np.arange(len(ROWS)), (np.arange(len(ROWS)) + seed) % 17
        found = released(17, 1.0, seed).before_noise(ROWS)[:, :-1, 0][chosen]
        squares += float(((found - truth[chosen]) ** 2).sum())
        for epsilon in EPSILONS:
            one = released(17, epsilon, seed)
            # As `draw` does, on one value of each row: the noise of the others is independent.
            stacked = one.sensitivity.stacked(len(ROWS))
            noise = replace(one.noise, sensitivity=stacked, shape=(len(ROWS),))
            gap = np.abs(noise.randomise(found) - truth[chosen])
            held[epsilon] += int((gap <= (one.preview().half_width or 0.0)).sum())
            alone[epsilon] += int((gap <= 1.959964 * one.noise.sigma).sum())
    count = seeds * len(ROWS)
    error, bound = float(np.sqrt(squares / count)), one.sampling.deviation
    figures = [Figure("17 players, sampling error and its bound", "", error, bound, error / bound)]
    for epsilon in EPSILONS:
        share, where = held[epsilon] / count, f"17 players from drawn coalitions, ε = {epsilon:g}"
        figures += [
            Figure(where, "of cases", share, 0.95, None, "at least 0.95", share >= 0.95),
            Figure(f"{where}, noise alone", "of cases", alone[epsilon] / count, 0.95, None),
        ]
    return figures


def main() -> int:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    start = time.time()
    figures = [exact(cases), *sampled(cases)]
    write(
        "private_background_coverage",
        "share of 95 % intervals that hold the exact value",
        figures,
        seed="0 to cases/500, one for each draw of coalitions",
        command=f"python -m experiments.private_background.coverage {cases}",
        cases=cases,
        level=LEVEL,
        seconds=round(time.time() - start),
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
