"""`Command` and its fields: described once, for every way in.

A *caller* field may be sent by whoever asks: rows, epsilon, a purpose. A *custodian* field decides
what is read, written, trusted or charged, and who is asking: paths, keys, origins, accounts, the
caller's name and role. The command line and a workspace set both; a request from elsewhere holds
caller fields only (`Command.from_request`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from voile.core.errors import InvalidInput, Refused

NO_DEFAULT: Final[Any] = ...


class SetBy(StrEnum):
    """Who may set a field."""

    CALLER = "caller"
    CUSTODIAN = "custodian"


def caller_field(
    description: str,
    *,
    default: Any = NO_DEFAULT,
    example: Any = None,
    option: str | None = None,
    metavar: str | None = None,
    **checks: Any,
) -> Any:
    """A field that whoever asks may set.

    Args:
        option: how it is typed on the command line; an empty text for a positional argument, and
            by default `--` and its name.
        checks: as of `pydantic.Field`.
    """
    extra = {"option": option, "metavar": metavar}
    return _field(SetBy.CALLER, description, default, example, extra, checks)


def custodian_field(
    description: str,
    *,
    default: Any = NO_DEFAULT,
    example: Any = None,
    option: str | None = None,
    metavar: str | None = None,
    environment: str | None = None,
    **checks: Any,
) -> Any:
    """A field that only the custodian of the data may set; see `caller_field`.

    Args:
        environment: a variable that the command line takes it from, if it is not typed.
    """
    extra = {"option": option, "metavar": metavar, "environment": environment}
    return _field(SetBy.CUSTODIAN, description, default, example, extra, checks)


def _field(
    set_by: SetBy,
    description: str,
    default: Any,
    example: Any,
    extra: Mapping[str, str | None],
    checks: Mapping[str, Any],
) -> Any:
    stated = {name: value for name, value in extra.items() if value is not None}
    return Field(
        default,
        description=description,
        examples=None if example is None else [example],
        json_schema_extra={"set_by": set_by.value, **stated},
        **checks,
    )


class Command(BaseModel):
    """One thing to be done, in plain values.

    In Python a field for rows or a model also takes the object itself.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        arbitrary_types_allowed=True,
        defer_build=True,  # `voile --help` needs names, not validators
    )

    @classmethod
    def read(cls, content: Mapping[str, Any], source: str = "") -> Self:
        """From plain values; `InvalidInput` names `source`, the field and what is wrong with it."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            place = f"{source}: " if source else ""
            raise InvalidInput(place + "; ".join(map(_problem, error.errors()))) from None

    @classmethod
    def from_request(cls, body: Mapping[str, Any], decided: Mapping[str, Any]) -> Self:
        """From what a caller sent, and what the custodian decided.

        Args:
            body: caller fields; `Refused` if there is any other, or if rows are named instead of
                sent: the custodian's files are not the caller's to read.
            decided: custodian fields, and caller fields that are fixed.
        """
        if not isinstance(body, Mapping) or not all(isinstance(name, str) for name in body):
            raise InvalidInput(f"expected fields by name, found {body!r:.80}")
        body = dict(body.items())
        allowed = set(cls.fields_set_by(SetBy.CALLER)) - set(decided)
        if foreign := sorted(set(body) - allowed):
            raise Refused(f"a request cannot set {', '.join(foreign)}")
        for name, value in body.items():
            names_a_file = isinstance(value, str) and cls.model_fields[name].annotation is Any
            if names_a_file or isinstance(value, PathLike):
                raise Refused(
                    f"{name}: a request holds the rows themselves, such as a table of columns; "
                    "it cannot name a file"
                )
        return cls.read({**body, **decided})

    @classmethod
    def fields_set_by(cls, who: SetBy) -> tuple[str, ...]:
        """Names of these fields, in order."""
        return tuple(
            name for name, field in cls.model_fields.items() if field_extra(field)["set_by"] == who
        )

    def stated_options(self) -> dict[str, str]:
        """The fields that somebody stated, and how each is typed on the command line."""
        fields = type(self).model_fields.items()
        return {
            name: option_of(name, field) for name, field in fields if name in self.model_fields_set
        }


def field_extra(field: FieldInfo) -> dict[str, Any]:
    """Who sets a field, and how it is typed."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict), (
        "every field of a command is made by caller_field or custodian_field"
    )
    return extra


def option_of(name: str, field: FieldInfo) -> str:
    """How a field is typed on the command line; an argument has no option, and gives its name."""
    typed = field_extra(field).get("option")
    return name if typed == "" else typed or f"--{name.replace('_', '-')}"


class RecordFiles(Command):
    """Where ledger, log and keys lie, unless a workspace says it."""

    database: str | None = custodian_field(
        "Database with ledger and log: a file or a URL. Default: log.db of the run beside an "
        "artefact, else of this folder. The next three lie beside it (replay.key, audit.key, "
        "audit-policy.toml), or for a URL in this folder.",
        default=None,
        example="log.db",
        metavar="DATABASE",
    )
    replay_key: Path | None = custodian_field(
        "Key of questions; made for a new ledger.", default=None, metavar="FILE"
    )
    signing_key: Path | None = custodian_field(
        "The log's signing key; the copy of the checkpoint lies beside it.",
        default=None,
        option="--key",
        metavar="FILE",
    )
    policy: Path | None = custodian_field(
        "Origin, keys and witnesses to trust.", default=None, metavar="FILE"
    )


class SavedFiles(Command):
    """Files that an answer is written to."""

    save_as: Path | None = custodian_field(
        "Save as .voile, .parquet or .json; the receipt goes beside it.",
        default=None,
        option="--output",
        metavar="FILE",
    )
    receipt: Path | None = custodian_field(
        "Where the receipt goes instead.", default=None, metavar="FILE"
    )
    overwrite: bool = custodian_field(
        "Overwrite files of these names without asking.", default=False, option="--yes"
    )


class LedgerDatabase(Command):
    """Where ledger and log are, named first."""

    database: str = custodian_field(
        "A file, or postgresql://... of a server.", example="log.db", option="", metavar="DATABASE"
    )


class SigningFiles(Command):
    """Key and policy of a log, unless they lie beside its database."""

    signing_key: Path | None = custodian_field(
        "The log's signing key, the copy lies beside it; audit.key beside DATABASE if not given.",
        default=None,
        option="--key",
        metavar="FILE",
    )
    policy: Path | None = custodian_field(
        "Origin, keys and witnesses to trust; audit-policy.toml beside DATABASE if not given.",
        default=None,
        metavar="FILE",
    )


def _problem(error: Any) -> str:
    field = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "enum":
        message = f"expected one of {error['ctx']['expected']}, found {error['input']!r:.80}"
    return f"{field}: {message}" if field else message
