"""The clinic federation: invented hospitals whose truth is known.

Eight hospitals of different size and case mix hold patients with twelve clinical features. The risk
of each patient is a public function, and reference rows from no hospital in particular are public,
too: so the true Shapley values of the risk can be computed and compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import (
    Categories,
    Encoded,
    Feature,
    FeatureValues,
    Label,
    Numbers,
    Rows,
    Schema,
)

# --- What every loader and generator returns -----------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with their public schema.

    Args:
        name: what it is called.
        schema: describes the columns.
        rows: shape (n, d), in the form of `Schema.rows`.
        labels: shape (n,), in the form of `Schema.labels`.
        columns: what else is known about rows, such as the state or the site; by name, (n,) each.
    """

    name: str
    schema: Schema
    rows: Rows
    labels: FeatureValues
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.rows)
        lengths = {"labels": len(self.labels), **{n: len(c) for n, c in self.columns.items()}}
        wrong = sorted(name for name, length in lengths.items() if length != count)
        if wrong or self.rows.ndim != 2 or self.rows.shape[1] != len(self.schema.features):
            raise InvalidInput(
                f"the data set {self.name!r} does not fit together: {count} rows of shape "
                f"{self.rows.shape} for {len(self.schema.features)} features"
                + (f", other lengths in {wrong}" if wrong else "")
            )
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def encoded(self) -> Encoded:
        """Numbers scaled to [0, 1] by the public bounds, categories one-hot."""
        return self.schema.encode(self.rows)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The categories of the label, as text."""
        label = self.schema.label
        values = () if label is None else getattr(label.domain, "values", ())
        if not values:
            raise InvalidInput(f"the label of {self.name!r} is a number, not a category")
        return tuple(str(value) for value in values)

    def frame(self) -> Any:
        """A DataFrame of raw values, one column per feature."""
        pandas = optional("pandas", extra="explain")
        return pandas.DataFrame(self.schema.table(self.rows))

    def take(self, places: NDArray[Any] | slice) -> Dataset:
        """Some of the rows, by position or by mask."""
        return replace(
            self,
            rows=self.rows[places],
            labels=self.labels[places],
            columns={name: column[places] for name, column in self.columns.items()},
        )

    def split(self, share: float, *, seed: int) -> tuple[Dataset, Dataset]:
        """Two disjoint random parts, the first with this share of the rows."""
        first = round(share * len(self))
        if not 0 < first < len(self):
            raise InvalidInput(f"a share of {share} of {len(self)} rows leaves a part empty")
        order = np.random.default_rng(seed).permutation(len(self))
        return self.take(order[:first]), self.take(order[first:])


# --------------------------------------------------------------------------------------------------


SCHEMA: Final = Schema(
    "clinic federation v1",
    (
        Feature("age", Numbers(18, 95), 60.0, "demographics"),
        Feature("body_mass_index", Numbers(14, 42), 26.0, "demographics"),
        Feature("smoker", Categories(("no", "yes")), "no", "demographics"),
        Feature("systolic_pressure", Numbers(80, 200), 130.0, "vital signs"),
        Feature("heart_rate", Numbers(40, 140), 80.0, "vital signs"),
        Feature("oxygen_saturation", Numbers(85, 100), 96.0, "vital signs"),
        Feature("temperature", Numbers(34.5, 40), 37.0, "vital signs"),
        Feature("creatinine", Numbers(0.2, 4), 1.0, "laboratory"),
        Feature("glucose", Numbers(40, 300), 110.0, "laboratory"),
        Feature("haemoglobin", Numbers(7, 19), 13.0, "laboratory"),
        Feature("c_reactive_protein", Numbers(0, 80), 10.0, "laboratory"),
        Feature("previous_admissions", Numbers(0, 8, whole=True), 1, "history"),
    ),
    Label("readmitted", Categories(("no", "yes"))),
)

HOSPITALS: Final[Mapping[str, tuple[float, tuple[float, ...]]]] = MappingProxyType(
    # Size in multiples of the mean, and by how many standard deviations the features are shifted,
    # in the order of the schema.
    {
        "university": (2.0, (0.0, 0.1, 0.0, 0.0, 0.2, -0.3, 0.1, 0.4, 0.2, -0.3, 0.4, 0.5)),
        "city": (1.7, (0.1, 0.2, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.1, 0.0)),
        "coast": (1.2, (0.6, 0.0, -0.2, 0.3, -0.1, 0.0, 0.0, 0.1, 0.0, -0.1, 0.0, 0.2)),
        "mountain": (0.8, (0.2, -0.3, -0.1, 0.0, 0.1, -0.6, 0.0, 0.0, -0.1, 0.5, 0.0, -0.2)),
        "harbour": (0.8, (-0.2, 0.1, 0.7, 0.2, 0.1, -0.2, 0.0, 0.0, 0.1, 0.0, 0.2, 0.1)),
        "children and maternity": (
            0.6,
            (-1.6, -0.2, -0.6, -0.5, 0.6, 0.3, 0.2, -0.4, -0.2, -0.2, 0.0, -0.5),
        ),
        "heart centre": (0.5, (0.7, 0.4, 0.3, 0.8, -0.2, -0.2, -0.2, 0.3, 0.2, -0.1, 0.0, 0.8)),
        "rehabilitation": (0.4, (0.9, 0.3, 0.1, 0.2, -0.3, 0.0, -0.3, 0.2, 0.1, -0.3, -0.4, 1.2)),
    }
)


@dataclass(frozen=True, eq=False)
class ClinicFederation:
    """Everything needed to train across hospitals and to know the truth.

    Args:
        schema: public.
        hospitals: the patients of each, by name; private in the story.
        reference: public rows from no hospital, shape (m, d): background of the true values.
        correlation: how strongly features go together.
    """

    schema: Schema
    hospitals: Mapping[str, Dataset]
    reference: Rows
    correlation: float

    def risk(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The true probability of readmission; see `risk`."""
        return risk(rows)

    def together(self) -> Dataset:
        """All patients, with the column `hospital`."""
        parts = list(self.hospitals.values())
        names = [np.full(len(part), name, dtype=object) for name, part in self.hospitals.items()]
        return Dataset(
            "clinic federation",
            self.schema,
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.labels for part in parts]),
            {"hospital": np.concatenate(names)},
        )


def clinic_federation(
    rows_per_hospital: int = 1_000,
    *,
    correlation: float = 0.0,
    reference_rows: int = 200,
    seed: int = 0,
) -> ClinicFederation:
    """Invent eight hospitals.

    Args:
        rows_per_hospital: patients of a hospital, on average; the largest has five times as many as
            the smallest.
        correlation: of any two features within a hospital, from 0 to below 1 (signs vary).
        reference_rows: how many public rows.
        seed: which patients; it makes data, never noise.
    """
    if rows_per_hospital < 10 or reference_rows < 1 or not 0 <= correlation < 1:
        raise InvalidInput(
            "expected at least 10 rows a hospital, 1 reference row, and a correlation from 0 to "
            f"below 1, found {rows_per_hospital}, {reference_rows} and {correlation}"
        )
    # Streams of their own: more patients leave the reference as it is.
    streams = np.random.SeedSequence(seed).spawn(len(HOSPITALS) + 1)
    hospitals = {}
    for stream, (name, (size, shift)) in zip(streams[1:], HOSPITALS.items(), strict=True):
        draw = np.random.default_rng(stream)
        rows = _patients(round(size * rows_per_hospital), np.array(shift), correlation, draw)
        labels = (draw.random(len(rows)) < risk(rows)).astype(np.float64)
        hospitals[name] = Dataset(f"clinic federation, {name}", SCHEMA, rows, labels)
    draw = np.random.default_rng(streams[0])
    reference = _patients(reference_rows, np.zeros(len(SCHEMA.features)), correlation, draw)
    return ClinicFederation(SCHEMA, MappingProxyType(hospitals), reference, correlation)


def risk(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of readmission, shape (n,), for rows in the form of `Schema.rows`.

    Bends (oxygen, temperature, glucose), a few interactions of two features (age with creatinine,
    smoking with oxygen, pressure with heart rate) and one of three (age, admissions, haemoglobin).
    """
    (
        age,
        mass,
        smoker,
        pressure,
        rate,
        oxygen,
        heat,
        creatinine,
        glucose,
        blood,
        protein,
        before,
    ) = np.asarray(rows, dtype=np.float64).T
    old = (age - 60) / 18
    kidney = np.log(np.maximum(creatinine, 0.05))
    breath = np.maximum(94 - oxygen, 0) / 4
    fever = np.abs(heat - 37) / 1.2
    weak = np.maximum(12.5 - blood, 0) / 2.5
    again = np.sqrt(np.maximum(before, 0))
    score = (
        -2.3
        + 0.45 * old
        + 0.25 * ((mass - 26) / 6) ** 2 * 0.5
        + 0.35 * smoker
        + 0.30 * np.abs(pressure - 128) / 24
        + 0.30 * np.maximum(rate - 90, 0) / 18
        + 0.70 * breath
        + 0.35 * fever
        + 0.60 * kidney
        + 0.40 * np.maximum(glucose - 140, 0) / 60
        + 0.45 * weak
        + 0.30 * np.log1p(np.maximum(protein, 0) / 10)
        + 0.50 * again
        + 0.40 * old * kidney
        + 0.50 * smoker * breath
        - 0.25 * (pressure - 128) / 24 * (rate - 84) / 18
        + 0.20 * old * again * weak
    )
    probability: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(score, -30, 30)))
    return probability


# Signs of the loadings on a common factor: correlated features do not all rise together.
_SIGNS: Final = np.array([1, 1, 1, 1, 1, -1, 1, 1, 1, -1, 1, 1], dtype=np.float64)


def _patients(
    count: int, shift: NDArray[np.float64], correlation: float, draw: np.random.Generator
) -> Rows:
    """Normal scores with one common factor, each bent into its feature's own shape."""
    common = draw.standard_normal((count, 1))
    own = draw.standard_normal((count, len(shift)))
    score = shift + np.sqrt(correlation) * _SIGNS * common + np.sqrt(1 - correlation) * own
    return SCHEMA.clamp(
        np.column_stack(
            [
                60 + 18 * score[:, 0],
                26 + 5 * score[:, 1],
                (score[:, 2] > 0.84).astype(np.float64),
                130 + 20 * score[:, 3],
                82 + 16 * score[:, 4],
                99.5 - np.exp(1.0 - 0.55 * score[:, 5]),
                37 + 0.8 * score[:, 6],
                np.exp(0.1 + 0.45 * score[:, 7]),
                np.exp(4.75 + 0.3 * score[:, 8]),
                13 + 1.8 * score[:, 9],
                np.exp(2.0 + 1.1 * score[:, 10]),
                np.floor(np.exp(0.2 + 0.8 * score[:, 11]) - 0.3),
            ]
        )
    )
