"""A federation, from the command to the result: previewed, trained, watched, stopped.

A run is previewed first. Nothing is charged where the preview says that the result would mean
nothing, unless the command insists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from voile.app.artefact import REPORT, check_place, is_artefact
from voile.app.calls import Context
from voile.app.commands.federate import (
    Federate,
    LocalTransport,
    MakeServerKey,
    NewFederation,
    ShowFederationStatus,
    StopFederation,
)
from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.base import ServerSide
from voile.app.federate.expectation import FederationPreview
from voile.app.federate.files import read_job, read_server
from voile.app.federate.founding import read_draft
from voile.app.federate.party import Job, Say, open_node
from voile.app.federate.preview import preview
from voile.app.federate.run import (
    ARTEFACT,
    FederationRun,
    announce,
    federate,
    has_begun,
    run_server,
)
from voile.app.federate.status import RunStatus, RunWatch, run_status, stop_run
from voile.app.public_example import EXAMPLE
from voile.app.report import compared, how_to_use, quality, write_report
from voile.app.workspace import release_name
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee
from voile.core.one_thread import one_thread
from voile.federation import Node, Progress
from voile.federation.progress import NoProgress
from voile.training import Progress as Steps

# --- A federation whose parties are answered for by the workers of Flower's simulation engine ----


def federate_simulated(
    config: Path,
    job: Job,
    *,
    rounds_seen: Progress | None = None,
    steps_seen: Steps | None = None,
    say: Say = lambda _: None,
) -> FederationRun:
    """Run the federation of this `federation.toml`; see `run_server`.

    Args:
        config: read again by every worker, which sees the same files.
        job: what stands in it.
    """
    if job.agreement.secure is not None:
        raise Refused(
            "a secure sum keeps keys in memory between its steps, and a simulation opens a party "
            "for each message anew: leave --transport out, or use --superlink"
        )
    from voile.federation.flower.simulation import simulate  # loads flwr

    announce(job.agreement, job.server, say)
    return simulate(
        list(job.agreement.sizes),
        partial(_opened, config.absolute()),
        lambda transport: run_server(
            job.agreement, job.server, transport, steps_seen=steps_seen, say=say,
            watch=RunWatch(job.server.folder, rounds_seen or NoProgress()),
        ),
    )  # fmt: skip


def _opened(config: Path, name: str) -> AbstractContextManager[Node]:
    job = _job(config)
    return open_node(next(each for each in job.parties if each.name == name), job.agreement)


@lru_cache(maxsize=1)
def _job(config: Path) -> Job:
    """Rows are read, and noise is calibrated, once in a worker."""
    return read_job(config)


# --------------------------------------------------------------------------------------------------


_KEPT: Final = "rounds that are done and what was charged for them are kept"


@dataclass(frozen=True)
class FederationResult:
    """A finished run.

    Args:
        agreement: digest of what all parties have agreed on.
        artefact, report: where they lie; of tables in memory the report is not written yet.
        figures: the last figure of each stage, by what it is.
        compared: figures with intervals, and what they are compared with.
        output: the server's folder, which is a workspace.
        release: how the artefact is called in that workspace; empty where it has no model of rows.
        example: public rows to explain first.
        use: the command that uses the artefact; empty where it can only be read.
    """

    agreement: str
    artefact: Path
    report: Path
    guarantee: Guarantee
    figures: tuple[tuple[str, float], ...]
    compared: tuple[Mapping[str, Any], ...]
    output: Path
    release: str
    example: Path
    use: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "agreement": self.agreement,
            "guarantee": self.guarantee.to_dict(),
            "artefact": str(self.artefact),
            "report": str(self.report),
            "figures": dict(self.figures),
            "compared": self.compared,
        }


@dataclass(frozen=True)
class ServerKey:
    """The server's line for `federation.toml`; the key in it is public."""

    line: str


@dataclass(frozen=True)
class StopResult:
    """Whether a run has ended; if not, it ends at the next answer, or completes its result."""

    stopped: bool


def run_federation(command: Federate, context: Context) -> FederationResult | FederationPreview:
    """Train across parties, or say what that will be like."""
    if command.preview:
        return _preview(command)
    with one_thread(), context.interruptible(_KEPT, lambda: ()):
        agreement, server, run = _runner(command, context)
        done = run(
            rounds_seen=context.rounds(agreement.delta), steps_seen=context.steps, say=context.say
        )
    artefact = done.artefact
    report = artefact.folder / REPORT
    if not isinstance(command.config, NewFederation) and not (
        done.was_complete and report.exists()
    ):
        write_report(artefact)  # in Python, whoever wants one asks for it
    return FederationResult(
        agreement=agreement.digest,
        artefact=artefact.folder,
        report=report,
        guarantee=artefact.guarantees[0],
        figures=tuple(quality(artefact)),
        compared=tuple(compared(artefact)),
        output=server.folder,
        release=release_name(artefact) if artefact.has_model else "",
        example=server.folder / EXAMPLE,
        use=how_to_use(artefact),
    )


def show_status(command: ShowFederationStatus, _context: Context) -> RunStatus:
    """How far a run is."""
    return run_status(command.config)


def stop(command: StopFederation, _context: Context) -> StopResult:
    """End a run; what is done is kept."""
    return StopResult(stop_run(command.config))


def make_server_key(command: MakeServerKey, _context: Context) -> ServerKey:
    """The server's key, made if there is none."""
    from voile.app.federate.join import server_key_line

    return ServerKey(server_key_line(command.config))


def _preview(command: Federate) -> FederationPreview:
    """From the files of all parties, or from those of the server alone."""
    if isinstance(command.config, NewFederation):
        draft = read_draft(command.config)
        return preview(draft.agreement, draft.server)
    config = Path(command.config)
    if command.superlink is None:
        job = read_job(config)
        return preview(job.agreement, job.server)
    agreement, server, _ = read_server(config)
    return preview(agreement, server)


def _runner(
    command: Federate, context: Context
) -> tuple[FederationAgreement, ServerSide, Callable[..., FederationRun]]:
    """What trains: in this process, by workers of a simulation, or over a SuperLink."""
    if isinstance(command.config, NewFederation):
        return _founded(command, context)
    config = Path(command.config)
    if command.superlink is None:
        job = read_job(config)
        job = replace(job, server=_accepted(job.agreement, job.server, command, context))
        if command.transport is LocalTransport.THREADS:
            return job.agreement, job.server, partial(federate, job)

        return job.agreement, job.server, partial(federate_simulated, config, job)
    if command.transport is not LocalTransport.THREADS:
        raise InvalidInput("--superlink is a transport of its own: leave out --transport")
    from voile.app.federate.join import DeployedServer

    found = DeployedServer.read(config)
    found = replace(found, server=_accepted(found.agreement, found.server, command, context))
    return found.agreement, found.server, partial(found.federate, command.superlink)


def _founded(
    command: Federate, context: Context
) -> tuple[FederationAgreement, ServerSide, Callable[..., FederationRun]]:
    """Nothing is written before it is accepted."""
    if command.superlink is not None or command.transport is not LocalTransport.THREADS:
        raise InvalidInput(
            "parties whose rows are handed over are all in this process; for other machines or a "
            "simulation, name a federation.toml"
        )
    draft = read_draft(command.config)
    server = _accepted(draft.agreement, draft.server, command, context)
    job = draft.found()
    if is_artefact(server.folder / ARTEFACT):
        context.say(
            f"{command.config.folder}: this run is complete, and its result is given again; the "
            "rows that are handed over now are not used. Train anew in another folder"
        )
    job = replace(job, server=replace(job.server, remarks=server.remarks))
    return job.agreement, job.server, partial(federate, job)


def _accepted(
    agreement: FederationAgreement, server: ServerSide, command: Federate, context: Context
) -> ServerSide:
    """Say what it will be like; `Refused` if that means nothing and nobody insists.

    Not for a run that has begun: it was decided then. What was remarked about open rows is said
    here, and left out of what is returned.
    """
    check_place(server.folder / ARTEFACT)
    if has_begun(server):
        return server
    found = preview(agreement, server)
    context.say(str(found))
    if found.blocking and not command.insist:
        raise Refused(
            "nothing was charged, because of the warnings marked with ! above: "
            + "; ".join(each.text for each in found.blocking)
            + ". Pass --yes to continue anyway"
        )
    return replace(server, remarks=())
