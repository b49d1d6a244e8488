"""`voile node`: one party of a federation, on a machine of its own."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import typer

from voile.app.commands.node import JoinFederation, MakeNodeKeys, ShowNodeStatus
from voile.cli.commands import CommandOverride, command_line
from voile.cli.output import print_json, print_status

if TYPE_CHECKING:
    from voile.app.calls import Context
    from voile.app.federate.join import NodeKeys, NodeResult

EPILOG = """\
Examples:

  voile node node.toml            (until Ctrl-C, or SIGTERM)

  voile node node.toml --status   (what it was asked, has spent and has refused)

  voile node node.toml --key      (makes its keys, and shows what to hand over before the start)
"""


def _ended_by_sigterm(context: Context) -> Context:
    signal.signal(signal.SIGTERM, lambda *_: context.stop.set())
    return context


def _show_ended(_ended: NodeResult, *, as_json: bool) -> None:
    """A node tells what it does while it runs; there is nothing to add."""


def _show_keys(keys: NodeKeys, *, as_json: bool) -> None:
    party, known_by = keys.enrolment, keys.flower_key
    if as_json:
        shown = {"name": party.name, "rows": party.rows, "key": party.key}
        print_json(shown | {"flower_key": known_by})
        return
    typer.echo(
        f"for federation.toml:\n\n{party.lines}\n"
        f"for the SuperLink, whose operator saves this line as {party.name}.pub:\n\n{known_by}"
    )


node = command_line(
    JoinFederation,
    _show_ended,
    CommandOverride("--status", ShowNodeStatus, print_status),
    CommandOverride("--key", MakeNodeKeys, _show_keys),
    bring=_ended_by_sigterm,
)
