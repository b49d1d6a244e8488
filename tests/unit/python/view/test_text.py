"""What a view says in a terminal and in a notebook: the guarantee first."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.python.views import NAMES, PROMISE, core, plain, with_words
from voile import Explanation, ExplanationView
from voile.app.explain import LoggedAnswer, ReleasedExplanation
from voile.core.row_note import KnownNote, filled_note
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.python.view.cells import cell_text


def small(**parts: Any) -> ExplanationView:
    given: dict[str, Any] = {
        "values": [[0.25, -0.1234, 0.004], [0.05, 0.3, 0.1]],
        "base_values": 0.3,
        "feature_names": ("age", "body mass", "ward"),
        "output_names": ("readmitted",),
        "data": [[71.0, 24.0, 1.0], [12_500.0, 31.5, 0.0]],
    }
    display = [[71, 24.0, "oncology"], [12_500, np.nan, None]]
    return ExplanationView(Explanation(**(given | parts)), display=display, method="exact")


def test_one_row_in_a_terminal() -> None:
    assert repr(small()[0]).splitlines() == [
        "no privacy guarantee",
        "row 0, 3 features, output: readmitted, method: exact",
        "readmitted: base 0.3 → prediction 0.4306",
        "",
        "  feature    value     contribution",
        "  age        71              +0.250",
        "  body mass  24              -0.123",
        "  ward       oncology        +0.004",
    ]
    assert "  body mass  missing" in repr(small()[1])
    assert "12,500" in repr(small()[1])


def test_several_rows_in_a_terminal() -> None:
    assert repr(small()).splitlines()[1:] == [
        "2 rows, 3 features, output: readmitted, method: exact",
        "",
        "  feature    mean |contribution|",
        "  body mass                0.212",
        "  age                      0.150",
        "  ward                     0.052",
    ]
    assert "mean of 2 rows, 3 features" in repr(small().abs.mean(0))


def test_several_outputs_stand_side_by_side() -> None:
    shown = repr(plain(outputs=5)[0])
    assert "5 outputs: class 0, class 1, class 2, …" in shown
    assert re.search(r"contribution to\n  feature +value +class 0 +class 1 +class 2\n", shown)
    assert shown.endswith("and 2 more outputs")
    assert shown.count("→ prediction") == 3


def test_many_features_are_added_up_and_long_words_are_cut() -> None:
    values = np.linspace(1, 2, 40)[np.newaxis]
    names = tuple(f"{'very ' * 9}long name {k}" for k in range(40))
    shown = repr(
        ExplanationView(Explanation(values=values, base_values=np.zeros(1), feature_names=names))
    )
    assert "32 others" in shown
    assert max(map(len, shown.splitlines())) <= 88


def test_the_guarantee_comes_first_and_lines_stay_short() -> None:
    shown = repr(plain(guarantees=(PROMISE,), half_widths=np.full((30, 5, 1), 0.01)))
    assert shown.startswith("guarantee: (ε = 0.5, δ = 1e-6) for each row of 'clinic v3'")
    assert " ± 0.010" in shown
    assert max(map(len, shown.splitlines())) <= 88
    public = plain(notes=(KnownNote.ALL_PUBLIC,))
    assert repr(public).startswith("no privacy guarantee is needed: made from public artefacts")


def test_noise_alone_is_called_noise() -> None:
    shown = repr(plain(guarantees=(PROMISE,), half_widths=np.full((30, 5, 1), 9.0)))
    assert "Do not use it as it is. These numbers are mostly noise" in shown.replace("\n  ", " ")


def test_what_it_cost_is_said_last() -> None:
    whole = core(guarantees=(PROMISE,))
    entry = LoggedAnswer(whole, b"", 7, "charge-1", replayed=False, nonces={})
    why = ExplanationView(whole, released=ReleasedExplanation(whole, (entry,)))
    assert repr(why[0]).endswith("charged: charge-1; record 7")
    assert "charged: charge-1; record 7" in why._repr_html_()


def test_a_schema_gives_its_words_where_something_was_released() -> None:
    features = (
        Feature("age", Numbers(0, 120), unit="years"),
        Feature("ward", Categories(("x", "y"))),
    )
    schema = Schema("clinic", features, Label("readmitted", Categories(("no", "yes"))))
    whole = Explanation(
        values=np.array([[0.2, -0.1]]),
        base_values=np.array(0.5),
        feature_names=("age", "ward"),
        output_names=("yes",),
        data=np.array([[71.0, 1.0]]),
    )
    released = ReleasedExplanation(whole, (), schema=schema)
    shown = repr(ExplanationView(whole, display=[[71, "y"]], released=released)[0])
    assert "probability of readmitted = yes: base 0.500 → prediction 0.600" in shown
    assert "71 years" in shown


def test_what_was_filled_in_is_missing() -> None:
    whole = core(1, notes=(filled_note("bmi", 25.0, [0]),))
    rows = [[41, None, "f", "surgery", "2024"]]
    shown = repr(ExplanationView(whole, display=rows)).splitlines()
    assert [each.split()[1] for each in shown if each.startswith("  bmi")] == ["missing"]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (None, "missing"),
        (np.nan, "missing"),
        (pd.NaT, "missing"),
        (pd.NA, "missing"),
        (np.datetime64("NaT"), "missing"),
        (True, "True"),
        (np.bool_(False), "False"),
        (3, "3"),
        (np.float32(0.5), "0.5"),
        (2024, "2024"),
        (1_234_567.8, "1,234,568"),
        ("no", "no"),
        (datetime(2024, 3, 1), "2024-03-01"),
        (pd.Timestamp("2024-03-01 12:30"), "2024-03-01 12:30:00"),
        (date(2024, 3, 1), "2024-03-01"),
    ],
)
def test_a_cell_is_written_for_people(cell: Any, said: str) -> None:
    assert cell_text(cell) == said


# --- in a notebook --------------------------------------------------------------------------------


def test_a_notebook_shows_the_guarantee_then_a_picture() -> None:
    page = with_words(guarantees=(PROMISE,), half_widths=np.full((30, 5, 1), 0.01))[1]._repr_html_()
    body = page[page.index("</style>") :]
    places = [body.index(each) for each in ('class="promise"', "ε = 0.5", "on average", "<svg")]
    assert places == sorted(places)
    assert page.count('<svg viewBox="0 0 100 10"') == len(NAMES)
    assert "<td>missing</td>" in page


def test_a_notebook_shows_rows_together_and_escapes_names() -> None:
    names = ("<b>", "b", "c", "d", "e")
    page = ExplanationView(core(feature_names=names))._repr_html_()
    assert "No privacy guarantee." in page
    assert "mean |contribution|" in page
    assert page.count("<table") == 1
    assert "&lt;b&gt;" in page
    assert "<b></td>" not in page
