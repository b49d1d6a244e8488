"""Count useful answers: noise at most τ, for a grid of τ, Algorithm 2 and ours, replay off and on.

    python -m experiments.budget_allocation

Both give out a total of (1, 1e-5). Algorithm 2 subtracts epsilons; each of its answers gets the
analytic Gaussian noise of its (epsilon_t, 1e-5), which favours it (no delta is added up). Ours asks
a zero-concentrated filter opened at (1, 1e-5), planned for τ. τ is written as the epsilon whose
Gaussian noise at delta 1e-5 it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import ROOT, Figure, write

from experiments.budget_allocation.policies import (
    DAY,
    AllocationPolicy,
    DynamicAllocation,
    EqualVariance,
    Situation,
    UniformOverHorizon,
)
from experiments.budget_allocation.traces import Asked, TraceSettings, make_trace
from voile.privacy.accounting import ZeroConcentratedFilter
from voile.privacy.accounting.conversion import gaussian_noise_multiplier
from voile.privacy.allocation import Query
from voile.privacy.events import Gaussian

TOTAL, DELTA = 1.0, 1e-5
GRID = (0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01)
HEADLINES = (0.1, 0.01)
SEEDS = tuple(range(5))
SETTINGS = TraceSettings()
PICTURE = ROOT / "docs" / "budget-allocation.png"


def noises(
    policy: AllocationPolicy, trace: Sequence[Asked], *, filtered: bool, replay: bool
) -> list[float]:
    """The noise multiplier of every answer that was given.

    Args:
        filtered: whether a filter decides; Algorithm 2 keeps its own count of epsilons.
    """
    account = ZeroConcentratedFilter(TOTAL, DELTA)
    history: list[Query] = []
    stored: dict[int, float] = {}
    given: list[float] = []
    for asked in trace:
        if replay and asked.question in stored:
            given.append(stored[asked.question])
            continue
        event = policy.propose(Situation(asked.query, history, account))
        history.append(asked.query)
        if not isinstance(event, Gaussian):
            continue
        if filtered:
            if not account.fits(event):
                if not replay:
                    break  # nothing cheaper will be proposed any more
                continue
            account = account.spend(event)
        given.append(event.noise_multiplier)
        stored[asked.question] = event.noise_multiplier
    return given


def useful(given: Sequence[float], tau: float) -> int:
    return sum(noise <= tau * (1 + 1e-9) for noise in given)


def counts(trace: Sequence[Asked], *, replay: bool) -> dict[str, list[int]]:
    """For each policy, useful answers at every τ of the grid."""
    end = SETTINGS.days * DAY
    published = noises(DynamicAllocation(TOTAL, DELTA), trace, filtered=False, replay=replay)
    uniform = noises(UniformOverHorizon(len(trace)), trace, filtered=True, replay=replay)
    found: dict[str, list[int]] = {"published": [], "uniform": [], "ours": []}
    for epsilon in GRID:
        tau = gaussian_noise_multiplier(epsilon, DELTA)
        ours = noises(EqualVariance(tau, until=end), trace, filtered=True, replay=replay)
        found["published"].append(useful(published, tau))
        found["uniform"].append(useful(uniform, tau))
        found["ours"].append(useful(ours, tau))
    return found


def figures(measured: dict[bool, list[dict[str, list[int]]]]) -> list[Figure]:
    lines: list[Figure] = []
    for replay in (False, True):
        for place, epsilon in enumerate(GRID):
            ours = statistics.median(run["ours"][place] for run in measured[replay])
            peer = statistics.median(run["published"][place] for run in measured[replay])
            headline = not replay and epsilon in HEADLINES
            ratio = ours / peer if peer else None
            lines.append(
                Figure(
                    f"τ of ε = {epsilon:g}, replay {'on' if replay else 'off'}",
                    "answers",
                    ours,
                    peer,
                    ratio,
                    "at least 10" if headline else None,
                    (ratio is None or ratio >= 10) if headline else None,
                )
            )
    return lines


def draw(measured: dict[bool, list[dict[str, list[int]]]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    names = {"ours": "equal variance (voile)", "uniform": "uniform", "published": "Algorithm 2"}
    for axis, replay in zip(axes, (False, True), strict=True):
        for name, label in names.items():
            runs = [run[name] for run in measured[replay]]
            middle = [statistics.median(each) for each in zip(*runs, strict=True)]
            axis.plot(GRID, middle, marker="o", label=label)
        axis.set(xscale="log", title=f"replay {'on' if replay else 'off'}")
        # Straight from 0 to 1, so that "none at all" has a place.
        axis.set_yscale("symlog", linthresh=1, linscale=0.4)
        axis.set_xlabel("τ, as the ε of one answer (less noise to the right)")
        axis.grid(alpha=0.3)
    axes[0].set_ylim(bottom=-0.15)
    axes[0].set_ylabel("answers with noise ≤ τ")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    traces = [make_trace(SETTINGS, seed) for seed in SEEDS]
    measured = {
        replay: [counts(trace, replay=replay) for trace in traces] for replay in (False, True)
    }
    lines = figures(measured)
    write(
        "budget_allocation",
        "Algorithm 2 of the recommender framework; total (1, 1e-5), median over 5 traces",
        lines,
        command="python -m experiments.budget_allocation",
        seed=list(SEEDS),
        trace=asdict(SETTINGS) | {"queries": [len(trace) for trace in traces]},
    )
    draw(measured, PICTURE)


if __name__ == "__main__":
    main()
