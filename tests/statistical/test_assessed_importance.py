"""Importances with noise in shares, assessed: correct code is kept, planted faults are refuted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.statistical.assessing import KEPT_BELOW, runs_until_refuted
from tests.unit.pipelines.importance_parties import planned
from voile.app.assess.subjects import _of_task
from voile.assess.assessment import AuditTrial
from voile.core.guarantee import Relation
from voile.federation.secure_aggregation import ActiveServer
from voile.pipelines.importance import STAGE
from voile.pipelines.shared_importance import ShareImportance
from voile.privacy.mechanisms.shares import SharedGaussian

MOST = 20_000


def trial(shares: int = 2, **changes: Any) -> AuditTrial:
    """Four of five survive, two of them collude: two are honest."""
    plan = planned(shares, model=ActiveServer(colluders=2), **changes)
    (tried,) = _of_task(STAGE, plan.task, plan.release.delta)
    return tried


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
@pytest.mark.parametrize("itself", [False, True])
def test_a_sum_of_honest_shares_is_kept(relation: Relation, itself: bool) -> None:
    found = trial(relation=relation, itself=itself)
    assert runs_until_refuted(found, MOST // 20, KEPT_BELOW) is None


def test_half_of_the_noise_is_found_out() -> None:
    whole = trial()
    half = replace(whole, arrangements=lambda _: whole.arrangements(True))
    assert runs_until_refuted(half, MOST) is not None


def test_shares_sized_for_all_parties_are_refuted() -> None:
    """Planted fault: colluders know their shares, and who falls out sends none."""
    assert runs_until_refuted(trial(shares=5), MOST) is not None


def test_no_noise_from_a_party_without_rows_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a party whose numbers are all 0 sends them as they are."""
    drawn = SharedGaussian.randomise

    def randomise(self: SharedGaussian, blocks: Any, source: Any = None) -> Any:
        is_empty = not any(block.any() for block in blocks)
        return tuple(blocks) if is_empty else drawn(self, blocks, source)

    monkeypatch.setattr(SharedGaussian, "randomise", randomise)
    assert runs_until_refuted(trial(), MOST) is not None


def test_noise_for_too_small_a_sensitivity_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: one row is said to move the sums by less than it does."""
    right: Any = ShareImportance.moved
    wrong = property(lambda task: right.func(task).scaled(0.4))
    monkeypatch.setattr(ShareImportance, "moved", wrong)
    assert runs_until_refuted(trial(), MOST) is not None
