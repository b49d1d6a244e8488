"""Schemas, from the command to the result: shown, compared with data, proposed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.app.calls import Context
from voile.app.commands.workspace import CheckSchema, ProposeSchema, ShowSchema
from voile.core.atomic_file import check_output, replace_file
from voile.core.errors import InvalidInput
from voile.core.schema import (
    Categories,
    Domain,
    Feature,
    Label,
    Numbers,
    RawColumn,
    Schema,
    SchemaReport,
)
from voile.core.schema.cells import read_numbers
from voile.datasets.tables import read_table

# -------------------------------------------------------------------------------------------------
# A schema proposed from rows that somebody says are public: a code book's examples, open data.
#
# Bounds that are read off rows tell about these rows, so this is never done with protected ones.


MOST_CATEGORIES: Final = 20
MOST_CODES: Final = 10
"""Different whole numbers that are proposed as categories."""
FREQUENT: Final = 0.01
"""A word such as "none" in more than this share of a text column is a category."""
_NOTHING: Final = frozenset({"nan", "-nan", "nat", "<na>"})
"""How programs write an empty cell: these are never categories."""


@dataclass(frozen=True)
class Proposal:
    """A schema, and what it leaves out.

    Args:
        left_out: columns without a value, or whose texts are as many as those of names or remarks.
        coded: features whose categories are whole numbers, which may be quantities after all.
        missing: for each column the words that were taken as missing.
    """

    schema: Schema
    left_out: tuple[str, ...]
    coded: tuple[str, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def propose(name: str, table: Mapping[str, RawColumn], label: str | None) -> Proposal:
    """What would describe these rows, with room around them.

    Args:
        name: of the schema.
        table: raw values that are public.
        label: the column to predict, if there is one.
    """
    if label is not None and label not in table:
        raise InvalidInput(f"there is no column {label!r}; found {', '.join(table)}")
    found = {column: _domain(values) for column, values in table.items()}
    wanted = None if label is None else _label_domain(table[label], found[label])
    features = [
        Feature(column, domain)
        for column, domain in found.items()
        if column != label and domain is not None
    ]
    if not features or (label is not None and wanted is None):
        raise InvalidInput(
            "no schema follows from these rows: expected a label and at least one other column "
            f"with numbers or up to {MOST_CATEGORIES} different texts"
        )
    left_out = tuple(column for column, domain in found.items() if domain is None)
    coded = tuple(each.name for each in features if _is_coded(each.domain))
    missing = {
        column: words
        for column, values in table.items()
        if (words := _missing_words(values, found[column]))
    }
    predicted = None if label is None or wanted is None else Label(label, wanted)
    return Proposal(Schema(name, tuple(features), predicted), left_out, coded, missing)


def proposal_text(proposal: Proposal) -> str:
    """The schema as TOML, with what is to be looked at by people."""
    head = [
        "# Proposed from rows that were said to be public. Look at every line: bounds are promises",
        "# about what is possible, and categories that these rows happen to lack are missing here.",
        *(f"# Left out, no values or too many texts: {name!r}" for name in proposal.left_out),
        *(
            f"# Proposed as categories: {name!r}. If its whole numbers are a quantity, declare "
            'kind = "integer" with bounds.'
            for name in proposal.coded
        ),
        *(
            f"# Taken as missing in {name!r}: {', '.join(map(repr, words))}"
            for name, words in proposal.missing.items()
        ),
    ]
    return "\n".join([*head, proposal.schema.dumps()])


def _domain(column: RawColumn) -> Numbers | Categories | None:
    if column.dtype.kind in "mMV":  # times are not read, see `voile.core.schema`
        return None
    read = read_numbers(column)
    values = read.values[~np.isnan(read.values) & np.isfinite(read.values)]
    if not read.unusable.any() and len(values):
        return _numbers(values)
    known = {str(cell).strip() for cell in column[~read.missing]}
    frequent = _frequent(column[read.missing], len(column))
    if not known and len(frequent) < 2:  # one word for nothing, and nothing else, is no text column
        return None
    texts = sorted(known | frequent)
    return Categories(tuple(texts)) if len(texts) <= MOST_CATEGORIES else None


def _frequent(cells: RawColumn, rows: int) -> set[str]:
    """Words for nothing that occur too often in a text column to mean nothing; never a blank."""
    counts = Counter(cell.strip() for cell in cells if isinstance(cell, str))
    often = {word for word, count in counts.items() if count > FREQUENT * rows}
    return {word for word in often if word and word.lower() not in _NOTHING}


def _missing_words(column: RawColumn, domain: Numbers | Categories | None) -> tuple[str, ...]:
    """The words, blanks among them, for which the schema would put its default."""
    if domain is None:
        return ()
    missing = domain.read(column).missing
    return tuple(sorted({str(cell).strip() for cell in column[missing]}))


def _is_coded(domain: Domain) -> bool:
    """Whether its categories are whole numbers, other than yes and no."""
    coded = isinstance(domain, Categories) and not isinstance(domain.values[0], str)
    return coded and domain != Categories((0, 1))


def _label_domain(
    column: RawColumn, domain: Numbers | Categories | None
) -> Numbers | Categories | None:
    """A label of a few whole numbers is a class, not a quantity."""
    values = read_numbers(column).values
    known = np.unique(values[~np.isnan(values)])
    few = 2 <= len(known) <= MOST_CATEGORIES and bool((np.rint(known) == known).all())
    if isinstance(domain, Numbers) and few:
        return Categories(tuple(int(value) for value in known))
    return domain


def _numbers(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Numbers | Categories:
    whole = bool((np.rint(values) == values).all() and np.abs(values).max() < 2.0**48)
    if whole and set(np.unique(values)) <= {0.0, 1.0}:
        return Categories((0, 1))
    codes = np.unique(values)
    if whole and 2 <= len(codes) <= MOST_CODES:
        return Categories(tuple(int(code) for code in codes))
    lower, upper = _outward(float(values.min()), float(values.max()))
    return Numbers(lower, upper, whole=whole)


def _outward(lower: float, upper: float) -> tuple[float, float]:
    """Round numbers around both: 18.3 and 87.1 lie between 10 and 90."""
    width = max(upper - lower, 1e-6 * max(abs(lower), abs(upper), 1.0))
    step = 10.0 ** math.floor(math.log10(max(width, 1.0) if lower == upper else width))
    low = min(math.floor(lower / step) * step, lower)
    high = max(math.ceil(upper / step) * step, upper)
    return low, high if high > low else low + step


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SchemaCheckResult:
    """How data fit a schema; exact counts and raw values, for the custodian only."""

    schema: Schema
    report: SchemaReport

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        report = self.report
        return {
            "schema": self.schema.name,
            "ok": report.fits,
            "empty_cells": report.empty_cells,
            "empty_labels": report.empty_labels,
            "mostly_empty": [column.name for column in report.mostly_empty],
            **asdict(report),
        }


@dataclass(frozen=True)
class SchemaProposalResult:
    """A proposal, and the file that it was written to; None if it was not."""

    proposal: Proposal
    written: Path | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the schema, and what needs a second look."""
        found = self.proposal
        return {
            "left_out": list(found.left_out),
            "coded": list(found.coded),
            "taken_as_missing": {name: list(words) for name, words in found.missing.items()},
            **found.schema.declaration(),
        }


def show(command: ShowSchema, _context: Context) -> Schema:
    """What a file declares."""
    return Schema.load(command.file)


def check(command: CheckSchema, _context: Context) -> SchemaCheckResult:
    """What falls outside."""
    schema = Schema.load(command.file)
    return SchemaCheckResult(schema, schema.check(read_table(command.data)))


def propose_schema(command: ProposeSchema, context: Context) -> SchemaProposalResult:
    """What would describe public rows."""
    data, output = command.data, command.output
    if not command.public:
        raise InvalidInput(
            f"{data}: a schema proposed from rows reveals facts about them. Pass --public if "
            "nobody in the file is protected; otherwise use `voile init`, which reads the header "
            "only"
        )
    if output is not None:
        check_output(output)
        context.check_overwriting([output], allowed=command.overwrite)
    name = "proposed" if data == "-" else Path(data).stem
    table = read_table(data)
    label = list(table)[-1] if command.label is None else command.label
    proposal = propose(name, table, label)
    if output is not None:
        replace_file(output, proposal_text(proposal).encode())
    return SchemaProposalResult(proposal, output)
