"""The main job: train across parties, explain for free, and leave an artefact that can be checked.

1. A plan from public facts: how much noise each step needs so that all of it together meets the
   promise.
2. Everything that can be refused is: by the server for its folder, by every party when it is asked
   to join. Nothing was charged until then, and no account opened.
3. Rounds of each stage; a party charges its account before it trains, and opens it, for exactly
   this plan, with the first charge.
4. Every party hands over its signed log, which is compared with what the server saw.
5. What follows for free: calibrated probabilities, from some of the unprotected rows, and such as
   a fast explainer that is distilled from a surrogate alone.
6. Figures on the other unprotected rows; the artefact is written.

In the server's folder `artefact/` may be shown; the server's books lie beside it, and so do
`example.csv`, a few of the public reference rows to explain first, and a workspace for it,
`voile.toml`. What belongs to a party lies in a folder of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from voile.app.alarms import alarms
from voile.app.artefact import (
    Artefact,
    check_place,
    finish,
    is_artefact,
    load_artefact,
    write_artefact,
)
from voile.app.explain import ExplanationSpec
from voile.app.federate.agreement import SERVER, FederationAgreement, origin_of
from voile.app.federate.base import FinishContext, PipelineOutput, ServerSide
from voile.app.federate.books import PART as ROUNDS_PART
from voile.app.federate.books import Promise, ServerBooks, account_name
from voile.app.federate.kinds import KINDS
from voile.app.federate.logs import collected_logs, write_logs
from voile.app.federate.party import (
    Job,
    Say,
    check_name,
    open_node,
    run_lock,
    signed_log,
    signer_of,
)
from voile.app.federate.results import by_name, digests_of, settings_of, statement_of
from voile.app.federate.status import RunWatch
from voile.app.federate.tables import reference_rows
from voile.app.public_example import EXAMPLE, write_example
from voile.app.workspace import release_name, workspace_text
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, Refused, VoileError
from voile.core.schema import Schema
from voile.federation import (
    HistoryRow,
    Joined,
    Joining,
    Pipeline,
    Progress,
    Rounds,
    StageResult,
    Threads,
    Transport,
    Unprotected,
    is_finished,
    run_pipeline,
)
from voile.federation.history import event_as_text
from voile.federation.progress import NoProgress
from voile.federation.transport import NodeReply
from voile.records.vault import DATABASE, WORKSPACE, Vault, open_vault
from voile.training import Progress as Steps

# -------------------------------------------------------------------------------------------------
# Before the first round every party is asked whether it takes part: check first, charge last.


def check_all_join(transport: Transport, agreement: FederationAgreement) -> None:
    """`Refused`, with everybody's reasons, unless every party says that it takes part.

    Until then nobody has charged anything or opened an account, so a party that refuses, or cannot
    be reached, costs the others nothing.
    """
    asked = dict.fromkeys(agreement.sizes, Joining(agreement.digest))
    refusals = [
        f"{reply.node!r}: {_reason(reply)}"
        for reply in transport.exchange(asked)
        if not _has_joined(reply, agreement)
    ]
    if refusals:
        raise Refused(
            "not all parties take part, so nothing was trained or charged: "
            + "; ".join(sorted(refusals))
        )


def _has_joined(reply: NodeReply, agreement: FederationAgreement) -> bool:
    expected = Joined(reply.node, agreement.digest)
    return reply.outcome is None and type(reply.content) is Joined and reply.content == expected


def _reason(reply: NodeReply) -> str:
    if isinstance(reply.error, VoileError):
        return str(reply.error)
    return "has answered with something else" if reply.outcome is None else str(reply.outcome)


# --------------------------------------------------------------------------------------------------


ARTEFACT: Final = "artefact"
_EXAMPLES: Final = 3
_MEASURED_ON: Final = "rows listed as unprotected"
CHECKPOINTS: Final = "checkpoints"


@dataclass(frozen=True, eq=False)
class FederationRun:
    """A finished run, and what was trained in each stage.

    Args:
        was_complete: it was finished before, and nothing was done now.
    """

    artefact: Artefact
    results: Mapping[str, StageResult]
    was_complete: bool = False


def has_begun(server: ServerSide) -> bool:
    """Whether rounds of a run are kept in the server's folder."""
    kept = server.folder / CHECKPOINTS
    return kept.is_dir() and any(kept.iterdir())


def federate(
    job: Job,
    *,
    rounds_seen: Progress | None = None,
    steps_seen: Steps | None = None,
    say: Say = lambda _: None,
    at_once: int = 2,
) -> FederationRun:
    """Run a federation whose parties are all in this process; see `run_server`.

    Args:
        job: what to do.
        rounds_seen, steps_seen, say: told how far the work is.
        at_once: how many parties train at the same time.
    """
    announce(job.agreement, job.server, say)
    with ExitStack() as stack:
        nodes = [stack.enter_context(open_node(party, job.agreement, say)) for party in job.parties]
        transport = Threads(nodes, at_once=at_once)
        return run_server(
            job.agreement, job.server, transport, steps_seen=steps_seen, say=say,
            watch=RunWatch(job.server.folder, rounds_seen or NoProgress()),
        )  # fmt: skip


def _check_folder(server: ServerSide) -> None:
    """Refuse what could not be written there, and to overwrite rows that no run has written."""
    artefact, example = server.folder / ARTEFACT, server.folder / EXAMPLE
    check_place(artefact)
    if example.exists() and not (has_begun(server) or is_artefact(artefact)):
        raise InvalidInput(
            f"{example}: is not from this run, which writes a file of that name; move it away, or "
            "choose another output"
        )


def announce(agreement: FederationAgreement, server: ServerSide, say: Say) -> None:
    """What is said before anything is asked or charged; what is odd about open rows first."""
    check_name(agreement.name, server.folder)
    _check_folder(server)
    for remark in server.remarks:
        say(remark)
    say(f"agreement {agreement.digest}")
    for line in agreement.secrecy:
        say(line)
    say("calibrating noise for the whole plan")


def run_server(
    agreement: FederationAgreement,
    server: ServerSide,
    transport: Transport,
    *,
    deadline: float | None = None,
    steps_seen: Steps | None = None,
    say: Say = lambda _: None,
    watch: RunWatch | None = None,
) -> FederationRun:
    """The server's part, whatever carries its messages; it sees nobody's rows, books or keys.

    A run that was broken off continues where it was, with the same folder. The artefact of a
    complete one is left as it is: whoever asks again gets the explanations that others hold. With
    a `deadline`, in seconds, whoever is slower in a round is left out of it.
    """
    _check_folder(server)
    plan, open_rows = KINDS[agreement.pipeline].prepared(agreement.plan, server.held_out)
    watch = watch or RunWatch(server.folder, NoProgress())
    with run_lock(server.folder), _vault(agreement, server) as vault:
        watch.begin()
        log = _books(vault, agreement, plan)
        rounds = _rounds(agreement, server, transport, log, watch, deadline)
        if not is_finished(plan, rounds):
            check_all_join(transport, agreement)
        measured = open_rows.measured
        shown = None if measured is None else Unprotected(measured, _MEASURED_ON)
        results = run_pipeline(plan, rounds, unprotected=shown)
        _check_run(agreement, results, _promise(agreement))
        written = _finished(server.folder / ARTEFACT, results)
        if written is not None:
            say(f"the run is complete: {written.folder} is left as it is")
            _leave_workspace(written)
            return FederationRun(written, results, was_complete=True)
        say("asking every party for its signed log")
        history = [row for result in results.values() for row in result.rows]
        logs = collected_logs(transport, agreement, history)
        context = FinishContext(server, open_rows, steps_seen, say)
        made = KINDS[agreement.pipeline].finish(agreement.plan, results, context)
        say("signing the log, writing the artefact")
        figures = {**_round_figures(results, measured), **made.figures}
        folder = _write(agreement, server, made, history, figures)
        logs = {SERVER: signed_log(vault, SERVER, say), **logs}
        settings = settings_of(agreement, results)
        settings |= {"reference_invented": server.reference_invented}
        settings |= {"logs": write_logs(logs, folder)}
    done = finish(folder, agreement.name, settings)
    _leave_example(done, agreement.schema, server)
    for line in alarms(figures):
        say(f"do not use it as it is: {line}")
    _leave_workspace(done)
    return FederationRun(done, results)


def _write(
    agreement: FederationAgreement,
    server: ServerSide,
    made: PipelineOutput,
    history: Sequence[HistoryRow],
    figures: Mapping[str, Any],
) -> Path:
    """The artefact without its logs and its manifest."""
    folder = server.folder / ARTEFACT
    write_artefact(
        folder,
        made.files,
        guarantees=(
            replace(each, records_per_person=agreement.records_per_person)
            for each in made.promised.guarantees
        ),
        statement=statement_of(agreement, made, history),
        figures=figures,
        history=history,
    )
    return folder


def _rounds(
    agreement: FederationAgreement,
    server: ServerSide,
    transport: Transport,
    log: ServerBooks,
    watch: RunWatch,
    deadline: float | None,
) -> Rounds:
    key = None if agreement.secure is None else agreement.server_key
    return Rounds(
        transport,
        agreement.sizes,
        log=log,
        checkpoints=server.folder / CHECKPOINTS,
        progress=watch,
        deadline=deadline,
        agreement=agreement.digest,
        sign=None if key is None else signer_of(server.folder, key),
    )


def _round_figures(results: Mapping[str, StageResult], measured: Any) -> dict[str, Any]:
    """What was measured on unprotected rows after each round."""
    return {
        "measured_on": f"{len(measured) if measured is not None else 0} {_MEASURED_ON}",
        "rounds": {stage: by_name(result) for stage, result in results.items()},
    }


def _leave_example(artefact: Artefact, schema: Any, server: ServerSide) -> None:
    """A few public rows to explain first, beside a model of tables."""
    if not artefact.has_model or not isinstance(schema, Schema):
        return
    rows = server.reference
    rows = reference_rows(schema, None)[0] if rows is None else rows
    write_example(schema, rows[:_EXAMPLES], server.folder / EXAMPLE)


def _promise(agreement: FederationAgreement) -> Promise:
    return Promise(agreement.protected, agreement.weakest_epsilon, agreement.delta)


def _vault(agreement: FederationAgreement, server: ServerSide) -> AbstractContextManager[Vault]:
    origin = origin_of(agreement.name, SERVER)
    return open_vault(server.folder, origin, signing=None, extra_parts=(ROUNDS_PART,))


def _books(vault: Vault, agreement: FederationAgreement, plan: Pipeline) -> ServerBooks:
    trust = KINDS[agreement.pipeline].trust(plan)
    return ServerBooks(vault, _promise(agreement), agreement.digest, trust)


def _check_run(
    agreement: FederationAgreement, results: Mapping[str, StageResult], promise: Promise
) -> None:
    """A federation in which nobody could take part has nothing to show, nor has one whose rounds
    were charged under another plan than the one that would be promised, or to other accounts."""
    planned = {
        (party, event_as_text(event))
        for party in agreement.sizes
        for event in agreement.events_of(party)
    }
    for stage, result in results.items():
        if not any(row.outcome.counts for row in result.rows):
            # Only refusals are told in words: any other message may quote a protected row.
            errors = [each.error for each in result.errors]
            reasons = sorted(
                {str(e) if isinstance(e, Refused) else type(e).__name__ for e in errors}
            )
            raise Refused(
                f"no client contributed to the stage {stage!r}; nothing was written. "
                + "; ".join(reasons[:3])
            )
        if not {(row.client, row.event) for row in result.rows} <= planned:
            raise Refused(f"rounds of {stage!r} were charged under another plan than this one")
        for row in result.rows:
            if row.outcome.counts and row.account != account_name(row.client, promise):
                raise Refused(
                    f"{row.client!r} took part in {stage!r} without a charge to its own account"
                )


def _finished(folder: Path, results: Mapping[str, StageResult]) -> Artefact | None:
    """The artefact of these very arrays, if it was written."""
    if not is_artefact(folder):
        return None
    found = load_artefact(folder)
    return found if found.settings.get("arrays") == digests_of(results) else None


def _leave_workspace(artefact: Artefact) -> None:
    """A workspace beside the artefact, unless there is one, which somebody may have written in."""
    folder = artefact.folder.parent
    if (folder / WORKSPACE).exists() or not artefact.has_model:
        return
    text = workspace_text(
        ExplanationSpec(model=str(artefact.folder)),
        name=release_name(artefact),
        folder=folder,
        origin=origin_of(artefact.name, SERVER),
        storage=DATABASE,
    )
    replace_file(folder / WORKSPACE, text.encode())
