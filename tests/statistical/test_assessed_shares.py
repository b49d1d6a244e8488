"""Sums with noise in shares, assessed: correct code is kept, and planted faults are refuted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.statistical.assessing import KEPT_BELOW, runs_until_refuted
from tests.unit.pipelines import statistics_parties as parties
from voile.app.assess.subjects import _of_task
from voile.assess.assessment import AuditTrial
from voile.assess.statistics_trials import sum_trial
from voile.federation.secure_aggregation import ActiveServer
from voile.pipelines.statistics import STAGES, StatisticsPlan, StatisticsTask
from voile.privacy.events import Zcdp
from voile.release.statistics.budget import CALIBRATION

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
MOST = 20_000
SIZES = {f"party {place}": 100 for place in range(5)}


def plan() -> StatisticsPlan:
    """Four of five survive, two of them collude: two are honest."""
    return parties.planned(2.0, sizes=SIZES, model=ActiveServer(colluders=2))


def trial(found: StatisticsPlan, stage: str = CALIBRATION) -> AuditTrial:
    task = found.tasks[stage]
    return sum_trial(task, task.cost(1), delta=found.delta)


@pytest.mark.parametrize("stage", STAGES)
def test_a_sum_of_honest_shares_is_kept(stage: str) -> None:
    assert plan().shares == 2
    assert runs_until_refuted(trial(plan(), stage), MOST // 20, KEPT_BELOW) is None


def test_shares_sized_for_all_parties_are_refuted() -> None:
    """Planted fault: colluders know their shares, and who falls out sends none."""
    faulty = replace(plan(), shares=len(SIZES))
    assert runs_until_refuted(trial(faulty), MOST) is not None


def test_no_noise_from_an_empty_party_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a party whose numbers are all 0 sends them as they are."""
    from voile.privacy.mechanisms.shares import SharedGaussian

    drawn = SharedGaussian.randomise

    def randomise(self, blocks, source=None):  # type: ignore[no-untyped-def]
        if any(block.any() for block in blocks):
            return drawn(self, blocks, source)
        return tuple(blocks)

    monkeypatch.setattr(SharedGaussian, "randomise", randomise)
    assert runs_until_refuted(trial(plan()), MOST) is not None


@pytest.mark.parametrize("charged", [None, Zcdp(1e-4)])
def test_a_calibration_table_that_is_hardly_charged_is_refuted(
    charged: Zcdp | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted fault: what the account pays leaves the third round out, wholly or mostly."""
    found = plan()
    monkeypatch.setattr(StatisticsTask, "cost", lambda *_: charged)
    (tried,) = _of_task(CALIBRATION, found.tasks[CALIBRATION], found.delta)
    assert runs_until_refuted(tried, MOST) is not None


def test_an_agreement_is_assessed_stage_by_stage() -> None:
    for name, task in plan().tasks.items():
        (found,) = _of_task(name, task, 1e-5)
        assert found.name == f"{name}, a sum"
