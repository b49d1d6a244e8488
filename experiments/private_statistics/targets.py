"""Several classes and numbers as targets: scikit-learn's sets, and columns of the five sets.

At ε = 2, as an account charges it, beside models without privacy on the same split: logistic or
ridge regression on the schema's columns, and the constant (class rates, or the mean). The sets of
scikit-learn have a few hundred rows, which is little for private sums: that is measured too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from benchmarks.harness import Figure
from sklearn import datasets

from experiments.lib.datasets.catalogue import SOURCES
from experiments.private_statistics.setting import (
    DELTA,
    HEADLINE,
    STUDIES,
    Array,
    Data,
    account_rho,
    fitted,
    studied_schema,
)
from voile.core.schema import Categories, Label, Numbers
from voile.datasets.tables import parquet_columns
from voile.release.statistics import LabelledRecords

COLUMNS = (
    f"ε = {HEADLINE:g}, δ = {DELTA:g}",
    "rows",
    "judged by",
    "voile",
    "without privacy",
    "constant",
)


@dataclass(frozen=True)
class Scored:
    """Accuracy and log-loss for classes; R² and the root of the mean squared error for a number."""

    ours: Array
    plain: Array
    constant: Array


def targets_table(splits: int) -> dict[str, Any]:
    lines, figures = [], []
    for title, load in SETS.items():
        data = load()
        is_number = isinstance(_label(data).domain, Numbers)
        runs = [one_split(data, seed) for seed in range(splits)]
        means = {
            name: np.mean([getattr(run, name) for run in runs], axis=0)
            for name in ("ours", "plain", "constant")
        }
        judged_by = "R² / RMSE" if is_number else "accuracy / log-loss"
        pairs = [f"{first:.3f} / {second:.4g}" for first, second in means.values()]
        lines.append([title, f"{int(0.8 * len(data.labels)):,}", judged_by, *pairs])
        figures += [
            Figure(f"{title}: {what}", "", float(means["ours"][place]),
                   float(means["plain"][place]), None)
            for place, what in enumerate(judged_by.split(" / "))
        ]  # fmt: skip
        print(" | ".join(lines[-1]), flush=True)
    return {"peer": "without privacy", "figures": figures, "columns": COLUMNS, "rows": lines}


def one_split(data: Data, seed: int) -> Scored:
    train, test = data.split(seed)
    records = LabelledRecords.read(data.rows[train], data.schema, data.labels[train])
    model = fitted(records, data.schema, account_rho(HEADLINE)).model
    encoded, seen, wanted = data.schema.encode(data.rows), data.labels[train], data.labels[test]
    if isinstance(_label(data).domain, Numbers):
        from sklearn.linear_model import Ridge

        plain = Ridge().fit(encoded[train], seen).predict(encoded[test])
        constant = np.full(len(test), seen.mean())
        ours = model.predict(data.rows[test])[:, 0]
        return Scored(*(_number_scores(wanted, each) for each in (ours, plain, constant)))
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    classes = len(model.output_names)
    rates = np.bincount(seen.astype(int), minlength=classes) / len(seen)
    sparse = csr_array(encoded)  # thousands of columns, most of them 0
    plain = LogisticRegression(max_iter=500).fit(sparse[train], seen).predict_proba(sparse[test])
    ours, constant = model.predict(data.rows[test]), np.tile(rates, (len(test), 1))
    return Scored(*(_class_scores(wanted, each) for each in (ours, plain, constant)))


def _class_scores(labels: Array, chances: Array) -> Array:
    own = chances[np.arange(len(labels)), labels.astype(int)]
    return np.array([(chances.argmax(axis=1) == labels).mean(),
                     -np.log(np.clip(own, 1e-6, 1)).mean()])  # fmt: skip


def _number_scores(labels: Array, found: Array) -> Array:
    error = float(((labels - found) ** 2).mean())
    return np.array([1 - error / labels.var(), np.sqrt(error)])


def _label(data: Data) -> Label:
    assert data.schema.label is not None
    return data.schema.label


# --- sets -----------------------------------------------------------------------------------------


def _shipped(load: Callable[..., Any], label: Label) -> Callable[[], Data]:
    """One of scikit-learn's, with bounds read off it: the data are public."""

    def loaded() -> Data:
        found = load()
        names = [str(name) for name in getattr(found, "feature_names", range(found.data.shape[1]))]
        kept = [place for place in range(len(names)) if np.ptp(found.data[:, place]) > 0]
        columns: dict[str, Any] = {f"{names[place]}": found.data[:, place] for place in kept}
        schema = studied_schema(load.__name__, columns, label)
        return Data(schema, schema.rows(columns), found.target.astype(np.float64))

    return loaded


def _column(study_name: str, target: str, label: Label, *without: str) -> Callable[[], Data]:
    """A column of one of the five sets as target, in place of its own label."""

    def loaded() -> Data:
        (study,) = [each for each in STUDIES if each.name == study_name]
        table = parquet_columns(SOURCES[study.name].read(study.file), study.file)
        chosen, column = Data.chosen(len(table[target])), np.asarray(table[target])
        found = column[chosen].tolist()
        if isinstance(label.domain, Categories):
            found = [label.domain.place(value) for value in found]
        data = Data.load(study, (*without, *({target} - {study.label})))
        named = type(data.schema)(f"{data.schema.name} {target}", data.schema.features, label)
        return Data(named, data.rows, np.array(found, dtype=np.float64))

    return loaded


def _classes(count: int) -> Label:
    return Label("class", Categories(tuple(f"class {place}" for place in range(count))))


MARITAL: Final = (
    "Never-married",
    "Married-civ-spouse",
    "Married-spouse-absent",
    "Married-AF-spouse",
    "Separated",
    "Divorced",
    "Widowed",
)
"""Levels of Adult's column. `relationship` says nearly the same, so it is no feature then."""
SETS: Final[dict[str, Callable[[], Data]]] = {
    "iris, 3 classes": _shipped(datasets.load_iris, _classes(3)),
    "wine, 3 classes": _shipped(datasets.load_wine, _classes(3)),
    "breast cancer, 2 classes": _shipped(datasets.load_breast_cancer, _classes(2)),
    "digits, 10 classes": _shipped(datasets.load_digits, _classes(10)),
    "diabetes, a number": _shipped(datasets.load_diabetes, Label("progression", Numbers(0, 400))),
    "Adult, marital status, 7 classes": _column(
        "adult", "marital_status", Label("marital_status", Categories(MARITAL)), "relationship"
    ),
    "ACS income, marital status, 5 classes": _column(
        "acs_income", "MAR", Label("MAR", Categories((1, 2, 3, 4, 5))), "RELP"
    ),
    "Diabetes 130, readmission, 3 classes": _column(
        "diabetes_130", "readmitted", Label("readmitted", Categories(("NO", ">30", "<30")))
    ),
    "Adult, hours per week": _column(
        "adult", "hours_per_week", Label("hours_per_week", Numbers(1, 99))
    ),
    "ACS income, hours per week": _column("acs_income", "WKHP", Label("WKHP", Numbers(1, 99))),
}
