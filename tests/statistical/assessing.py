"""What tests of assessments share: runs until a claim falls, and stages to try."""

from __future__ import annotations

import numpy as np

from voile.assess.assessment import AuditTrial, BettingTest
from voile.assess.training_canaries import CanaryObjective
from voile.core.guarantee import Relation
from voile.pipelines.network_task import NetworkTask, Training
from voile.privacy.calibration import NoisyStage, dp_sgd_noise

KEPT_BELOW = 1e6
"""Correct code reaches this once in a million assessments of a stage or release (Ville)."""
REFUTED_AT = 1000.0


def runs_until_refuted(trial: AuditTrial, most: int, at: float = REFUTED_AT) -> int | None:
    """After how many runs the claim falls; None if it does not within `most`."""
    contest, draw = BettingTest.from_trial(trial), np.random.default_rng()
    while contest.runs < most:
        contest.play(draw)
        if contest.e_value >= at:
            return contest.runs
    return None


def stage(
    relation: Relation = Relation.BLANK_ONE,
    *,
    rate: float = 0.256,
    steps: int = 12,
    epsilon: float = 2.0,
    delta: float = 1e-5,
) -> NetworkTask:
    """One stage at the claim of the figures in docs/assess.md."""
    noise = dp_sgd_noise(
        [NoisyStage(sampling_rate=rate, steps=steps)],
        epsilon=epsilon,
        delta=delta,
        relation=relation,
    )
    training = Training(hidden=(8,), clipping_norm=0.5, sampling_rate=rate, epochs=rate * steps)
    return NetworkTask(CanaryObjective(1, 1), training, noise, relation)
