"""The schema: what is public about a table, and the three forms its rows take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput, SchemaError
from voile.core.rendering import find_view
from voile.core.schema.cells import (
    ColumnTable,
    Encoded,
    FeatureValues,
    Mask,
    RawColumn,
    Rows,
    is_table,
    raw_column,
    read_matrix,
)
from voile.core.schema.declaring import UNNAMED, declared_parts, given_parts
from voile.core.schema.domains import Categories, Domain, Problem, check_text
from voile.core.schema.parsing import Feature, Label, lines_of, parse, read_text
from voile.core.toml_text import dotted, quoted

# --- What a check of raw data against a schema found ---------------------------------------------

EXAMPLES = 5
MOSTLY_EMPTY = 0.2
"""More of a column missing than this is told: defaults would stand for too much of it."""
MISSING_ADVICE = 'declare a category "missing" or add a column that says so'
_LONGEST = 40


@dataclass(frozen=True)
class Example:
    """A raw value and the first row that holds it; row 1 is the first row of data."""

    value: str
    row: int


@dataclass(frozen=True)
class ColumnFinding:
    """How many values of a column have one problem, with the first few distinct ones."""

    problem: Problem
    count: int
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class ColumnReport:
    """One finding for every problem that a value of this column could have, found or not."""

    name: str
    findings: tuple[ColumnFinding, ...]

    def count(self, problem: Problem) -> int:
        """How many values have `problem`."""
        return sum(finding.count for finding in self.findings if finding.problem is problem)

    @property
    def ok(self) -> bool:
        return all(finding.count == 0 for finding in self.findings)

    @property
    def fits(self) -> bool:
        """Whether every value that is there is inside; empty cells may be among them."""
        return not any(each.count for each in self.findings if each.problem is not Problem.MISSING)


@dataclass(frozen=True)
class SchemaReport:
    """How a table of raw data fits a schema.

    It describes raw data, with exact counts and with values, and has no privacy guarantee: it is
    for the custodian of the data only, never for release.

    `ok` means that every feature has its column and that reading the table would replace, round or
    clamp nothing; `fits`, that it would at most fill in what is empty. Columns unknown to the
    schema are ignored in reading, so they do not count.
    `label` is None if the schema has none or the table lacks its column.
    """

    rows: int
    features: tuple[ColumnReport, ...]
    label: ColumnReport | None
    missing_columns: tuple[str, ...]
    unexpected_columns: tuple[str, ...]

    @property
    def columns(self) -> tuple[ColumnReport, ...]:
        """The reports of all columns that were there."""
        return self.features if self.label is None else (*self.features, self.label)

    @property
    def ok(self) -> bool:
        return not self.missing_columns and all(column.ok for column in self.columns)

    @property
    def fits(self) -> bool:
        return not self.missing_columns and all(column.fits for column in self.columns)

    @property
    def empty_cells(self) -> int:
        """Of features: the schema's defaults stand there when the table is read."""
        return sum(column.count(Problem.MISSING) for column in self.features)

    @property
    def mostly_empty(self) -> tuple[ColumnReport, ...]:
        """Features with more than a fifth of their values missing."""
        most = MOSTLY_EMPTY * self.rows
        return tuple(each for each in self.features if each.count(Problem.MISSING) > most)

    @property
    def empty_labels(self) -> int:
        """Nothing stands for a label: nothing is learned from these rows."""
        return 0 if self.label is None else self.label.count(Problem.MISSING)


def column_report(name: str, domain: Domain, column: RawColumn) -> ColumnReport:
    """What is wrong with the values of one column."""
    problems = domain.problems(domain.read(column))
    return ColumnReport(
        name,
        tuple(
            ColumnFinding(problem, int(np.count_nonzero(mask)), _examples(column, mask))
            for problem, mask in problems.items()
        ),
    )


def _examples(column: RawColumn, mask: Mask) -> tuple[Example, ...]:
    first_rows: dict[str, int] = {}
    for row in np.flatnonzero(mask):
        first_rows.setdefault(_shown(column[row]), int(row) + 1)
        if len(first_rows) == EXAMPLES:
            break
    return tuple(Example(value, row) for value, row in first_rows.items())


def _shown(value: object) -> str:
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except Exception:  # a foreign value may fail in any way; its type is example enough
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# --------------------------------------------------------------------------------------------------


@digest_name("voile.core.schema.schema.Schema")
@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """The public description of a table: names, kinds, bounds or categories, defaults, groups.

    Scaling and encoding follow from it alone, never from data, so they cost no privacy.

    Guarantees:
        Protected rows never raise. Whatever the values are, `rows`, `numbers`, `labels` and `check`
        give a result without error or warning. What `rows` gives lies inside the declared domains,
        and so does a label, unless it is NaN. Only public structure raises: a missing column,
        unequal lengths, a wrong shape of an array.

        Each row is read by itself: what it becomes depends on no other row.

        Nothing that is handed in is changed.

    >>> schema = Schema.loads('''
    ... name = "patients"
    ... features.age = {kind = "integer", bounds = [0, 120], default = 45}
    ... ''')
    >>> schema.rows({"age": ["43", "unknown", "900"]}).tolist()  # clamped, never an error
    [[43.0], [45.0], [120.0]]

    Declared in Python, a pair is bounds, a `range` is whole numbers, a list is categories, and
    `bool` is yes or no. A dict of the keys of a file says more.

    >>> schema = Schema({"age": range(18, 101), "sex": ["f", "m"], "income": (0, 500_000)})
    >>> schema.feature_names, schema.features[0].domain.whole
    (('age', 'sex', 'income'), True)
    >>> Schema({"age": (18, 100), "sick": ["no", "yes"]}, label="sick").label.name
    'sick'
    """

    name: str
    features: tuple[Feature, ...]
    label: Label | None = None

    @overload
    def __init__(
        self, name: str, features: Iterable[Feature], label: Label | None = None
    ) -> None: ...

    @overload
    def __init__(
        self,
        columns: Mapping[str, Any],
        /,
        *,
        label: str | Mapping[str, Any] | Label | None = None,
        name: str = UNNAMED,
        cuts: Mapping[str, Any] | None = None,
    ) -> None: ...

    def __init__(self, *given: Any, **stated: Any) -> None:
        """From its parts, or from a declaration: columns by name, with the values they may take.

        Args:
            label: what a model predicts: one of the columns, or `{name: the values it may take}`.
            name: of the schema; recorded with what is released.
            cuts: by column, public cut points of a number, such as clinical thresholds.
        """
        is_declared = bool(given) and isinstance(given[0], Mapping)
        parts = declared_parts(*given, **stated) if is_declared else given_parts(*given, **stated)
        object.__setattr__(self, "name", parts.name)
        object.__setattr__(self, "features", tuple(parts.features))
        object.__setattr__(self, "label", parts.label)
        self.__post_init__()

    def __repr__(self) -> str:
        """A line for each column, with what it may hold."""
        label = () if self.label is None else (self.label,)
        width = max(len(each.name) for each in (*self.features, *label))
        lines = [_line(each, width) for each in self.features]
        lines += [f"{_line(each, width)}  (label)" for each in label]
        return "\n  ".join([f"Schema {self.name!r}", *lines])

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        if not self.features:
            raise SchemaError("expected at least one feature, found none", field="features")
        _check_distinct(self.features)
        if self.label is not None and self.label.name in self.feature_names:
            raise SchemaError(
                f"{self.label.name!r} is also a feature; a label must not be among the inputs",
                field="label.name",
            )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Schema:
        """Read a TOML file; a `SchemaError` names file, line and field."""
        file = Path(path)
        return cls._from(read_text(file), file)

    @classmethod
    def loads(cls, text: str) -> Schema:
        """Read TOML text; a `SchemaError` names line and field."""
        return cls._from(text, None)

    @classmethod
    def from_frame(
        cls, frame: Any, *, label: str | None = None, name: str = "drafted from public rows"
    ) -> Schema:
        """Draft a schema from rows that anybody may see, and say what to look at.

        Bounds and categories are read off the rows, so they tell about them: never pass protected
        rows. Check every line (`print(schema.dumps())`) before you rely on it.

        Args:
            frame: public rows, as a table of pandas, polars, pyarrow, or a dict of columns.
            label: the column that a model predicts, if there is one.
        """
        draft = find_view("schema from public rows")
        assert draft is not None, "registered with `import voile`"
        drafted: Schema = draft(frame, label=label, name=name)
        return drafted

    @classmethod
    def _from(cls, text: str, file: Path | None) -> Schema:
        with lines_of(text, file):
            parts = parse(text)
            return cls(parts.name, parts.features, parts.label)

    def declaration(self) -> dict[str, Any]:
        """Everything the schema says, in the structure of a schema file, nothing left out."""
        return {
            "name": self.name,
            **({} if self.label is None else {"label": self.label.declaration()}),
            "features": {feature.name: feature.declaration() for feature in self.features},
        }

    def dumps(self) -> str:
        """TOML text from which `loads` makes an equal schema."""
        blocks = [_assignments({"name": self.name})]
        if self.label is not None:
            blocks.append("[label]\n" + _assignments(self.label.declaration()))
        for feature in self.features:
            header = f"[{dotted('features', feature.name)}]\n"
            blocks.append(header + _assignments(feature.declaration()))
        return "\n".join(blocks)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of what the schema says: equal schemas, and only they, have equal digests.

        Digests are stored in artefacts, so this form never changes: JSON of `declaration`, without
        blanks, in ASCII, features as a list of pairs because their order matters.
        """
        declared = self.declaration()
        declared["features"] = list(declared["features"].items())
        canonical = json.dumps(declared, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(b"voile schema 1\n" + canonical.encode("ascii")).hexdigest()

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    def semantic_groups(self) -> dict[str, tuple[str, ...]]:
        """The names of the features in each semantic category, in the order of the schema."""
        groups: dict[str, tuple[str, ...]] = {}
        for feature in self.features:
            groups[feature.group] = (*groups.get(feature.group, ()), feature.name)
        return groups

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The names of the encoded columns: `age`, `sex=female`, `sex=male`."""
        return tuple(name for feature in self.features for name in feature.column_names)

    @cached_property
    def column_features(self) -> NDArray[np.intp]:
        """For each encoded column the place of its feature; read-only."""
        widths = [len(feature.column_names) for feature in self.features]
        return _read_only(np.repeat(np.arange(len(self.features)), widths))

    @cached_property
    def null_row(self) -> NDArray[np.float64]:
        """The defaults as a row, shape (d,): what a blanked record becomes; read-only."""
        return _read_only(np.array([feature.null_value for feature in self.features]))

    def rows(self, table: ColumnTable) -> Rows:
        """Read raw data: clamp to the bounds, round integers, put the default for what is no value.

        Missing, unreadable and unlisted values become the default; further columns are ignored. The
        docstring of `voile.core.schema` tells how raw values are read, booleans and text included.
        """
        columns = self._columns(table, self.feature_names)
        with np.errstate(all="ignore"):
            return np.column_stack(
                [feature.read(columns[feature.name]) for feature in self.features]
            )

    def numbers(self, given: Any) -> NDArray[np.float64]:
        """Protected rows from an array or a list, shape (n, d): NaN for what is no number.

        Only the shape of an array raises. A row of a list that has not d values is all NaN.
        """
        found = read_matrix(given, len(self.features))
        if found is None:
            raise InvalidInput(
                f"rows must be an array or a list of shape (n, {len(self.features)})"
            )
        return found

    def null_records(self, given: Any) -> Mask:
        """Which records of a table of raw data, or of an array of rows, are null, shape (n,).

        A record is null if no feature of it can be read: every value is missing, unreadable or in
        no list, so that defaults stand for all of it. A label makes no difference. This is the one
        place where it is decided; whoever trains on or explains a null record adds nothing for it.
        """
        if not is_table(given):
            read = _matrix(given, len(self.features), "rows")
        else:
            columns = self._columns(given, self.feature_names)
            with np.errstate(all="ignore"):
                read = np.column_stack(
                    [feature.domain.read(columns[feature.name]).values for feature in self.features]
                )
        with np.errstate(all="ignore"):
            null: Mask = np.logical_and.reduce(self._limits.lost(read), axis=1)
        return null

    def labels(self, table: ColumnTable) -> FeatureValues:
        """The labels of raw data, shape (n,): numbers, or index into the categories; else NaN."""
        if self.label is None:
            raise InvalidInput(f"the schema {self.name!r} declares no label")
        column = self._columns(table, (self.label.name,))[self.label.name]
        with np.errstate(all="ignore"):
            return self.label.read(column)

    def clamp(self, rows: ArrayLike) -> Rows:
        """Rows brought inside the schema; those of `rows` already are."""
        given = _matrix(rows, len(self.features), "rows")
        with np.errstate(all="ignore"):
            return self._limits.settle(given)

    def clamp_records(self, numbers: NDArray[np.float64]) -> tuple[Rows, Mask]:
        """`clamp` and `null_records` of what `numbers` gives, at once."""
        with np.errstate(all="ignore"):
            return self._limits.settle_records(numbers)

    @cached_property
    def _limits(self) -> _Limits:
        return _Limits.from_features(self.features)

    def encode(self, rows: ArrayLike) -> Encoded:
        """Numbers scaled to [0, 1] and categories one-hot; what lies outside is clamped first."""
        given = _matrix(rows, len(self.features), "rows")
        with np.errstate(all="ignore"):
            return np.hstack(
                [feature.encode(given[:, place]) for place, feature in enumerate(self.features)]
            )

    def decode(self, encoded: ArrayLike) -> Rows:
        """The inverse of `encode`, total: scales back and clamps; the largest of a one-hot wins."""
        given = _matrix(encoded, len(self.column_names), "encoded rows")
        with np.errstate(all="ignore"):
            return np.column_stack(
                [
                    feature.decode(given[:, self.column_features == place])
                    for place, feature in enumerate(self.features)
                ]
            )

    def table(self, rows: ArrayLike) -> dict[str, RawColumn]:
        """Rows as raw values by column name: floats, integers, categories as they are listed."""
        given = _matrix(rows, len(self.features), "rows")
        with np.errstate(all="ignore"):
            return {
                feature.name: feature.raw(given[:, place])
                for place, feature in enumerate(self.features)
            }

    def check(self, table: ColumnTable) -> SchemaReport:
        """Say what in raw data falls outside the schema; for the custodian, never for release."""
        expected = list(self.feature_names) + ([self.label.name] if self.label else [])
        present = [str(name) for name in _column_names(table)]
        columns = self._columns(table, [name for name in expected if name in present])
        with np.errstate(all="ignore"):
            return SchemaReport(
                rows=max((len(column) for column in columns.values()), default=0),
                features=tuple(
                    column_report(feature.name, feature.domain, columns[feature.name])
                    for feature in self.features
                    if feature.name in columns
                ),
                label=(
                    column_report(self.label.name, self.label.domain, columns[self.label.name])
                    if self.label is not None and self.label.name in columns
                    else None
                ),
                missing_columns=tuple(n for n in self.feature_names if n not in columns),
                unexpected_columns=tuple(n for n in present if n not in expected),
            )

    def _columns(self, table: ColumnTable, names: Iterable[str]) -> dict[str, RawColumn]:
        """The named columns, all there and of one length."""
        names = list(names)
        present = set(_column_names(table))
        absent = [name for name in names if name not in present]
        if absent:
            raise InvalidInput(
                f"the schema {self.name!r} needs columns that the table lacks: "
                + ", ".join(repr(name) for name in absent)
            )
        columns = {name: raw_column(table[name], name) for name in names}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"the columns have different lengths: {lengths}")
        return columns


@digest_name("voile.core.schema.schema._Limits")
@dataclass(frozen=True, eq=False)
class _Limits:
    """All domains at once: `Feature.settle` for whole rows, ten times as fast for a single one.

    Every array has shape (d,). Categories are whole numbers from 0 on; what is none of them becomes
    the default, where a number would be moved to the nearest bound.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    whole: NDArray[np.bool_]
    listed: NDArray[np.bool_]
    default: NDArray[np.float64]

    @classmethod
    def from_features(cls, features: tuple[Feature, ...]) -> _Limits:
        found = []
        for feature in features:
            domain = feature.domain
            if isinstance(domain, Categories):
                found.append((0.0, len(domain.values) - 1.0, True, True, feature.null_value))
            else:
                bounds = float(domain.lower), float(domain.upper)
                found.append((*bounds, domain.whole, False, feature.null_value))
        lower, upper, whole, listed, default = map(np.array, zip(*found, strict=True))
        return cls(lower, upper, whole, listed, default)

    def settle(self, given: NDArray[np.float64]) -> Rows:
        return self.settle_records(given)[0]

    def settle_records(self, given: NDArray[np.float64]) -> tuple[Rows, Mask]:
        """Also which of them say nothing at all."""
        inside = self._inside(given)
        lost = self._lost(given, inside)
        found: Rows = np.where(lost, self.default, inside)
        return found + 0.0, np.logical_and.reduce(lost, axis=1)  # one zero, see `Reading`

    def lost(self, given: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which values say nothing, so that the default stands for them."""
        return self._lost(given, self._inside(given))

    def _inside(self, given: NDArray[np.float64]) -> NDArray[np.float64]:
        moved = np.where(self.whole, np.rint(given), given)
        return np.minimum(np.maximum(moved, self.lower), self.upper)

    def _lost(self, given: NDArray[np.float64], inside: NDArray[np.float64]) -> NDArray[np.bool_]:
        lost: NDArray[np.bool_] = np.isnan(inside) | (self.listed & (inside != given))
        return lost


def _line(column: Feature | Label, width: int) -> str:
    unit = f" {column.unit}" if column.unit else ""
    return f"{column.name:<{width}}  {column.domain}{unit}"


def _check_distinct(features: tuple[Feature, ...]) -> None:
    owners: dict[str, str] = {}
    for feature in features:
        field = dotted("features", feature.name)
        if feature.name in owners.values():
            raise SchemaError("declared twice", field=field)
        for column in feature.column_names:
            if column in owners:
                raise SchemaError(
                    f"its encoded column {column!r} is also one of {owners[column]!r}", field=field
                )
            owners[column] = feature.name


def _column_names(table: ColumnTable) -> list[Any]:
    if not is_table(table):
        raise InvalidInput(
            f"expected a table (a mapping of column names to values), "
            f"found a {type(table).__name__}"
        )
    return list(table.keys())


def _matrix(values: ArrayLike, width: int, what: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty((), dtype=object)
    if array.ndim != 2 or array.shape[1] != width or array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"{what} must be an array of numbers of shape (n, {width}), "
            f"found shape {array.shape} of {array.dtype}; `rows` reads raw data"
        )
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def _assignments(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return quoted(value) if isinstance(value, str) else repr(value)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


# --- Rows drawn from a schema: public facts only, no data ----------------------------------------


def draw_rows(schema: Schema, count: int, draw: np.random.Generator) -> Rows:
    """Draw rows whose features are independent and uniform over their listed values or bounds.

    Uses the public schema only, so the rows cost no privacy.

    >>> from voile.core.schema import Numbers
    >>> schema = Schema("patients", (Feature("age", Numbers(0, 120)),))
    >>> rows = draw_rows(schema, 5, np.random.default_rng(0))
    >>> rows.shape, bool((rows == schema.clamp(rows)).all())
    ((5, 1), True)
    """
    return np.column_stack([_values(feature, count, draw) for feature in schema.features])


def _values(feature: Feature, count: int, draw: np.random.Generator) -> FeatureValues:
    domain = feature.domain
    if isinstance(domain, Categories):
        return draw.integers(0, len(domain.values), count).astype(np.float64)
    if domain.whole:
        lower, upper = int(domain.lower), int(domain.upper)
        return draw.integers(lower, upper, count, endpoint=True).astype(np.float64)
    return draw.uniform(domain.lower, domain.upper, count)
