"""`voile serve`: explanations over HTTP."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from voile.app.commands.serve import Serve
from voile.cli.commands import AS_JSON, command_line
from voile.cli.output import print_facts

if TYPE_CHECKING:
    from voile.app.calls import Context
    from voile.app.serving.handler import Serving

EPILOG = """\
Example:

  voile keys add "ward 3" --duty explain --account customers

  voile serve voile.toml --port 8460
"""


def _told_at_start(context: Context) -> Context:
    """Where it answers is needed while it runs."""
    as_json = click.get_current_context().params[AS_JSON]

    def tell(serving: Serving) -> None:
        facts = {"url": serving.url, "releases": list(serving.releases)}
        print_facts(facts, as_json=as_json)
        sys.stdout.flush()

    return replace(context, watch=tell)


def _show_ended(_serving: Serving, *, as_json: bool) -> None:
    """All was told at its start."""


serve = command_line(Serve, _show_ended, bring=_told_at_start)
