"""Where shap and captum compute the same thing, the numbers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from voile.attribution import (
    ExactShapley,
    Gradient,
    IntegratedGradients,
    TreeShapley,
)
from voile.models import wrap

pytestmark = [
    pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*Setting forward, backward hooks.*:UserWarning"),
]

DRAW = np.random.default_rng(11)
BACKGROUND = DRAW.normal(size=(20, 6))
ROWS = DRAW.normal(size=(5, 6))
WEIGHTS = DRAW.normal(size=(6, 8))
OUT = DRAW.normal(size=(8, 2))


def model(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.tanh(rows @ WEIGHTS) @ OUT


@pytest.fixture(scope="module")
def network() -> Any:
    import torch

    torch.manual_seed(3)
    layers = [torch.nn.Linear(6, 16), torch.nn.Softplus(), torch.nn.Linear(16, 3)]
    return torch.nn.Sequential(*layers).double().eval()


def test_exact_values_are_those_of_shap() -> None:
    import shap

    masker = shap.maskers.Independent(BACKGROUND, max_samples=len(BACKGROUND))
    theirs = shap.explainers.Exact(model, masker)(ROWS)
    ours = ExactShapley(model, BACKGROUND)(ROWS)
    assert np.allclose(ours.values, theirs.values, rtol=0, atol=1e-13)
    assert np.allclose(ours.base_values, theirs.base_values, atol=1e-13)


def test_trees_give_the_exact_values_of_the_same_game() -> None:
    from sklearn.ensemble import RandomForestClassifier

    labels = (BACKGROUND[:, 0] * BACKGROUND[:, 1] > 0).astype(int)
    forest = RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0)
    forest.fit(BACKGROUND, labels)
    trees = TreeShapley(forest, BACKGROUND)(ROWS)
    exact = ExactShapley(forest, BACKGROUND)(ROWS)
    assert trees.output_names == exact.output_names == ("0", "1")
    assert np.allclose(trees.values, exact.values, atol=1e-6)  # shap's trees are in float32
    assert np.allclose(trees.base_values, exact.base_values, atol=1e-6)


def test_trees_read_all_of_a_large_background() -> None:
    """Of a bare array of more than 100 rows, shap draws 100 and says nothing."""
    from sklearn.ensemble import RandomForestRegressor

    background = np.random.default_rng(5).random((250, 3))
    target = background[:, 0] * background[:, 1]
    forest = RandomForestRegressor(n_estimators=3, max_depth=4, random_state=0)
    forest.fit(background, target)
    trees = TreeShapley(forest, background)(background[:3])
    exact = ExactShapley(forest, background)(background[:3])
    assert np.allclose(trees.values, exact.values, atol=1e-6)
    assert np.allclose(trees.base_values, exact.base_values, atol=1e-6)


def test_trees_without_background_say_which_game_they_play() -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    labels = (BACKGROUND[:, 0] > 0).astype(int)
    boosted = GradientBoostingClassifier(n_estimators=5).fit(BACKGROUND, labels)
    found = TreeShapley(boosted)(ROWS)
    assert found.output_names == ("output",)
    assert any("tree-path-dependent" in str(note) for note in found.notes)
    total = found.values.sum(axis=1) + found.base_values
    assert np.allclose(total[:, 0], boosted.decision_function(ROWS), atol=1e-6)


def test_what_is_no_tree_is_refused() -> None:
    from sklearn.linear_model import LogisticRegression

    from voile.core.errors import InvalidInput

    fitted = LogisticRegression().fit(BACKGROUND, BACKGROUND[:, 0] > 0)
    with pytest.raises(InvalidInput, match="as trees"):
        TreeShapley(fitted, BACKGROUND)


@pytest.mark.parametrize("baseline", [np.zeros(6), DRAW.normal(size=6)])
def test_integrated_gradients_are_those_of_captum(
    network: Any, baseline: NDArray[np.float64]
) -> None:
    import torch

    captum: Any = pytest.importorskip("captum.attr")

    ours = IntegratedGradients(network, baseline, steps=20)(ROWS)
    inputs, start = torch.from_numpy(ROWS), torch.from_numpy(baseline)[np.newaxis]
    for output in range(3):
        expected = captum.IntegratedGradients(network).attribute(
            inputs, start, target=output, n_steps=20, method="gausslegendre"
        )
        answer = expected.detach().numpy()
        # captum holds points and weights in single precision, whatever the model's is.
        assert np.allclose(ours.values[:, :, output], answer, rtol=0, atol=1e-6)


def test_several_baselines_are_averaged(network: Any) -> None:
    together = IntegratedGradients(network, BACKGROUND[:3])(ROWS)
    apart = [IntegratedGradients(network, start)(ROWS) for start in BACKGROUND[:3]]
    assert np.allclose(together.values, np.mean([one.values for one in apart], axis=0), atol=1e-13)
    assert np.allclose(together.base_values, np.mean([one.base_values for one in apart], axis=0))


def test_gradients_are_those_of_captum(network: Any) -> None:
    import torch

    captum: Any = pytest.importorskip("captum.attr")

    inputs = torch.from_numpy(ROWS).requires_grad_(True)
    expected = captum.InputXGradient(network).attribute(inputs, target=2).detach().numpy()
    times = Gradient(network, times_input=True)(ROWS)
    plain = Gradient(network)(ROWS)
    assert np.allclose(times.values[:, :, 2], expected, atol=1e-13)
    assert np.allclose(plain.values * ROWS[:, :, np.newaxis], times.values)
    assert np.allclose(plain.base_values, wrap(network).predict(ROWS))


def test_a_model_without_gradients_is_refused() -> None:
    from voile.core.errors import InvalidInput

    for method in (IntegratedGradients, Gradient):
        with pytest.raises(InvalidInput, match="needs gradients"):
            method(model)
