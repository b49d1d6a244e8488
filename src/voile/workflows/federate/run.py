"""The main job: train across parties, explain for free, and leave an artefact that can be checked.

1. A plan from public facts: how much noise each step needs so that all of it together meets the
   promise.
2. Each client opens an account for exactly this plan in its own ledger.
3. Rounds of the black box, then of the surrogate; a client charges its account before it trains.
4. A fast explainer is distilled from the surrogate and the schema alone.
5. Figures on unprotected rows; all logs are signed and exported; the artefact is written.

Folders of a run: `artefact/` may be shown; `clients/` belongs to the clients (in a real federation
each is on its own machine); the server's books lie beside them, and so do `example.csv`, a few of
the public reference rows to explain first, and a workspace for it, `voile.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, Refused
from voile.core.randomness import StreamCipher
from voile.federation import (
    Client,
    Node,
    Progress,
    Rounds,
    Threads,
    Unprotected,
)
from voile.federation.files import file_stem
from voile.federation.history import event_as_text
from voile.models import digest_of
from voile.pipelines.private_explainer import PrivateExplainer, train_private_explainer
from voile.pipelines.private_explainer.plan import PipelinePlan
from voile.pipelines.tables import NetworkModel
from voile.training import Progress as Steps
from voile.workflows.artefact import (
    Artefact,
    check_place,
    finish,
    is_artefact,
    load_artefact,
    write_artefact,
)
from voile.workflows.custody import DATABASE, WORKSPACE, Custody, open_custody
from voile.workflows.explain import ExplanationSpec
from voile.workflows.federate.books import (
    ClientBooks,
    Promise,
    ServerBooks,
    account_name,
    open_account,
)
from voile.workflows.federate.job import Job
from voile.workflows.federate.results import Say, contents_of, export_logs
from voile.workflows.federate.rounds import PART as ROUNDS_PART
from voile.workflows.public_example import EXAMPLE, write_example
from voile.workflows.workspace import release_name, workspace_text

ARTEFACT: Final = "artefact"
CLIENTS: Final = "clients"
NOT_FOR_RELEASE: Final = "evaluation-not-for-release"
SERVER: Final = "server"
_EXAMPLES: Final = 3
_CHECKPOINTS: Final = "checkpoints"


@dataclass(frozen=True, eq=False)
class Federated:
    """A finished run."""

    artefact: Artefact
    trained: PrivateExplainer


def federate(
    job: Job,
    *,
    rounds_seen: Progress | None = None,
    steps_seen: Steps | None = None,
    say: Say = lambda _: None,
    at_once: int = 2,
) -> Federated:
    """Run it. A run that was broken off continues where it was, with the same folder. The artefact
    of a complete one is left as it is: whoever asks again gets the explanations that others hold.

    Args:
        job: what to do.
        rounds_seen, steps_seen, say: told how far the work is.
        at_once: how many clients of this process train at the same time.
    """
    if SERVER in job.clients:
        raise InvalidInput(f"no client may be called {SERVER!r}, which is the name of the server")
    check_place(job.folder / ARTEFACT)
    for remark in job.remarks:
        say(remark)
    say("calibrating noise for the whole plan")
    plan = job.plan
    promise = Promise(job.protected, job.epsilon, job.delta)
    with ExitStack() as stack:
        own = {name: stack.enter_context(_client_books(job, name)) for name in sorted(job.clients)}
        server = stack.enter_context(
            open_custody(
                job.folder, server_origin(job.name), signing=None, extra_parts=(ROUNDS_PART,)
            )
        )
        for name, books in own.items():
            open_account(books, name, promise, plan.participation_events)
        rounds = _rounds(job, plan, promise, own, server, rounds_seen, at_once)
        unprotected = Unprotected(job.held_out, "rows listed as unprotected")
        trained = train_private_explainer(plan, rounds, unprotected=unprotected)
        _check_run(trained, promise)
        written = _finished(job.folder / ARTEFACT, trained)
        if written is not None:
            say(f"the run is complete: {written.folder} is left as it is")
            _leave_workspace(written)
            return Federated(written, trained)
        say("distilling a fast explainer from the surrogate and the schema; no data is touched")
        distilled = trained.distilled(StreamCipher(), plan=job.distillation, progress=steps_seen)
        say("measuring on unprotected rows, signing the logs, writing the artefact")
        contents = contents_of(job, trained, distilled.explainer)
        folder = write_artefact(contents, job.folder / ARTEFACT)
        logs = export_logs({SERVER: server, **own}, folder, say)
        settings = {**contents.settings, "logs": logs}
    write_example(job.schema, job.reference[:_EXAMPLES], job.folder / EXAMPLE)
    done = finish(folder, job.name, settings)
    _leave_workspace(done)
    return Federated(done, trained)


def _client_books(job: Job, name: str) -> Any:
    folder = job.folder / CLIENTS / file_stem(name)
    return open_custody(folder, f"{_host(job.name)}/{file_stem(name)}", signing=None)


def server_origin(name: str) -> str:
    """The name of the server's log."""
    return f"{_host(name)}/{SERVER}"


def _host(name: str) -> str:
    """The origin of a log is best a name that nobody else uses."""
    return f"voile.invalid/{file_stem(name)}"


def _rounds(
    job: Job,
    plan: PipelinePlan,
    promise: Promise,
    own: Mapping[str, Custody],
    server: Custody,
    seen: Progress | None,
    at_once: int,
) -> Rounds:
    clients = [
        Client(
            name=name,
            size=len(job.clients[name]),
            records=job.clients[name],
            tasks=plan.tasks,
            guard=ClientBooks(books, name, promise),
            folder=job.folder / CLIENTS,
        )
        for name, books in own.items()
    ]
    shown: dict[str, Any] = {} if seen is None else {"progress": seen}
    return Rounds(
        Threads([Node(client) for client in clients], at_once=at_once),
        plan.facts.sizes,
        log=ServerBooks(server, promise),
        checkpoints=job.folder / _CHECKPOINTS,
        **shown,
    )


def _check_run(trained: PrivateExplainer, promise: Promise) -> None:
    """A federation in which nobody could take part has nothing to show, nor has one whose rounds
    were charged under another plan than the one that would be promised, or to other accounts."""
    planned = {event_as_text(event) for event in trained.plan.participation_events}
    for stage, result in trained.results.items():
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
        if not {row.event for row in result.rows} <= planned:
            raise Refused(f"rounds of {stage!r} were charged under another plan than this one")
        for row in result.rows:
            if row.outcome.counts and row.account != account_name(row.client, promise):
                raise Refused(
                    f"{row.client!r} took part in {stage!r} without a charge to its own account"
                )


def _finished(folder: Path, trained: PrivateExplainer) -> Artefact | None:
    """The artefact of these very networks, if it was written."""
    if not is_artefact(folder):
        return None
    found, box = load_artefact(folder), trained.black_box
    if found.has_model and (
        not isinstance(box, NetworkModel) or found.network.digest != box.digest
    ):
        return None
    same = digest_of(found.surrogate.network) == digest_of(trained.surrogate.network)
    return found if same else None


def _leave_workspace(artefact: Artefact) -> None:
    """A workspace beside the artefact, unless there is one, which somebody may have written in."""
    folder = artefact.folder.parent
    if (folder / WORKSPACE).exists() or not artefact.has_model:
        return
    text = workspace_text(
        ExplanationSpec(model=str(artefact.folder)),
        name=release_name(artefact),
        folder=folder,
        origin=server_origin(artefact.name),
        storage=DATABASE,
    )
    replace_file(folder / WORKSPACE, text.encode())
