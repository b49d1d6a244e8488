"""DP-SGD assessed: correct code is kept, and every planted fault is refuted.

Faults are patched into the code that runs in production; the trial knows nothing of them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.statistical.assessing import KEPT_BELOW, runs_until_refuted, stage
from voile.assess.training_canaries import stage_trial
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.federation.client import FreshCiphers
from voile.pipelines.network_task import NetworkTask
from voile.training.private import PrivateSteps, loop
from voile.training.private.loop import PerceptronSum

PLAIN_NOISE = loop.Noise.add_to

MOST = 4000
"""Runs, far more than were ever needed: how many it takes is left to chance."""


def tried(task: NetworkTask) -> Any:
    return stage_trial("stage", task, delta=1e-5)


@pytest.mark.parametrize("relation", list(Relation))
def test_correct_training_is_kept(relation: Relation) -> None:
    assert runs_until_refuted(tried(stage(relation)), 60, at=KEPT_BELOW) is None


def scaled_noise(factor: float) -> Any:
    return lambda self, total, deviation: PLAIN_NOISE(self, total, factor * deviation)


@pytest.mark.parametrize(("factor", "steps", "most"), [(0.8, 4, 1000), (0.5, 12, 200)])
def test_too_little_noise_is_refuted(
    factor: float, steps: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop.Noise, "add_to", scaled_noise(factor))
    assert runs_until_refuted(tried(stage(steps=steps)), most) is not None


def test_a_norm_for_each_line_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = PerceptronSum._clip

    def each_line(self: Any, lines: Any, records: int, norm: float) -> Any:  # noqa: ARG001
        return clip(self, lines, len(lines[0].inputs), norm)

    monkeypatch.setattr(PerceptronSum, "_clip", each_line)
    assert runs_until_refuted(tried(stage()), MOST) is not None


def test_one_seed_for_two_clients_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    count = itertools.count()
    seeds = [0]

    def source(self: Any, client: str, stage: str, round: int) -> Any:  # noqa: ARG001
        if client == "first client":
            seeds[0] = next(count)
        return Seeded(seeds[0])

    monkeypatch.setattr(FreshCiphers, "source", source)
    assert runs_until_refuted(tried(stage()), MOST) is not None


def test_the_same_noise_in_each_step_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(self: Any, total: Any, deviation: float) -> None:
        if not hasattr(self, "kept"):
            self.kept = self.draw.standard_normal(len(total)).astype(np.float32)
        total += deviation * self.kept

    monkeypatch.setattr(loop.Noise, "add_to", once)
    assert runs_until_refuted(tried(stage()), MOST) is not None


def test_silent_empty_steps_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: Any, total: Any, deviation: float) -> None:
        if total.any():
            PLAIN_NOISE(self, total, deviation)

    monkeypatch.setattr(loop.Noise, "add_to", silent)
    assert runs_until_refuted(tried(stage()), MOST) is not None


def test_noise_that_is_missing_in_one_stage_is_refuted_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = loop.private_steps

    def missing(sums: Any, records: Any, privacy: PrivateSteps, *others: Any) -> Any:
        noise = 1e-3 if privacy.steps == 10 else privacy.noise_multiplier
        run = plain(sums, records, replace(privacy, noise_multiplier=noise), *others)
        return replace(run, event=privacy.event())

    monkeypatch.setattr(loop, "private_steps", missing)
    assert runs_until_refuted(tried(stage(steps=10)), MOST) is not None
    assert runs_until_refuted(tried(stage(steps=11)), 30, at=KEPT_BELOW) is None


def test_division_by_those_who_contribute_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, add_up = [1], loop._add_up

    def counted(sums: Any, records: Any, places: Any, *others: Any) -> Any:
        drawn[0] = max(1, len(places))
        return add_up(sums, records, places, *others)

    monkeypatch.setattr(loop, "_add_up", counted)
    monkeypatch.setattr(PrivateSteps, "expected_batch", property(lambda _: drawn[0]))
    trial = tried(stage(Relation.ADD_OR_REMOVE_ONE))
    assert runs_until_refuted(trial, MOST) is not None
