"""Settings that people write in TOML: what is wrong is told with file, line and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from voile.app.commands.fields import plain_message
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.core.input_file import read_text
from voile.core.toml_text import LARGEST_TOML, dotted, line_of, parse_toml

Form = TypeVar("Form", bound=BaseModel)
Keys: TypeAlias = tuple[str, ...]
_MOST_PROBLEMS: Final = 20
"""That are told of one file."""


@dataclass(frozen=True)
class TomlFile:
    """A TOML file that could be read; what stands in it may still be wrong."""

    path: Path
    text: str = field(repr=False)
    content: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.parse(path, read_text(path, LARGEST_TOML))

    @classmethod
    def parse(cls, path: Path, text: str) -> Self:
        try:
            return cls(path, text, parse_toml(text))
        except ValueError as error:
            raise UnreadableFile(f"{path}: not TOML: {error}") from error

    def checked(
        self, form: type[Form], content: Mapping[str, Any] | None = None, under: Keys = ()
    ) -> Form:
        """What it says, in this form.

        Args:
            content: of a table, perhaps completed; all of it if not stated.
            under: the keys of that table.
        """
        try:
            return form.model_validate(self.content if content is None else content)
        except ValidationError as error:
            raise InvalidInput("\n".join(self._problems(form, error, under))) from None
        except Refused as error:  # sound settings for a promise that cannot be kept
            raise Refused(str(self.wrong(str(error), *under))) from None

    def wrong(self, message: str, *keys: str) -> InvalidInput:
        """An error that names the line and the key."""
        name = dotted(*keys) if keys else "document"
        return InvalidInput(f"{self.path}:{line_of(name, self.text)}: {name}: {message}")

    def _problems(self, form: type[BaseModel], error: ValidationError, under: Keys) -> list[str]:
        problems = error.errors()
        told = [
            problem
            for problem in problems
            # A list counts as too short because its items are wrong, which is said already.
            if not (problem["type"] == "too_short" and len(problems) > 1)
        ]
        said = [
            str(self.wrong(_message(form, problem), *under, *map(str, problem["loc"])))
            for problem in told[:_MOST_PROBLEMS]
        ]
        more = len(told) - len(said)
        return [*said, f"{self.path}: {more} more problems"] if more else said


def check_form(form: type[Form], content: Mapping[str, Any]) -> Form:
    """The same for values that stand in no file."""
    try:
        return form.model_validate(content)
    except ValidationError as error:
        said = (f"{dotted(*map(str, p['loc']))}: {_message(form, p)}" for p in error.errors())
        raise InvalidInput("; ".join(said)) from None


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The nearest known word, as the end of a sentence; nothing if none is near."""
    near = get_close_matches(given, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _message(form: type[BaseModel], problem: Any) -> str:
    place = problem["loc"]
    if problem["type"] != "extra_forbidden":
        return plain_message(problem)
    known = _keys_at(form, place[:-1])
    return f"there is no such key{did_you_mean(str(place[-1]), known)}"


def _keys_at(form: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys that are known in a table."""
    kind: Any = form
    for step in place:
        kind = _fields(kind).get(str(step)) if _is_form(kind) else _form_in(kind)
    return list(_fields(kind)) if _is_form(kind) else []


def _is_form(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _fields(form: type[BaseModel]) -> dict[str, Any]:
    return {each.alias or name: each.annotation for name, each in form.model_fields.items()}


def _form_in(kind: Any) -> Any:
    """The form inside of `tuple[Form, ...]` or `dict[str, Form]`."""
    return next(filter(_is_form, get_args(kind)), None)
