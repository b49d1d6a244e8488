"""A federation that is founded in Python: parties' tables in memory, for a trial in one process.

A draft is read first: whatever can be wrong with it is found before a file is written. Then the
same files are written as by `voile init`, but for the rows, and the job is read from them: so a
trial is continued, watched and verified as any other federation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final

from voile.app.commands.federate import NewFederation
from voile.app.federate.agreement import SERVER, FederationAgreement, origin_of
from voile.app.federate.base import ServerSide
from voile.app.federate.config import (
    AssumedServer,
    HeldOut,
    SecureSumSection,
    ServerFile,
    SinglePrivacy,
    TrainingSection,
)
from voile.app.federate.declared import as_schema, labelled
from voile.app.federate.files import (
    FEDERATION_FILE,
    RowsInMemory,
    check_apart,
    read_agreement,
    read_job,
    server_side,
)
from voile.app.federate.kinds import DEFAULT as NETWORK_PIPELINE
from voile.app.federate.kinds import KINDS
from voile.app.federate.party import Job
from voile.app.federate.starting import (
    NewParty,
    Settings,
    check_name,
    default_name,
    fits_as_name,
    write_federation,
)
from voile.app.federate.tables import protected_records
from voile.app.toml_file import check_form
from voile.core.choices import chosen, member
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, Relation
from voile.core.schema import Schema
from voile.datasets.frames import is_frame
from voile.datasets.tables import PARQUET_SUFFIXES
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.records.audit_log import SigningKey
from voile.records.audit_log.notes import VerifierKey

NETWORK: Final = "network"
"""What Python calls the pipeline that `voile federate` runs by default."""
_TABLES: Final = frozenset({".csv", *PARQUET_SUFFIXES})
_OUTPUT: Final = "output"
_SHOWN: Final = 12
"""Of a digest."""


@dataclass(frozen=True, eq=False)
class FederationDraft:
    """A federation before it is founded, or as it is on record.

    Args:
        config: where its `federation.toml` is, or will be.
        agreement: on record; of a new one, with keys that are used for nothing.
        server: with rows that nobody protects.
        founders: the parties.
        rows: what each party brings, and unprotected tables.
        settings: what the files of a new one say.
    """

    config: Path
    agreement: FederationAgreement
    server: ServerSide
    founders: tuple[NewParty, ...]
    rows: RowsInMemory = field(repr=False)
    settings: Settings

    def found(self) -> Job:
        """Write what is not there yet, keys and books with it, and read it."""
        folder, agreed = self.config.parent, self.agreement
        if not self.config.exists():
            write_federation(folder, agreed.name, agreed.schema, self.founders, self.settings)
        job = read_job(self.config, self.rows)
        _check_same(folder, job.agreement, agreed)
        return job


def read_draft(new: NewFederation) -> FederationDraft:
    """All of it, checked; nothing is written. `InvalidInput` for another one than is on record."""
    pipeline = NETWORK_PIPELINE if new.model == NETWORK else new.model
    schema, given = _schema(new), _parties(new.parties)
    _check_apart(given, new)
    settings = _settings(new, pipeline)
    records = {name: _records(pipeline, schema, rows, name) for name, rows in given.items()}
    founders = tuple(
        NewParty(name, rows if isinstance(rows, Path) else None, len(records[name]))
        for name, rows in given.items()
    )
    config = new.folder / FEDERATION_FILE
    on_record = read_agreement(config) if config.exists() else None
    name = _name(new, on_record)
    asked = _agreement(name, schema, founders, settings)
    if on_record is not None:
        _check_same(new.folder, on_record, asked)
    agreed = on_record or asked
    _ = agreed.plan  # whatever noise cannot be calibrated for
    open_rows = _table(new.held_out, "held_out"), _table(new.reference, "reference")
    rows = RowsInMemory(records, *open_rows)
    server = server_side(agreed, _server_file(new.folder, settings), rows)
    return FederationDraft(config, agreed, server, founders, rows, settings)


# --- the parties ----------------------------------------------------------------------------------


def _parties(given: Any) -> dict[str, Any]:
    """A table or a file for each, by name."""
    if isinstance(given, str | PathLike):
        given = _files_in(Path(given))
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput(
            'parties: expected a table or a file for each by its name, such as {"north": df1, '
            f'"south": df2}}, or a folder, found {type(given).__name__}'
        )
    return {_party_name(name): _rows_of(name, rows) for name, rows in given.items()}


def _files_in(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: expected a folder with a file of each party")
    found = sorted(each for each in folder.iterdir() if each.suffix.lower() in _TABLES)
    if not found:
        raise InvalidInput(f"{folder}: holds no CSV or Parquet file")
    if len({each.stem for each in found}) < len(found):
        raise InvalidInput(f"{folder}: parties are named after their files; two have one name")
    return {each.stem: each for each in found}


def _party_name(name: Any) -> str:
    if not isinstance(name, str) or not fits_as_name(name):
        raise InvalidInput(
            f"a party has a name of 1 to 64 printable characters without / and \\, found "
            f"{name!r:.80}"
        )
    return name


def _rows_of(name: str, given: Any) -> Any:
    if isinstance(given, str | PathLike):
        return Path(given)
    if not is_frame(given):
        raise InvalidInput(
            f"party {name!r}: expected a table with names of columns (pandas, polars, pyarrow, a "
            f"dict of columns) or the name of a file, found {type(given).__name__}"
        )
    return given


def _records(pipeline: str, schema: Schema, rows: Any, name: str) -> Any:
    kind = chosen(KINDS, pipeline, "model")
    if isinstance(rows, Path):
        found = kind.records(schema, rows)
    else:
        found = protected_records(schema, rows, name)
    if not len(found):
        raise InvalidInput(f"party {name!r} has no rows: leave it out")
    return found


def _check_apart(parties: Mapping[str, Any], new: NewFederation) -> None:
    """No rows may belong to two parties, nor be protected and public: by what they are, never by
    what they hold."""
    listed = [(f"party {name!r}", rows) for name, rows in parties.items()]
    listed += [("the held-out rows", _open(new.held_out)), ("the reference", _open(new.reference))]
    files = [(who, rows) for who, rows in listed if isinstance(rows, Path)]
    tables = [(who, rows) for who, rows in listed if not isinstance(rows, Path)]
    check_apart(files)
    seen: dict[int, str] = {}
    for who, table in tables:
        other = seen.setdefault(id(table), who)
        if table is not None and other != who and "party" in other:
            raise Refused(
                f"{other} and {who} are the same table: protected rows cannot be public, nor "
                "belong to two parties"
            )


# --- what is agreed on ----------------------------------------------------------------------------


def _schema(new: NewFederation) -> Schema:
    given = as_schema(new.schema_file)
    return labelled(given, new.label, classes=new.classes, target_range=new.target_range)


def _settings(new: NewFederation, pipeline: str) -> Settings:
    if not getattr(chosen(KINDS, pipeline, "model"), "takes_tables", False):
        able = [name for name, kind in KINDS.items() if getattr(kind, "takes_tables", False)]
        raise InvalidInput(
            f"model {pipeline!r} needs a federation.toml of its own (`voile init`); from tables in "
            f"Python: {NETWORK!r}, " + ", ".join(map(repr, able))
        )
    check_form(SinglePrivacy, new.model_dump(include={"epsilon", "delta", "relation"}))
    held_out, reference = _open(new.held_out), _open(new.reference)
    return Settings(
        epsilon=new.epsilon,
        delta=new.delta,
        relation=new.relation,
        pipeline=pipeline,
        training={} if new.rounds is None else {"rounds": new.rounds},
        held_out=(("held out", held_out),) if isinstance(held_out, Path) else (),
        reference=reference if isinstance(reference, Path) else None,
        secure=_assumed(new.secure),
    )


def _assumed(secure: bool | str) -> AssumedServer | None:
    if isinstance(secure, bool):
        return AssumedServer.ACTIVE if secure else None
    return member(AssumedServer, secure)


def _agreement(
    name: str, schema: Schema, founders: Sequence[NewParty], settings: Settings
) -> FederationAgreement:
    """What all would agree on, with keys that sign nothing."""
    rounds = settings.training.get("rounds") or KINDS[settings.pipeline].fixed_rounds
    secure = settings.secure
    model = None if secure is None else SecureSumSection(server=secure).model(len(founders))
    if model is not None:
        model.threshold_of(len(founders))
    return FederationAgreement(
        protected=Protected(CLIPPED_UNIT, settings.relation, name),
        schema=schema,
        sizes={each.name: each.rows for each in founders},
        epsilon=settings.epsilon,
        delta=settings.delta,
        keys={each.name: _key(name, each.name) for each in founders},
        pipeline=settings.pipeline,
        rounds=rounds or TrainingSection().rounds,
        secure=model,
        server_key=_key(name, SERVER),
    )


def _key(federation: str, party: str) -> VerifierKey:
    return SigningKey.generate(origin_of(federation, party)).verifier


def _name(new: NewFederation, on_record: FederationAgreement | None) -> str:
    if new.name is None and on_record is not None:
        return on_record.name
    name = default_name(new.folder) if new.name is None else new.name
    check_name(name)
    return name


def _check_same(folder: Path, on_record: FederationAgreement, asked: FederationAgreement) -> None:
    """`InvalidInput` with both figures, where they differ."""
    there, here = _facts(on_record), _facts(asked)
    differ = [
        f"{what} is {there.get(what, 'not there')} on record and {here.get(what, 'left out')} here"
        for what in {**there, **here}
        if there.get(what) != here.get(what)
    ]
    if differ:
        raise InvalidInput(
            f"{folder}: holds another federation: {'; '.join(differ)}. Go on with what is on "
            "record, or choose another folder"
        )


def _facts(agreement: FederationAgreement) -> dict[str, str]:
    """What a call states, in words; all of it is public."""
    secure, label = agreement.secure, getattr(agreement.schema, "label", None)
    return {
        "name": repr(agreement.name),
        "epsilon": f"{agreement.epsilon:g}",
        "delta": f"{agreement.delta:g}",
        "model": repr(agreement.pipeline),
        "label": repr(getattr(label, "name", None)),
        "the schema": agreement.schema.digest[:_SHOWN],
        "relation": repr(agreement.protected.relation.word),
        "rounds": str(agreement.rounds),
        "secure": str(secure is not None),
        **({} if secure is None else {"secure against": repr(secure.name)}),
        **{f"the size of party {name!r}": str(n) for name, n in agreement.sizes.items()},
    }


def check_stated(agreement: FederationAgreement, stated: Mapping[str, Any]) -> None:
    """Refuse values that differ from an agreement that is there already, with both.

    Args:
        stated: fields of a `NewFederation`.
    """
    facts = _facts(agreement)
    schema, label = stated.get("schema"), stated.get("label")
    here = {name: _word(name, value) for name, value in stated.items() if name in facts}
    if schema is not None:
        here["the schema"] = labelled(as_schema(schema), label).digest[:_SHOWN]
    for name in set(stated) - set(here) - {"schema"}:
        raise InvalidInput(
            f"{name}: federation.toml and the files beside it say this; leave it out"
        )
    differ = [f"{n} is {facts[n]} there and {here[n]} here" for n in here if facts[n] != here[n]]
    if differ:
        raise InvalidInput(f"the agreement says otherwise: {'; '.join(differ)}")


def _word(name: str, value: Any) -> str:
    if name in ("epsilon", "delta") and isinstance(value, int | float):
        return f"{value:g}"
    if name == "relation":
        value = member(Relation, value).word
    if name == "model" and value == NETWORK:
        value = NETWORK_PIPELINE
    if name == "secure":
        value = bool(value)
    return str(value) if name in ("rounds", "secure") else repr(value)


# --- rows that nobody protects --------------------------------------------------------------------


def _open(given: Any) -> Any:
    return Path(given) if isinstance(given, str | PathLike) else given


def _table(given: Any, called: str) -> Any:
    """Handed over; None for a file, which `server.toml` names."""
    if given is None or isinstance(given, str | PathLike):
        return None
    if not is_frame(given):
        raise InvalidInput(
            f"{called}: expected a table with names of columns, or the name of a file, found "
            f"{type(given).__name__}"
        )
    return given


def _server_file(folder: Path, settings: Settings) -> ServerFile:
    return ServerFile(
        output=folder / _OUTPUT,
        held_out=tuple(HeldOut(name=name, data=data) for name, data in settings.held_out),
        reference=settings.reference,
    )
