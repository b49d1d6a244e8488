"""What people are shown of one row: everything that is in the explanation, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.pages import framed, promises_html, row_html

from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.views.text import STUDIED

CLINIC = Schema(
    "clinic",
    (
        Feature("age", Numbers(0, 120), unit="years"),
        Feature("ward", Categories(("north", "south"))),
    ),
    Label("readmission", Categories(("no", "yes"))),
)


def promise(unit: ProtectedUnit) -> Guarantee:
    return Guarantee(
        epsilon=1.0,
        delta=1e-6,
        protected=Protected(unit, Relation.REPLACE_ONE, "clinic v1"),
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="noise",
        composition="one release",
    )


def patient(**parts: Any) -> Explanation:
    given: dict[str, Any] = {
        "values": [[0.25, -0.01]],
        "base_values": 0.5,
        "feature_names": ("age", "ward"),
        "output_names": ("yes",),
        "data": [[71.0, 1.0]],
    }
    return Explanation(**given | parts)


def page_of(
    explanation: Explanation,
    schema: Schema | None = None,
    deviations: Mapping[str, float] | None = None,
) -> str:
    return row_html(explanation.describe(0, schema=schema, deviations=deviations))


def test_prediction_base_values_units_and_categories() -> None:
    page = page_of(patient(), CLINIC)
    for words in ("probability of readmission = yes", "0.74", "0.5", "71 years", "south", "+0.25"):
        assert words in page
    assert "exactly" in page
    assert "pale" not in page


def test_bars_that_cannot_be_told_from_zero_are_pale() -> None:
    page = page_of(patient(half_widths=[[0.1, 0.1]]), CLINIC)
    assert re.findall(r'<rect class="([a-z ]+)"', page) == ["raises", "lowers pale"]
    assert "+0.25 ± 0.1" in page
    assert "(1 of 2)" in page
    assert "0.740</b>\n± 0.17" in page  # three independent errors of 0.1


def test_bars_lie_inside_the_picture_and_begin_at_zero() -> None:
    page = page_of(patient(values=[[3.0, -1.0]], half_widths=[[0.5, 2.0]]))
    found = re.findall(r'x="([\d.]+)" y="2" width="([\d.]+)"', page)
    (zero,) = set(re.findall(r'class="zero" x1="([\d.]+)"', page))
    (left, width), (other, span) = [(float(a), float(b)) for a, b in found]
    assert left == pytest.approx(float(zero), abs=0.01)
    assert other + span == pytest.approx(float(zero), abs=0.01)
    assert width == pytest.approx(3 * span, abs=0.01)
    assert all(0 <= float(x) <= 100 for x in re.findall(r'x[12]="([\d.]+)"', page))


@pytest.mark.parametrize(
    ("base", "said"),
    [
        (1.066e-6, "below 0.001"),
        (0.0, "below 0.001"),
        (0.00123, "0.001"),
        (0.5, "0.500"),
        (0.99899, "0.999"),
        (0.99999, "above 0.999"),
    ],
)
def test_a_probability_has_no_powers_of_ten_and_is_never_quite_certain(
    base: float, said: str
) -> None:
    flat = patient(values=[[0.0, 0.0]], base_values=base)
    assert page_of(flat, CLINIC).count(f"<b>{said}</b>") == 2
    assert page_of(flat).count(f"<b>{base:.4g}</b>") == 2  # nobody says that it is a probability
    noisy = patient(values=[[0.0, 0.0]], base_values=-0.05, half_widths=[[0.1, 0.1]])
    assert "<b>-0.050</b>" in page_of(noisy, CLINIC)


@pytest.mark.parametrize(
    ("value", "near", "said"),
    [
        (4.19e-05, 0.022, "+0.000 ± 0.022"),
        (-10.49, 9.17, "-10.5 ± 9.2"),
        (1234.5, 310.4, "+1234 ± 310"),
        (0.25, 0.0, "+0.25 ± 0"),
        (2e-9, 1e-9, "+2e-09 ± 1e-09"),
    ],
)
def test_a_contribution_has_the_digits_that_its_uncertainty_leaves(
    value: float, near: float, said: str
) -> None:
    page = page_of(patient(values=[[value, 0.0]], half_widths=[[near, near]]))
    assert f">{said}</td>" in page


def test_an_estimate_of_training_noise_is_called_an_estimate() -> None:
    page = page_of(patient(), CLINIC, {"age": 0.01, "ward": 0.02})
    assert "a rough estimate" in page
    assert "+0.250 ± 0.020" in page
    assert "lowers pale" in page
    assert "0.740</b>;" in page  # the prediction itself is what the model says
    assert STUDIED in page
    assert "a rough estimate" not in page_of(patient(half_widths=[[0.1, 0.1]]), None, {"age": 1.0})
    assert "exactly" in page_of(patient(), None, {"age": 0.01})  # not for every feature


def test_what_a_study_found_is_what_the_page_says() -> None:
    path = Path(__file__).parents[3] / "results" / "stability_coverage.json"
    mean, twin = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert f"on average in {round(100 * mean['ours'])} of 100" in STUDIED
    assert f"without noise would have given in {round(100 * twin['ours'])} only" in STUDIED


def test_where_the_row_is_protected_neither_values_nor_a_prediction_are_shown() -> None:
    hidden = patient(
        data=None, half_widths=[[0.1, 0.1]], guarantees=[promise(ProtectedUnit.EXPLAINED_ROW)]
    )
    page = page_of(hidden, CLINIC)
    assert "0.74" not in page
    assert "0.5" not in page
    assert "value</th>" not in page
    assert "0.74" in page_of(patient(guarantees=[promise(ProtectedUnit.ROW)]), CLINIC)


@pytest.mark.parametrize("note", [KnownNote.ABSOLUTE, KnownNote.NAMES_ONLY])
def test_what_adds_up_to_nothing_has_no_prediction(note: KnownNote) -> None:
    page = page_of(patient(notes=[note]), CLINIC)
    assert "0.74" not in page
    assert ("-0.01" in page) == (note is KnownNote.NAMES_ONLY)  # sizes are never below 0


def test_promises_in_words_with_the_formal_line_beneath() -> None:
    page = promises_html(
        patient(guarantees=[promise(ProtectedUnit.ROW)], notes=["noted <b>"]).describe()
    )
    assert "For each record of &#39;clinic v1&#39;" in page
    assert "(ε = 1, δ = 1e-6)" in page
    assert "noted &lt;b&gt;" in page
    assert "No privacy guarantee." in promises_html(patient().describe())
    assert "is needed" in promises_html(patient(notes=[KnownNote.ALL_PUBLIC]).describe())


def test_notebooks_show_the_same_and_say_what_they_leave_out() -> None:
    many = patient(values=[[0.25, -0.01]] * 9, data=[[71.0, 1.0]] * 9)
    page = many._repr_html_()
    assert "No privacy guarantee." in page
    assert page.count("<table") == 5
    assert "and 4 more rows" in page
    assert str(page_of(patient())) in patient()._repr_html_()


def test_names_from_outside_are_escaped_and_nothing_is_loaded_from_elsewhere() -> None:
    odd = patient(feature_names=("<script>", "b"), output_names=("<i>",))
    page = framed("<t>", page_of(odd))
    assert "<script>" not in page
    assert "<i>" not in page
    assert "<title>&lt;t&gt;" in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
