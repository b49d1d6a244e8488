"""The tables of `voile.toml`, each with its keys; anything else is refused."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from voile.app.workspace.database import check_address
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation, declared_maximum
from voile.records.vault import DATABASE

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


class AccountTable(_Table):
    """What an account promises. The ledger knows; this is compared with it, and never believed.

    Args:
        records_per_person: how many records belong to one person at most, if somebody declares
            that. Only this stands here alone: the ledger does not know it, and nobody checks it.
    """

    dataset: Text
    unit: ProtectedUnit = ProtectedUnit.ROW
    columns: tuple[Text, ...] = ()
    relation: Relation = Relation.BLANK_ONE
    epsilon: Number
    delta: Number
    records_per_person: Annotated[int, Field(strict=True, ge=1)] | None = None

    @model_validator(mode="after")
    def _can_be_protected(self) -> Self:
        try:
            protected = self.protected
            if self.records_per_person is not None:
                declared_maximum(protected, self.records_per_person)
        except (Refused, InvalidInput) as error:
            raise ValueError(str(error)) from None  # told with the account's name
        return self

    @property
    def protected(self) -> Protected:
        return Protected(self.unit, self.relation, self.dataset, self.columns)


class WorkspaceTables(_Table):
    """All of it.

    Args:
        storage: the database with ledger and log: a file, `postgresql://...` without a password,
            or `env:VARIABLE`.
        origin: name of the log, compared with the one that stands in it.
        releases: each the fields of an `ExplanationSpec`, with names of the other tables.
    """

    storage: Annotated[str, AfterValidator(check_address)] = DATABASE
    origin: Text | None = None
    keys: KeyFiles = KeyFiles()
    models: dict[Name, ModelTable] = {}
    schemas: dict[Name, SchemaTable] = {}
    backgrounds: dict[Name, BackgroundTable] = {}
    accounts: dict[str, AccountTable] = {}
    releases: dict[Name, dict[str, Any]] = {}
