"""From a config and people's files to a `Job`.

A client's file is read on the client's side of the line. What stands in its records raises nothing:
it is clamped to the schema, what cannot be read becomes the default, and a damaged record is the
null record. Only public facts can be wrong: the container (`read_protected_table`), columns, and
the declared number of rows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from voile.attribution.fastshap import EXPLAINER_PLAN
from voile.attribution.fastshap.draws import draw_rows
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected
from voile.core.randomness import StreamCipher
from voile.core.schema import RawColumn, Rows, Schema
from voile.datasets.tables import read_protected_table, read_table
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.pipelines.tables import TableRecords
from voile.workflows.federate.config import ClientSection, FederationConfig
from voile.workflows.federate.job import Job
from voile.workflows.federate.open_rows import check_open_rows

REFERENCE_ROWS = 50
Remarks: TypeAlias = tuple[str, ...]


def job_from(config: FederationConfig) -> Job:
    """Read all files of a config."""
    schema = Schema.load(config.schema_file)
    if schema.label is None:
        raise InvalidInput(f"{config.schema_file}: a federation learns a label; declare one")
    _check_files(config)
    held_out = [_open_table(schema, party.data, labelled=True) for party in config.held_out]
    reference, remarks = _reference(schema, config.reference)
    return Job(
        protected=Protected(CLIPPED_UNIT, config.privacy.relation, config.name),
        schema=schema,
        clients={client.name: _client(schema, client) for client in config.clients},
        held_out=TableRecords.joined([TableRecords.read(schema, table) for table, _ in held_out]),
        reference=reference,
        remarks=(*(text for _, said in held_out for text in said), *remarks),
        epsilon=config.privacy.epsilon,
        delta=config.privacy.delta,
        rounds=config.training.rounds,
        participations=config.training.participations,
        hidden=config.training.hidden,
        distillation=replace(EXPLAINER_PLAN, steps=config.training.distillation_steps),
        folder=config.output,
    )


def _check_files(config: FederationConfig) -> None:
    """No protected file may be listed as unprotected or public, nor at two clients.

    By where a file lies, never by what it holds: a refusal that compared contents would tell
    neighbouring data sets apart.
    """
    listed = [(f"client {client.name!r}", client.data) for client in config.clients]
    listed += [(f"held-out {party.name!r}", party.data) for party in config.held_out]
    listed += [] if config.reference is None else [("the reference", config.reference)]
    seen: dict[tuple[int, int], str] = {}
    for who, path in listed:
        try:
            found = path.stat()
        except OSError as error:
            raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from error
        other = seen.setdefault((found.st_dev, found.st_ino), who)
        both_open = not other.startswith("client") and not who.startswith("client")
        if other != who and not both_open:
            raise Refused(
                f"{other} and {who} name the same file ({path}): protected rows can be neither "
                "published nor at two clients"
            )


def _client(schema: Schema, client: ClientSection) -> TableRecords:
    table = read_protected_table(client.data)
    assert schema.label is not None
    missing = [n for n in (*schema.feature_names, schema.label.name) if n not in table]
    if missing:
        raise InvalidInput(
            f"{client.data}: the schema {schema.name!r} needs columns that are not there: "
            + ", ".join(map(repr, missing))
        )
    found = TableRecords.read(schema, table)
    if len(found) != client.rows:
        raise InvalidInput(
            f"{client.data}: {client.name!r} declares {client.rows} rows, the file has "
            f"{len(found)}; the number is public, so correct the config"
        )
    return found


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
