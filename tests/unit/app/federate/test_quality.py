"""Useless results are named; how stable explanations are is estimated without touching data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from voile.app.alarms import alarms
from voile.app.federate.quality import quality_figures
from voile.app.federate.stability import _invented, stability_figures
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Label, Numbers, Schema
from voile.datasets import clinic_federation
from voile.pipelines.calibration import split_open_rows
from voile.pipelines.facts import FederationFacts
from voile.pipelines.logistic_regression import LogisticPlan, plan_logistic_regression
from voile.pipelines.objectives import BLACK_BOX, SURROGATE
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords

CLINIC = clinic_federation(400, seed=4)
ROWS = TableRecords.from_dataset(CLINIC.together())
DRAW = np.random.default_rng(2)


@dataclass
class Says:
    """A model or surrogate that says these probabilities of the second class."""

    chance: Any

    def predict(self, rows: Any) -> Any:
        chance = np.broadcast_to(self.chance, len(rows))
        return np.column_stack([1 - chance, chance])


def figures(**made: Any) -> dict[str, Any]:
    return quality_figures(made.get("black_box"), ROWS, surrogate=made.get("surrogate"))


def test_a_constant_model_is_named_and_so_is_a_constant_surrogate() -> None:
    good = np.asarray(CLINIC.risk(ROWS.rows), float)
    found = figures(black_box=Says(good), surrogate=Says(0.3))
    assert found[BLACK_BOX]["alarms"] == []
    assert found[SURROGATE]["constant"]
    assert "nearly the same about everybody" in found[SURROGATE]["alarms"][0]
    both = figures(black_box=Says(0.3), surrogate=Says(0.3))
    # constant, no better than the majority, and no better than the base rate
    assert len(both[BLACK_BOX]["alarms"]) == 3
    first = alarms({"quality": both})
    assert first[0].startswith("The black box: it says nearly the same about everybody")
    assert first[-1].startswith("The surrogate: it says nearly the same about everybody")


def test_a_model_without_a_surrogate_is_not_called_a_black_box() -> None:
    said = alarms({"quality": figures(black_box=Says(0.3))})
    assert said[0].startswith("The model: it says nearly the same about everybody")


def test_alarms_of_what_was_measured() -> None:
    assert alarms({}) == []
    assert "nobody knows" in alarms({"quality": {}})[0]
    (said,) = alarms({"stability": {"cosine": 0.07}})
    assert "mostly noise" in said
    assert alarms({"stability": {"cosine": 0.9}}) == []


def of_rare_answer(tops: int) -> dict[str, Any]:
    """One person in 25 has it; a model knows a little about all, and is sure of so many."""
    few = np.zeros(len(ROWS))
    few[: len(few) // 25] = 1
    score = 0.037 + 0.006 * few + 0.004 * np.random.default_rng(5).normal(size=len(few)).clip(-1, 1)
    score[:tops] = 0.9
    rare = TableRecords(ROWS.schema, ROWS.rows, few, ROWS.null)
    made: Any = Says(score)
    found: dict[str, Any] = quality_figures(made, rare)[BLACK_BOX]
    return found


@pytest.mark.parametrize(("tops", "often"), [(0, "never"), (3, "hardly ever")])
def test_one_that_ranks_a_rare_answer_is_not_said_to_explain_nothing(tops: int, often: str) -> None:
    """Where few have it, probabilities lie close together, whatever a model knows."""
    found = of_rare_answer(tops)
    assert found["constant"]
    assert found["figures"]["AUC"]["low"] > 0.5
    (said,) = found["alarms"]
    assert said.startswith(f"it {often} predicts anything but 'no'")
    assert "ranks people better than guessing (AUC 0." in said
    assert "explain nothing" not in said


def test_one_that_finds_a_rare_answer_raises_no_alarm() -> None:
    found = of_rare_answer(len(ROWS) // 25)
    assert found["constant"]
    assert found["alarms"] == []


def test_a_model_that_moves_but_knows_nothing_is_named() -> None:
    found = figures(black_box=Says(DRAW.uniform(size=len(ROWS))))[BLACK_BOX]
    assert not found["constant"]
    assert "cannot be told from always saying 'no'" in found["alarms"][0]


def test_figures_have_baselines_and_a_calibration_curve() -> None:
    found = figures(black_box=Says(np.asarray(CLINIC.risk(ROWS.rows), float)))[BLACK_BOX]
    assert list(found["figures"]) == [
        "accuracy",
        "AUC",
        "expected calibration error",
        "log-loss",
        "Brier score",
    ]
    for each in found["figures"].values():
        assert each["low"] <= each["figure"] <= each["high"]
    assert found["figures"]["AUC"]["baseline"] == 0.5
    assert sum(each["rows"] for each in found["calibration"]) == len(ROWS)


@pytest.mark.parametrize(("sharpness", "alarmed"), [(1.0, False), (6.0, True)])
def test_probabilities_that_are_worse_than_the_base_rate_raise_an_alarm(
    sharpness: float, alarmed: bool
) -> None:
    """Both rank people alike: only the log-loss tells that one of them is far too sure."""
    risk = np.asarray(CLINIC.risk(ROWS.rows), float)
    sure = 1 / (1 + np.exp(-sharpness * np.log(risk / (1 - risk))))
    found = figures(black_box=Says(sure))[BLACK_BOX]
    judged = found["figures"]["log-loss"]
    assert (judged["figure"] > judged["baseline"]) == alarmed
    said = alarms({"quality": {BLACK_BOX: found}})
    assert any("not shown to be better than the base rate" in each for each in said) == alarmed
    if alarmed:
        (first,) = said
        assert f"log-loss {judged['figure']:.3f}" in first
        assert f"{judged['baseline']:.3f}" in first


def test_a_linear_model_of_other_unprotected_rows_stands_beside() -> None:
    fitted, measured = split_open_rows(ROWS)
    made: Any = Says(np.asarray(CLINIC.risk(measured.rows), float))
    found = quality_figures(made, measured, fitted)[BLACK_BOX]["figures"]
    assert set(found["accuracy"]) == {"figure", "low", "high", "baseline"}
    for name in ("log-loss", "Brier score"):
        judged = found[name]
        assert judged["figure"] < judged["linear_model"] < judged["baseline"]


def test_numbers_are_judged_by_their_error() -> None:
    schema = Schema("s", CLINIC.schema.features, Label("cost", Numbers(0, 100)))
    labels = DRAW.uniform(0, 100, len(ROWS))
    rows = TableRecords(schema, ROWS.rows, labels, ROWS.null)

    @dataclass
    class Costs:
        values: Any

        def predict(self, rows: Any) -> Any:
            return np.broadcast_to(self.values, len(rows))[:, np.newaxis]

    good = quality_figures(Costs(labels + 1), rows)[BLACK_BOX]  # type: ignore[arg-type]
    assert good["figures"]["mean absolute error"]["figure"] == pytest.approx(1)
    assert good["alarms"] == []
    flat = quality_figures(Costs(50.0), rows)[BLACK_BOX]  # type: ignore[arg-type]
    assert len(flat["alarms"]) == 2


# --- how stable explanations are ------------------------------------------------------------------

SIZES = {"north": 300, "south": 200}


def plan_at(epsilon: float, sizes: dict[str, int] = SIZES, **facts: Any) -> LogisticPlan:
    protected = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "clinic v1")
    known = FederationFacts(CLINIC.schema, sizes, protected, rounds=2, **facts)
    return plan_logistic_regression(known, epsilon=epsilon, delta=1e-5)


def model() -> NetworkModel:
    """Some model of the clinic, the same whichever tests came before."""
    plan, draw = plan_at(1.0), np.random.default_rng(8)
    arrays = {
        name: array + draw.normal(0, 0.5, array.shape).astype(array.dtype)
        for name, array in plan.start(plan.stages[0].name).items()
    }
    return NetworkModel.from_arrays(CLINIC.schema, OutputHead.of_label(CLINIC.schema), arrays)


def test_more_noise_makes_explanations_less_stable() -> None:
    box = model()
    little = stability_figures(plan_at(50.0), box, CLINIC.reference, 2)
    much = stability_figures(plan_at(0.05), box, CLINIC.reference, 2)
    assert little is not None
    assert much is not None
    assert little["cosine"] > much["cosine"]
    assert -1 <= much["lowest_cosine"] <= much["cosine"] <= 1
    assert set(much["deviations"]) == set(CLINIC.schema.feature_names)
    assert np.mean(list(much["deviations"].values())) > np.mean(list(little["deviations"].values()))


def test_invented_rows_follow_the_reference_and_the_model() -> None:
    box = model()
    invented = _invented(box, CLINIC.reference, 4000, np.random.default_rng(0))
    for column, public in zip(invented.rows.T, CLINIC.reference.T, strict=True):
        assert set(column) <= set(public)
    expected = np.asarray(box.predict(invented.rows))[:, 1].mean()
    assert invented.labels.mean() == pytest.approx(expected, abs=0.05)  # six standard errors
    assert not invented.null.any()


def test_where_it_is_not_estimated() -> None:
    box = model()
    assert stability_figures(plan_at(1.0), box, CLINIC.reference, 0) is None
    large = plan_at(1.0, {"north": 300_000})
    assert stability_figures(large, box, CLINIC.reference, 1) is None
