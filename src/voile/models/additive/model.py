"""`AdditiveModel`: log-odds that are a sum of one score for each feature."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core import array_file
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.core.input_file import damaged, read_file
from voile.core.schema import Categories, Schema, is_table
from voile.models.additive.bins import FeatureBins, bin_codes, bin_slices
from voile.models.outputs import DeclaredOutputs, Outputs, Simplex

FORMAT: Final = "voile additive model"
Scores = NDArray[np.float64]
"""Shape (bins,): one figure for each bin of each feature, one feature after the other."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AdditiveModel:
    """Log-odds of the second class: an intercept and one score for each feature.

    Shapley values of the log-odds over rows in which features are independent and bins occur as
    `masses` says are a closed formula: the score of a row's bin minus the mean score of the
    feature. So an explanation is a table look-up.

    Guarantees
        1. `predict` and `explain` treat each row by itself, and never raise about a value.
        2. What is saved and loaded again answers alike, to the bit.

    Args:
        schema: with a label of two classes.
        bins: of the features in use; all others have no influence.
        intercept: log-odds of a row whose scores are all 0.
        scores: log-odds of each bin.
        masses: the share of rows in each bin; adds up to 1 for each feature. The background.
        covariance: of the errors that privacy noise makes in `scores` minus their mean over
            `masses`, shape (bins, bins).
        guarantees: what is promised about the rows that it was made from.
    """

    schema: Schema
    bins: tuple[FeatureBins, ...]
    intercept: float
    scores: Scores
    masses: Scores
    covariance: NDArray[np.float64]
    guarantees: tuple[Guarantee, ...] = ()

    def __post_init__(self) -> None:
        size = sum(feature.count for feature in self.bins)
        shapes = [self.scores.shape, self.masses.shape, self.covariance.shape]
        if shapes != [(size,), (size,), (size, size)]:
            raise InvalidInput(f"expected scores of {size} bins, found arrays of shapes {shapes}")
        known = [name for name in self.schema.feature_names if name in self._names]
        if known != list(self._names):
            raise InvalidInput("bins must follow the order of the schema's features")
        classes_of(self.schema)

    # --- prediction -----------------------------------------------------------------------------

    @property
    def output_names(self) -> tuple[str, ...]:
        return classes_of(self.schema)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @property
    def outputs(self) -> DeclaredOutputs:
        return Simplex()

    def log_odds(self, rows: Any) -> NDArray[np.float64]:
        """Of the second class, shape (n,). Rows are a table of raw values or an array."""
        return summed(self.intercept, self.scores, self.bins, self._codes(rows))

    def predict(self, rows: Any) -> Outputs:
        """Probabilities of both classes, shape (n, 2)."""
        from scipy.special import expit

        positive = expit(self.log_odds(rows))
        return np.column_stack([1 - positive, positive])

    # --- explanation ----------------------------------------------------------------------------

    def explain(self, rows: Any) -> Explanation:
        """Shapley values of the log-odds, with standard errors from the noise.

        A feature that has no bins has the value 0.
        """
        codes = self._codes(rows)
        values = np.zeros((len(codes), len(self.schema.features)))
        errors = np.zeros_like(values)
        places = {name: place for place, name in enumerate(self.schema.feature_names)}
        for column, (feature, part) in enumerate(zip(self.bins, self._slices, strict=True)):
            place = places[feature.name]
            values[:, place] = self.centred_scores[part][codes[:, column]]
            errors[:, place] = self.standard_errors[part][codes[:, column]]
        return Explanation(
            values=values,
            base_values=np.full((len(codes), 1), self.base_value),
            feature_names=self.schema.feature_names,
            output_names=(f"log-odds of {self.output_names[1]}",),
            standard_errors=errors,
            guarantees=self.guarantees,
        )

    @cached_property
    def centred_scores(self) -> Scores:
        """The Shapley value that a row has for each of its bins."""
        centred = self.scores.copy()
        for part in self._slices:
            centred[part] -= self.masses[part] @ self.scores[part]
        return centred

    @cached_property
    def standard_errors(self) -> Scores:
        """Of `centred_scores`, from the noise alone."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def base_value(self) -> float:
        """The mean log-odds over the background."""
        return float(self.intercept + self.masses @ self.scores)

    # --- files ----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Equal models have equal bytes."""
        arrays = {"scores": self.scores, "masses": self.masses, "covariance": self.covariance}
        label = {
            "schema": self.schema.dumps(),
            "bins": [
                {"name": feature.name, "edges": feature.edges, "groups": feature.groups}
                for feature in self.bins
            ],
            "intercept": self.intercept,
            "guarantees": [guarantee.to_dict() for guarantee in self.guarantees],
        }
        return array_file.pack(FORMAT, arrays, label)

    @classmethod
    def from_bytes(cls, content: bytes, path: Path = Path("additive model")) -> AdditiveModel:
        """The inverse of `to_bytes`; `UnreadableFile` for anything else."""
        arrays, label = array_file.unpack(content, path, FORMAT)
        with damaged(path):
            return cls(
                schema=Schema.loads(label["schema"]),
                bins=tuple(_bins_from(each) for each in label["bins"]),
                intercept=float(label["intercept"]),
                guarantees=tuple(Guarantee.from_dict(each) for each in label["guarantees"]),
                **{name: _numbers(arrays[name]) for name in ("scores", "masses", "covariance")},
            )

    def save(self, path: str | Path) -> Path:
        return replace_file(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> AdditiveModel:
        return cls.from_bytes(read_file(Path(path)), Path(path))

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that determines the predictions and explanations."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_json(self) -> str:
        """The whole model as text that people can read: every feature, bin, score and error."""
        return json.dumps(self.description(), indent=2, ensure_ascii=False) + "\n"

    def description(self) -> dict[str, Any]:
        """What `to_json` writes, as plain values."""
        features = {feature.name: feature for feature in self.schema.features}
        return {
            "format": FORMAT,
            "label": None if self.schema.label is None else self.schema.label.name,
            "scores_are": f"log-odds of {self.output_names[1]!r}, around the mean of a feature",
            "base_value": self.base_value,
            "features": [
                {
                    "name": feature.name,
                    "bins": [
                        inside
                        | {
                            "score": float(self.centred_scores[part][k]),
                            "standard_error": float(self.standard_errors[part][k]),
                            "share_of_rows": float(self.masses[part][k]),
                        }
                        for k, inside in enumerate(feature.described(features[feature.name]))
                    ],
                }
                for feature, part in zip(self.bins, self._slices, strict=True)
            ],
            "without_influence": [name for name in features if name not in self._names],
            "guarantees": [guarantee.to_dict() for guarantee in self.guarantees],
        }

    # --- parts ----------------------------------------------------------------------------------

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.bins)

    @cached_property
    def _slices(self) -> list[slice]:
        return bin_slices(self.bins)

    def _codes(self, rows: Any) -> NDArray[np.intp]:
        table = is_table(rows)
        inside = self.schema.rows(rows) if table else self.schema.clamp(self.schema.numbers(rows))
        return bin_codes(self.bins, self.schema, inside)


def summed(
    intercept: float, scores: Scores, bins: tuple[FeatureBins, ...], codes: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Log-odds of rows, given their bins, shape (n,).

    Added up feature by feature, in a fixed order: no row changes how another one is rounded, as a
    matrix product would.
    """
    total = np.full(len(codes), float(intercept))
    for column, part in enumerate(bin_slices(bins)):
        total += scores[part][codes[:, column]]
    return total


def classes_of(schema: Schema) -> tuple[str, str]:
    """Both classes of the label; `InvalidInput` for any other label."""
    domain = None if schema.label is None else schema.label.domain
    if not isinstance(domain, Categories) or len(domain.values) != 2:
        raise InvalidInput(
            f"expected a label with two classes in the schema {schema.name!r}; an additive model "
            "predicts one of two"
        )
    return str(domain.values[0]), str(domain.values[1])


def _bins_from(stored: Mapping[str, Any]) -> FeatureBins:
    edges, groups = stored["edges"], stored["groups"]
    return FeatureBins(
        stored["name"],
        None if edges is None else tuple(float(edge) for edge in edges),
        None if groups is None else tuple(int(group) for group in groups),
    )


def _numbers(array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError("expected finite numbers")
    return array
