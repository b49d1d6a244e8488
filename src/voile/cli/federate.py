"""`voile federate` and `voile report`: the main job with people's own files."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voile.cli.federate_preview import as_plain, checked_first
from voile.cli.interrupts import interruptible
from voile.cli.options import YesOption
from voile.cli.output import (
    JsonOption,
    ask_before_overwriting,
    console,
    explain_by_name,
    print_json,
)
from voile.cli.rounds import rounds_line, say, steps_line

if TYPE_CHECKING:
    from voile.app.federate import Federated, FederationAgreement, ServerSide


class CarriedBy(StrEnum):
    """Transports for parties on this machine."""

    THREADS = "threads"
    SIMULATION = "simulation"


FEDERATE_EPILOG = """\
Examples:

  voile init hospital-a.csv hospital-b.csv   (writes all files, to fill in)

  voile federate federation.toml --preview

  voile federate federation.toml

  voile federate federation.toml --superlink 127.0.0.1:9091

  voile federate federation.toml --status   (or --stop, from another terminal)

  voile federate federation.toml --transport simulation
"""
_KEPT = "rounds that are done and what was charged for them are kept"
REPORT_EPILOG = "Example: voile report output/artefact --output report.html"


def federate(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            help="What all parties have agreed on: federation.toml. Beside it are server.toml and "
            "a node.toml of each party in nodes/.",
        ),
    ],
    superlink: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Parties are on other machines (`voile node`), and reached over this SuperLink; "
            "server.toml says how, under \\[superlink].",
        ),
    ] = None,
    transport: Annotated[
        CarriedBy, typer.Option(help="What carries messages to parties on this machine.")
    ] = CarriedBy.THREADS,
    only_preview: Annotated[
        bool,
        typer.Option("--preview", help="Say what it will be like; train and charge nothing."),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Go on although what is promised or measured means little."),
    ] = False,
    key: Annotated[
        bool, typer.Option("--key", help="Make the server's key, and show its line for CONFIG.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show how far the run is, and for whom it waits.")
    ] = False,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="End the run. The same command without --stop goes on later."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model and a private explainer across the parties of CONFIG; write an artefact.

    First it is said what to expect, from public facts and the held-out file, which nobody protects;
    where that would mean nothing, the run asks for --yes. A run that was broken off is continued by
    the same command. One that is complete is not trained again: its budget is spent. With `secure =
    true` in CONFIG the server learns sums of updates and no single one.
    """
    if key:
        from voile.app.federate.enrolling import server_key_line

        line = server_key_line(config)
        print_json({"line": line}) if as_json else typer.echo(line)
        return
    if status and stop:
        raise typer.BadParameter("choose one of --status and --stop")
    if status or stop:
        (_show_status if status else _stop)(config, as_json=as_json)
        return
    from voile.app.artefact import REPORT
    from voile.app.public_example import EXAMPLE
    from voile.app.report import compared, quality, write_report
    from voile.app.workspace import release_name
    from voile.core.one_thread import one_thread

    if only_preview:
        _print_preview(config, superlink, as_json=as_json)
        return
    with one_thread(), interruptible(_KEPT):
        agreement, server, done = _run(config, superlink, transport, yes=yes)
    report = done.artefact.folder / REPORT
    if not (done.was_complete and report.exists()):
        write_report(done.artefact)
    found, judged = quality(done.artefact), compared(done.artefact)
    promised = done.artefact.guarantees[0]
    if as_json:
        print_json(
            {
                "agreement": agreement.digest,
                "artefact": str(done.artefact.folder),
                "report": str(report),
                "guarantee": promised.to_dict(),
                "figures": dict(found),
                "compared": judged,
            }
        )
        return
    lines = [f"{what}: {value:.3f}" for what, value in found]
    lines += [
        f"{each['what']}: {each['figure']:.3f} ({each['meaning']}: {each['baseline']:.3f})"
        for each in judged
        if each["what"].startswith("log-loss")
    ]
    folder, output = done.artefact.folder, server.folder
    following = explain_by_name(output, release_name(done.artefact), output / EXAMPLE)
    console().print(
        "\n".join([str(promised), "", *lines, "", f"artefact  {folder}"])
        + f"\nreport    {report}\n\nNext, try (or with rows of your own):\n"
        f"  {following}",
        soft_wrap=True,
    )


def _run(
    config: Path, superlink: str | None, transport: CarriedBy, *, yes: bool
) -> tuple[FederationAgreement, ServerSide, Federated]:
    """In this process, by workers of a simulation, or over a SuperLink."""
    from voile.app.federate import federate as run
    from voile.app.federate import read_job
    from voile.core.errors import InvalidInput

    if superlink is None:
        job = read_job(config)
        job = replace(job, server=checked_first(job.agreement, job.server, yes=yes))
        seen = rounds_line(job.agreement.delta)
        if transport is CarriedBy.SIMULATION:
            from voile.app.federate.simulated import federate_simulated

            run = partial(federate_simulated, config)
        done = run(job, rounds_seen=seen, steps_seen=steps_line(), say=say)
        return job.agreement, job.server, done
    if transport is not CarriedBy.THREADS:
        raise InvalidInput("--superlink is a transport of its own: leave --transport out")
    from voile.app.federate.deployed import DeployedServer

    deployed = DeployedServer.read(config)
    server = checked_first(deployed.agreement, deployed.server, yes=yes)
    deployed = replace(deployed, server=server)
    seen = rounds_line(deployed.agreement.delta)
    done = deployed.federate(superlink, rounds_seen=seen, steps_seen=steps_line(), say=say)
    return deployed.agreement, deployed.server, done


def _show_status(config: Path, *, as_json: bool) -> None:
    from voile.app.federate.status import run_status

    found = run_status(config)
    print_json(found.to_dict()) if as_json else typer.echo("\n".join(found.lines))


def _stop(config: Path, *, as_json: bool) -> None:
    from voile.app.federate.status import stop_run

    stopped = stop_run(config)
    if as_json:
        print_json({"stopped": stopped})
    elif stopped:
        typer.echo("stopped; the same command without --stop goes on")
    else:
        typer.echo(
            "asked to stop: the run ends at the next answer. One that writes its result already "
            "is completed. --status shows it"
        )


def _print_preview(config: Path, superlink: str | None, *, as_json: bool) -> None:
    """What stands in the files of all parties, or in those of the server alone."""
    from voile.app.federate import read_job
    from voile.app.federate.files import read_server
    from voile.app.federate.preview import preview

    if superlink is None:
        job = read_job(config)
        agreement, server = job.agreement, job.server
    else:
        agreement, server, _ = read_server(config)
    found = preview(agreement, server)
    if as_json:
        print_json(as_plain(found))
        return
    asked = "\n\nIt would ask for --yes, because of what is marked with !." if found.grave else ""
    console().print(f"nothing was charged\n{found}{asked}", soft_wrap=True)


def report(
    artefact: Annotated[Path, typer.Argument(metavar="ARTEFACT", help="Folder of a federation.")],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; inside ARTEFACT if not given.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write one self-contained HTML page: what is promised, how good it is, how to verify it."""
    from voile.app.artefact import load_artefact
    from voile.app.report import write_report

    if output is not None:
        ask_before_overwriting([output], yes=yes)
    path = write_report(load_artefact(artefact), output)
    if as_json:
        print_json({"report": str(path)})
    else:
        console().print(str(path), soft_wrap=True)
