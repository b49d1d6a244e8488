"""How soon an assessment finds out missing noise, and whether it agrees with others.

DP-SGD at a sampling rate of 0.256, 40 steps, claim (2, 1e-5). Peers live in an environment of their
own (`benchmarks/attack_peers.py`); without it, what is compared with them is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from experiments.lib.attacks.one_run import curve_epsilon_at_least, epsilon_at_least

from benchmarks.harness import Figure, write
from voile.assess.assessment import AuditTrial, BettingTest
from voile.assess.claims import epsilon_at_variation
from voile.assess.members_count import area_under_curve
from voile.assess.training_canaries import CanaryObjective, stage_trial
from voile.core.guarantee import Relation
from voile.core.one_thread import one_thread
from voile.pipelines.network_task import NetworkTask, Training
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.training.private import loop

RATE, STEPS, EPSILON, DELTA = 0.256, 40, 2.0, 1e-5
RUNS = 300
MUTANTS = ((0.9, 3000, None), (0.8, 1000, 1000), (0.5, 200, 200))
CASES = [(1000, 1000, 640), (1000, 500, 400), (10_000, 2_000, 1_400), (100_000, 10_000, 6_000)]


def stage() -> AuditTrial:
    noise = dp_sgd_noise(
        [NoisyStage(RATE, STEPS)], epsilon=EPSILON, delta=DELTA, relation=Relation.BLANK_ONE
    )
    training = Training(hidden=(64,), clipping_norm=0.5, sampling_rate=RATE, epochs=RATE * STEPS)
    return stage_trial("stage", NetworkTask(CanaryObjective(1, 1), training, noise), delta=DELTA)


def runs_until_refuted(trial: AuditTrial, factor: float, most: int) -> int | None:
    """With so much of the noise, patched into the loop of DP-SGD."""
    whole, contest, draw = (
        loop.Noise.add_to,
        BettingTest.from_trial(trial),
        np.random.default_rng(),
    )
    loop.Noise.add_to = lambda self, total, deviation: whole(self, total, factor * deviation)  # type: ignore[method-assign]
    try:
        while contest.runs < most and contest.e_value < 1000:
            contest.play(draw)
    finally:
        loop.Noise.add_to = whole  # type: ignore[method-assign]
    return contest.runs if contest.e_value >= 1000 else None


def found_epsilon(trial: AuditTrial) -> tuple[float, float]:
    """Of the code as it is: the epsilon that is found, and the e-value against the claim."""
    contest, draw = BettingTest.from_trial(trial), np.random.default_rng()
    while contest.runs < RUNS:
        contest.play(draw)
    found = epsilon_at_variation(
        trial.event,
        contest.variation_found(),
        trial.delta,
        together=trial.together,
    )
    return found, contest.e_value


def peers() -> list[Figure]:
    python = os.environ.get("VOILE_ATTACK_PEERS")
    if python is None:
        print("VOILE_ATTACK_PEERS is not set: no comparison with jax-privacy and ART")
        return []
    theirs = _ask(python, what="one run", cases=CASES, delta=DELTA, risk=0.05)
    ours = {
        "plain": [epsilon_at_least(*case, delta=DELTA) for case in CASES],
        "curve": [curve_epsilon_at_least(*case, delta=DELTA) for case in CASES],
    }
    apart = {n: float(np.abs(np.subtract(ours[n], theirs[n])).max()) for n in ours}
    figures = [
        Figure(
            f"one-run bounds against jax-privacy, {name}: largest difference in epsilon",
            "",
            figure,
            None,
            None,
            "at most 0.001",
            figure <= 1e-3,
        )
        for name, figure in apart.items()
    ]
    areas = []
    for seed in range(5):
        found = _ask(python, what="membership", seed=seed)
        members = found["members"]
        areas.append(
            [
                area_under_curve(np.array(scores[:members]), np.array(scores[members:]))
                for scores in (found["probabilities"], found["scores"])
            ]
        )
    mine, art = (float(mean) for mean in np.mean(areas, axis=0))
    what = "membership of an overfitted network: area by loss, and by ART's forest"
    return [*figures, Figure(what, "", mine, art, mine / art)]


def _ask(python: str, **question: Any) -> dict[str, Any]:
    script = Path(__file__).with_name("attack_peers.py")
    done = subprocess.run(
        [python, str(script)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def run() -> None:
    trial, figures, compared = stage(), [], peers()
    with one_thread():
        for factor, most, target in MUTANTS:
            runs = runs_until_refuted(trial, factor, most)
            goal = None if target is None else f"at most {target:,}"
            met = None if target is None else runs is not None and runs <= target
            shown = float(most if runs is None else runs)
            what = f"runs until noise ×{factor:g} is refuted" + ("" if runs else " (it was not)")
            figures.append(Figure(what, "runs", shown, None, None, goal, met))
        found, e_value = found_epsilon(trial)
    what = f"epsilon found of a claimed {EPSILON:g}, {RUNS} runs, 95 %"
    figures.append(Figure(what, "", found, None, None, "at least 1.4", found >= 1.4))
    kept = "e-value against correct code in these runs"
    figures.append(Figure(kept, "", e_value, None, None, "below 1,000", e_value < 1000))
    write(
        "assessment", "DP-SGD, rate 0.256, 40 steps, (2, 1e-5)", [*figures, *compared], seed="fresh"
    )
