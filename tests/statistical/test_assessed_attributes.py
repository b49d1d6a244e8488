"""Difference clipping assessed: correct code is kept, and planted faults are refuted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.statistical.assessing import KEPT_BELOW, runs_until_refuted, stage
from voile.assess.assessment import AuditTrial
from voile.assess.training_canaries import attribute_trial
from voile.core.guarantee import Relation
from voile.training.private import attributes, loop
from voile.training.private.attributes import AttributeSteps
from voile.training.private.loop import PerceptronSum


def tried(relation: Relation = Relation.BLANK_ONE) -> AuditTrial:
    steps = stage(relation).steps(1)
    assert steps is not None
    privacy = AttributeSteps(difference=steps)
    return attribute_trial("columns", privacy, privacy.event(), delta=1e-5)


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_correct_difference_clipping_is_kept(relation: Relation) -> None:
    assert runs_until_refuted(tried(relation), 60, at=KEPT_BELOW) is None


def test_noise_for_half_of_the_norm_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    add_up = PerceptronSum.add_up
    monkeypatch.setattr(
        PerceptronSum, "add_up", lambda self, batch, norm: add_up(self, batch, 2 * norm)
    )
    assert runs_until_refuted(tried(), 4000) is not None


def test_one_draw_for_both_sums_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the exact public sum shows who was drawn, sampling hides nothing any more."""
    draws, latest = loop.poisson_samples, [np.zeros(0, dtype=np.intp)]

    def remembered(*facts: Any) -> Iterator[Any]:
        for drawn in draws(*facts):
            latest[0] = drawn
            yield drawn

    def repeated(_: Any, rows: int, rate: float, steps: int) -> Iterator[Any]:  # noqa: ARG001
        for _ in range(steps):
            yield latest[0]

    monkeypatch.setattr(loop, "poisson_samples", remembered)
    monkeypatch.setattr(attributes, "poisson_samples", repeated)
    assert runs_until_refuted(tried(), 4000) is not None
