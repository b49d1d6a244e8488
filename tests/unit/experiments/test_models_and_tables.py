"""Ten of all models × tables: the values are those of all coalitions, by the definition."""

from __future__ import annotations

import pytest
from experiments.models_and_tables.cases import case, names
from experiments.models_and_tables.comparison import compare

pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

TEN = {
    "LogisticRegression of three | numpy": "linear",
    "RandomForestClassifier | pandas": "tree",
    "HistGradientBoosting | polars": "tree",
    "KNeighborsClassifier | pandas": "exact",
    "XGBClassifier | polars": "tree",
    "LGBMClassifier of three | pandas": "tree",
    "CatBoostRegressor | numpy": "tree",
    "pipeline of RandomForestRegressor | polars": "tree",
    "torch module | numpy": "exact",
    "ONNX session with text | pandas": "exact",
}


@pytest.mark.parametrize("name", TEN)
def test_values_are_those_of_all_coalitions(name: str) -> None:
    found = compare(case(name), shap=False)
    assert found.method == TEN[name]
    assert found.is_close, found


def test_the_experiment_has_more_than_forty_models_and_tables() -> None:
    assert len(names()) > 3 * 32
    assert set(TEN) < set(names())
