"""Schemas, from the command to the result: shown, compared with data, proposed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voile.app.calls import Context
from voile.app.commands.schema import CheckSchema, ProposeSchema, ShowSchema
from voile.app.proposing import Proposal, proposal_text, propose
from voile.core.atomic_file import check_output, replace_file
from voile.core.errors import InvalidInput
from voile.core.schema import Schema, SchemaReport
from voile.datasets.tables import read_table


@dataclass(frozen=True)
class SchemaChecked:
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
class SchemaProposed:
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


def check(command: CheckSchema, _context: Context) -> SchemaChecked:
    """What falls outside."""
    schema = Schema.load(command.file)
    return SchemaChecked(schema, schema.check(read_table(command.data)))


def propose_schema(command: ProposeSchema, context: Context) -> SchemaProposed:
    """What would describe public rows."""
    data, output = command.data, command.output
    if not command.public:
        raise InvalidInput(
            f"{data}: what is read off rows tells about them. Only if nobody in it is protected, "
            "say so: --public. For anything else, voile init reads the header and leaves the rest "
            "to you"
        )
    if output is not None:
        check_output(output)
        context.check_overwriting([output], allowed=command.overwrite)
    name = "proposed" if data == "-" else Path(data).stem
    proposal = propose(name, read_table(data), command.label)
    if output is not None:
        replace_file(output, proposal_text(proposal).encode())
    return SchemaProposed(proposal, output)
