"""One description feeds every view: value or "missing", label, ±, and what is told from zero."""

from __future__ import annotations

import html
import re
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from tests.support.pages import row_html
from voile import plots
from voile.core.description import FeatureContribution, Uncertainty
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote, filled_note
from voile.core.schema import Categories, Feature, Label, Numbers, Schema

CLINIC = Schema(
    "clinic",
    (
        Feature("age", Numbers(0, 120), unit="years"),
        Feature("smoker", Categories(("no", "yes")), default="yes"),
        Feature("crp", Numbers(0, 300), default=0, unit="mg/l"),
    ),
    Label("readmission", Categories(("no", "yes"))),
)


def patient(**parts: Any) -> Explanation:
    """Of whom nobody knows whether she smokes, and whose laboratory value is missing."""
    given: dict[str, Any] = {
        "values": [[0.25, -0.125, 0.01]],
        "base_values": 0.5,
        "feature_names": ("age", "smoker", "crp"),
        "output_names": ("yes",),
        "data": [[71.0, 1.0, 0.0]],
        "half_widths": [[0.1, 0.1, 0.1]],
        "notes": [filled_note("smoker", "yes", [0]), filled_note("crp", 0, [0])],
    }
    return Explanation(**given | parts)


def contributions(explanation: Explanation, **how: Any) -> dict[str, FeatureContribution]:
    (output,) = explanation.describe(**{"schema": CLINIC, **how}).outputs
    return {each.feature: each for each in output.contributions}


def test_values_labels_intervals_and_what_was_missing() -> None:
    found = contributions(patient())
    assert [each.value_text for each in found.values()] == [
        "71 years",
        "missing (yes was filled in)",
        "missing (0 mg/l was filled in)",
    ]
    assert [each.text for each in found.values()] == [
        "+0.25 ± 0.10",
        "-0.12 ± 0.10",
        "+0.01 ± 0.10",
    ]
    assert [each.distinguishable for each in found.values()] == [True, True, False]
    assert [each.missing for each in found.values()] == [False, True, True]


def test_pages_and_pictures_say_what_the_description_says() -> None:
    (output,) = patient().describe(schema=CLINIC).outputs
    page = row_html(patient().describe(schema=CLINIC))
    axes: Any = plots.waterfall(patient(), schema=CLINIC).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        each.named for each in output.contributions
    ]
    assert [text.get_text() for text in axes.texts] == [each.text for each in output.contributions]
    assert re.findall(r'class="number">([^<]+)</td>', page) == [
        each.text for each in output.contributions
    ]
    for each in output.contributions:
        assert f"<td>{each.value_text}</td>" in page


def test_a_picture_without_values_names_what_was_missing() -> None:
    for draw in (plots.bar, plots.whiskers):
        axes: Any = draw(patient()).axes[0]
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == ["age", "smoker (missing)", "crp (missing)"]


def test_a_saved_explanation_still_knows_what_was_missing() -> None:
    again = Explanation.from_bytes(patient().to_bytes())
    assert again.describe(schema=CLINIC) == patient().describe(schema=CLINIC)


def test_what_was_missing_in_one_row_is_not_missing_in_another() -> None:
    two = patient(
        values=[[0.25, -0.125, 0.01]] * 2,
        data=[[71.0, 1.0, 0.0]] * 2,
        half_widths=None,
        notes=[filled_note("crp", 0, [1])],
    )
    assert not two.describe(0).some_missing
    assert [each.feature for each in two.describe(1).outputs[0].contributions if each.missing] == [
        "crp"
    ]
    assert not two.describe().some_missing  # on average over rows no value is shown
    assert not two.describe().shows_values


def test_a_note_about_one_feature_is_about_no_other() -> None:
    quoted = patient(
        feature_names=("a", "a' = 1", "b"), notes=[filled_note("a' = 1", 0, [0])], half_widths=None
    )
    missing = {each.feature: each.missing for each in quoted.describe().outputs[0].contributions}
    assert missing == {"a": False, "a' = 1": True, "b": False}


@pytest.mark.parametrize(
    ("parts", "meant"),
    [
        ({}, Uncertainty.INTERVAL),
        ({"half_widths": None}, Uncertainty.ESTIMATE),
        ({"half_widths": None, "standard_errors": [[0.1, 0.1, 0.1]]}, Uncertainty.INTERVAL),
    ],
)
def test_what_an_interval_means(parts: dict[str, Any], meant: Uncertainty) -> None:
    deviations = {"age": 0.05, "smoker": 0.05, "crp": 0.05}
    assert patient(**parts).describe(deviations=deviations).uncertainty is meant
    assert patient(half_widths=None).describe().uncertainty is Uncertainty.EXACT
    few = patient(half_widths=None).describe(deviations={"age": 0.05})
    assert few.uncertainty is Uncertainty.EXACT


def test_the_weakest_features_are_added_up() -> None:
    found = contributions(patient(), most=1)
    assert list(found) == ["age", "2 others"]
    assert found["2 others"].amount == pytest.approx(-0.115)
    assert found["2 others"].high == pytest.approx(-0.115 + 0.1 * 2**0.5)
    assert not found["2 others"].missing


def test_values_without_a_schema_are_shown_as_they_stand() -> None:
    plain = patient(notes=[])
    assert contributions(plain, schema=None)["smoker"].named == "smoker = 1"
    texts = patient(data=[["71", "yes", "0"]], notes=[])
    assert contributions(texts)["smoker"].named == "smoker = yes"
    large = Schema("s", (Feature("age", Numbers(0, 1e6)),))
    shown = patient(data=[[123456.0, 1.0, 0.0]], notes=[])
    assert contributions(shown, schema=large)["age"].value_text == "123,456"


def test_a_description_is_plain_frozen_data() -> None:
    described = patient().describe(schema=CLINIC)
    with pytest.raises(FrozenInstanceError):
        described.rows = 2  # type: ignore[misc]
    assert described == patient().describe(schema=CLINIC)
    assert "<" not in repr(described.outputs)


def test_sizes_have_no_sign_and_lead_to_no_prediction() -> None:
    sizes = patient(values=[[0.4, -0.05, 0.0]], notes=[KnownNote.ABSOLUTE], data=None)
    described = sizes.describe()
    assert described.outputs[0].prediction is None
    assert [each.text for each in described.outputs[0].contributions] == [
        "0.40 ± 0.10",
        "0.00 ± 0.10",
        "0.00 ± 0.10",
    ]


def promised(unit: ProtectedUnit) -> Guarantee:
    protected = Protected(unit, Relation.REPLACE_ONE, "people v1")
    return Guarantee(
        epsilon=1.0,
        delta=1e-6,
        protected=protected,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="Gaussian noise",
        composition="none",
    )


def noisy(values: Any, unit: ProtectedUnit = ProtectedUnit.EXPLAINED_ROW) -> Explanation:
    """Values with privacy noise, the 95 % interval of which is ± 9."""
    found = np.atleast_2d(np.array(values, float))
    return Explanation(
        values=found,
        base_values=np.zeros(1),
        feature_names=tuple(f"f{n}" for n in range(found.shape[1])),
        half_widths=np.full(found.shape, 9.0),
        guarantees=(promised(unit),),
    )


def test_an_answer_of_pure_noise_says_so_first() -> None:
    answer = noisy([8.3, -1.0, 4.0, 0.5])
    (alarm,) = answer.describe().alarms
    assert alarm == (
        "These numbers are mostly noise: 4 of 4 cannot be told from zero. "
        "Try the strongest features by name (--top), fewer features, a coarser level, or a "
        "larger epsilon."
    )
    (of_rows,) = noisy([8.3, -1.0], ProtectedUnit.ROW).describe().alarms
    assert of_rows.endswith(
        "Try more background rows, fewer features, a coarser level, or a larger epsilon."
    )
    shown = answer._repr_html_()
    assert shown.index(html.escape(alarm)) < shown.index("feature</th>")
    for draw in (plots.bar, plots.whiskers):
        assert alarm in draw(answer).get_suptitle().replace("\n", " ")


def test_noise_alarms_count_every_released_value() -> None:
    """Of twenty values one may miss zero by chance; two of them are one in ten, and no alarm."""
    (alarm,) = noisy([20.0] + [1.0] * 19).describe(most=2).alarms
    assert "19 of 20 cannot be told from zero" in alarm
    assert noisy([20.0, -20.0] + [1.0] * 18).describe().alarms == ()
    rows = noisy([[1.0, 2.0], [20.0, 20.0]])
    assert rows.describe().alarms == rows.describe(1).alarms == ()
    assert len(rows.describe(0).alarms) == 1


@pytest.mark.parametrize("errors", [None, [[0.1, 0.1, 0.1]]])
def test_true_zeros_and_sampling_raise_no_noise_alarm(errors: Any) -> None:
    zeros = patient(values=[[0.0, 0.0, 0.0]], half_widths=None, standard_errors=errors)
    assert zeros.describe().alarms == ()
    assert patient(values=[[0.0] * 3], half_widths=[[0.0] * 3]).describe().alarms == ()


def test_rounding_of_the_machine_is_shown_as_zero() -> None:
    one = patient(values=[[0.25, 4.35e-17, 1e-9]], half_widths=None)
    assert [each.text for each in contributions(one).values()] == ["+0.25", "+1e-09", "0"]
    small = patient(values=[[1e-20, -3e-20, 0.0]], half_widths=None)
    assert [each.text for each in contributions(small).values()] == ["-3e-20", "+1e-20", "0"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.0759, -0.00296, 0.5], ["+0.500", "+0.076", "-0.003"]),
        ([0.5, 0.25, 0.1], ["+0.50", "+0.25", "+0.10"]),
        ([3.0, 1.0, 0.0], ["+3", "+1", "0"]),
        ([12_345.6, -0.04, 250.0], ["+12,346", "+250", "-0.04"]),
        ([2e-7, 1e-7, 5e-8], ["+2e-07", "+1e-07", "+5e-08"]),
        ([4e12, 1.0, 0.0], ["+4e+12", "0", "0"]),
    ],
)
def test_exact_amounts_line_up(values: list[float], texts: list[str]) -> None:
    described = patient(values=[values], half_widths=None).describe()
    assert [each.text for each in described.outputs[0].contributions] == texts
