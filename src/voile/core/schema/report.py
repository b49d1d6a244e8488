"""What a check of raw data against a schema found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voile.core.schema.arrays import Mask, RawColumn
from voile.core.schema.domains import Domain, Problem

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
