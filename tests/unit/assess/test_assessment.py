"""Verdicts, by a mechanism of which everything is known: a number, and Gaussian noise on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from voile import datasets
from voile.assess.assessment import (
    Arrangement,
    AssessedClaim,
    AuditTrial,
    BettingTest,
    TrialOutcome,
    TrialResult,
    Verdict,
    assess,
    fair_coins,
)
from voile.assess.training_canaries import TrainingCanaries, stage_trial
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.federation.messages import Instruction
from voile.pipelines import network_task
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import LearnLabels
from voile.pipelines.tables import TableRecords
from voile.privacy.events import Gaussian
from voile.training.private import fit_privately

MULTIPLIER = 2.0


@dataclass(frozen=True)
class Numbers:
    """Forty canaries, each a number of its own."""

    noise: float
    name: str = "numbers"
    score_names: tuple[str, ...] = ("number",)

    def play(self, draw: np.random.Generator) -> TrialResult:
        coins = fair_coins(draw, 20, 40)
        return TrialResult(coins, {"number": coins + self.noise * draw.normal(size=coins.shape)})


def trial(share: float = 1.0, sees: bool = True) -> AuditTrial:
    """With this share of the noise that is charged; whoever does not see gets noise alone."""

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        return (Numbers((share / 2 if halved else share) * MULTIPLIER if sees else 1e6),)

    return AuditTrial("numbers", Gaussian(MULTIPLIER), arrangements, 1e-5)


def assessed(*given: AuditTrial, **settings: Any) -> tuple[AssessedClaim, ...]:
    return assess(given, **({"seconds": 60.0, "most_runs": 2000} | settings))


def test_correct_code_is_not_refuted_and_the_control_is() -> None:
    (found,) = assessed(trial(), threshold=1e6)
    assert found.verdict is Verdict.NOT_REFUTED
    assert found.control_runs is not None
    assert found.runs == 2000
    assert 0.7 * found.epsilon < found.epsilon_found <= found.epsilon


def test_too_little_noise_is_refuted() -> None:
    (found,) = assessed(trial(0.6))
    assert found.verdict is Verdict.REFUTED
    assert found.e_value >= found.threshold == 1000
    assert found.runs < 2000


def test_an_attack_that_sees_nothing_says_so() -> None:
    (found,) = assessed(trial(sees=False), most_runs=200)
    assert found.verdict is Verdict.BLIND
    assert found.control_runs is None
    assert found.epsilon_found == 0.0


def test_the_bar_grows_with_the_number_of_events() -> None:
    found = assessed(trial(0.6), trial(), threshold=1e6)
    assert [each.threshold for each in found] == [2e6, 2e6]
    assert [each.verdict for each in found] == [Verdict.REFUTED, Verdict.NOT_REFUTED]


def test_time_that_is_up_ends_it() -> None:
    (found,) = assessed(trial(), seconds=0.0)
    assert found.runs == 20


def test_time_goes_to_those_that_are_blind_and_progress_is_told() -> None:
    told: list[TrialOutcome] = []
    found = assessed(trial(), trial(sees=False), seconds=1.5, most_runs=10**9, seen=told.append)
    assert [each.verdict for each in found] == [Verdict.NOT_REFUTED, Verdict.BLIND]
    assert found[1].runs > 1.5 * found[0].runs
    assert found[0].runs > (found[0].control_runs or 0)  # and some is left for the others
    assert (told[-1].found_out, told[-1].claims) == (1, 2)
    assert told[0].seconds_left > told[-1].seconds_left
    assert {each.name for each in told} == {"numbers"}


def test_a_group_is_bet_against_at_what_is_said_of_it() -> None:
    """Four records that move together are no more than four times one of them."""
    four = replace(trial(), event=Gaussian(4 * MULTIPLIER), together=4)
    (found,) = assessed(four, threshold=1e6)
    assert found.verdict is Verdict.NOT_REFUTED
    assert 0.7 * found.epsilon < found.epsilon_found <= found.epsilon
    (alone,) = assessed(replace(four, together=1))
    assert alone.verdict is Verdict.REFUTED


def test_e_values_are_averaged_over_arrangements() -> None:
    """Beside three that see nothing, and keep what they own, one that sees counts a fourth."""
    seeing, blind = trial(0.5), trial(sees=False)

    def both(halved: bool) -> tuple[Arrangement, ...]:
        return (*seeing.arrangements(halved), *blind.arrangements(halved) * 3)

    contest = BettingTest.from_trial(AuditTrial("both", seeing.event, both, 1e-5))
    while contest.e_value < 1e9:
        contest.play(np.random.default_rng())
    largest = contest.arrangements[0][1].e_value
    assert contest.e_value == pytest.approx(largest / 4, rel=1e-6)


# --- stages ---------------------------------------------------------------------------------------

CLINIC = datasets.clinic_federation(60, seed=1)
RECORDS = TableRecords.from_dataset(next(iter(CLINIC.hospitals.values())))
TASK = NetworkTask(LearnLabels(CLINIC.schema), Training(hidden=(4,), epochs=1.0), 2.0)


def test_a_table_is_trained_by_the_very_steps_that_are_audited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, fit = [], fit_privately

    def spied(network: Any, records: Any, loss: Any, privacy: Any, **others: Any) -> Any:
        seen.append(privacy)
        return fit(network, records, loss, privacy, **others)

    monkeypatch.setattr(network_task, "fit_privately", spied)
    instruction = Instruction("stage", 1, TASK.start(0))
    fitted = TASK.fit(instruction, RECORDS, len(RECORDS), Seeded(0))
    TrainingCanaries(TASK, "canaries", len(RECORDS)).play(np.random.default_rng(0))
    table, canaries = seen
    assert table == canaries
    assert fitted.event == stage_trial("stage", TASK, delta=1e-5).event


@pytest.mark.parametrize("relation", list(Relation))
def test_what_stands_against_a_canary_follows_from_the_relation(relation: Relation) -> None:
    """Without noise, those inside are seen along their own direction, and the others are not."""
    task = NetworkTask(
        LearnLabels(CLINIC.schema),
        Training(clipping_norm=0.5, sampling_rate=1.0, epochs=2.0),
        1e-3,
        relation,
    )
    played = TrainingCanaries(task, "canaries", 30).play(np.random.default_rng(1))
    scores = played.scores["projection"]
    assert scores[played.inside].min() > scores[~played.inside].max()


def test_a_stage_without_noise_has_no_claim() -> None:
    with pytest.raises(InvalidInput, match="trained without noise"):
        stage_trial("stage", NetworkTask(TASK.objective, TASK.training, None), delta=1e-5)
