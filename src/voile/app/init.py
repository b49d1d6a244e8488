"""`voile init`, from the command to what was written: the source decides what is started."""

from __future__ import annotations

from pathlib import Path

from voile.app.calls import Context
from voile.app.commands.workspace import Start
from voile.app.federate.starting import (
    SplitFederation,
    StartedFederation,
    default_name,
    split,
    start_federation,
)
from voile.app.workspace import StartedWorkspace, start_workspace
from voile.core.errors import InvalidInput
from voile.models import names_model
from voile.privacy.mechanisms.parameters import weaknesses


def start(
    command: Start, context: Context
) -> StartedWorkspace | StartedFederation | SplitFederation:
    """Write the files that belong to this source; never over existing ones."""
    if len(command.source) == 1 and command.source[0].endswith(".toml"):
        why = "is for tables or a model, and this is a federation"
        command.check_only("source", "folder", why=why)
        return SplitFederation(split(Path(command.source[0]), command.folder))
    if _is_model(command):
        return _workspace(command, context)
    return _federation(command, context)


def _is_model(command: Start) -> bool:
    """By what it is called, or because it has a schema already: no file is read to find out."""
    named = any(names_model(each) or Path(each).is_dir() for each in command.source)
    return named or command.schema_file is not None


def _federation(command: Start, context: Context) -> StartedFederation:
    allowed = ("source", "label", "name", "folder")
    command.check_only(*allowed, why="is for a model, and these are tables")
    name = command.name
    if name is None:
        question = "Name of the federation, and of this version of its data"
        name = context.prompt(question, default_name(command.folder))
    tables = [Path(each) for each in command.source]
    return start_federation(tables, command.folder, label=command.label, name=name)


def _workspace(command: Start, context: Context) -> StartedWorkspace:
    if len(command.source) > 1:
        raise InvalidInput("a workspace starts from one model")
    if command.label is not None:
        raise InvalidInput("--label is for tables; this is a model")
    spec = command.spec
    for weakness in weaknesses(command.epsilon or 0.0, command.delta or 0.0):
        context.say(f"voile: warning: {weakness}")
    return start_workspace(
        spec,
        command.promise,
        name=command.name,
        folder=command.folder,
        origin=command.origin,
        storage=command.storage,
    )
