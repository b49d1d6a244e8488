"""What `voile train` takes where nothing is stated, from public facts alone.

`voile train data.csv --label y --epsilon 1` finds the schema beside the rows, and the account in
the ledger. On first use it writes a schema to fill in, and opens an account of this very size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Final

from voile.app.calls import Context, handle
from voile.app.commands.budget import OpenBudget
from voile.app.commands.train import Train
from voile.app.explain import ReleaseService
from voile.app.open_records import IN_MEMORY, made_up_origin, open_passing_records, start_log
from voile.app.starting import SCHEMA_FILE, header, one_start_at_a_time, schema_text
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit
from voile.core.schema import Label, Schema
from voile.datasets.tables import STDIN
from voile.records.storage.opening import file_of
from voile.records.vault import Place, Vault

LARGEST_DELTA: Final = 1e-6
_SHARE: Final = 0.1
"""A delta must lie well below one over the number of rows."""


# --- the schema -----------------------------------------------------------------------------------


def found_schema(command: Train) -> Schema:
    """As stated, or beside the rows; where there is none, one to fill in is written."""
    given = command.schema_file
    if isinstance(given, Schema):
        return _labelled(given, command.label)
    path = _schema_beside(command) if given is None else Path(given)
    return _labelled(Schema.load(path), command.label)


def _labelled(schema: Schema, label: str | None) -> Schema:
    """A schema without a label, of which one column is to be predicted."""
    if schema.label is not None or label not in schema.feature_names:
        return schema
    (chosen,) = (each for each in schema.features if each.name == label)
    others = tuple(each for each in schema.features if each.name != label)
    return Schema(schema.name, others, Label(chosen.name, chosen.domain))


def _schema_beside(command: Train) -> Path:
    if not isinstance(command.rows, str | PathLike) or str(command.rows) == STDIN:
        raise InvalidInput(
            "no schema: name it with --schema. What values the columns may take must be public, "
            "and is never read off protected rows"
        )
    rows = Path(command.rows)
    places = (rows.with_suffix(".toml"), rows.parent / SCHEMA_FILE)
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InvalidInput(_to_fill_in(rows, places[1], command.label))
    return found


def _to_fill_in(rows: Path, place: Path, label: str | None) -> str:
    """Write it from the header; not one value is read."""
    columns = header(rows)
    label = columns[-1] if label is None else label
    if label not in columns:
        raise InvalidInput(f"--label {label!r}: {rows} has no such column; it has {list(columns)}")
    replace_file(place, schema_text(rows.stem, columns, label).encode())
    return (
        f"what values the columns may take must be public, and is never read off protected rows. "
        f"{place} was written with your columns: fill it in from what everybody knows, and run the "
        "same command again. Nothing was charged"
    )


# --- who pays -------------------------------------------------------------------------------------


@contextmanager
def paying_records(
    command: Train, context: Context, place: Place, rows: int
) -> Iterator[tuple[ReleaseService, Train]]:
    """The records, and the command with the account and the delta that it takes from them."""
    is_made = _is_there(place) and not _mark(place).exists()
    is_first = command.account is None and context.service is None and not is_made
    if is_first and command.preview:
        with _passing(command, rows) as service:
            yield service, _completed(command, service.vault)
        return
    if is_first:
        _open_first(command, context, place, rows)
    with context.records(place) as service:
        yield service, _completed(command, service.vault)


def _is_there(place: Place) -> bool:
    path = file_of(place.database)
    return path is None or path.exists()


def _mark(place: Place) -> Path:
    """There while the first use goes on: a run that was broken off is gone on with by the next."""
    return place.policy.with_name("log.first-use")


def _terms(command: Train, rows: int) -> dict[str, Any]:
    """Of an account of this very size."""
    named = isinstance(command.rows, str | PathLike) and str(command.rows) != STDIN
    name = Path(command.rows).stem if named else "table"
    usual = min(LARGEST_DELTA, _SHARE / max(rows, 1))
    delta = usual if command.delta is None else command.delta
    # It is as large as this training, which draws Gaussian noise: so it adds up nothing else.
    promise = {"epsilon": command.epsilon, "delta": delta, "rho_only": True}
    return {"account": name, "dataset": name, **promise}


def _open_first(command: Train, context: Context, place: Place, rows: int) -> None:
    terms = _terms(command, rows)
    with one_start_at_a_time(place.policy.parent):
        if _is_there(place) and not _mark(place).exists():
            return  # another process has made all of it meanwhile
        _make_what_is_missing(place, terms, context)
    context.say(
        f"no budget was there: account {terms['account']!r} was opened in {place.database} for "
        f"epsilon = {terms['epsilon']:g}, delta = {terms['delta']:g}, and this model uses all of "
        f"it. Beside it: {place.signing_key.name} and {place.replay_key.name} (secret: back them "
        f"up), {place.policy.name} (public). For more room open it yourself, before you train: "
        "voile budget open"
    )


def _make_what_is_missing(place: Place, terms: dict[str, Any], context: Context) -> None:
    mark, origin = _mark(place), made_up_origin(terms["account"])
    if not mark.exists() and place.policy.exists():  # of another database: refused
        start_log(place, origin)
    replace_file(mark, b"")
    if not place.policy.exists():
        start_log(place, origin)
    with context.records(place) as service:
        accounts = service.vault.storage.read_snapshot(service.vault.ledger.nodes)
    if not accounts:
        files = {"database": place.database, "policy": place.policy}
        handle(OpenBudget.read({**files, "signing_key": place.signing_key, **terms}), context)
    mark.unlink()


@contextmanager
def _passing(command: Train, rows: int) -> Iterator[ReleaseService]:
    """For a look before there is any budget."""
    terms = _terms(command, rows)
    records = open_passing_records(made_up_origin(terms["account"]), lambda _line: None)
    try:
        context = Context(service=records.service)
        handle(OpenBudget.read({"database": IN_MEMORY, **terms}), context)
        yield records.service
    finally:
        records.release()


def _completed(command: Train, vault: Vault) -> Train:
    account = _only_account(vault) if command.account is None else command.account
    delta = vault.account(account).delta if command.delta is None else command.delta
    return command.model_copy(update={"account": account, "delta": delta})


def _only_account(vault: Vault) -> str:
    """Who pays, where there is no choice."""
    nodes = vault.storage.read_snapshot(vault.ledger.nodes)
    accounts = (each.account for each in nodes)
    found = [each.name for each in accounts if each.protected.unit is ProtectedUnit.ROW]
    if len(found) != 1:
        shown = ", ".join(map(repr, found[:5])) or "none"
        raise InvalidInput(f"say which account pays with --account; over rows there is {shown}")
    return found[0]
