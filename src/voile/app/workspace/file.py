"""`WorkspaceFile`: what `voile.toml` says, and the specification of each release in it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from voile.app.commands.explain import ExplanationSpec
from voile.app.commands.fields import RelationKey, name_of
from voile.app.explain.files import names_origin_file
from voile.app.toml_file import TomlFile, did_you_mean
from voile.app.workspace.notify_table import NotifyTable
from voile.app.workspace.serve_table import ServeTable
from voile.compliance import Rule, RuleSet
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart, declared_maximum
from voile.models import names_object
from voile.records.ledger import AccountPolicy, Calendar
from voile.records.storage.opening import file_of
from voile.records.vault import DATABASE, WORKSPACE, Place

# --- The tables of `voile.toml`, each with its keys; anything else is refused --------------------


# --- Where a workspace's database is: a file, a server, or what an environment variable says -----
# A workspace is shown around and kept under version control, so no password stands in it.


ENVIRONMENT: Final = "env:"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# As libpq reads an address: whatever stands before the first @ or / is who connects.
_PASSWORD_OF_USER: Final = re.compile(r"[^:/]+://[^:@/]*:[^@/]+@")
_PARAMETER: Final = re.compile(r"([^?&=\s]+)\s*=")
_SECRET_PARAMETER: Final = re.compile(r"password|secret|scram", re.IGNORECASE)


def check_address(storage: str) -> str:
    """Refuse what names no database, and what holds a secret; the text itself is never repeated."""
    if storage.startswith(ENVIRONMENT):
        if not _VARIABLE.fullmatch(storage.removeprefix(ENVIRONMENT)):
            raise InvalidInput(f"expected {ENVIRONMENT}VARIABLE, the name of a variable")
        return storage
    if _holds_secret(storage):
        raise InvalidInput(
            "do not put a password into this file. Write storage = "
            f'"{ENVIRONMENT}VOILE_DATABASE" and set that environment variable, or use a '
            "passfile (PGPASSFILE, ~/.pgpass)"
        )
    if storage == "memory:":
        raise InvalidInput("a database in memory is lost when the command ends; name a file")
    file_of(storage)
    return storage


def address(storage: str, folder: Path) -> str:
    """What to open: a file relative to `folder`, or the address of a server."""
    if storage.startswith(ENVIRONMENT):
        variable = storage.removeprefix(ENVIRONMENT)
        storage = os.environ.get(variable, "")
        if not storage:
            raise InvalidInput(
                f"the environment variable {variable} is not set; it holds the database's address"
            )
    path = file_of(storage)
    if path is None:
        return storage
    found = str(folder / path)
    return f"sqlite:{found}" if ":" in found else found  # what stands before a colon is no scheme


def _holds_secret(storage: str) -> bool:
    names = (unquote(found) for found in _PARAMETER.findall(storage))
    return bool(_PASSWORD_OF_USER.match(storage)) or any(map(_SECRET_PARAMETER.search, names))


# --------------------------------------------------------------------------------------------------


Name = Annotated[str, Field(pattern=r"^[^\x00-\x1f]+$")]
Text = Annotated[str, Field(min_length=1)]
File = Annotated[str, Field(min_length=1)]
"""Relative to the workspace's file."""
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeyFiles(_Table):
    """Where keys and policy lie; beside the database, or for a server beside the file.

    Args:
        signing: the log's signing key.
        replay: the key of questions; made for a new ledger.
        policy: whose signatures to trust: origin, keys, witnesses.
    """

    signing: File | None = None
    replay: File | None = None
    policy: File | None = None


class ModelTable(_Table):
    """A model.

    Args:
        source: an ONNX file, the folder of an artefact, or package.module:object; modules are
            looked for beside the file first.
        origin: what it was made from: `public`, `trained-on:LABEL`, or a JSON file with the
            guarantees of its training; not for an artefact, which says so itself.
        output_range: where outputs lie, if the model does not say.
    """

    source: File
    origin: Text | None = None
    output_range: tuple[Number, Number] | None = None


class SchemaTable(_Table):
    """What rows look like."""

    file: File


class BackgroundTable(_Table):
    """Rows that absent features take their values from.

    Args:
        origin: what they were made from, as a model's; not for rows that are themselves protected.
    """

    file: File
    origin: Text | None = None


class RecommenderTable(_Table):
    """A recommender, for the HTTP service.

    Args:
        source: the folder that `voile recommend train` wrote, charged to this workspace's ledger.
    """

    source: File


class AccountTable(_Table):
    """What an account promises. The ledger knows; this is compared with it, and never believed.

    Args:
        records_per_person: how many records belong to one person at most, if somebody declares
            that. Only this stands here alone: the ledger does not know it, and nobody checks it.
        thresholds, renew, cool_down, allowance, window, approval: rules beyond the budget
            (`voile budget policy`).
    """

    dataset: Text
    unit: ProtectedUnit = ProtectedUnit.ROW
    columns: tuple[Text, ...] = ()
    relation: RelationKey = Relation.BLANK_ONE
    epsilon: Number
    delta: Number
    records_per_person: Annotated[int, Field(strict=True, ge=1)] | None = None
    thresholds: tuple[int, ...] | None = None
    renew: Calendar | None = None
    cool_down: Number | None = None
    allowance: Number | None = None
    window: Calendar | None = None
    approval: Number | None = None

    @model_validator(mode="after")
    def _can_be_protected(self) -> Self:
        try:
            protected, _ = self.protected, self.policy
            if self.records_per_person is not None:
                declared_maximum(protected, self.records_per_person)
        except (Refused, InvalidInput) as error:
            raise ValueError(str(error)) from None  # told with the account's name
        return self

    @property
    def protected(self) -> Protected:
        return Protected(self.unit, self.relation, self.dataset, self.columns)

    @property
    def policy(self) -> AccountPolicy | None:
        """Rules beyond the budget, if any are stated."""
        names = ("thresholds", "renew", "cool_down", "allowance", "window", "approval")
        stated = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return AccountPolicy(**stated) if stated else None


class WorkspaceTables(_Table):
    """All of it.

    Args:
        storage: the database with ledger and log: a file, `postgresql://...` without a password,
            or `env:VARIABLE`.
        origin: name of the log, compared with the one that stands in it.
        releases: each the fields of an `ExplanationSpec`, with names of the other tables; one that
            costs nothing may be `anonymous`: the HTTP service answers it without a key. `cost` is
            what a request counts for rules about load.
        recommenders: what recommends, over HTTP.
        serve: the HTTP service.
        rules: what is watched, and what is done about it.
        notify: who is told.
    """

    storage: Annotated[str, AfterValidator(check_address)] = DATABASE
    origin: Text | None = None
    keys: KeyFiles = KeyFiles()
    models: dict[Name, ModelTable] = {}
    schemas: dict[Name, SchemaTable] = {}
    backgrounds: dict[Name, BackgroundTable] = {}
    accounts: dict[str, AccountTable] = {}
    releases: dict[Name, dict[str, Any]] = {}
    recommenders: dict[Name, RecommenderTable] = {}
    serve: ServeTable = ServeTable()
    rules: tuple[Rule, ...] = ()
    notify: tuple[NotifyTable, ...] = ()

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        RuleSet(self.rules)
        called = [each.called for each in self.notify]
        if len(set(called)) < len(called):
            raise ValueError("two of [[notify]] have the same name: give each its own")
        return self


# --------------------------------------------------------------------------------------------------


_TABLE_OF: Final = {
    "model": "models",
    "schema": "schemas",
    "background": "backgrounds",
    "account": "accounts",
}
_STANDS_IN: Final = {
    "model_origin": "origin of the model's table",
    "output_range": "output_range of the model's table",
    "background_origin": "origin of the background's table",
    "data": "the rows that are handed in",
}
_ANONYMOUS: Final = "anonymous"
_COST: Final = "cost"
_FILES_OF_RELEASE: Final = ("explainer", "clusters")


@dataclass(frozen=True)
class WorkspaceFile:
    """A workspace, read and not opened: names agree, and no other file was looked at."""

    toml: TomlFile = field(repr=False)
    tables: WorkspaceTables

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check it; an error names the line and the key."""
        return cls.from_toml(TomlFile.read(path / WORKSPACE if path.is_dir() else path))

    @classmethod
    def from_toml(cls, toml: TomlFile) -> Self:
        found = cls(toml, toml.checked(WorkspaceTables))
        for name in found.releases:
            found.spec(name)
        return found

    @property
    def path(self) -> Path:
        return self.toml.path

    @property
    def folder(self) -> Path:
        """Paths are relative to it."""
        return self.path.parent

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(self.tables.releases)

    @property
    def place(self) -> Place:
        """Database, keys and policy."""
        return place_of(self.tables.storage, self.tables.keys, self.folder)

    # --- releases -------------------------------------------------------------------------------

    def spec(self, name: str, data: str | None = None) -> ExplanationSpec:
        """What is asked for under this name, with the names of tables filled in."""
        if name not in self.tables.releases:
            known = ", ".join(map(repr, self.releases)) or "none"
            raise self.toml.wrong(
                f"there is no release {name!r}, only {known}{did_you_mean(name, self.releases)}",
                "releases",
            )
        said = dict(self.tables.releases[name])
        if not isinstance(said.pop(_ANONYMOUS, False), bool):
            raise self.toml.wrong("expected true or false", "releases", name, _ANONYMOUS)
        cost = said.pop(_COST, 1)
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 < cost < math.inf:
            raise self.toml.wrong("expected a positive number", "releases", name, _COST)
        for key, place in _STANDS_IN.items():
            if key in said:
                raise self.toml.wrong(f"cannot be set here: use {place}", "releases", name, key)
        said |= {key: self._beside(said[key]) for key in _FILES_OF_RELEASE if key in said}
        said |= self._model(name) | self._schema(name) | self._background(name) | {"data": data}
        self._named(name, "account")
        spec = self.toml.checked(ExplanationSpec, said, ("releases", name))
        self._check_origins(self.tables.releases[name], spec)
        return spec

    def is_anonymous(self, name: str) -> bool:
        """Whether the HTTP service answers for this release without a key."""
        return self.tables.releases[name].get(_ANONYMOUS, False) is True

    def cost_of(self, name: str) -> float:
        """What a request costs the service, as it is declared; rules about load count it."""
        return float(self.tables.releases[name].get(_COST, 1))

    def _model(self, name: str) -> dict[str, Any]:
        model = self._named(name, "model")
        if model is None:
            return {}
        is_object = names_object(model.source, self.folder)
        return {
            "model": model.source if is_object else self._beside(model.source),
            "model_origin": self._origin(model.origin),
            "output_range": model.output_range,
        }

    def _schema(self, name: str) -> dict[str, Any]:
        schema = self._named(name, "schema")
        return {} if schema is None else {"schema": self._beside(schema.file)}

    def _background(self, name: str) -> dict[str, Any]:
        rows = self._named(name, "background")
        if rows is None:
            return {}
        protected = self.tables.releases[name].get("protect") == RowPart.BACKGROUND
        if protected and rows.origin is not None:
            raise self.toml.wrong(
                "these rows are protected, but their table states an origin: remove the origin, "
                "or protect something else",
                *("releases", name, "background"),
            )
        return {
            "background": self._beside(rows.file),
            "background_origin": self._origin(rows.origin),
        }

    def _check_origins(self, said: Mapping[str, Any], spec: ExplanationSpec) -> None:
        """Every promise rests on them; only an artefact and protected rows need none stated."""
        if spec.model_origin is None and not Path(name_of(spec.model)).is_dir():
            raise self.toml.wrong(
                'say what the model was made from: origin = "public", "trained-on:LABEL", or a '
                "JSON file with the guarantees of its training",
                *("models", said["model"]),
            )
        public = spec.background is not None and spec.protect is not RowPart.BACKGROUND
        if public and spec.background_origin is None:
            raise self.toml.wrong(
                'say where these rows come from, for example origin = "public"',
                *("backgrounds", said["background"]),
            )

    def _named(self, release: str, key: str) -> Any:
        """What a release refers to by name; None if it does not."""
        wanted, table = self.tables.releases[release].get(key), _TABLE_OF[key]
        if wanted is None:
            return None
        known = getattr(self.tables, table)
        if not isinstance(wanted, str) or wanted not in known:
            near = did_you_mean(str(wanted), known)
            raise self.toml.wrong(
                f"expected the name of a table in [{table}], found {wanted!r:.80}{near}",
                *("releases", release, key),
            )
        return known[wanted]

    def _origin(self, origin: str | None) -> str | None:
        names_file = origin is not None and names_origin_file(origin)
        return self._beside(origin) if names_file else origin

    def _beside(self, name: Any) -> Any:
        return str(self.folder / name) if isinstance(name, str) else name

    # --- files ----------------------------------------------------------------------------------

    def check_files(self) -> None:
        """Refuse a file that is named and is not there, by table and key."""
        for keys, name in self._named_files():
            if not os.path.exists(self.folder / name):  # noqa: PTH110  # also for impossible names
                raise self.toml.wrong(f"{self.folder / name}: there is no such file", *keys)

    def _named_files(self) -> Iterator[tuple[tuple[str, ...], str]]:
        tables = self.tables
        for key in ("signing", "policy"):  # the replay key is made for a new ledger
            if (name := getattr(tables.keys, key)) is not None:
                yield ("keys", key), name
        for name, model in tables.models.items():
            if not names_object(model.source, self.folder):
                yield ("models", name, "source"), model.source
        for kind, entries in (("schemas", tables.schemas), ("backgrounds", tables.backgrounds)):
            yield from (((kind, name, "file"), each.file) for name, each in entries.items())
        for kind, made in (("models", tables.models), ("backgrounds", tables.backgrounds)):
            for name, each in made.items():
                if each.origin is not None and names_origin_file(each.origin):
                    yield (kind, name, "origin"), each.origin
        for name, recommender in tables.recommenders.items():
            yield ("recommenders", name, "source"), recommender.source
        for name, said in tables.releases.items():
            yield from (
                (("releases", name, key), said[key]) for key in _FILES_OF_RELEASE if key in said
            )


def place_of(storage: str, keys: KeyFiles, folder: Path) -> Place:
    """Of a workspace in this folder; keys of a server's database lie beside the file."""
    database = address(storage, folder)
    file = file_of(database)
    usual = Place.within(folder if file is None else file.parent)
    return Place(
        database,
        folder / keys.signing if keys.signing else usual.signing_key,
        folder / keys.policy if keys.policy else usual.policy,
        folder / keys.replay if keys.replay else usual.replay_key,
    )


def books_beside(folder: Path) -> Place | None:
    """The books of whoever keeps this folder; None if there are none."""
    return WorkspaceFile.read(folder).place if (folder / WORKSPACE).is_file() else None
