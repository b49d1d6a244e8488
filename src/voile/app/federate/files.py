"""From the files of a federation to a `Job`, all in this process.

A party's file is read on the party's side of the line. What stands in its records raises nothing:
it is clamped to the schema, what cannot be read becomes the default, and a damaged record is the
null record. Only public facts can be wrong: the container (`read_protected_table`), columns, and
the declared number of rows.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import numpy as np
from pydantic import BaseModel

from voile.app.explain.rows import read_records
from voile.app.federate.accepts import Accepts
from voile.app.federate.agreement import FederationAgreement, asked_in_a_round
from voile.app.federate.config import (
    FederationFile,
    NodeFile,
    NodeLinkSection,
    ServerFile,
    ServerLinkSection,
)
from voile.app.federate.job import Job, ServerSide
from voile.app.federate.party import Party
from voile.app.toml_file import TomlFile
from voile.attribution.fastshap import EXPLAINER_PLAN
from voile.core.errors import InvalidInput, Refused, VoileError
from voile.core.guarantee import Protected, ProtectedUnit
from voile.core.randomness import StreamCipher
from voile.core.schema import ColumnFinding, ColumnReport, Problem, RawColumn, Rows, Schema
from voile.core.schema.schema import MISSING_ADVICE, MOSTLY_EMPTY, draw_rows
from voile.datasets.tables import check_cells_separate, read_table
from voile.federation.secure_aggregation import ThreatModel
from voile.federation.stored_text import file_stem
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.pipelines.tables import TableRecords
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.notes import KeyKind, VerifierKey

# --- Rows that nobody protects, compared with the schema before anything is charged --------------
# A schema that does not fit makes constants of columns without a word, because protected rows never
# raise; the whole budget would be spent on them. Held-out and reference rows may be looked at, and
# they are written by the same people: what does not fit there is said, with file, column and
# values. Protected rows are never looked at for this.


_HARMLESS = (Problem.MISSING, Problem.NOT_WHOLE)
_NO_LABEL = (Problem.UNKNOWN, Problem.UNREADABLE)


@dataclass(frozen=True)
class Remark:
    """What was found about a column; `fatal` if results would mean nothing."""

    column: str
    text: str
    fatal: bool

    def __str__(self) -> str:
        return f"column {self.column!r} {self.text}"


def check_open_rows(
    schema: Schema, table: Mapping[str, RawColumn], path: Path, *, labelled: bool
) -> tuple[str, ...]:
    """Remarks worth telling; an `InvalidInput` if training with this schema would be pointless.

    Args:
        schema: public.
        table: raw values that are not protected.
        path: where they are from.
        labelled: whether there has to be a label.
    """
    if not max(map(len, table.values()), default=0):
        raise InvalidInput(f"{path}: expected at least one row, found none")
    described = schema if labelled else Schema(schema.name, schema.features)
    found = list(_remarks(described, table))
    fatal = [str(remark) for remark in found if remark.fatal]
    if fatal:
        raise InvalidInput(
            f"{path}: does not fit the schema {schema.name!r}, so nothing was trained or charged: "
            + "; ".join(fatal)
        )
    return tuple(f"{path}: {remark}" for remark in found)


def _remarks(schema: Schema, table: Mapping[str, RawColumn]) -> Iterator[Remark]:
    report = schema.check(table)
    missing = list(report.missing_columns)
    if schema.label is not None and report.label is None:
        missing.append(schema.label.name)
    yield from (Remark(name, "is not there", True) for name in missing)
    if missing:
        return
    rows = schema.rows(table)
    for place, column in enumerate(report.features):
        yield from _of_feature(column, report.rows, constant=bool(np.ptp(rows[:, place]) == 0))
    if report.label is not None:
        labels = schema.labels(table)
        known = labels[~np.isnan(labels)]
        yield from _of_label(report.label, report.rows, constant=len(set(known.tolist())) == 1)


def _of_feature(column: ColumnReport, rows: int, *, constant: bool) -> Iterator[Remark]:
    outside = [each for each in column.findings if each.count and each.problem not in _HARMLESS]
    count = sum(each.count for each in outside)
    if outside:
        yield Remark(column.name, _outside(outside, rows), fatal=2 * count > rows)
    elif column.count(Problem.MISSING) == rows:
        yield Remark(
            column.name, f"is empty: the default stands in every row; {MISSING_ADVICE}", False
        )
    elif constant and rows > 1:
        yield Remark(column.name, f"has the same value in all {rows} rows", fatal=False)
    share = column.count(Problem.MISSING) / rows
    if MOSTLY_EMPTY < share < 1:
        yield Remark(
            column.name, f"is missing in {share:.0%} of rows; {MISSING_ADVICE}", fatal=False
        )


def _of_label(column: ColumnReport, rows: int, *, constant: bool) -> Iterator[Remark]:
    """A label that is not in the schema is a slip in one of them: there is no default for it."""
    outside = [each for each in column.findings if each.count and each.problem not in _HARMLESS]
    missing = column.count(Problem.MISSING)
    if outside:
        beside = any(each.problem in _NO_LABEL for each in outside)
        count = sum(each.count for each in outside)
        yield Remark(column.name, _outside(outside, rows), fatal=beside or 2 * count > rows)
    if missing == rows:
        yield Remark(column.name, "is empty, and it is what is to be learned", fatal=True)
    elif missing:
        text = f"is empty in {missing} of {rows} rows, which count for no accuracy"
        yield Remark(column.name, text, fatal=False)
    if constant and rows > 1 and not outside:
        yield Remark(column.name, "has one value only: figures say little", fatal=False)


def _outside(findings: list[ColumnFinding], rows: int) -> str:
    parts = []
    for each in findings:
        examples = ", ".join(f"{e.value} in row {e.row}" for e in each.examples[:3])
        parts.append(f"{each.count} of {rows} values {_WORDS[each.problem]} ({examples})")
    return "has " + " and ".join(parts)


_WORDS = {
    Problem.UNKNOWN: "that are in no list of the schema",
    Problem.UNREADABLE: "that are no numbers",
    Problem.BELOW: "below the lower bound",
    Problem.ABOVE: "above the upper bound",
}


# --------------------------------------------------------------------------------------------------


FEDERATION_FILE: Final = "federation.toml"
SERVER_FILE: Final = "server.toml"
NODES: Final = "nodes"
NODE_FILE: Final = "node.toml"
REFERENCE_ROWS = 50
Form = TypeVar("Form", bound=BaseModel)
Remarks: TypeAlias = tuple[str, ...]


def read_job(path: Path) -> Job:
    """The federation of this `federation.toml`, with the server's and all parties' files beside it.

    What a file says about others is not believed: sizes and keys come from the agreement, and each
    party compares them with its own.
    """
    agreement = read_agreement(path)
    server = read_beside(path.parent / SERVER_FILE, ServerFile)
    nodes = [_node(path.parent, name) for name in agreement.sizes]
    _check_files(nodes, server)
    return Job(
        agreement,
        _server_side(agreement.schema, server),
        tuple(_agreed_party(agreement, folder, node) for folder, node in nodes),
    )


def read_server(path: Path) -> tuple[FederationAgreement, ServerSide, ServerLinkSection]:
    """The server's side of this `federation.toml`, whose parties are on other machines."""
    agreement = read_agreement(path)
    server = read_beside(path.parent / SERVER_FILE, ServerFile)
    if server.superlink is None:
        raise InvalidInput(
            f"{path.parent / SERVER_FILE}: there is no [superlink] table; add one with "
            "root_certificates and secret"
        )
    return agreement, _server_side(agreement.schema, server), server.superlink


def read_node(path: Path) -> tuple[FederationAgreement, Party, NodeLinkSection]:
    """One party on a machine of its own, by its `node.toml`; its books lie beside that."""
    found = read_beside(path, NodeFile)
    if found.federation is None or found.superlink is None:
        raise InvalidInput(
            f"{path}: needs `federation` (this party's copy of federation.toml) and [superlink] "
            "with address and root_certificates"
        )
    agreement = read_agreement(found.federation)
    return agreement, _agreed_party(agreement, path.parent, found), found.superlink


def read_party(schema: Schema, folder: Path, *, apart_from: Path) -> Party:
    """One party by the `node.toml` in its folder, without what it has agreed to.

    Args:
        apart_from: a file of rows that nobody protects, which must not be that of the party, nor of
            one whose folder lies beside it.
    """
    node = read_beside(folder / NODE_FILE, NodeFile)
    siblings = [
        read_beside(file, NodeFile) for file in folder.absolute().parent.glob(f"*/{NODE_FILE}")
    ]
    own = [(f"party {each.name!r}", each.data) for each in (node, *siblings)]
    _check_apart([*dict(own).items(), ("unprotected rows", apart_from)])
    return _party(schema, folder, node)


def open_records(schema: Schema, path: Path) -> TableRecords:
    """Rows that nobody protects, with labels."""
    return TableRecords.read(schema, _open_table(schema, path, labelled=True)[0])


def read_agreement(path: Path) -> FederationAgreement:
    """What all parties have agreed on."""
    file = TomlFile.read(path)
    if "clients" in file.content:
        raise InvalidInput(
            f"{path}: a federation now has one file for each owner. Convert this one with: voile "
            f"init {shlex.quote(str(path))} --output FOLDER"
        )
    agreed = file.checked(FederationFile)
    schema = Schema.load(path.parent / agreed.schema_file)
    if schema.label is None:
        raise InvalidInput(
            f"{agreed.schema_file}: the schema declares no label; declare the column to predict"
        )
    return FederationAgreement(
        protected=_protected(agreed),
        schema=schema,
        sizes={party.name: party.rows for party in agreed.parties},
        epsilon=agreed.privacy.epsilon,
        delta=agreed.privacy.delta,
        records_per_person=agreed.privacy.records_per_person,
        keys={
            party.name: _key(file, party.key, "parties", str(place), "key")
            for place, party in enumerate(agreed.parties)
        },
        pipeline=agreed.pipeline,
        rounds=agreed.training.rounds,
        participations=agreed.training.participations,
        hidden=agreed.training.hidden,
        aggregator=agreed.training.aggregator,
        levels={p.name: p.epsilon for p in agreed.parties if p.epsilon is not None},
        secure=_threat_model(file, agreed),
        server_key=None
        if agreed.server_key is None
        else _key(file, agreed.server_key, "server_key"),
        members_count=agreed.privacy.members_count,
    )


def _protected(agreed: FederationFile) -> Protected:
    relation, columns = agreed.privacy.relation, agreed.privacy.columns
    if columns is None:
        return Protected(CLIPPED_UNIT, relation, agreed.name)
    return Protected(ProtectedUnit.COLUMNS, relation, agreed.name, columns)


def _threat_model(file: TomlFile, agreed: FederationFile) -> ThreatModel | None:
    if not agreed.secure:
        return None
    try:
        training = agreed.training
        asked = asked_in_a_round(len(agreed.parties), training.rounds, training.participations)
        model = agreed.secure_sum.model(asked)
        model.threshold_of(asked)
    except VoileError as error:
        raise file.wrong(str(error), "secure_sum") from error
    return model


def _key(file: TomlFile, text: str, *place: str) -> VerifierKey:
    try:
        key = VerifierKey.parse(text)
    except Malformed as error:
        raise file.wrong(str(error), *place) from error
    if key.kind is not KeyKind.LOG:
        raise file.wrong("expected the key of a log", *place)
    return key


def read_beside(path: Path, form: type[Form]) -> Form:
    """A file of this form; its paths are relative to it, not to where the command is run."""
    return _moved(TomlFile.read(path).checked(form), path.parent)


def _moved(section: Form, folder: Path) -> Form:
    """Paths of a section, and of the sections in it."""
    moved: dict[str, object] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Path):
            moved[name] = folder / value
        elif isinstance(value, BaseModel):
            moved[name] = _moved(value, folder)
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            moved[name] = tuple(_moved(each, folder) for each in value)
    return section.model_copy(update=moved)


def _node(folder: Path, name: str) -> tuple[Path, NodeFile]:
    """The file of a party, and the folder that it lies in."""
    own = folder / NODES / file_stem(name)
    found = read_beside(own / NODE_FILE, NodeFile)
    if found.name != name:
        raise InvalidInput(f"{own / NODE_FILE}: belongs to {found.name!r}, expected {name!r}")
    return own, found


def _agreed_party(agreement: FederationAgreement, folder: Path, node: NodeFile) -> Party:
    if agreement.protected.unit is ProtectedUnit.COLUMNS:
        check_cells_separate(node.data)
    return _party(agreement.schema, folder, node)


def _party(schema: Schema, folder: Path, node: NodeFile) -> Party:
    said = node.accepts
    accepts = Accepts(said.epsilon, said.delta, said.agreement, frozenset(said.columns))
    return Party(node.name, read_records(schema, node.data), folder, accepts)


def _server_side(schema: Schema, server: ServerFile) -> ServerSide:
    held_out = [_open_table(schema, each.data, labelled=True) for each in server.held_out]
    reference, remarks = _reference(schema, server.reference)
    return ServerSide(
        folder=server.output,
        held_out=TableRecords.joined([TableRecords.read(schema, table) for table, _ in held_out]),
        reference=reference,
        distillation=replace(EXPLAINER_PLAN, steps=server.distillation_steps),
        remarks=(*(text for _, said in held_out for text in said), *remarks),
        reference_invented=server.reference is None,
        stability_runs=server.stability_runs,
    )


def _check_files(nodes: Sequence[tuple[Path, NodeFile]], server: ServerFile) -> None:
    """No protected file may be listed as unprotected or public, nor at two parties."""
    listed = [(f"party {node.name!r}", node.data) for _, node in nodes]
    listed += [(f"held-out {each.name!r}", each.data) for each in server.held_out]
    listed += [] if server.reference is None else [("the reference", server.reference)]
    _check_apart(listed)


def _check_apart(listed: Sequence[tuple[str, Path]]) -> None:
    """By where a file lies, never by what it holds: a refusal that compared contents would tell
    neighbouring data sets apart.

    Args:
        listed: whose a file is, which for a protected one begins with "party".
    """
    seen: dict[tuple[int, int], str] = {}
    for who, path in listed:
        try:
            found = path.stat()
        except OSError as error:
            raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from error
        other = seen.setdefault((found.st_dev, found.st_ino), who)
        both_open = not other.startswith("party") and not who.startswith("party")
        if other != who and not both_open:
            raise Refused(
                f"{other} and {who} name the same file ({path}): protected rows cannot be public, "
                "nor belong to two parties"
            )


def _open_table(
    schema: Schema, path: Path, *, labelled: bool
) -> tuple[dict[str, RawColumn], Remarks]:
    """A file of rows that nobody protects, and what is to be said about it."""
    table = read_table(path)
    return table, check_open_rows(schema, table, path, labelled=labelled)


def _reference(schema: Schema, path: Path | None) -> tuple[Rows, Remarks]:
    """Public rows: people's own, or drawn from the schema, each feature by itself."""
    if path is None:
        return draw_rows(schema, REFERENCE_ROWS, StreamCipher().generator()), ()
    table, remarks = _open_table(schema, path, labelled=False)
    return schema.rows(table), remarks
