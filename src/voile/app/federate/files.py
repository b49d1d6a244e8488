"""From the files of a federation to a `Job`, all in this process.

A party's file is read on the party's side of the line. What stands in its records raises nothing:
it is clamped to the schema, what cannot be read becomes the default, and a damaged record is the
null record. Only public facts can be wrong: the container (`read_protected_table`), columns, and
the declared number of rows.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from voile.app.federate.accepts import Accepts
from voile.app.federate.agreement import FederationAgreement, asked_in_a_round
from voile.app.federate.base import ServerSide
from voile.app.federate.config import (
    FederationFile,
    NodeFile,
    NodeLinkSection,
    ServerFile,
    ServerLinkSection,
)
from voile.app.federate.kinds import DEFAULT, KINDS
from voile.app.federate.party import Job, Party
from voile.app.toml_file import TomlFile
from voile.attribution.fastshap import EXPLAINER_PLAN
from voile.core.errors import InvalidInput, Refused, VoileError
from voile.core.guarantee import Protected, ProtectedUnit
from voile.core.schema import Schema
from voile.datasets.tables import check_cells_separate
from voile.federation.secure_aggregation import ThreatModel
from voile.federation.stored_text import file_stem
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.notes import KeyKind, VerifierKey

FEDERATION_FILE: Final = "federation.toml"
SERVER_FILE: Final = "server.toml"
NODES: Final = "nodes"
NODE_FILE: Final = "node.toml"
Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Rows that are handed over in Python, in place of the files that are named beside it.

    Args:
        parties: protected records as the pipeline reads them, by the party's name; others bring
            files.
        held_out, reference: unprotected tables; None for the files of `server.toml`.
    """

    parties: Mapping[str, Any] = field(default_factory=dict)
    held_out: Any = None
    reference: Any = None


_NO_ROWS: Final = RowsInMemory()


def read_job(path: Path, rows: RowsInMemory = _NO_ROWS) -> Job:
    """The federation of this `federation.toml`, with the server's and all parties' files beside it.

    What a file says about others is not believed: sizes and keys come from the agreement, and each
    party compares them with its own.

    Args:
        rows: tables in place of files.
    """
    agreement = read_agreement(path)
    server = read_beside(path.parent / SERVER_FILE, ServerFile)
    nodes = [_node(path.parent, name) for name in agreement.sizes]
    _check_files(
        [each for each in nodes if each[1].data or each[1].name not in rows.parties], server
    )
    return Job(
        agreement,
        server_side(agreement, server, rows),
        tuple(_agreed_party(agreement, folder, node, rows) for folder, node in nodes),
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
    return agreement, server_side(agreement, server), server.superlink


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
    """One party with a table by the `node.toml` in its folder, without what it has agreed to.

    Args:
        apart_from: a file of rows that nobody protects, which must not be that of the party, nor of
            one whose folder lies beside it.
    """
    node = read_beside(folder / NODE_FILE, NodeFile)
    siblings = [
        read_beside(file, NodeFile) for file in folder.absolute().parent.glob(f"*/{NODE_FILE}")
    ]
    own = [(f"party {e.name!r}", e.data) for e in (node, *siblings) if e.data is not None]
    check_apart([*dict(own).items(), ("unprotected rows", apart_from)])
    return _party(DEFAULT, schema, folder, node)


def read_agreement(path: Path) -> FederationAgreement:
    """What all parties have agreed on."""
    file = TomlFile.read(path)
    if "clients" in file.content:
        raise InvalidInput(
            f"{path}: a federation now has one file for each owner. Convert this one with: voile "
            f"init {shlex.quote(str(path))} --output FOLDER"
        )
    agreed = file.checked(FederationFile)
    kind, training = KINDS[agreed.pipeline], agreed.training
    stated = "rounds" in training.model_fields_set
    return FederationAgreement(
        protected=_protected(agreed),
        schema=kind.schema(path.parent / agreed.schema_file),
        sizes={party.name: party.rows for party in agreed.parties},
        epsilon=agreed.privacy.epsilon,
        delta=agreed.privacy.delta,
        records_per_person=agreed.privacy.records_per_person,
        keys={
            party.name: _key(file, party.key, "parties", str(place), "key")
            for place, party in enumerate(agreed.parties)
        },
        pipeline=agreed.pipeline,
        rounds=training.rounds if stated else kind.fixed_rounds or training.rounds,
        participations=training.participations,
        hidden=training.hidden,
        aggregator=training.aggregator,
        levels={p.name: p.epsilon for p in agreed.parties if p.epsilon is not None},
        secure=_threat_model(file, agreed),
        server_key=None
        if agreed.server_key is None
        else _key(file, agreed.server_key, "server_key"),
        members_count=agreed.privacy.members_count,
        options=kind.options(agreed.options, path.parent),
    )


def _protected(agreed: FederationFile) -> Protected:
    relation, columns = agreed.privacy.relation, agreed.privacy.columns
    if columns is None:
        return Protected(KINDS[agreed.pipeline].unit, relation, agreed.name)
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


def _agreed_party(
    agreement: FederationAgreement, folder: Path, node: NodeFile, rows: RowsInMemory = _NO_ROWS
) -> Party:
    given = rows.parties.get(node.name)
    if agreement.protected.unit is ProtectedUnit.COLUMNS and given is None:
        check_cells_separate(node.table)
    return _party(agreement.pipeline, agreement.schema, folder, node, given)


def _party(pipeline: str, schema: Any, folder: Path, node: NodeFile, given: Any = None) -> Party:
    said, kind = node.accepts, KINDS[pipeline]
    accepts = Accepts(said.epsilon, said.delta, said.agreement, frozenset(said.columns))
    records = kind.records(schema, node.table) if given is None else given
    return Party(node.name, records, folder, accepts)


def server_side(
    agreement: FederationAgreement, server: ServerFile, rows: RowsInMemory = _NO_ROWS
) -> ServerSide:
    """What the server brings: its own files, or rows that are handed over."""
    listed: list[Any] = [each.data for each in server.held_out]
    held_out, reference, remarks = KINDS[agreement.pipeline].open_rows(
        agreement.schema,
        listed if rows.held_out is None else [rows.held_out],
        server.reference if rows.reference is None else rows.reference,
    )
    return ServerSide(
        folder=server.output,
        held_out=held_out,
        reference=reference,
        distillation=replace(EXPLAINER_PLAN, steps=server.distillation_steps),
        remarks=remarks,
        reference_invented=reference is not None and server.reference is rows.reference is None,
        stability_runs=server.stability_runs,
    )


def _check_files(nodes: Sequence[tuple[Path, NodeFile]], server: ServerFile) -> None:
    """No protected file may be listed as unprotected or public, nor at two parties."""
    listed = [(f"party {node.name!r}", node.table) for _, node in nodes]
    listed += [(f"held-out {each.name!r}", each.data) for each in server.held_out]
    listed += [] if server.reference is None else [("the reference", server.reference)]
    check_apart(listed)


def check_apart(listed: Sequence[tuple[str, Path]]) -> None:
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
