"""Beginning a workspace: everything is tried first, then made; the file is written last.

Broken off in between, the same start goes on: what is there is compared, and not made anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from voile.app.budget import open_budget
from voile.app.commands.fields import InMemory, name_of
from voile.app.explain import ExplanationSpec, build_release, load_inputs
from voile.app.explain.building import Affordability
from voile.app.explain.files import names_origin_file
from voile.app.explain.inputs import ModelFolder, find_artefact
from voile.app.log_start import check_start, start_log
from voile.app.public_example import EXAMPLE, write_example
from voile.app.starting import as_called, one_start_at_a_time, relative_name
from voile.app.toml_file import TomlFile, check_form
from voile.app.workspace.file import AccountTable, KeyFiles, WorkspaceFile, place_of
from voile.app.workspace.ledger_comparison import difference_from
from voile.core.atomic_file import check_output_folder, replace_file
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, Relation, RowPart
from voile.core.schema import Schema
from voile.core.toml_text import dotted, quoted
from voile.models import names_object
from voile.records.audit_log import Policy, SigningKey
from voile.records.checkpoints import read_policy
from voile.records.ledger import PART as LEDGER_PART
from voile.records.ledger import Account, AccountPolicy, AdaptiveSpending, Children, Ledger, Opening
from voile.records.storage import open_storage
from voile.records.vault import DATABASE, WORKSPACE, Place, Vault, open_vault_at

_ROWS_TO_TRY: Final = 1_000
"""Nobody knows yet how many rows there will be; only whether it can be done is asked."""


@dataclass(frozen=True)
class StartedWorkspace:
    """What was written.

    Args:
        file: `voile.toml`.
        release: the one name in it.
        example: a row of the schema's defaults, to try it with.
        costs: whether an explanation is charged to an account.
    """

    file: Path
    release: str
    example: Path
    costs: bool


def start_workspace(
    spec: ExplanationSpec,
    account: AccountTable | Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    folder: str | Path = Path(),
    origin: str | None = None,
    storage: str = DATABASE,
) -> StartedWorkspace:
    r"""Write a workspace with one release, its log and its account; never over existing files.

    Args:
        spec: what is to be explained, and what is to be protected; who pays may be left out.
        account: what the account promises (dataset, epsilon, delta, ...), unless it is free.
        name: of the release; the model's if not stated.
        folder: where to.
        origin: name of the log, best a URL without its scheme; made from `name` if not stated.
        storage: the database, see `WorkspaceTables`.

    Assumes that what the specification says about origins is true. Tries everything first, so
    that a refusal leaves no file behind.

    >>> files = {"scoring.py": "risk = lambda rows: rows[:, 0]",
    ...          "patients.csv": "age\n" + "0.5\n" * 200,
    ...          "clinic.toml": 'name = "c"\nfeatures.age = {kind = "continuous", bounds = [0, 1]}'}
    >>> sizes = [Path(name).write_text(text) for name, text in files.items()]
    >>> spec = ExplanationSpec(model="scoring:risk", schema="clinic.toml", model_origin="public",
    ...                        output_range=(0, 1), protect="background", background="patients.csv")
    >>> started = start_workspace(spec, {"dataset": "patients", "epsilon": 3, "delta": 1e-5})
    >>> started.file.name, started.release, started.costs
    ('voile.toml', 'risk', True)
    """
    home = Path(folder)
    path = home / WORKSPACE
    _check_new(path)
    check_output_folder(home)
    artefact = find_artefact(spec.model)
    promised = _promised(spec, account)
    if promised is not None and spec.account is None:
        spec = spec.model_copy(update={"account": promised.dataset})
    opening = None if promised is None else _opening(spec, promised)
    schema = _tried(spec, artefact, opening, home)
    chosen = name or _name_of(spec, artefact)
    found = _origin(place_of(storage, KeyFiles(), home), origin, chosen)
    text = workspace_text(spec, promised, name=chosen, folder=home, origin=found, storage=storage)
    file = WorkspaceFile.from_toml(TomlFile.parse(path, text))
    example = home / EXAMPLE
    with one_start_at_a_time(home):
        _check_new(path)  # another process may have made it by now, or a part of it
        _origin(file.place, found, chosen)
        _make_books(file.place, found, opening, None if promised is None else promised.policy)
        if not example.exists():
            write_example(schema, schema.null_row[None], example, id_column=spec.id_column)
        replace_file(path, text.encode())
    return StartedWorkspace(path, chosen, example, costs=promised is not None)


# --- before anything is made ----------------------------------------------------------------------


def _check_new(path: Path) -> None:
    if os.path.lexists(path):  # a link into nothing is somebody's, too
        raise InvalidInput(f"{path}: exists already; move it away or choose another folder")


def _promised(
    spec: ExplanationSpec, account: AccountTable | Mapping[str, Any] | None
) -> AccountTable | None:
    if (spec.protect is RowPart.TRAINING) != (account is None):
        raise InvalidInput(
            f"protecting {spec.protect} rows costs nothing: leave the account out"
            if account is not None
            else f"protecting {spec.protect} rows costs privacy budget: say what the account "
            "promises (dataset, epsilon, delta)"
        )
    if account is None or isinstance(account, AccountTable):
        return account
    return check_form(AccountTable, _of_unit(spec.protect) | dict(account))


def _of_unit(protect: RowPart) -> dict[str, Any]:
    """What one record is, and how neighbours differ, unless somebody says otherwise."""
    if protect is not RowPart.EXPLAINED:
        return {}
    return {"unit": ProtectedUnit.EXPLAINED_ROW, "relation": Relation.REPLACE_ONE}


def _opening(spec: ExplanationSpec, promised: AccountTable) -> Opening:
    """Explained records pay each for itself, so that one person's budget is not another's."""
    of_people = promised.unit is ProtectedUnit.EXPLAINED_ROW
    assert spec.account is not None
    return Opening(
        name=spec.account,
        protected=promised.protected,
        epsilon=promised.epsilon,
        delta=promised.delta,
        spending=AdaptiveSpending.for_all_kinds(),
        children=Children.PARALLEL if of_people else Children.SEQUENTIAL,
    )


def _tried(
    spec: ExplanationSpec, artefact: ModelFolder | None, opening: Opening | None, home: Path
) -> Schema:
    """Read everything and build the release, for an account in a ledger that nobody keeps.

    Modules are looked for where the workspace will look for them.
    """
    inputs = load_inputs(spec, artefact, modules=home)
    account: Account | None = None
    if opening is not None:
        with open_storage("memory:", [LEDGER_PART]) as storage:
            account = storage.submit(lambda t: Ledger().open(t, opening, caller="trial")).account
    release = build_release(inputs, account, _ROWS_TO_TRY)
    # What a population costs depends on its size, which is not known yet.
    if account is not None and spec.protect is not RowPart.POPULATION:
        one = Affordability(inputs, account, release, rows=1)
        if one.never:
            raise Refused(
                f"one answer needs more than the whole budget of {account.name!r} (ε = "
                f"{account.epsilon:g}, δ = {account.delta:g}), so nothing was written: "
                f"{one.advice} (`voile init --noise`), or open the account with a larger epsilon"
            )
    return inputs.schema


def _name_of(spec: ExplanationSpec, artefact: ModelFolder | None) -> str:
    """Of an artefact what it predicts, of an object its own name, else that of the file."""
    if artefact is not None:
        return release_name(artefact)
    source = name_of(spec.model)
    if names_object(source):
        return re.split(r"[:.]", source)[-1]
    return as_called(Path(source)).stem


def release_name(artefact: ModelFolder) -> str:
    """Explanations of an artefact are called by what it predicts."""
    label = artefact.schema.label
    return as_called(artefact.folder).name if label is None else label.name


def _origin(place: Place, stated: str | None, name: str) -> str:
    """The name of the log: that of one that is here, else as stated or made up."""
    if place.policy.exists():
        found = read_policy(place.policy).origin
    elif place.signing_key.exists():
        found = SigningKey.load(place.signing_key).name
    else:
        return stated or f"voile.invalid/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"
    if stated not in (None, found):
        raise InvalidInput(f"{place.policy.parent}: the log here is {found!r}, not {stated!r}")
    return found


# --- making it ------------------------------------------------------------------------------------


def _make_books(
    place: Place, origin: str, opening: Opening | None, policy: AccountPolicy | None
) -> None:
    """Log, keys, policy and account, or what is missing of them."""
    if not place.policy.exists():
        check_start(place)
        there = place.signing_key.exists()
        signer = SigningKey.load(place.signing_key) if there else SigningKey.generate(origin)
        start_log(place, signer, Policy(origin, (signer.verifier,)))
    with open_vault_at(place, signing=None) as vault:
        _ = vault.key  # made with the rest
        if opening is not None:
            _open_account(vault, opening, policy)
        kept = vault.keep()
    if kept.error is not None:
        raise kept.error


def _open_account(vault: Vault, opening: Opening, policy: AccountPolicy | None) -> None:
    found = vault.find_account(opening.name)
    if found is None:
        books = vault.storage, vault.ledger, vault.log
        open_budget(*books, opening, caller="custodian", policy=policy)
    elif difference := difference_from(found, opening):
        raise InvalidInput(f"the account {opening.name!r} is open already: {difference}")


# --- The text of a new workspace, commented: people go on writing in it ---------------------------


_HEAD: Final = """\
# A workspace of voile: what stays the same from one explanation to the next. In this folder,
#   voile explain {shell} rows.csv
# explains rows with the release of that name below; elsewhere, with --workspace and this file. In
# Python: voile.open_workspace("voile.toml").explain({name}, rows)
# Paths are relative to this file. No password belongs into it.

# Ledger and log: a file, the address of a PostgreSQL server without a password (leave that to
# ~/.pgpass), or "env:VARIABLE" for an address that an environment variable holds.
storage = {storage}
origin = {origin}  # name of the log, compared with the one in the database
"""
_KEYS: Final = """
# [keys]  # beside the database (of a server: beside this file), if not stated
# signing = "audit.key"
# replay = "replay.key"
# policy = "audit-policy.toml"  # whose signatures to trust; the witnesses stand there
"""
_MODEL: Final = """
[{table}]
# An ONNX file, a folder of `voile federate` or `voile train`, or package.module:object.
"""
_ORIGIN: Final = (
    '# What it was made from: "public", "trained-on:LABEL", or a JSON file with the guarantees of\n'
    "# its training. Every promise rests on it.\n"
)
_ACCOUNT: Final = """
# What the account promises. The ledger knows it; what stands here is compared with it. Further
# accounts are opened with `voile budget open`.
[{table}]
"""
_BACKGROUND: Final = """
# Rows that absent features take their values from; with an origin, as a model's, unless they are
# themselves protected.
[{table}]
"""
_RELEASE: Final = """
# Asked for by name; all keys are options of `voile explain`. More of them:
# level = "summary"  # "aggregate", "detailed" or "granular"
# method = "permutation"  # "exact", "kernel", "trees", "surrogate", "lime", ...
# top = 3
[{table}]
"""
_PRECISION: Final = """\
# noise = 0.05  # of one answer, as a share of the output's width: more noise costs less
# epsilon = 0.5  # of one answer, instead of noise
"""
_OF_TABLES: Final = frozenset(
    {"model", "data", "schema", "model_origin", "background", "background_origin", "output_range"}
)


def workspace_text(
    spec: ExplanationSpec,
    account: AccountTable | None = None,
    *,
    name: str,
    folder: Path,
    origin: str,
    storage: str,
) -> str:
    """The whole file, with one release.

    Args:
        spec: of the release; its paths are relative to the current folder.
        account: what is promised by the account that the specification names.
        name: of the release, its model, schema and background.
        folder: where the file will lie.
        origin, storage: see `WorkspaceTables`.
    """

    def path(given: str | Path | InMemory) -> str:
        return relative_name(Path(name_of(given)), folder)

    def made_from(given: str) -> str:
        return path(given) if names_origin_file(given) else given

    head = {"shell": name if name.isidentifier() else f'"{name}"', "name": quoted(name)}
    parts = [_HEAD.format(**head, storage=quoted(storage), origin=quoted(origin)), _KEYS]
    source = name_of(spec.model)
    source = source if names_object(source) else path(source)
    parts += [_MODEL.format(table=dotted("models", name)), _lines({"source": source})]
    if spec.model_origin is not None:
        parts += [_ORIGIN, _lines({"origin": made_from(spec.model_origin)})]
    if spec.output_range is not None:
        parts.append(_lines({"output_range": spec.output_range}))
    if spec.schema_file is not None:
        parts += [f"\n[{dotted('schemas', name)}]\n", _lines({"file": path(spec.schema_file)})]
    if spec.background is not None:
        said = {"file": path(spec.background)}
        if spec.background_origin is not None:
            said["origin"] = made_from(spec.background_origin)
        parts += [_BACKGROUND.format(table=dotted("backgrounds", name)), _lines(said)]
    if account is not None and spec.account is not None:
        parts.append(_ACCOUNT.format(table=dotted("accounts", spec.account)))
        parts.append(_lines(account.model_dump(exclude={"columns"}, exclude_none=True)))
    parts += [_RELEASE.format(table=dotted("releases", name)), _lines(_release(spec, name, folder))]
    if spec.account is not None and spec.noise is None and spec.epsilon is None:
        parts.append(_PRECISION)
    return "".join(parts)


def _release(spec: ExplanationSpec, name: str, folder: Path) -> dict[str, Any]:
    said: dict[str, Any] = {"model": name}
    said |= {} if spec.schema_file is None else {"schema": name}
    said |= {} if spec.background is None else {"background": name}
    said["protect"] = spec.protect.word
    rest = spec.model_dump(by_alias=True, exclude_defaults=True, exclude_none=True)
    for key, value in rest.items():
        if key not in _OF_TABLES | said.keys():
            said[key] = relative_name(value, folder) if isinstance(value, Path) else value
    return said


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Relation):
        return quoted(value.word)
    if isinstance(value, str | StrEnum):
        return quoted(str(value))
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
