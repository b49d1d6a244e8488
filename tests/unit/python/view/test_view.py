"""An explanation in Python has the manners of shap, and keeps its guarantees."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.python.views import NAMES, PROMISE, core, displayed, plain, shap, with_words
from voile import Explanation, ExplanationView
from voile.app.explain import ReleasedExplanation
from voile.core.description import Uncertainty
from voile.core.errors import InvalidInput
from voile.core.row_note import KnownNote

# --- shapes and names -----------------------------------------------------------------------------


def test_an_axis_with_one_output_is_dropped() -> None:
    one, several = plain(), plain(outputs=3)
    assert (one.shape, one.ndim, len(one)) == ((30, 5), 2, 30)
    assert one.values.shape == (30, 5)
    assert one.base_values.shape == (30,)
    assert one.output_names == "yes"
    assert several.shape == (30, 5, 3)
    assert several.base_values.shape == (30, 3)
    assert several.output_names == ["class 0", "class 1", "class 2"]
    assert one.explanation.shape == (30, 5, 1)


def test_an_axis_is_dropped_where_one_number_or_name_chooses_it() -> None:
    why = plain(outputs=3)
    assert why[0].shape == (5, 3)
    assert why[0:1].shape == (1, 5, 3)
    assert why[-1, "age"].shape == (3,)
    assert why[..., "class 1"].shape == (30, 5)
    assert why[..., ["class 1"]].shape == (30, 5, 1)
    assert why[:, "age", "class 1"].shape == (30,)
    assert why[0, ..., 2].shape == (5,)
    assert why[0][..., "class 1"]["ward"].shape == ()
    assert float(why[0]["ward", "class 1"]) == why.explanation.values[0, 3, 1]


def test_a_population_has_one_size_for_each_feature() -> None:
    found = ExplanationView(core(1, data=None, notes=(KnownNote.ABSOLUTE,)))
    assert found.shape == (5,)
    assert list(found.to_frame().columns) == ["importance"]
    assert list(plain().abs.mean(0).to_frame().columns) == ["importance"]
    assert "a population, 5 features, output: yes" in repr(found)


def test_parts_are_those_of_shap() -> None:
    why, theirs = plain(outputs=3), plain(outputs=3).to_shap()
    items: list[Any] = [0, slice(3, 9), (slice(None), "ward"), (..., 1), (2, "age"), [4, 2, 7]]
    for item in items:
        mine, other = why[item], theirs[item]
        assert np.array_equal(mine.values, other.values), item
        assert np.array_equal(mine.base_values, other.base_values), item
        assert np.array_equal(mine.data, other.data), item
        assert mine.feature_names == other.feature_names, item


def test_rows_are_chosen_by_masks_of_numpy_and_pandas() -> None:
    why = plain()
    old = why.data[:, 0] > 60
    assert np.array_equal(why[old].values, why.values[old])
    assert np.array_equal(why[pd.Series(old)].values, why.values[old])
    assert np.array_equal(why[np.array([3, 1])].values, why.values[[3, 1]])
    assert why[np.int64(3)].shape == (5,)
    assert why[:, why.abs.mean(0).argsort[-1]].feature_names in NAMES


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("age", r"rows have no names; a feature is chosen by \[:, 'age'\]"),
        ((0, 0, 0), "has rows, features to choose from"),
        ((..., ...), "has rows, features to choose from"),
        ((0, "agee"), "no feature is called 'agee'; known: age, bmi"),
        (99, "no such row"),
        (None, "no such row"),
        ([], "at least one row must be chosen"),
    ],
)
def test_a_wrong_choice_says_what_there_is(item: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plain()[item]


def test_rows_come_one_by_one() -> None:
    assert [each.shape for each in plain(3)] == [(5,)] * 3
    with pytest.raises(TypeError, match="no length"):
        len(plain()[0, 0])


# --- combinations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mean", "sum", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_combinations_are_those_of_numpy(name: str, axis: int) -> None:
    why = plain()
    combined = getattr(why, name)(axis)
    assert np.allclose(combined.values, getattr(np, name)(why.values, axis=axis))
    assert combined.ndim == 1
    assert np.array_equal(why.abs.values, np.abs(why.values))
    assert np.allclose(why.percentile(10, 0).values, np.percentile(why.values, 10, axis=0))


def test_only_mean_and_sum_still_add_up_to_a_prediction() -> None:
    why = plain()
    assert why.mean(0).describe().outputs[0].prediction is not None
    for other in (why.abs[0], why.max(0), why[0, ["age", "bmi"]], plain(outputs=2)[0].mean(1)):
        assert other.describe().outputs[0].prediction is None
        assert KnownNote.NOT_ADDITIVE in other.notes
    assert KnownNote.ABSOLUTE in why.abs.mean(0).notes
    assert KnownNote.NOT_ADDITIVE not in why[0, NAMES[::-1]].notes


def test_a_combination_is_at_least_as_uncertain_as_it_is_said_to_be() -> None:
    """Of noise with heavy tails, 95 % of combinations lie within the ± that is told."""
    draw, widths = np.random.default_rng(5), np.full((40, 5, 1), np.log(20))
    truth = plain(40, values=draw.normal(size=(40, 5, 1)))
    inside = {"mean": 0, "sum": 0, "max": 0, "min": 0}
    trials = 400
    for _ in range(trials):
        values = truth.explanation.values + draw.laplace(size=(40, 5, 1))
        noisy = plain(40, values=values, half_widths=widths)
        for name in inside:
            found, right = (getattr(each, name)(0)[0] for each in (noisy, truth))
            inside[name] += abs(found.values - right.values) <= found.half_widths
    assert min(inside.values()) >= 0.95 * trials


def test_the_noise_of_a_combination_is_never_left_out() -> None:
    why = plain(half_widths=np.full((30, 5, 1), 0.2))
    assert np.allclose(why.mean(0).half_widths, 0.2)
    assert np.allclose(why.sum(1).half_widths, 1.0)
    assert np.allclose(why.max(0).half_widths, 0.2 * (1 + np.log(30) / np.log(20)))
    assert np.allclose(why.upper_bounds - why.lower_bounds, 0.4)
    assert np.allclose(why.abs.half_widths, 0.2)
    sampled = plain(standard_errors=np.full((30, 5, 1), 0.1))
    assert np.allclose(sampled.mean(0).standard_errors, 0.1)
    for each in (why.min(0), why.percentile(10, 1), sampled.max(0), plain().max(0)):
        exact = each.describe().uncertainty is Uncertainty.EXACT
        assert exact == (each.half_widths is None)
    assert plain().max(0).half_widths is None


def test_values_of_rows_are_averaged_only_where_they_are_numbers() -> None:
    assert np.allclose(plain().mean(0).data, plain().data.mean(0))
    assert with_words().mean(0).data is None
    assert with_words().mean(0).display_data is None
    assert with_words(outputs=2).mean(2).display_data is not None


def test_an_axis_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"one of 0 \(rows\), 1 \(features\), found 2"):
        plain().mean(2)
    with pytest.raises(InvalidInput, match="found None"):
        plain().mean(None)  # type: ignore[arg-type]


def test_a_sample_is_the_same_for_the_same_state() -> None:
    why = plain()
    assert why.sample(7) == why.sample(7) != why.sample(7, random_state=1)
    assert len(why.sample(99)) == 30
    assert len(why.sample(99, replace=True)) == 99


def test_guarantees_stay_whatever_is_done() -> None:
    why = plain(guarantees=(PROMISE,))
    for each in (why[0], why[:, "age"], why.abs.mean(0), why.max(1), why.sample(3), why[0, 0]):
        assert each.guarantees == (PROMISE,)
        assert each.guarantee == PROMISE
        assert repr(each).startswith("guarantee: (ε = 0.5, δ = 1e-6)")
    assert plain().guarantee is None


# --- it cannot be changed -------------------------------------------------------------------------


def test_nothing_in_it_can_be_changed() -> None:
    why = with_words()
    with pytest.raises(FrozenInstanceError, match="'values' stays as it is"):
        why.values = 0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del why.method
    for array in (why.values, why.base_values, why.data, why.display_data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    why.feature_names.append("more")  # type: ignore[union-attr]
    assert why.feature_names == list(NAMES)


def test_shap_gets_arrays_of_its_own() -> None:
    why = with_words()
    before = why.values.copy()
    why.to_shap().values[:] = 0
    np.asarray(why).copy()[:] = 0
    assert np.array_equal(why.values, before)


def test_a_copy_is_equal_and_survives_a_pickle() -> None:
    why = with_words(guarantees=(PROMISE,))[3:9]
    for other in (copy.copy(why), copy.deepcopy(why), pickle.loads(pickle.dumps(why))):
        assert other == why
        assert repr(other) == repr(why)
    assert why != plain()
    assert why != why.explanation
    assert (why.explanation == why) is False


# --- what it passes for ---------------------------------------------------------------------------


def test_it_passes_for_an_explanation_of_voile_and_of_shap() -> None:
    why: Any = plain()
    assert isinstance(why, ExplanationView)
    assert isinstance(why, Explanation)
    assert isinstance(why, shap.Explanation)
    assert not isinstance(why, np.ndarray)


def test_shap_is_not_loaded_for_it() -> None:
    script = (
        "import sys, voile\n"
        "e = voile.Explanation(values=[[1.0]], base_values=0, feature_names=['a'])\n"
        "why = voile.ExplanationView(e)\n"
        "assert isinstance(why, voile.Explanation) and repr(why)\n"
        "sys.exit(any(name in sys.modules for name in ('shap', 'pandas', 'matplotlib')))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_arrays_come_in_the_wanted_type() -> None:
    why = plain()
    assert np.asarray(why).shape == (30, 5)
    assert np.asarray(why, dtype=np.float32).dtype == np.float32
    assert np.abs(why).max() == np.abs(why.values).max()


# --- rows as people wrote them --------------------------------------------------------------------


def test_rows_are_shown_as_people_wrote_them() -> None:
    why = with_words()
    assert why[0].display_data[3] in ("surgery", "oncology", "emergency")
    assert why.categories == {"sex", "ward"}
    assert "ward      " in repr(why[1])
    assert "missing" in repr(why[1])
    assert plain().display_data is None
    assert plain().categories == frozenset()


def test_rows_that_are_protected_are_not_shown_beside_their_explanation() -> None:
    hidden = core(data=None, guarantees=(PROMISE,))
    why = ExplanationView(hidden, display=displayed(core()))
    assert why.display_data is None
    assert not {"surgery", "oncology", "emergency"} & set(repr(why[0]).split())


def test_only_an_explanation_can_be_looked_at() -> None:
    with pytest.raises(InvalidInput, match=r"read with voile\.Explanation\.from_shap"):
        ExplanationView(plain().to_shap())
    with pytest.raises(InvalidInput, match="found Explanation"):
        ExplanationView(plain())  # type: ignore[arg-type]


def test_display_has_as_many_rows_as_are_explained() -> None:
    with pytest.raises(InvalidInput, match=r"shape \(30, 5\), as the rows have, found \(3, 5\)"):
        ExplanationView(core(), display=displayed(core(3)))


# --- as something else ----------------------------------------------------------------------------


def test_a_table_keeps_the_index_of_the_rows() -> None:
    explanation = core(3)
    rows = pd.DataFrame(displayed(explanation), columns=NAMES, index=["ann", "bob", "cy"])
    why = ExplanationView(explanation, display=rows)
    frame = why.to_frame()
    assert list(frame.index) == ["ann", "bob", "cy"]
    assert list(frame.columns) == list(NAMES)
    assert np.array_equal(frame.to_numpy(), why.values)
    assert list(why[[2, 0]].to_frame().index) == ["cy", "ann"]
    assert "row bob" in repr(why[1])


def test_one_row_is_a_table_of_features_with_its_values() -> None:
    frame = with_words(half_widths=np.full((30, 5, 1), 0.2))[2].to_frame()
    assert list(frame.index) == list(NAMES)
    assert list(frame.columns) == ["value", "contribution", "low", "high"]
    assert frame.loc["ward", "value"] in ("surgery", "oncology", "emergency")
    assert np.allclose(frame["high"] - frame["low"], 0.4)
    several = plain(outputs=2)[2].to_frame()
    assert list(several.columns) == ["value", "class 0", "class 1"]
    assert list(plain(data=None)[2].to_frame().columns) == ["contribution"]


def test_several_outputs_are_blocks_of_columns() -> None:
    why = plain(outputs=2)
    assert np.array_equal(why.to_frame()["class 1"].to_numpy(), why[..., "class 1"].values)


def test_a_long_table_has_one_contribution_in_each_row() -> None:
    why = with_words(4, outputs=2)
    frame = why.to_frame(long=True)
    assert len(frame) == 4 * 5 * 2
    third = frame.query("row == 3 and feature == 'age' and output == 'class 1'")
    assert third["contribution"].item() == why[3, "age", "class 1"].values
    assert third["value"].item() == why[3].display_data[0]
    assert "output" not in with_words(4).to_frame(long=True)


def test_the_guarantee_goes_with_a_table() -> None:
    assert plain(guarantees=(PROMISE,)).to_frame().attrs["guarantees"] == [str(PROMISE)]
    assert plain()[0].to_frame().attrs["guarantees"] == ["no privacy guarantee"]


def test_plain_values_are_json() -> None:
    found = with_words(3, guarantees=(PROMISE,))[1].to_dict()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert next(iter(again)) == "guarantees"
    assert again["guarantees"][0]["epsilon"] == 0.5
    assert len(again["values"]) == 5
    assert again["data"][1] is None
    assert again["method"] == "tree"
    assert "half_widths" not in again


# --- files ----------------------------------------------------------------------------------------


def test_a_file_comes_back_and_is_the_one_that_the_command_line_opens(tmp_path: Path) -> None:
    why = plain(outputs=2, guarantees=(PROMISE,))
    saved = why.save(tmp_path / "why.voile")
    assert ExplanationView.load(saved) == why
    assert Explanation.load(saved) == why.explanation


def test_what_was_released_is_saved_with_all_outputs(tmp_path: Path) -> None:
    whole = core(outputs=2, guarantees=(PROMISE,))
    released = ReleasedExplanation(whole, ())
    why = ExplanationView(whole, released=released, output="class 1")
    assert why.shape == (30, 5)
    assert why.op_history == []
    assert Explanation.load(why.save(tmp_path / "why.voile")) == whole
    assert len(Explanation.load(why[3:5].save(tmp_path / "part.voile"))) == 2


def test_a_receipt_is_made_when_somebody_asks() -> None:
    made = iter(("first", "second"))
    why = ExplanationView(core(), receipt=lambda: next(made))
    assert why.receipt == "first"
    assert why[3].receipt == "second"
    assert plain().receipt is None
    assert plain().released is None
