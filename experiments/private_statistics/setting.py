"""Data, budgets and one fit: what the study behind the frozen rule used."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.lib.datasets.catalogue import SOURCES
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Domain, Feature, Label, Numbers, RawColumn, Schema
from voile.datasets.tables import parquet_columns
from voile.privacy.accounting.conversion import gaussian_noise_multiplier, zcdp_budget
from voile.release.charged import paid_artefact
from voile.release.statistics import (
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    PrivateStatistics,
    StatisticsBudget,
    joint_guarantee,
)

DELTA = 1e-5
ROWS = 20_000
MISSING = "missing"
EPSILONS = (0.5, 1.0, 2.0, 8.0)
HEADLINE = 2.0
Array = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True)
class Study:
    """One data set of the study.

    Args:
        name, file: in the catalogue.
        label: its column, and which values are the second class.
        without: columns that are left out.
        categories: numbers that are codes.
        parties: of the local noise.
        published: by kind of noise and epsilon, area under the curve and log-loss of the study.
    """

    title: str
    name: str
    file: str
    label: str
    is_second: Callable[[Any], bool]
    without: tuple[str, ...]
    categories: Callable[[str], bool]
    parties: int
    published: dict[str, dict[float, tuple[float, float]]]


def _published(*figures: float) -> dict[float, tuple[float, float]]:
    pairs = zip(figures[::2], figures[1::2], strict=True)
    return dict(zip((0.5, 1.0, 2.0, 8.0), pairs, strict=True))


_CODES = ("admission_type_id", "discharge_disposition_id", "admission_source_id")
STUDIES = (
    Study(
        "Adult",
        "adult",
        "adult.parquet",
        "income",
        lambda value: value == ">50K",
        ("fnlwgt",),
        lambda name: False,  # noqa: ARG005
        8,
        {
            "pooled": _published(0.888, 0.352, 0.892, 0.346, 0.893, 0.345, 0.893, 0.344),
            "local": _published(0.874, 0.370, 0.884, 0.356, 0.891, 0.348, 0.893, 0.345),
        },
    ),
    Study(
        "Dutch",
        "dutch_census",
        "dutch_census_2001.parquet",
        "occupation",
        bool,
        ("paper_client",),
        lambda name: name not in ("age", "edu_level"),
        50,
        {
            "pooled": _published(0.901, 0.397, 0.903, 0.394, 0.904, 0.393, 0.904, 0.392),
            "local": _published(0.877, 0.443, 0.888, 0.423, 0.896, 0.407, 0.903, 0.395),
        },
    ),
    Study(
        "ACS income",
        "acs_income",
        "acs_income.parquet",
        "PINCP_gt_50K",
        bool,
        ("STATE", "client", "te_fold"),
        lambda name: name in ("COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"),
        51,
        {
            "pooled": _published(0.849, 0.458, 0.857, 0.448, 0.863, 0.439, 0.870, 0.429),
            "local": _published(0.822, 0.499, 0.828, 0.483, 0.836, 0.473, 0.856, 0.450),
        },
    ),
    Study(
        "ACS employment",
        "acs_employment",
        "acs_employment.parquet",
        "ESR_employed",
        bool,
        ("STATE", "client", "te_fold"),
        lambda name: name not in ("AGEP", "SCHL"),
        51,
        {
            "pooled": _published(0.875, 0.435, 0.883, 0.422, 0.886, 0.418, 0.887, 0.416),
            "local": _published(0.837, 0.482, 0.861, 0.456, 0.866, 0.448, 0.882, 0.424),
        },
    ),
    Study(
        "Diabetes 130",
        "diabetes_130",
        "diabetes_130_us_hospitals.parquet",
        "readmitted",
        lambda value: value != "NO",
        ("encounter_id", "patient_nbr"),
        lambda name: name in _CODES,
        10,
        {
            "pooled": _published(0.650, 0.656, 0.655, 0.654, 0.668, 0.647, 0.676, 0.643),
            "local": _published(0.633, 0.664, 0.644, 0.659, 0.652, 0.655, 0.669, 0.646),
        },
    ),
)


@dataclass(frozen=True, eq=False)
class Data:
    """Rows and labels of a study, with a schema that was read off them: the data are public."""

    schema: Schema
    rows: Array
    labels: Array

    @classmethod
    def load(cls, study: Study, without: Sequence[str] = ()) -> Data:
        """Args: without: further columns to leave out."""
        table = parquet_columns(SOURCES[study.name].read(study.file), study.file)
        chosen = cls.chosen(len(next(iter(table.values()))))
        columns = {
            name: np.asarray(column)[chosen]
            for name, column in table.items()
            if name not in (*study.without, *without)
        }
        labels = np.array([float(study.is_second(each)) for each in columns.pop(study.label)])
        raw = {
            name: _texts(column) if _is_category(study, name, column) else column
            for name, column in columns.items()
        }
        label = Label("label", Categories(("no", "yes")))
        schema = studied_schema(study.title, raw, label)
        return cls(schema, schema.rows(raw), labels)

    @staticmethod
    def chosen(count: int) -> Places:
        """Which rows of a large set are used."""
        return np.random.default_rng(0).choice(count, min(ROWS, count), replace=False)

    def split(self, seed: int) -> tuple[Places, Places]:
        """Places of training and test rows, 80 to 20."""
        order = np.random.default_rng(1000 + seed).permutation(len(self.labels))
        most = int(0.8 * len(order))
        return order[:most], order[most:]


def studied_schema(name: str, columns: Mapping[str, RawColumn], label: Label) -> Schema:
    """With bounds and levels that are read off the columns."""
    return Schema(name, tuple(_feature(each, column) for each, column in columns.items()), label)


def _is_category(study: Study, name: str, column: RawColumn) -> bool:
    return study.categories(name) or column.dtype.kind not in "iuf"


def _texts(column: RawColumn) -> RawColumn:
    """Levels as text; a missing value is a level of its own."""
    found = [MISSING if _is_missing(value) else str(value).strip() for value in column.tolist()]
    return np.array(found, dtype=object)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _feature(name: str, column: RawColumn) -> Feature:
    domain: Domain
    if column.dtype.kind == "O":
        domain = Categories(tuple(sorted(set(column.tolist()))))
    else:
        present = column[~np.isnan(column.astype(np.float64))]
        whole = bool((present == np.rint(present)).all())
        kind = int if whole else float
        domain = Numbers(kind(present.min()), kind(present.max()), whole=whole)
    return Feature(name, domain)


# --- one fit -------------------------------------------------------------------------------------


def study_rho(epsilon: float) -> float:
    """What the study spent: exact Gaussian composition."""
    return float(gaussian_noise_multiplier(epsilon, DELTA) ** -2 / 2)


def account_rho(epsilon: float) -> float:
    """What an adaptive account grants."""
    return zcdp_budget(epsilon, DELTA)


@dataclass(frozen=True)
class _Unpublished:
    """In the place of a ledger: utility is measured here, and nothing that is drawn leaves."""

    answer: bytes

    def paid_answer(self, *_: object) -> bytes:
        return self.answer


def _drawn(release: Any) -> Any:
    made = release.draw()
    return paid_artefact(release, "experiment", _Unpublished(release.codec.pack(made)))


def fitted(
    records: LabelledRecords, schema: Schema, rho: float, noises: float = 1.0
) -> PrivateStatistics:
    """All three releases with the exact sampler.

    Args:
        noises: how many times the noise of one data set is in the sum: the number of parties if
            each adds its own, survivors over the honest survivors counted on if they share it.
            Sums have one noise of that variance, which a smaller rho gives.
    """
    relation = Relation.BLANK_ONE
    budget = StatisticsBudget(schema=schema, rows=len(records), relation=relation, rho=rho / noises)
    terms: dict[str, Any] = {
        "protected": Protected(ProtectedUnit.ROW, relation, schema.name),
        "delta": DELTA,
    }
    tables = _drawn(PrivateFineTables(records, budget, **terms))
    moments = _drawn(PrivateMoments(records, budget, **terms, tables=tables))
    table = _drawn(
        PrivateCalibrationTable(records, budget, **terms, tables=tables, moments=moments)
    )
    return PrivateStatistics(budget, tables, moments, table, joint_guarantee(budget, **terms))


def scored(labels: Array, chances: Array) -> tuple[float, float]:
    """Area under the curve and log-loss."""
    from sklearn.metrics import log_loss, roc_auc_score

    clipped = np.clip(chances, 1e-6, 1 - 1e-6)
    return float(roc_auc_score(labels, clipped)), float(log_loss(labels, clipped))


def linear_model(data: Data, train: Places) -> Callable[[Places], Array]:
    """Logistic regression without privacy, with scikit-learn's defaults, not tuned: what it says
    about other rows."""
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    encoded = data.schema.encode(data.rows)
    kinds = [feature.domain.kind for feature in data.schema.features]
    numbers = np.array(kinds)[data.schema.column_features] != "categorical"
    spread = encoded[train].std(axis=0)
    encoded[:, numbers] = ((encoded - encoded[train].mean(axis=0)) / (spread + 1e-12))[:, numbers]
    sparse = csr_array(encoded)
    found = LogisticRegression(max_iter=500).fit(sparse[train], data.labels[train])
    return lambda test: np.asarray(found.predict_proba(sparse[test])[:, 1])


def plain_scores(data: Data, seed: int) -> dict[str, tuple[float, float]]:
    """Models without privacy on the same split."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, test = data.split(seed)
    boosted = HistGradientBoostingClassifier(random_state=seed).fit(
        data.rows[train], data.labels[train]
    )
    return {
        "plain LR": scored(data.labels[test], linear_model(data, train)(test)),
        "boosting": scored(data.labels[test], boosted.predict_proba(data.rows[test])[:, 1]),
    }


def private_scores(data: Data, rho: float, splits: int, noises: float = 1.0) -> tuple[float, float]:
    """Mean over splits of the additive model from private statistics."""
    return mean_pair([private_score(data, seed, rho, noises) for seed in range(splits)])


def private_score(data: Data, seed: int, rho: float, noises: float = 1.0) -> tuple[float, float]:
    train, test = data.split(seed)
    records = LabelledRecords.read(data.rows[train], data.schema, data.labels[train])
    model = fitted(records, data.schema, rho, noises).model
    return scored(data.labels[test], model.predict(data.rows[test])[:, 1])


def cosine(one: Array, two: Array) -> float:
    """Mean over rows, of those that have an explanation at all."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    known = lengths > 0
    return float(((one * two).sum(axis=1)[known] / lengths[known]).mean()) if known.any() else 0.0


def mean_pair(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    first, second = np.mean(pairs, axis=0)
    return float(first), float(second)
