"""`Command` and its fields: described once, for every way in.

A *caller* field may be sent by whoever asks: rows, epsilon, a purpose. A *custodian* field decides
what is read, written, trusted or charged, and who is asking: paths, keys, origins, accounts, the
caller's name and role. The command line and a workspace set both; a request from elsewhere holds
caller fields only (`Command.from_request`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.fields import FieldInfo

from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation

NO_DEFAULT: Final[Any] = ...
_EXPECTED: Final[Mapping[str, str]] = {
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "enum": "one of {expected}",
}
"""What a value should have been, by the kind of pydantic's error."""
_MESSAGES: Final = {"missing": "is missing", "extra_forbidden": "there is no such field"}


RelationKey: TypeAlias = Annotated[Relation, BeforeValidator(lambda word: member(Relation, word))]
"""How neighbouring data sets differ, as people write it."""


class RenamedWarning(FutureWarning):
    """A former spelling was used; it works for one more version."""


@dataclass(frozen=True, eq=False, repr=False)
class InMemory:
    """An object that stands where others name a file: only a program in Python can hand one in.

    Args:
        value: what a file would have held.
        name: for messages and records; protected values are not shown.
    """

    value: Any
    name: str

    def __repr__(self) -> str:
        return f"<{self.name} in memory>"

    __str__ = __repr__


def name_of(given: str | Path | InMemory) -> str:
    """What somebody named, for what is written down; `InvalidInput` for an object in memory."""
    if isinstance(given, InMemory):
        raise InvalidInput(
            f"a file can name files only, and found {given}: save it to a file, or put it into a "
            "module (package.module:object)"
        )
    return str(given)


def _given_in_memory(given: Any, named: ValidatorFunctionWrapHandler) -> Any:
    return given if isinstance(given, InMemory) else named(given)


if TYPE_CHECKING:
    NameOrObject: TypeAlias = str | InMemory
    PathOrObject: TypeAlias = Path | InMemory
else:  # to pydantic and to the command line a name; an object passes by
    NameOrObject = Annotated[str, WrapValidator(_given_in_memory)]
    PathOrObject = Annotated[Path, WrapValidator(_given_in_memory)]


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
    formerly: tuple[str, ...] = (),
    **checks: Any,
) -> Any:
    """A field that the caller may set.

    Args:
        option: how it is typed on the command line; an empty text for a positional argument, and
            by default `--` and its name.
        formerly: option (`--fresh`) and name (`fresh`) in the version before, if they differ.
        checks: as of `pydantic.Field`.
    """
    extra = {"option": option, "metavar": metavar, "formerly": formerly or None}
    return _field(SetBy.CALLER, description, default, example, extra, checks)


def custodian_field(
    description: str,
    *,
    default: Any = NO_DEFAULT,
    example: Any = None,
    option: str | None = None,
    metavar: str | None = None,
    environment: str | None = None,
    formerly: tuple[str, ...] = (),
    **checks: Any,
) -> Any:
    """A field that only the custodian of the data may set; see `caller_field`.

    Args:
        environment: a variable that the command line takes it from, if it is not typed.
    """
    extra = {
        "option": option,
        "metavar": metavar,
        "environment": environment,
        "formerly": formerly or None,
    }
    return _field(SetBy.CUSTODIAN, description, default, example, extra, checks)


def _field(
    set_by: SetBy,
    description: str,
    default: Any,
    example: Any,
    extra: Mapping[str, Any],
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
    def read(
        cls, content: Mapping[str, Any], source: str = "", *, name_options: bool = False
    ) -> Self:
        """From plain values; `InvalidInput` names `source`, the field and what is wrong with it.

        Args:
            name_options: a wrong value is told by its option (`--top`) instead of its field.
        """
        named = cls._option_at if name_options else _dotted
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            place = f"{source}: " if source else ""
            problems = (_problem(each, named) for each in error.errors())
            raise InvalidInput(place + "; ".join(problems)) from None

    @classmethod
    def _option_at(cls, place: tuple[int | str, ...]) -> str:
        """How the field at a place of an error is typed."""
        for name, field in cls.model_fields.items():
            if place and place[0] in (name, field.alias):
                typed = option_of(name, field)
                return typed if typed != name else field_extra(field).get("metavar") or name.upper()
        return _dotted(place)

    @model_validator(mode="before")
    @classmethod
    def _with_new_names(cls, content: Any) -> Any:
        return cls.with_new_names(content) if isinstance(content, Mapping) else content

    @classmethod
    def with_new_names(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """The same values, each by the name that its field has now."""
        found = dict(content.items())
        for name, field in cls.model_fields.items():
            for former in field_extra(field).get("formerly", ()):
                if former not in found:
                    continue
                warn_renamed(former, name, given_twice=name in found)
                found[name] = found.pop(former)
        return found

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
        body, decided = cls.with_new_names(body), cls.with_new_names(decided)
        allowed = set(cls.fields_set_by(SetBy.CALLER)) - set(decided)
        if foreign := sorted(set(body) - allowed):
            raise Refused(f"a request cannot set {', '.join(foreign)}")
        for name, value in body.items():
            names_a_file = isinstance(value, str) and cls.model_fields[name].annotation is Any
            if names_a_file or isinstance(value, PathLike | InMemory):
                raise Refused(
                    f"{name}: send the rows themselves, such as a table of columns; a request "
                    "cannot name a file"
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


def warn_renamed(former: str, name: str, *, given_twice: bool = False) -> None:
    """Say what a former spelling is called now; `InvalidInput` if both are given."""
    if given_twice:
        raise InvalidInput(f"{former} is now called {name}: give {name} only")
    message = f"{former} is now called {name}; the old spelling will stop working"
    warnings.warn(message, RenamedWarning, stacklevel=4)


class RecordFiles(Command):
    """Where ledger, log and keys lie, unless a workspace says it."""

    database: str | None = custodian_field(
        "Database with ledger and log: a file or a URL. Default: log.db next to the artefact, "
        "else in this folder. The three files below are found next to it (replay.key, audit.key, "
        "audit-policy.toml), or for a URL in this folder.",
        default=None,
        example="log.db",
        metavar="DATABASE",
    )
    replay_key: Path | None = custodian_field(
        "Key that recognises repeated questions; created for a new ledger.",
        default=None,
        metavar="FILE",
    )
    signing_key: Path | None = custodian_field(
        "The log's signing key; the pinned checkpoint is stored next to it.",
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
        "Save as .voile, .parquet or .json; the receipt is saved next to it.",
        default=None,
        option="--output",
        metavar="FILE",
    )
    receipt: Path | None = custodian_field(
        "Save the receipt here instead.", default=None, metavar="FILE"
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
        "The log's signing key; the pinned checkpoint is stored next to it. Default: audit.key "
        "next to DATABASE.",
        default=None,
        option="--key",
        metavar="FILE",
    )
    policy: Path | None = custodian_field(
        "Origin, keys and witnesses to trust. Default: audit-policy.toml next to DATABASE.",
        default=None,
        metavar="FILE",
    )


def _dotted(place: tuple[int | str, ...]) -> str:
    return ".".join(map(str, place))


def _problem(error: Any, named: Callable[[tuple[int | str, ...]], str]) -> str:
    where, message = named(error["loc"]), plain_message(error)
    return f"{where}: {message}" if where else message


def plain_message(error: Any) -> str:
    """One error of pydantic in words: what was expected, and what was found."""
    if error["type"] in _EXPECTED:
        expected = _EXPECTED[error["type"]].format(**error.get("ctx", {}))
        found = error["input"]
        if not (found is None or isinstance(found, str | int | float)):
            # A table may hold protected rows: only its type is told.
            return f"expected {expected}, found {type(found).__name__}"
        return f"expected {expected}, found {found!r:.80}"
    if error["type"] in _MESSAGES:
        return _MESSAGES[error["type"]]
    return str(error["msg"]).removeprefix("Value error, ")
