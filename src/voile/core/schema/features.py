"""Features and the label: a name, the values it may take, and what stands in for a bad value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from voile.core.digest_names import digest_name
from voile.core.errors import SchemaError
from voile.core.schema.arrays import Encoded, FeatureValues, RawColumn
from voile.core.schema.domains import Domain, Value, check_text


@digest_name("voile.core.schema.features.Feature")
@dataclass(frozen=True)
class Feature:
    """One input column.

    Without a `default` it is the middle of the bounds (rounded down for integers) or the first
    category. Without a `semantic` category the feature is a group of its own, under its own name.
    `unit` is what its numbers are measured in, for people who read them.
    """

    name: str
    domain: Domain
    default: Value | None = None
    semantic: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        default = self.domain.default if self.default is None else self.domain.admit(self.default)
        object.__setattr__(self, "default", default)
        semantic = self.name if self.semantic is None else self.semantic
        check_text(semantic, "semantic")
        object.__setattr__(self, "semantic", semantic)
        _check_unit(self.unit)

    @property
    def group(self) -> str:
        """The semantic category, given or not."""
        return self.semantic or self.name

    @cached_property
    def null_value(self) -> float:
        """The default as it stands in `Rows`."""
        return self.domain.place(self.domain.default if self.default is None else self.default)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of its encoded columns."""
        return tuple(self.name + suffix for suffix in self.domain.suffixes)

    def read(self, column: RawColumn) -> FeatureValues:
        """Raw values, all of them brought inside the domain."""
        return self.settle(self.domain.read(column).values)

    def settle(self, values: FeatureValues) -> FeatureValues:
        """Values brought inside the domain."""
        return self.domain.settle(values, self.null_value)

    def encode(self, values: FeatureValues) -> Encoded:
        """The encoded columns of any values."""
        return self.domain.encode(self.settle(values))

    def decode(self, columns: Encoded) -> FeatureValues:
        """The values of any encoded columns."""
        return self.settle(self.domain.decode(columns))

    def raw(self, values: FeatureValues) -> RawColumn:
        """Any values as raw values inside the domain."""
        return self.domain.raw(self.settle(values))

    def declaration(self) -> dict[str, Any]:
        """What a schema file says about the feature, nothing left out."""
        return {
            "kind": self.domain.kind,
            **self.domain.declaration(),
            "default": self.default,
            "semantic": self.semantic,
            **_unit(self.unit),
        }


@digest_name("voile.core.schema.features.Label")
@dataclass(frozen=True)
class Label:
    """What a model predicts. It has no default: a label that cannot be read is no label."""

    name: str
    domain: Domain
    unit: str | None = None

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        _check_unit(self.unit)
        if self.domain.kind == "integer":  # a schema file has no way to say so
            raise SchemaError("numeric labels are continuous; leave out `whole`", field="bounds")

    def read(self, column: RawColumn) -> FeatureValues:
        """Raw labels inside the domain, as numbers or as index into the categories; else NaN."""
        return self.domain.settle(self.domain.read(column).values, math.nan)

    def declaration(self) -> dict[str, Any]:
        """What a schema file says about the label."""
        return {"name": self.name, **self.domain.declaration(), **_unit(self.unit)}


def _check_unit(unit: str | None) -> None:
    if unit is not None:
        check_text(unit, "unit")


def _unit(unit: str | None) -> dict[str, str]:
    """Nothing where none is declared: the digest of a schema without units stays what it was."""
    return {} if unit is None else {"unit": unit}
