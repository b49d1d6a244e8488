"""Commands of the command line, made from commands of the application.

The options of `voile explain` are the fields of `Explain`, with their descriptions and defaults. A
door adds nothing but how to show the result.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from voile.app.calls import (
    PASSPHRASE,
    Context,
    default_answer,
    handle,
    passphrase_from_environment,
    refuse_to_overwrite,
    refuse_without_yes,
)
from voile.app.commands.fields import Command, field_extra, option_of, warn_renamed
from voile.cli.output import (
    JsonOption,
    given_options,
    somebody_answers,
)
from voile.cli.progress import interruptible, rounds_line, say, steps_line

AS_JSON: Final = "as_json"
KEYWORD: Final = Parameter.KEYWORD_ONLY
_FORMER: Final = "former_"
_BOUNDS: Final = {
    "gt": "above {:g}",
    "ge": "at least {:g}",
    "lt": "below {:g}",
    "le": "at most {:g}",
}


@dataclass(frozen=True)
class CommandOverride:
    """A flag for another command with the same arguments: `voile federate CONFIG --status`.

    Args:
        now: what is typed instead, if the flag is a former spelling; it is hidden then.
    """

    option: str
    kind: type[Command]
    show: Callable[..., None]
    now: str = ""

    @property
    def name(self) -> str:
        return self.option.removeprefix("--")

    @property
    def parameter(self) -> Parameter:
        said = typer.Option(self.option, help=_help(self.kind), hidden=bool(self.now))
        return Parameter(self.name, KEYWORD, default=False, annotation=Annotated[bool, said])


def command_line(
    kind: type[Command],
    show: Callable[..., None],
    *instead: CommandOverride,
    bring: Callable[[Context], Context] = lambda context: context,
    **fixed: Any,
) -> Callable[..., None]:
    """A function for typer, with a parameter for each field of a command.

    Args:
        show: prints the result; takes `as_json`.
        instead: flags for other commands; at most one may be typed.
        bring: adds to what the door brings along, such as a line of progress.
        fixed: fields with a value that is not asked for.
    """

    def run(**values: Any) -> None:
        typed, as_json = given_options(values["context"]), values[AS_JSON]
        _take_former_options(kind, typed, values)
        context = terminal(as_json=as_json)
        chosen = [each for each in instead if values[each.name]]
        if len(chosen) > 1:
            raise typer.BadParameter(f"choose one of {' and '.join(e.option for e in chosen)}")
        for other in chosen:
            stated = {name: values[name] for name in typed if name in other.kind.model_fields}
            if other.now:
                warn_renamed(other.option, f"`voile {other.now}`")
            other.show(handle(_read(other.kind, stated), context), as_json=as_json)
            return
        stated = {spelled(name): values[name] for name in typed if name in fields}
        show(handle(_read(kind, {**stated, **fixed}), bring(context)), as_json=as_json)

    def spelled(name: str) -> str:
        return fields[name].alias or name

    fields = {name: field for name, field in kind.model_fields.items() if name not in fixed}
    parameters = {
        "context": inspect.Parameter("context", KEYWORD, annotation=typer.Context),
        **{name: _parameter(name, field) for name, field in fields.items()},
        **{
            _FORMER + name: _parameter(name, field, former)
            for name, field, former in _former_options(kind)
        },
        **{each.name: each.parameter for each in instead},
        AS_JSON: inspect.Parameter(AS_JSON, KEYWORD, default=False, annotation=JsonOption),
    }
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    run.__doc__, run.__name__ = _as_paragraphs(_help(kind)), kind.__name__
    return run


def formerly(typed: str, now: str) -> Callable[[Context], Context]:
    """Says that a command has another name now; see `bring` of `command_line`."""

    def warn(context: Context) -> Context:
        warn_renamed(f"`voile {typed}`", f"`voile {now}`")
        return context

    return warn


def _read(kind: type[Command], stated: Mapping[str, Any]) -> Command:
    return kind.read(stated, name_options=True)


def _former_options(kind: type[Command]) -> Iterator[tuple[str, FieldInfo, str]]:
    for name, field in kind.model_fields.items():
        for former in field_extra(field).get("formerly", ()):
            if former.startswith("--"):
                yield name, field, former


def _take_former_options(
    kind: type[Command], typed: dict[str, str], values: dict[str, Any]
) -> None:
    """What was typed with a former option counts as typed with the option of today."""
    for name, field, former in _former_options(kind):
        if _FORMER + name in typed:
            warn_renamed(former, option_of(name, field), given_twice=name in typed)
            typed[name], values[name] = former, values[_FORMER + name]


def _help(kind: type[Command]) -> str:
    """The docstring without its example."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n>>>")[0]


def _as_paragraphs(text: str) -> str:
    """Without the line breaks of the source: a terminal breaks lines by its own width."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def add_command(
    group: typer.Typer,
    name: str,
    kind: type[Command],
    show: Callable[..., None],
    example: str,
    **more: Any,
) -> None:
    """Add a command to a group (`voile budget`), with an example of what follows its name."""
    epilog = f"Example: voile {group.info.name} {name} {example}"
    group.command(name, epilog=epilog)(command_line(kind, show, **more))


def terminal(*, as_json: bool = False) -> Context:
    """What the command line brings along: somebody who reads, answers and interrupts.

    Args:
        as_json: a program reads the result; it is not asked for texts.
    """
    return Context(
        say=say,
        confirm=_confirm,
        ask=_ask,
        prompt=default_answer if as_json else _prompt,
        passphrase=_passphrase,
        interruptible=interruptible,
        steps=steps_line(),
        rounds=rounds_line,
        speed=_speed,
    )


def _confirm(existing: Sequence[Path]) -> None:
    """On a terminal; elsewhere it is refused."""
    if not somebody_answers():
        refuse_to_overwrite(existing)
    typer.confirm(f"{', '.join(map(str, existing))}: overwrite?", abort=True, err=True)


def _ask(question: str) -> None:
    """On a terminal; elsewhere it is refused."""
    if not somebody_answers():
        refuse_without_yes(question)
    typer.confirm(question, abort=True, err=True)


def _prompt(question: str, default: str) -> str:
    if not somebody_answers():
        return default
    return str(typer.prompt(question, default=default, err=True))


def _passphrase(new: bool) -> str:
    if PASSPHRASE in os.environ:
        return passphrase_from_environment(new)
    text = "Passphrase of the keystore"
    return str(typer.prompt(text, hide_input=True, confirmation_prompt=new, err=True))


def _speed() -> Any:
    """With a line of progress, if somebody watches."""
    from voile.attribution import Speed, progress_line

    return Speed(progress=progress_line()) if sys.stderr.isatty() else Speed()


def _parameter(name: str, field: FieldInfo, former: str = "") -> Parameter:
    """A parameter for typer.

    Args:
        former: the former spelling of the option, hidden from --help.
    """
    extra, kind = field_extra(field), _plain(field.annotation)
    metavar, help_text = extra.get("metavar"), _as_markup(_described(field))
    default = Parameter.empty if field.is_required() else field.default
    if isinstance(default, StrEnum):
        default = getattr(default, "word", default.value)
    said: Any
    if extra.get("option") == "":
        said = typer.Argument(metavar=metavar, help=help_text)
        # Rows may be handed in as an object elsewhere; here they are a file, which is named.
        default = Parameter.empty if field.annotation is Any else default
    else:
        variable = extra.get("environment")
        said = typer.Option(
            former or option_of(name, field),
            metavar=metavar,
            help=help_text,
            envvar=variable,
            hidden=bool(former),
        )
    return Parameter(
        (_FORMER if former else "") + name,
        KEYWORD,
        default=default,
        annotation=Annotated[kind, said],
    )


def _described(field: FieldInfo) -> str:
    """What a field is, with its range and an example."""
    bounds = {
        key: getattr(each, key) for each in field.metadata for key in _BOUNDS if hasattr(each, key)
    }
    said = [_BOUNDS[key].format(value) for key, value in bounds.items()]
    for example in field.examples or () if field_extra(field).get("option") != "" else ():
        said.append(f"example: {example}")
    return (field.description or "") + (f" ({'; '.join(said)})" if said else "")


def _as_markup(text: str) -> str:
    """What rich would take for a tag, such as the table of a TOML file, is text."""
    return re.sub(r"\[(?=[a-z#/@])", r"\\[", text)


def _plain(kind: Any) -> Any:
    """What typer reads it as: a member of an enumeration is checked by the command itself."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if kind is Any or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return str
    if get_origin(kind) is tuple and get_args(kind)[-1] is ...:
        return list[get_args(kind)[0]] | None  # type: ignore[misc]  # repeatable
    if get_origin(kind) in (Union, types.UnionType):
        members = [_plain(each) for each in get_args(kind) if each is not types.NoneType]
        return members[0] | None
    return kind
