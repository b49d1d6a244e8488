"""`AdditiveModel`: scores that are a sum of one figure for each feature."""

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
from voile.core.schema import Schema, is_table
from voile.models.additive.bins import Codes, FeatureBins, bin_codes, bin_slices
from voile.models.additive.links import Link, link_of
from voile.models.additive.onnx_graph import Graph
from voile.models.outputs import DeclaredOutputs, Outputs

FORMAT: Final = "voile additive model"
_BLOCK: Final = 4096
Scores = NDArray[np.float64]
"""Shape (bins,): one figure for each bin of each feature, one feature after the other. With
several classes (bins, classes)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AdditiveModel:
    """A score that is an intercept and one figure for each feature.

    With two classes the score is the log-odds of the second one. With more, each class has a score:
    its log-odds against the mean class. A number is its own score, in its own unit.

    Shapley values of a score over rows in which features are independent and bins occur as
    `masses` says are a closed formula: the figure of a row's bin minus the mean figure of the
    feature. So an explanation is a table look-up.

    Guarantees
        1. `predict` and `explain` treat each row by itself, and never raise about a value.
        2. What is saved and loaded again answers alike, to the bit.

    Args:
        schema: with a label.
        bins: of the features in use; all others have no influence.
        intercept: the score of a row whose figures are all 0; with several classes an array.
        scores: of each bin, shape (bins,), or (bins, classes) with several classes.
        masses: the share of rows in each bin; adds up to 1 for each feature. The background.
        covariance: of the errors that privacy noise makes in `scores` minus their mean over
            `masses`, shape (bins, bins), or (classes, bins, bins).
        guarantees: what is promised about the rows that it was made from.
    """

    schema: Schema
    bins: tuple[FeatureBins, ...]
    intercept: float | NDArray[np.float64]
    scores: Scores
    masses: NDArray[np.float64]
    covariance: NDArray[np.float64]
    guarantees: tuple[Guarantee, ...] = ()

    def __post_init__(self) -> None:
        size = sum(feature.count for feature in self.bins)
        more = () if self.link.columns == 1 else (self.link.columns,)
        shapes = [np.shape(self.intercept), self.scores.shape, self.masses.shape]
        expected = [more, (size, *more), (size,)]
        if shapes != expected or self.covariance.shape != (*more, size, size):
            shapes.append(self.covariance.shape)
            raise InvalidInput(f"expected scores of {size} bins, found arrays of shapes {shapes}")
        known = [name for name in self.schema.feature_names if name in self._names]
        if known != list(self._names):
            raise InvalidInput("bins must follow the order of the schema's features")

    # --- prediction -----------------------------------------------------------------------------

    @cached_property
    def link(self) -> Link:
        """What scores mean and how predictions follow from them."""
        return link_of(self.schema)

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.link.names

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @property
    def outputs(self) -> DeclaredOutputs:
        return self.link.outputs

    def row_scores(self, rows: Any) -> Scores:
        """Shape (n,), or (n, classes). Rows are a table of raw values or an array."""
        return self._row_scores(self.codes(rows))

    def log_odds(self, rows: Any) -> NDArray[np.float64]:
        """The scores of classes: of the second one, shape (n,), or of each, (n, classes)."""
        return self.row_scores(rows)

    def predict(self, rows: Any) -> Outputs:
        """Chances of the classes, shape (n, classes), or the number, (n, 1)."""
        return self.link.predictions(self.row_scores(rows))

    # --- explanation ----------------------------------------------------------------------------

    def explain(self, rows: Any) -> Explanation:
        """Shapley values of the scores, with standard errors from the noise.

        A feature that has no bins has the value 0.
        """
        codes = self.codes(rows)
        return Explanation(
            values=self._looked_up(self.centred_scores, codes),
            base_values=np.broadcast_to(self.base_value, (len(codes), self.link.columns)),
            feature_names=self.schema.feature_names,
            output_names=self.link.score_names,
            standard_errors=self._looked_up(self.standard_errors, codes),
            guarantees=self.guarantees,
        )

    def explain_codes(self, codes: Codes) -> NDArray[np.float64]:
        """Shapley values of rows whose bins are known (`codes`), shape (n, used features), or
        (n, used features, classes). Without errors and checks, for many rows."""
        shape = (len(codes), len(self.bins), *self.scores.shape[1:])
        found = np.empty(shape[::-1] if len(shape) == 2 else (shape[1], shape[0], shape[2]))
        for column, part in enumerate(self._slices):
            np.take(
                self.centred_scores[part], codes[:, column], axis=0, out=found[column], mode="clip"
            )
        return np.moveaxis(found, 0, 1)

    def codes(self, rows: Any) -> Codes:
        """The bin of each row in each feature in use. Rows are a table or an array."""
        if is_table(rows):
            return bin_codes(self.bins, self.schema, self.schema.rows(rows))
        numbers = self.schema.numbers(rows)
        found = np.empty((len(self.bins), len(numbers)), dtype=np.intp).T
        for start in range(0, len(numbers), _BLOCK):  # what fits into the cache
            block = slice(start, start + _BLOCK)
            found[block] = bin_codes(self.bins, self.schema, self.schema.clamp(numbers[block]))
        return found

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
        variances = np.moveaxis(np.diagonal(self.covariance, axis1=-2, axis2=-1), 0, -1)
        errors: Scores = np.sqrt(np.maximum(variances, 0.0))
        return errors

    @property
    def base_value(self) -> Any:
        """The mean score over the background; with several classes one for each."""
        found = self.intercept + self.masses @ self.scores
        return float(found) if self.link.columns == 1 else found

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
            "intercept": self._plain(self.intercept),
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
                intercept=_intercept(label["intercept"]),
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

    def export_onnx(self, path: str | Path) -> Path:
        """Write it as an ONNX graph, which runs wherever a runtime for ONNX does.

        Its input `rows` holds the schema's numbers in double precision, categories as their place;
        outputs are `predictions` and `scores`. Needs the package `onnx`.
        """
        graph = Graph(
            schema=self.schema,
            link=self.link,
            bins=self.bins,
            intercept=self.intercept,
            scores=self.scores,
        )
        return replace_file(Path(path), graph.to_bytes())

    def to_json(self) -> str:
        """The whole model as text that people can read: every feature, bin, score and error."""
        return json.dumps(self.description(), indent=2, ensure_ascii=False) + "\n"

    def description(self) -> dict[str, Any]:
        """What `to_json` writes, as plain values."""
        features = {feature.name: feature for feature in self.schema.features}
        return {
            "format": FORMAT,
            "label": None if self.schema.label is None else self.schema.label.name,
            "scores_are": self.link.meaning,
            **({} if self.link.columns == 1 else {"classes": list(self.output_names)}),
            "base_value": self._plain(self.base_value),
            "features": [
                {
                    "name": feature.name,
                    "bins": [
                        inside
                        | {
                            "score": self._plain(self.centred_scores[part][k]),
                            "standard_error": self._plain(self.standard_errors[part][k]),
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

    def _row_scores(self, codes: Codes) -> Scores:
        if self.link.columns == 1:
            return summed(float(self.intercept), self.scores, self.bins, codes)
        pairs = zip(np.asarray(self.intercept), self.scores.T, strict=True)
        return np.column_stack([summed(first, each, self.bins, codes) for first, each in pairs])

    def _looked_up(self, figures: Scores, codes: Codes) -> NDArray[np.float64]:
        """A figure for each row, feature and score; 0 for features without bins."""
        found = np.zeros((len(codes), len(self.schema.features), self.link.columns))
        places = {name: place for place, name in enumerate(self.schema.feature_names)}
        for column, (feature, part) in enumerate(zip(self.bins, self._slices, strict=True)):
            chosen = figures[part][codes[:, column]]
            found[:, places[feature.name]] = chosen.reshape(len(codes), -1)
        return found

    @staticmethod
    def _plain(figure: Any) -> Any:
        """A float, or a list of them."""
        return float(figure) if np.ndim(figure) == 0 else np.asarray(figure).tolist()


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


def _intercept(stored: Any) -> Any:
    return float(stored) if not isinstance(stored, list) else _numbers(np.array(stored))


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
