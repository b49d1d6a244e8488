"""`--method`: each by its name, free where it may be, refused where nothing bounds it."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from tests.protecting import row_of
from tests.unit.app.explain.examples import BACKGROUND, ROWS, SCHEMA
from tests.unit.app.federate.test_run import write_files
from tests.unit.cli.test_explain import prepared

from voile.app.calls import handle
from voile.app.commands.explain import Explain
from voile.app.explain.building import build_release
from voile.app.explain.inputs import load_inputs
from voile.app.federate import federate, read_job
from voile.attribution import (
    ExactShapley,
    Gradient,
    IntegratedGradients,
    KernelShapley,
    Lime,
    PermutationShapley,
    SurrogateShapley,
)
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import ProtectedUnit
from voile.core.row_note import KnownNote
from voile.models import Box, wrap

__all__ = ["prepared"]
pytestmark = pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")
HERE = "tests.unit.app.explain.test_methods"
SLOPES = np.array([0.03, -0.02, 0.1])
LINEAR = wrap(
    lambda rows: 0.4 + rows @ SLOPES,
    outputs=Box(0, 1),
    output_names=("approved",),
    gradient=lambda rows, _: np.broadcast_to(SLOPES, rows.shape),
)
_DRAWN = np.random.default_rng(3).uniform(0, [10, 10, 1], (80, 3)).round()
_BINARY = _DRAWN[:, 0] > _DRAWN[:, 1]
FOREST = RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0).fit(_DRAWN, _BINARY)
BOOSTED = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(
    _DRAWN, _BINARY
)
FREE: dict[str, Any] = {
    "model_origin": "public",
    "schema": "loans.toml",
    "background": "public.csv",
    "background_origin": "public",
}
COSTS: dict[str, dict[str, Any]] = {
    "population": {"account": "customers", "epsilon": 0.5},
    "explained-row": {"account": "people", "epsilon": 0.5, "id_column": "id"},
}


@pytest.fixture(autouse=True)
def here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def explained(method: str | None, of: str = "LINEAR", **stated: Any) -> Explanation:
    asked = {"model": f"{HERE}:{of}", "data": ROWS, "method": method, **FREE, **stated}
    found: Explanation = handle(Explain.read(asked)).explained.explanation
    return found


@pytest.mark.parametrize(
    ("method", "explainer"),
    [
        ("exact", ExactShapley(LINEAR, BACKGROUND, schema=SCHEMA)),
        ("kernel", KernelShapley(LINEAR, BACKGROUND, schema=SCHEMA)),
        ("permutation", PermutationShapley(LINEAR, BACKGROUND, schema=SCHEMA)),
        ("lime", Lime(LINEAR, BACKGROUND, schema=SCHEMA)),
        ("gradients", IntegratedGradients(LINEAR, BACKGROUND, schema=SCHEMA)),
        ("saliency", Gradient(LINEAR, schema=SCHEMA)),
    ],
)
def test_each_method_is_the_explainer_of_its_name_and_free(method: str, explainer: Any) -> None:
    found = explained(method)
    assert np.array_equal(found.values, explainer(ROWS).values)
    assert found.carries(KnownNote.ALL_PUBLIC)


def test_without_a_method_it_is_what_it_was() -> None:
    usual, exact = explained(None), explained("exact")
    assert np.array_equal(usual.values, exact.values)


def test_what_does_not_add_up_leads_to_no_prediction() -> None:
    """A page would else print a sum as the model's prediction."""
    for method in ("exact", "gradients", "lime", "saliency"):
        shown = explained(method, data=ROWS[:1]).describe().outputs[0]
        assert (shown.prediction is None) == (method in ("lime", "saliency")), method


def test_trees_of_a_forest_give_its_exact_values_of_the_chosen_class() -> None:
    by_trees = explained("trees", "FOREST")
    exact = explained("exact", "FOREST")
    assert by_trees.output_names == exact.output_names
    assert by_trees.values == pytest.approx(exact.values, abs=1e-6)
    first = exact.output_names[0]
    other = explained("trees", "FOREST", output_name={"True": "False"}[first])
    assert other.values == pytest.approx(-by_trees.values, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "of", "reason"),
    [
        ("trees", "LINEAR", "as trees"),
        ("gradients", "FOREST", "needs gradients"),
        ("saliency", "FOREST", "needs gradients"),
        ("surrogate", "LINEAR", "artefact"),
    ],
)
def test_a_model_that_does_not_offer_it_is_refused(method: str, of: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        explained(method, of)


def test_trees_that_add_up_to_something_else_are_refused_for_any_class() -> None:
    for name in ("False", "True"):
        with pytest.raises(InvalidInput, match="log-odds"):
            explained("trees", "BOOSTED", output_name=name)


@pytest.mark.parametrize("method", ["kernel", "permutation", "lime", "gradients", "saliency"])
def test_over_protected_background_rows_only_shapley_values_have_a_bound(method: str) -> None:
    charged: dict[str, Any] = {
        "background_origin": None,
        "protect": "background",
        "account": "customers",
    }
    charged |= {"data": ROWS[:1]}
    with pytest.raises(Refused, match="nothing bounds"):
        explained(method, background="customers.csv", **charged)
    found = explained("exact", background="customers.csv", epsilon=0.5, **charged)
    assert found.guarantees[0].epsilon == 0.5


def test_exact_values_over_protected_rows_are_the_question_asked_without_a_method() -> None:
    asked = {**FREE, "background": "customers.csv", "background_origin": None, "epsilon": 0.5}
    asked |= {"protect": "background", "account": "customers", "model": f"{HERE}:LINEAR"}
    first = handle(Explain.read({**asked, "data": ROWS[:1]})).explained
    again = handle(Explain.read({**asked, "data": ROWS[:1], "method": "exact"})).explained
    assert first.charges
    assert again.replayed


@pytest.mark.parametrize("method", ["exact", "permutation", "lime", "gradients", "saliency"])
@pytest.mark.parametrize("protect", COSTS)
def test_clipped_vectors_are_charged_by_any_method(method: str, protect: str) -> None:
    """The bound is that of the clipping, whatever the vector was computed by."""
    data = "applicants.csv" if protect == "explained-row" else "customers.csv"
    found = explained(method, data=data, protect=protect, **COSTS[protect])
    own = found.guarantees[0]
    assert own.epsilon == 0.5
    assert (own.protected.unit is ProtectedUnit.EXPLAINED_ROW) == (protect == "explained-row")


def test_another_method_is_another_question() -> None:
    account: Any = SimpleNamespace(protected=row_of("customers v1"), delta=1e-5)
    tags = set()
    for method in (None, "exact", "kernel", "permutation", "lime", "gradients", "saliency"):
        asked = {"model": f"{HERE}:LINEAR", "protect": "population", "method": method, **FREE}
        inputs = load_inputs(Explain.read({**asked, "epsilon": 0.5}).spec)
        identity = build_release(inputs, account, 60).identity
        tags.add((identity.explainer, identity.parameters))
    assert len(tags) == 6, "all but the default, which is exact for three features"


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"level": "granular", "role": "auditor", "method": "lime"}, "pairs of features"),
        ({"explainer": "e.safetensors", "method": "lime"}, "leave out --method"),
        ({"method": "magic"}, "expected one of"),
    ],
)
def test_what_contradicts_itself_is_refused(stated: dict[str, Any], reason: str) -> None:
    with pytest.raises((InvalidInput, Refused), match=reason):
        explained(stated.pop("method"), **stated)


def test_pairs_are_exact_anyway() -> None:
    found = explained("exact", level="granular", role="auditor")
    assert found.shape[1] == 6


def test_groups_play_by_a_sampled_method_and_are_added_up_for_gradients() -> None:
    for method in ("permutation", "lime"):
        assert explained(method, level="summary").feature_names == ("money", "work")
    summed = explained("gradients", level="summary")
    assert summed.carries(KnownNote.SUMMED)
    with pytest.raises(InvalidInput, match="background"):
        explained("lime", background=None, background_origin=None)
    alone = explained("saliency", background=None, background_origin=None)
    assert alone.values[:, :, 0] == pytest.approx(np.broadcast_to(SLOPES, ROWS.shape))


def test_the_surrogate_of_an_artefact_is_explained_without_background(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    made = federate(read_job(write_files(study))).artefact
    rows = made.reference[:2]
    free = {"model": str(made.folder), "data": rows, "method": "surrogate"}
    found: Explanation = handle(Explain.read(free)).explained.explanation
    expected = SurrogateShapley(made.surrogate)(rows).output(found.output_names[0])
    assert np.array_equal(found.values, expected.values)
    assert found.guarantees == made.guarantees
    with pytest.raises(Refused, match="detailed only"):
        handle(Explain.read({**free, "level": "summary"}))
