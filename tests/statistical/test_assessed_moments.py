"""Item moments with noise in shares, assessed: correct code is kept, planted faults are refuted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.statistical.assessing import KEPT_BELOW, runs_until_refuted
from tests.unit.federation.secure_aggregation.parties import identities
from tests.unit.recommenders.examples import USER, catalogue
from voile.app.assess.subjects import _of_task
from voile.assess.assessment import AuditTrial
from voile.core.guarantee import Relation
from voile.federation import SecureSum
from voile.federation.secure_aggregation import ActiveServer
from voile.privacy.mechanisms.shares import SharedGaussian
from voile.recommenders import MomentsBudget
from voile.recommenders.federated import GRAM, POPULARITY, MomentsPlan

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
MOST = 20_000
SIZES = {f"shop {place}": 100 for place in range(5)}


def plan(shares: int = 2, relation: Relation = Relation.BLANK_ONE) -> MomentsPlan:
    """Four of five survive, two of them collude: two are honest."""
    spent = MomentsBudget.concentrated(
        users=500, items=24, relation=relation, epsilon=3.0, delta=1e-5
    )
    secure = SecureSum(ActiveServer(colluders=2), identities(SIZES), SIZES)
    protected = replace(USER, relation=relation)
    budget = replace(spent, parties=5, shares=shares)
    return MomentsPlan(catalogue(), SIZES, protected, budget, 1e-5, secure)


def trial(found: MomentsPlan, stage: str) -> AuditTrial:
    (tried,) = _of_task(stage, found.tasks[stage], found.delta)
    return tried


@pytest.mark.parametrize("stage", [POPULARITY, GRAM])
@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_a_sum_of_honest_shares_is_kept(stage: str, relation: Relation) -> None:
    found = trial(plan(relation=relation), stage)
    assert runs_until_refuted(found, MOST // 20, KEPT_BELOW) is None


@pytest.mark.parametrize("stage", [POPULARITY, GRAM])
def test_shares_sized_for_all_shops_are_refuted(stage: str) -> None:
    """Planted fault: colluders know their shares, and who falls out sends none."""
    assert runs_until_refuted(trial(plan(shares=5), stage), MOST) is not None


def test_no_noise_from_a_shop_without_users_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a shop whose numbers are all 0 sends them as they are."""
    drawn = SharedGaussian.randomise

    def randomise(self: SharedGaussian, blocks: Any, source: Any = None) -> Any:
        is_empty = not any(block.any() for block in blocks)
        return tuple(blocks) if is_empty else drawn(self, blocks, source)

    monkeypatch.setattr(SharedGaussian, "randomise", randomise)
    assert runs_until_refuted(trial(plan(), POPULARITY), MOST) is not None
