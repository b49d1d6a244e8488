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

import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.attribution.fastshap import EXPLAINER_PLAN, exact_values
from voile.audit_log.publishing import export_log
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected
from voile.core.randomness import StreamCipher
from voile.core.schema import Rows, Schema
from voile.evaluation import cosine_similarity
from voile.federation import (
    Client,
    Node,
    Outcome,
    Progress,
    Rounds,
    Threads,
    Unprotected,
    charged,
)
from voile.federation.files import file_stem
from voile.federation.history import event_as_text
from voile.models import digest_of
from voile.pipelines.objectives import BLACK_BOX, SURROGATE
from voile.pipelines.private_explainer import PrivateExplainer, train_private_explainer
from voile.pipelines.private_explainer.plan import Facts, PipelinePlan, split_total
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.privacy.accounting import PrivacyLoss
from voile.training import Progress as Steps
from voile.training import TrainingPlan
from voile.workflows.artefact import (
    Artefact,
    Contents,
    check_place,
    finish,
    is_artefact,
    load_artefact,
    write_artefact,
)
from voile.workflows.artefact_manifest import log_place
from voile.workflows.custody import DATABASE, POLICY, Custody, open_custody
from voile.workflows.explain import ExplanationSpec
from voile.workflows.federate.books import (
    ClientBooks,
    Promise,
    ServerBooks,
    account_name,
    open_account,
)
from voile.workflows.federate.rounds import PART as ROUNDS_PART
from voile.workflows.public_example import EXAMPLE, write_example
from voile.workflows.workspace import FILE as WORKSPACE
from voile.workflows.workspace import release_name, workspace_text

ARTEFACT: Final = "artefact"
CLIENTS: Final = "clients"
NOT_FOR_RELEASE: Final = "evaluation-not-for-release"
SERVER: Final = "server"
_EXAMPLES: Final = 3
_EXPLAINED: Final = 200
_CHECKPOINTS: Final = "checkpoints"

Say = Callable[[str], None]
"""Told in words what is being done."""


@dataclass(frozen=True, eq=False)
class Job:
    """Everything a federation needs.

    Args:
        protected: what is promised for each client: a row of this version of the data, whose label
            is the federation's name too.
        schema: public.
        clients: the rows of each, by name.
        held_out: rows listed as unprotected; figures are measured on them.
        reference: public rows that interventional explanations are compared with.
        epsilon, delta: of that promise.
        rounds, participations: see `Facts`.
        hidden: widths of hidden layers; the default of each stage if None.
        distillation: how the fast explainer is trained; it touches no data.
        remarks: what is odd about unprotected rows, said before anything is charged.
        folder: of the run.
    """

    protected: Protected
    schema: Schema
    clients: Mapping[str, TableRecords]
    held_out: TableRecords
    reference: Rows
    epsilon: float
    delta: float
    folder: Path
    rounds: int = 10
    participations: int | None = None
    hidden: tuple[int, ...] | None = None
    distillation: TrainingPlan = EXPLAINER_PLAN
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.protected.dataset

    @property
    def plan(self) -> PipelinePlan:
        """What all parties agree on, from public facts."""
        sizes = {name: len(records) for name, records in self.clients.items()}
        each = None
        if self.participations is not None and self.participations < self.rounds:
            each = max(1, len(sizes) * self.participations // self.rounds)
        facts = Facts(
            schema=self.schema,
            sizes=sizes,
            protected=self.protected,
            rounds=self.rounds,
            clients_per_round=each,
            participations=self.participations,
        )
        plan = split_total(facts, epsilon=self.epsilon, delta=self.delta)
        if self.hidden is None:
            return plan
        wide = {name: replace(each, hidden=self.hidden) for name, each in plan.training.items()}
        return replace(plan, training=wide)


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
        contents = _contents(job, trained, distilled.explainer)
        folder = write_artefact(contents, job.folder / ARTEFACT)
        logs = _export_logs({SERVER: server, **own}, folder, say)
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


# --- what goes into the artefact ------------------------------------------------------------------


def _contents(job: Job, trained: PrivateExplainer, explainer: Any) -> Contents:
    plan, box = trained.plan, trained.black_box
    guarantees, notes = trained.promise(BLACK_BOX, SURROGATE)
    return Contents(
        name=job.name,
        schema=job.schema,
        reference=job.reference,
        black_box=box if isinstance(box, NetworkModel) else None,
        surrogate=trained.surrogate,
        explainer=explainer,
        guarantees=guarantees,
        statement=_statement(trained, notes),
        figures=_figures(job, trained, explainer),
        settings={
            "clients": {name: len(records) for name, records in job.clients.items()},
            "promised": {"epsilon": job.epsilon, "delta": job.delta},
            "relation": job.protected.relation.value,
            "rounds": plan.facts.rounds,
            "participations": plan.facts.participations,
            "training": {
                name: {
                    "hidden": list(each.hidden),
                    "clipping_norm": str(each.clipping_norm),
                    "sampling_rate": each.sampling_rate,
                    "steps_of_a_participation": each.steps,
                    "noise_multiplier": plan.noise.get(name),
                }
                for name, each in plan.training.items()
                if name in plan.noise
            },
        },
        history=tuple(row for result in trained.results.values() for row in result.rows),
    )


def _statement(trained: PrivateExplainer, notes: tuple[str, ...]) -> dict[str, Any]:
    figures = trained.plan.figures
    rows = [row for result in trained.results.values() for row in result.rows]
    delta = figures.published.delta
    spent = charged(rows)
    reading = {event: PrivacyLoss().compose(event).epsilon(delta) for event in set(spent.values())}
    return {
        "readings": {
            "joint": vars(figures.joint),
            "published_sum": vars(figures.published),
            "stages": {name: vars(alone) for name, alone in figures.stages.items()},
        },
        "spent_by_client": {
            client: {"epsilon": reading[event], "delta": delta} for client, event in spent.items()
        },
        "not_covered": [
            "what the shape of the model, the schema, the sizes and the schedule reveal: they are "
            "public",
            "rows that are explained: whoever asks knows them",
            "rows listed as held out, and reference rows, which are public",
            "whether a client took part in a round",
            *notes,
        ],
    }


def _figures(job: Job, trained: PrivateExplainer, explainer: Any) -> dict[str, Any]:
    """Exact figures; all rows behind them are listed as unprotected."""
    rows = job.held_out.readable().rows[:_EXPLAINED]
    exact, quick = exact_values(trained.surrogate, rows), explainer(rows)
    agreement = float(np.mean(cosine_similarity(quick.values[..., -1], exact.values[..., -1])))
    return {
        "measured_on": f"{len(job.held_out)} rows listed as unprotected",
        "rounds": {
            stage: {
                name: [figures[name] for figures in result.figures if name in figures]
                for name in sorted({name for figures in result.figures for name in figures})
            }
            for stage, result in trained.results.items()
        },
        "distilled_explainer": {
            "cosine_to_exact_values_of_the_surrogate": agreement,
            "rows": len(rows),
        },
    }


def _export_logs(books: Mapping[str, Custody], folder: Path, say: Say) -> dict[str, str]:
    """Sign and export all logs; where each lies, relative to the artefact."""
    placed = {}
    for party, each in books.items():
        missing = each.publish().missing
        if missing:
            say(
                f"the log of {party} lacks {missing} cosignature(s) that its policy asks for; the "
                "same command asks its witnesses again"
            )
        target = folder / log_place(party)
        target.parent.mkdir(exist_ok=True)
        if target.exists():  # of a run that is continued: its log has grown
            shutil.rmtree(target)
        export_log(each.storage, each.log, target)
        replace_file(target / POLICY, str(each.policy).encode())
        placed[party] = log_place(party)
    return placed


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


def outcomes(artefact: Artefact) -> dict[str, list[dict[str, bool]]]:
    """For each stage its rounds; for each round who was asked, and whether the answer counted."""
    found: dict[str, list[dict[str, bool]]] = {}
    for row in artefact.history:
        rounds = found.setdefault(row.stage, [])
        while len(rounds) < row.round:
            rounds.append({})
        if row.outcome is not Outcome.DUPLICATE:
            rounds[row.round - 1][row.client] = row.outcome.counts
    return found
