"""The text of a new workspace, commented: people go on writing in it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from voile.app.commands.explain import ExplanationSpec
from voile.app.explain.files import names_origin_file
from voile.app.starting import relative_name
from voile.app.workspace.file import AccountTable
from voile.core.guarantee import Relation
from voile.core.toml_text import dotted, quoted
from voile.models import names_object

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

    def path(given: str | Path) -> str:
        return relative_name(Path(given), folder)

    def made_from(given: str) -> str:
        return path(given) if names_origin_file(given) else given

    head = {"shell": name if name.isidentifier() else f'"{name}"', "name": quoted(name)}
    parts = [_HEAD.format(**head, storage=quoted(storage), origin=quoted(origin)), _KEYS]
    source = spec.model if names_object(spec.model) else path(spec.model)
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
