"""Models × tables: how each is made, and what shap can be asked about it.

A case holds a fitted model, the rows it takes, and the same rows as an array of codes with a
function from codes to what the model says: that is how somebody would hand a model over text to
shap. It is written here anew, so that no code of the explainer is compared with itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROWS: Final = 260
BACKGROUND: Final = 40
EXPLAINED: Final = 6
TABLES: Final = ("pandas", "polars", "numpy")
_NUMBERS: Final = ("age", "hours", "gain", "loss", "score", "years")
_MIXED: Final = ("age", "hours", "work", "sex", "member", "gain")
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "work": ("office", "farm", "trade", "none"),
    "sex": ("f", "m"),
}


@dataclass(frozen=True, eq=False)
class Case:
    """A model over a table.

    Args:
        name: of the model.
        table: the kind of the table.
        model: fitted.
        background, rows: as the model takes them.
        codes: the same two as numbers.
        says: from codes to the explained numbers (rows, outputs), on the scale of `scale`.
        scale: what `Explainer` is told.
        bare: the model itself, where shap has an explainer for it: "tree" or "linear".
    """

    name: str
    table: str
    model: Any
    background: Any
    rows: Any
    codes: tuple[Array, Array]
    says: Callable[[Array], Array]
    scale: str | None = None
    bare: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


# --- tables ---------------------------------------------------------------------------------------


def numbers() -> dict[str, Array]:
    """Six columns of numbers, some of them whole."""
    draw = np.random.default_rng(1)
    return {
        "age": draw.integers(18, 90, ROWS),
        "hours": draw.normal(38, 9, ROWS).round(1),
        "gain": draw.exponential(900, ROWS).round(),
        "loss": draw.exponential(90, ROWS).round(2),
        "score": draw.random(ROWS),
        "years": draw.integers(0, 20, ROWS),
    }


def mixed() -> dict[str, Array]:
    """Numbers with missing ones, text, and truth values."""
    draw, found = np.random.default_rng(2), numbers()
    hours = found["hours"].copy()
    hours[draw.random(ROWS) < 0.1] = np.nan
    return {
        "age": found["age"],
        "hours": hours,
        "work": np.array(_WORDS["work"], dtype=object)[draw.integers(0, 4, ROWS)],
        "sex": np.array(_WORDS["sex"], dtype=object)[draw.integers(0, 2, ROWS)],
        "member": draw.random(ROWS) < 0.4,
        "gain": found["gain"],
    }


def target(columns: Mapping[str, Array], classes: int) -> Array:
    """A number, or one of some classes, that depends on single columns and on two together."""
    hours = np.nan_to_num(columns["hours"], nan=38.0)
    level = columns["age"] / 30 + np.where(hours > 38, columns["gain"] / 900, 0.5)
    if "sex" in columns:
        level = level + (columns["sex"] == "f") * (columns["work"] == "farm") + columns["member"]
    else:
        level = level + np.sin(4 * columns["score"]) * columns["years"] / 10
    if not classes:
        return np.asarray(level)
    edges = np.quantile(level, np.linspace(0, 1, classes + 1)[1:-1])
    labels = np.array(["low", "high"] if classes == 2 else ["low", "middle", "high"])
    return np.asarray(labels[np.searchsorted(edges, level)])


def as_table(columns: Mapping[str, Array], kind: str) -> Any:
    """A table of pandas, polars or NumPy."""
    import pandas as pd
    import polars as pl

    if kind == "pandas":
        frame = pd.DataFrame(dict(columns))
        return frame.astype({name: "category" for name in ("work",) if name in columns})
    if kind == "polars":
        return pl.DataFrame(
            {name: column.tolist() if column.dtype == object else column
             for name, column in columns.items()}
        )  # fmt: skip
    if any(column.dtype == object for column in columns.values()):
        return np.column_stack([column.astype(object) for column in columns.values()])
    return np.column_stack([column.astype(np.float64) for column in columns.values()])


def coded(columns: Mapping[str, Array]) -> Array:
    """Words as their place in the list; a missing number as -1."""
    return np.column_stack([
        np.array([_WORDS[name].index(word) for word in column], dtype=np.float64)
        if name in _WORDS
        else np.nan_to_num(column.astype(np.float64), nan=-1.0)
        for name, column in columns.items()
    ])  # fmt: skip


def decoded(codes: Array, like: Mapping[str, Array]) -> dict[str, Array]:
    """The inverse, in the types of the columns."""
    found: dict[str, Array] = {}
    for place, (name, column) in enumerate(like.items()):
        code = codes[:, place]
        if name in _WORDS:
            found[name] = np.array(_WORDS[name], dtype=object)[code.astype(int)]
        elif np.isnan(column.astype(np.float64)).any():
            found[name] = np.where(code == -1.0, np.nan, code)
        else:
            found[name] = code.astype(column.dtype)
    return found


# --- models ---------------------------------------------------------------------------------------


def estimators() -> dict[str, tuple[Any, int, str]]:
    """By name an estimator, how many classes it learns (0: numbers), and what shap takes it for."""
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeRegressor

    return {
        "Ridge": (Ridge(), 0, "linear"),
        "LogisticRegression": (LogisticRegression(max_iter=5_000), 2, "linear"),
        "LogisticRegression of three": (LogisticRegression(max_iter=5_000), 3, "linear"),
        "DecisionTreeRegressor": (DecisionTreeRegressor(max_depth=5, random_state=0), 0, "tree"),
        "RandomForestClassifier": (RandomForestClassifier(20, random_state=0), 2, "tree"),
        "RandomForestRegressor": (RandomForestRegressor(20, random_state=0), 0, "tree"),
        "ExtraTreesClassifier": (ExtraTreesClassifier(20, random_state=0), 3, "tree"),
        "GradientBoosting": (
            GradientBoostingClassifier(n_estimators=20, random_state=0),
            2,
            "tree",
        ),
        "HistGradientBoosting": (HistGradientBoostingClassifier(max_iter=20), 2, "tree"),
        "SVC": (SVC(), 2, ""),
        "KNeighborsClassifier": (KNeighborsClassifier(), 3, ""),
        "GaussianNB": (GaussianNB(), 2, ""),
        "MLPClassifier": (
            MLPClassifier(hidden_layer_sizes=(8,), max_iter=60, random_state=0),
            2,
            "",
        ),
    }


def boosters() -> dict[str, tuple[Any, int, str]]:
    """The same of other libraries."""
    from catboost import CatBoostClassifier, CatBoostRegressor
    from lightgbm import LGBMClassifier, LGBMRegressor
    from xgboost import XGBClassifier, XGBRegressor

    silent = {"verbose": 0, "allow_writing_files": False}
    return {
        "LGBMClassifier": (LGBMClassifier(n_estimators=20, verbose=-1), 2, "tree"),
        "LGBMClassifier of three": (LGBMClassifier(n_estimators=20, verbose=-1), 3, "tree"),
        "LGBMRegressor": (LGBMRegressor(n_estimators=20, verbose=-1), 0, "tree"),
        "XGBClassifier": (XGBClassifier(n_estimators=20), 2, "tree"),
        "XGBRegressor": (XGBRegressor(n_estimators=20), 0, "tree"),
        "CatBoostClassifier": (CatBoostClassifier(n_estimators=20, **silent), 2, "tree"),
        "CatBoostRegressor": (CatBoostRegressor(n_estimators=20, **silent), 0, "tree"),
    }


def pipeline(estimator: Any, kind: str) -> Any:
    """Numbers filled in and scaled, words one-hot, truth values as they are."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def named(*names: str) -> list[Any]:
        return [_MIXED.index(name) for name in names] if kind == "numpy" else list(names)

    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), named("age", "hours", "gain")),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), named("work", "sex")),
        ("passthrough", named("member")),
    )
    return make_pipeline(columns, estimator)


# --- cases ----------------------------------------------------------------------------------------


def names() -> list[str]:
    """Of all cases: model, a bar, table."""
    over_numbers = [*estimators(), *boosters()]
    pipelines = [f"pipeline of {name}" for name in (*estimators(), "LGBMClassifier")]
    both = [f"{name} | {kind}" for name in (*over_numbers, *pipelines) for kind in TABLES]
    return [*both, *(f"{name} | {kind}" for name, kind in _OTHERS)]


def case(name: str) -> Case:
    """Make one of them."""
    model, _, kind = name.partition(" | ")
    if (model, kind) in _OTHERS:
        return _OTHERS[model, kind]()
    if model.startswith("pipeline of "):
        estimator, classes, _ = {**estimators(), **boosters()}[model.removeprefix("pipeline of ")]
        columns = mixed()
        fitted = pipeline(estimator, kind).fit(as_table(columns, kind), target(columns, classes))
        return _of_estimator(name, fitted, columns, kind, classes, "")
    estimator, classes, bare = {**estimators(), **boosters()}[model]
    columns = numbers()
    fitted = estimator.fit(_fitting(columns, kind, estimator), target(columns, classes)
                           if "XGB" not in model or not classes
                           else (target(columns, classes) == "high").astype(int))  # fmt: skip
    return _of_estimator(name, fitted, columns, kind, classes, bare)


def _fitting(columns: Mapping[str, Array], kind: str, estimator: Any) -> Any:
    """CatBoost and LightGBM are fitted on pandas where they do not take polars."""
    home = type(estimator).__module__.partition(".")[0]
    pandas = kind == "polars" and home in ("catboost", "lightgbm")
    return as_table(columns, "pandas" if pandas else kind)


def _of_estimator(
    name: str, fitted: Any, columns: dict[str, Array], kind: str, classes: int, bare: str
) -> Case:
    like = dict(columns)
    table_kind = "pandas" if kind == "polars" and bare and not _is_sklearn(fitted) else kind

    def ask(codes: Array) -> Array:
        table = as_table(decoded(codes, like), table_kind)
        return _asked(fitted, table, classes)

    return _case(name, fitted, columns, kind, ask, bare)


def _is_sklearn(model: Any) -> bool:
    return type(model).__module__.startswith("sklearn")


def _asked(model: Any, table: Any, classes: int) -> Array:
    """The numbers that `Explainer` explains without being told: of two classes the second."""
    if not classes:
        return np.asarray(model.predict(table)).reshape(-1, 1)
    margin = _margin(model, table)
    found = np.asarray(model.predict_proba(table) if margin is None else margin)
    if classes == 2:
        return (found if found.ndim == 1 else found[:, -1]).reshape(-1, 1)
    return found


def _margin(model: Any, table: Any) -> Any:
    """Log-odds of linear models and boosted trees, scores of an SVC; None for probabilities."""
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    kind = type(final).__name__
    if kind == "LGBMClassifier":
        return model.predict(table, raw_score=True)
    if kind == "XGBClassifier":
        return model.predict(table, output_margin=True)
    if kind == "CatBoostClassifier":
        return model.predict(table, prediction_type="RawFormulaVal")
    boosted = kind in ("GradientBoostingClassifier", "HistGradientBoostingClassifier")
    if boosted or kind in ("LogisticRegression", "SVC"):
        return model.decision_function(table)
    return None


def _case(
    name: str,
    model: Any,
    columns: dict[str, Array],
    kind: str,
    ask: Callable[[Array], Array],
    bare: str = "",
    **options: Any,
) -> Case:
    part = {each: column[:BACKGROUND] for each, column in columns.items()}
    explained = {each: column[-EXPLAINED:] for each, column in columns.items()}
    return Case(
        name=name.partition(" | ")[0],
        table=kind,
        model=model,
        background=as_table(part, kind),
        rows=as_table(explained, kind),
        codes=(coded(part), coded(explained)),
        says=ask,
        bare=bare,
        options=options,
    )


# --- networks, graphs, functions ------------------------------------------------------------------


@cache
def _network() -> Any:
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2), torch.nn.Softmax(dim=1)
    )
    return layers.double().eval()


def _torch(kind: str) -> Case:
    import torch

    columns = {name: column / column.std() for name, column in numbers().items()}

    def ask(codes: Array) -> Array:
        with torch.inference_mode():
            return np.asarray(_network()(torch.from_numpy(codes)))[:, 1:]

    return _case("torch module", _network(), columns, kind, ask)


def _onnx_file(model: Any, inputs: list[Any]) -> Path:
    from skl2onnx import to_onnx

    options = {"zipmap": False} if hasattr(model, "predict_proba") else None
    graph = to_onnx(model, initial_types=inputs, options=options)
    path = Path(tempfile.mkdtemp()) / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    return path


def _onnx(kind: str) -> Case:
    from skl2onnx.common.data_types import DoubleTensorType
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = numbers()
    fitted = make_pipeline(StandardScaler(), LogisticRegression())
    fitted.fit(as_table(columns, "numpy"), target(columns, 2))
    path = _onnx_file(fitted, [("rows", DoubleTensorType([None, 6]))])
    return _case("ONNX file", path, columns, kind, lambda codes: fitted.predict_proba(codes)[:, 1:])


def _onnx_by_column(kind: str) -> Case:
    import onnxruntime
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = {name: column for name, column in mixed().items() if name in ("age", "work", "sex")}
    steps = make_column_transformer((OneHotEncoder(), ["work", "sex"]), remainder="passthrough")
    fitted = make_pipeline(steps, Ridge()).fit(as_table(columns, "pandas"), target(mixed(), 0))
    inputs = [
        (name, StringTensorType([None, 1]) if name in _WORDS else FloatTensorType([None, 1]))
        for name in columns
    ]
    content = _onnx_file(fitted, inputs).read_bytes()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def ask(codes: Array) -> Array:
        table = decoded(codes, columns)
        feed = {
            name: column.astype(object if name in _WORDS else np.float32)[:, np.newaxis]
            for name, column in table.items()
        }
        return np.asarray(session.run(None, feed)[0], dtype=np.float64).reshape(-1, 1)

    return _case("ONNX session with text", session, columns, kind, ask)


def _function(kind: str) -> Case:
    columns = numbers()

    def product(rows: Any) -> Array:
        array = np.asarray(rows, dtype=np.float64)
        return np.asarray(array[:, 0] * array[:, 4] + np.sqrt(array[:, 2]))

    return _case("function", product, columns, kind, lambda codes: product(codes).reshape(-1, 1))


_OTHERS: Final[Mapping[tuple[str, str], Callable[[], Case]]] = {
    **{("torch module", kind): partial(_torch, kind) for kind in TABLES},
    **{("ONNX file", kind): partial(_onnx, kind) for kind in TABLES},
    **{
        ("ONNX session with text", kind): partial(_onnx_by_column, kind)
        for kind in ("pandas", "polars")
    },
    **{("function", kind): partial(_function, kind) for kind in TABLES},
}
