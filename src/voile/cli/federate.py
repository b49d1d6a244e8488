"""`voile federate` and `voile report`: the main job with people's own files."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from voile.app.commands import federate as commands
from voile.app.commands.federate import JoinFederation, MakeNodeKeys, ShowNodeStatus
from voile.cli.commands import CommandOverride, command_line
from voile.cli.output import console, explain_by_name, print_json, print_status

if TYPE_CHECKING:
    from voile.app.calls import Context
    from voile.app.federate.expectation import FederationPreview
    from voile.app.federate.join import NodeKeys, NodeResult
    from voile.app.federations import FederationResult, ServerKey, StopResult
    from voile.app.report.handler import ReportResult


# --- voile node: one party of a federation, on a machine of its own ------------------------------


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


# --------------------------------------------------------------------------------------------------


FEDERATE_EPILOG = """\
Examples:

  voile init hospital-a.csv hospital-b.csv   (writes all files, to fill in)

  voile federate federation.toml --preview

  voile federate federation.toml

  voile federate federation.toml --superlink 127.0.0.1:9091

  voile federate federation.toml --status   (or --stop, from another terminal)

  voile federate keygen federation.toml   (makes the server's key)

  voile federate federation.toml --transport simulation
"""
KEYGEN_EPILOG = "Example: voile federate keygen federation.toml"
REPORT_EPILOG = "Example: voile report output/artefact --output report.html"


def _show_federated(result: FederationResult | FederationPreview, *, as_json: bool) -> None:
    from voile.app.federations import FederationResult

    if not isinstance(result, FederationResult):
        _show_preview(result, as_json=as_json)
    elif as_json:
        print_json(result.to_dict())
    else:
        _print_federated(result)


def _print_federated(result: FederationResult) -> None:
    lines = [f"{what}: {value:.3f}" for what, value in result.figures]
    lines += [
        f"{each['what']}: {each['figure']:.3f} ({each['meaning']}: {each['baseline']:.3f})"
        for each in result.compared
        if each["what"].startswith("log-loss")
    ]
    following = result.use
    if result.release:
        following = explain_by_name(result.output, result.release, result.example)
    lines += ["", f"artefact  {result.artefact}", f"report    {result.report}"]
    if following:
        lines += ["", "Next, try (or with rows of your own):", f"  {following}"]
    console().print("\n".join([str(result.guarantee), "", *lines]), soft_wrap=True)


def _show_preview(found: FederationPreview, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found) | {"asks_for_yes": bool(found.blocking)})
        return
    asked = (
        "\n\nThe run will ask for --yes because of the warnings marked with !."
        if found.blocking
        else ""
    )
    console().print(f"nothing was charged\n{found}{asked}", soft_wrap=True)


def _show_key(key: ServerKey, *, as_json: bool) -> None:
    print_json(asdict(key)) if as_json else typer.echo(key.line)


def _show_stopped(result: StopResult, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(result))
    elif result.stopped:
        typer.echo("stopped; run the same command without --stop to continue")
    else:
        typer.echo(
            "stopping: the run ends at the next answer. If it already writes its result, it is "
            "completed. Check with --status"
        )


def _show_report(written: ReportResult, *, as_json: bool) -> None:
    path = str(written.path)
    print_json({"report": path}) if as_json else console().print(path, soft_wrap=True)


federate = command_line(
    commands.Federate,
    _show_federated,
    CommandOverride("--key", commands.MakeServerKey, _show_key, now="federate keygen"),
    CommandOverride("--status", commands.ShowFederationStatus, print_status),
    CommandOverride("--stop", commands.StopFederation, _show_stopped),
)
keygen = command_line(commands.MakeServerKey, _show_key)
report = command_line(commands.WriteReport, _show_report)
