"""How an explanation is read out: outputs with what they are, values of a row as people know them.

A schema knows the names of categories and the units of numbers. Without one, numbers are shown as
they stand in the explanation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

import numpy as np

from voile.core.explanation_checks import Attributions, BaseValues, RowData
from voile.core.guarantee import Guarantee, ProtectedUnit
from voile.core.row_note import KnownNote, Note
from voile.core.schema import Categories, Feature, Schema

_LEAST: Final = 0.001
"""Nearer to 0 or 1, a model's probability is not worth its digits."""


class ReadableExplanation(Protocol):
    """What is read of an `Explanation`, which knows how to show itself and so comes after this."""

    @property
    def values(self) -> Attributions: ...

    @property
    def base_values(self) -> BaseValues: ...

    @property
    def data(self) -> RowData | None: ...

    @property
    def half_widths(self) -> Attributions | None: ...

    @property
    def reach(self) -> Attributions | None: ...

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    @property
    def output_names(self) -> tuple[str, ...]: ...

    @property
    def guarantees(self) -> tuple[Guarantee, ...]: ...

    @property
    def notes(self) -> tuple[Note, ...]: ...

    @property
    def shape(self) -> tuple[int, int, int]: ...

    def carries(self, note: KnownNote) -> bool: ...

    def __len__(self) -> int: ...

    def __getitem__(self, selection: int) -> Self: ...


@dataclass(frozen=True, eq=False)
class Wording:
    """The words for one explanation.

    Args:
        explanation: what is read out.
        schema: of its rows, if it is known.
        filled: for each row, features that were missing in it; empty where none was.
    """

    explanation: ReadableExplanation
    schema: Schema | None = None
    filled: Sequence[Collection[str]] = ()

    @property
    def leads_to_prediction(self) -> bool:
        """Whether base value and attributions add up to a prediction that may be shown.

        Not where the explained row is what is protected: the sum would be a guess of what was
        hidden. Not for names, nor for means of absolute values, which add up to nothing.
        """
        given = self.explanation
        hidden = any(g.protected.unit is ProtectedUnit.EXPLAINED_ROW for g in given.guarantees)
        adding = not given.carries(KnownNote.NAMES_ONLY) and not given.carries(KnownNote.ABSOLUTE)
        return adding and not hidden

    def output(self, place: int) -> str:
        """What an output is: `probability of readmission = yes`, `income (EUR)`."""
        name = self.explanation.output_names[place]
        label = None if self.schema is None else self.schema.label
        if label is None:
            return name
        if isinstance(label.domain, Categories):
            known = self._is_probability(place)
            return f"probability of {label.name} = {name}" if known else name
        return f"{name} ({label.unit})" if label.unit and name == label.name else name

    def result(self, place: int, value: float) -> str:
        """What an output amounts to; of a probability no powers of ten, and never quite 0 or 1."""
        if not self._is_probability(place):
            return f"{value:.4g}"
        noisy = self.explanation.half_widths is not None
        if noisy or _LEAST <= value <= 1 - _LEAST:
            return f"{value:.3f}"
        return f"below {_LEAST:g}" if value < _LEAST else f"above {1 - _LEAST:g}"

    def _is_probability(self, place: int) -> bool:
        label = None if self.schema is None else self.schema.label
        if label is None or not isinstance(label.domain, Categories):
            return False
        return self.explanation.output_names[place] in map(str, label.domain.values)

    def value(self, row: int, place: int) -> str:
        """What stands in a row for a feature, with its unit; nothing if it is not told."""
        said = self._cell(row, place)
        missing = self.filled and self.explanation.feature_names[place] in self.filled[row]
        return f"missing ({said} was filled in)" if said and missing else said

    def _cell(self, row: int, place: int) -> str:
        data = self.explanation.data
        if data is None:
            return ""
        feature = self._feature(self.explanation.feature_names[place])
        cell = data[row, place]
        if feature is None or data.dtype.kind == "U":
            return str(cell) if data.dtype.kind == "U" else f"{cell:.4g}"
        raw = feature.raw(np.array([cell]))[0]
        number = isinstance(raw, int | float | np.number)
        said = f"{raw:,.0f}" if number and abs(raw) >= 1e4 else f"{raw:.4g}" if number else str(raw)
        return f"{said} {feature.unit}" if feature.unit else said

    def named(self, row: int, place: int) -> str:
        """A feature with what stands for it: `age = 71 years`."""
        name, value = self.explanation.feature_names[place], self.value(row, place)
        return f"{name} = {value}" if value else name

    def _feature(self, name: str) -> Feature | None:
        if self.schema is None or name not in self.schema.feature_names:
            return None
        return self.schema.features[self.schema.feature_names.index(name)]
