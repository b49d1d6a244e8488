"""Trust that is measured: nothing that a party says counts, and no update counts for much."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.support.pages import exact_trust_html, trust_section
from tests.unit.pipelines.trusted_parties import (
    OPEN,
    PUBLIC,
    QUICK,
    RECORDS,
    in_secret,
    nodes_of,
    planned,
    trained,
)
from voile.app.alarms import alarms
from voile.core.errors import InvalidInput
from voile.core.guarantee import Adversary
from voile.federation import FitResult, Outcome
from voile.federation.messages import Instruction
from voile.pipelines.trusted_averaging import (
    STAGE,
    OverOwnRows,
    TrustRule,
    VerifiedRound,
    trust_figures,
)
from voile.pipelines.trusted_averaging.evidence import (
    EvidenceHistory,
    PartyEvidence,
    alarms_of,
    capped,
    shares_from,
)
from voile.pipelines.trusted_averaging.verified import _flat

NAMES = sorted(RECORDS)


@dataclass(frozen=True)
class Otherwise:
    """A party that sends something else than it trained."""

    task: Any
    factor: float

    @property
    def shapes(self) -> Any:
        return self.task.shapes

    def cost(self, size: int) -> Any:
        return self.task.cost(size)

    def fit(self, *arguments: Any) -> FitResult:
        found: FitResult = self.task.fit(*arguments)
        change = {n: (self.factor * a).astype(np.float32) for n, a in found.change.items()}
        return replace(found, change=change)


def run(factors: dict[str, float] | None = None, **changes: Any) -> Any:
    plan = planned(verified=True, **changes)
    odd: dict[str, Any] = {
        name.replace(" ", "_"): {STAGE: Otherwise(plan.tasks[STAGE], factor)}
        for name, factor in (factors or {}).items()
    }
    return trained(plan, nodes_of(plan, **odd))


def test_the_model_learns_and_weights_add_up() -> None:
    found = run()
    assert found.results[STAGE].figures[-1]["accuracy"] > np.mean(OPEN.labels == 0) - 0.05
    for number in (0, 1, 2):
        rows = [scores[number] for scores in found.history.scores.values()]
        assert sum(row.weight for row in rows) == pytest.approx(1)
        assert sum(row.reward for row in rows) == pytest.approx(1)
    assert {row.outcome for row in found.results[STAGE].rows} == {Outcome.ANSWERED}


def test_who_points_the_other_way_has_no_weight_and_earns_nothing() -> None:
    found = run({NAMES[0]: -1.0})
    first, *_ = found.history.scores[NAMES[0]]
    assert (first.weight, first.reward) == (0, 0)
    sound = run()
    last = [f.results[STAGE].figures[-1]["accuracy"] for f in (found, sound)]
    assert last[0] > last[1] - 0.05


def test_a_long_update_counts_as_much_as_one_of_median_length() -> None:
    long, longer = (run({NAMES[0]: factor}, rounds=1) for factor in (20.0, 60.0))
    for name, array in long.results[STAGE].arrays.items():
        np.testing.assert_allclose(longer.results[STAGE].arrays[name], array, atol=1e-5)


def test_if_nobody_is_left_the_arrays_stay_and_so_does_everybody_s_record() -> None:
    found = run(dict.fromkeys(NAMES, 0.0), rounds=1)
    start = found.plan.start(STAGE)
    for name, array in found.results[STAGE].arrays.items():
        np.testing.assert_array_equal(array, start[name])
    assert found.history.scores == {}
    (only,) = trust_figures(found)["rounds"]
    assert only == {"round": 1, "weights": "none", "parties": {}}


def test_where_no_party_can_be_told_from_random_all_count_alike_and_the_page_says_so() -> None:
    found = run(dict.fromkeys(NAMES, -1.0), rounds=1)
    assert found.history.equal == (1,)
    for (score,) in found.history.scores.values():
        assert score.weight == score.reward == pytest.approx(1 / len(NAMES))
    page = " ".join(exact_trust_html(found, "clinics").split())
    said = "round 1: the parties' updates could not be told apart from random ones"
    assert said in html.unescape(page)
    assert "nearly all of the weight" not in page


@pytest.mark.parametrize("factor", [0.0, 0.05, 20.0])
def test_zero_tiny_and_very_long_updates_earn_nothing(factor: float) -> None:
    found = run({NAMES[0]: factor})
    for score in found.history.scores[NAMES[0]]:
        assert (score.weight, score.reward) == (0, 0)
    alarm = f"{NAMES[0]} was weighted down in round 3: its update was"
    assert any(each.startswith(alarm) for each in trust_figures(found)["alarms"])


def test_the_report_shows_all_rounds_and_says_who_was_weighted_down_and_why() -> None:
    found = run({NAMES[0]: -1.0})
    figures = trust_figures(found)
    assert [row["round"] for row in figures["rounds"]] == [1, 2, 3]
    (line,) = (each for each in figures["weighted_down"] if each.startswith(NAMES[0]))
    assert line.startswith(f"{NAMES[0]} in rounds 1, 2, 3: its updates so far rank public rows -")
    assert any(each.startswith(f"{NAMES[0]} was weighted down") for each in figures["alarms"])
    assert any(NAMES[0] in each for each in alarms({"trust": figures}))
    page = " ".join(exact_trust_html(found, "clinics").split())
    assert "<h3>Weights in each round</h3>" in page
    assert line in html.unescape(page)
    for number in (1, 2, 3):
        assert f"<tr><td>{number}</td><td>by trust</td>" in page


def test_an_alarm_takes_both_scores_or_a_length_that_does_not_count() -> None:
    sound = PartyEvidence(1, 1.0, 0.5, 0.5, 1.0, 1.0)
    history = EvidenceHistory(
        {
            "sound": (sound,),
            "one score": (sound._replace(scored=0.0),),
            "both scores": (sound._replace(scored=0.05, matched=0.0),),
            "long": (sound._replace(length=3.0),),
            "recovered": (sound._replace(length=3.0), sound),
        },
        (),
    )
    assert [line.split(" was ")[0] for line in alarms_of(history)] == ["both scores", "long"]


def test_no_weight_is_above_one_half() -> None:
    assert capped({"a": 98.0, "b": 1.0, "c": 1.0}, 0.5) == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert capped({"a": 1.0, "b": 0.0, "c": 0.0}, 0.5) is None
    evidence = {
        name: PartyEvidence(1, 1.0, 0.5, 0.5, each, each)
        for name, each in {"a": 1.0, "b": 0.01, "c": 0.01}.items()
    }
    same = dict.fromkeys(evidence, 0.5)
    shares = shares_from(TrustRule(), evidence, same, same, told=True)
    assert shares is not None
    assert shares.weights == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.25})


def test_a_large_bias_does_not_hide_how_well_updates_rank_rows() -> None:
    """Sums of updates of a party with few rows of one label: probabilities would all be 1."""
    plan = planned(verified=True)
    judge = VerifiedRound(plan.rule, plan.facts.schema, plan.local.network, PUBLIC)
    change = plan.local.network.reference(Instruction(STAGE, 1, plan.start(STAGE)), OPEN)
    bias = next(name for name, array in sorted(change.items()) if array.ndim == 1)
    far = {**change, bias: change[bias] + np.array([100.0, 0.0], dtype=np.float32)}
    found = [judge._discrimination(_flat(each), change) for each in (change, far)]
    assert found[0] > 0.3
    assert found[1] == pytest.approx(found[0], abs=0.02)


def test_the_reference_is_clipped_like_the_parties_and_needs_no_draws() -> None:
    """Clipping moves the optimum: a reference towards another one points away from honest ones."""
    quick = replace(QUICK, clipping_norm=0.01)
    private, plain = (planned(each, training=quick, verified=True) for each in (4.0, None))
    asked = Instruction(STAGE, 1, private.start(STAGE))
    first, again, unclipped = (
        _flat(plan.local.network.reference(asked, OPEN)) for plan in (private, private, plain)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, unclipped, rtol=0.02)


def test_single_updates_are_seen_so_the_guarantee_names_the_server() -> None:
    against = planned(4.0, verified=True).guarantee().against
    assert Adversary.SERVER_SEEING_UPDATES in against


def test_it_costs_what_training_costs_and_is_charged_once_a_round() -> None:
    plan = planned(4.0, verified=True, rounds=2)
    assert plan.participation_events == planned(4.0, rounds=2).participation_events
    nodes = nodes_of(plan)
    trained(plan, nodes)
    guard: Any = nodes[0].client.guard
    assert len(guard.participations) == 2 * len(NAMES)


def test_the_same_run_gives_the_same_bits() -> None:
    first, second = run(), run()
    assert first.history == second.history
    for name, array in first.results[STAGE].arrays.items():
        np.testing.assert_array_equal(second.results[STAGE].arrays[name], array)


def test_a_server_cannot_measure_what_it_does_not_see() -> None:
    with pytest.raises(InvalidInput, match="neither in a secure sum"):
        in_secret(planned(verified=True))
    with pytest.raises(InvalidInput, match="neither in a secure sum"):
        planned(4.0, verified=True, own_rows=OverOwnRows(1.0, 1.0))


def test_an_artefact_of_an_earlier_version_has_its_section_still() -> None:
    figures = trust_figures(run(rounds=1))
    older = {
        name: value
        for name, value in figures.items()
        if name not in ("rounds", "weighted_down", "alarms")
    }
    page = trust_section(older)
    assert "Whom the federation trusts" in page
    assert "Weights in each round" not in page
    assert "Who was weighted down" not in page
