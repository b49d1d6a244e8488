"""What is charged somewhere, as rehearsals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from voile.app.artefact import Artefact, is_artefact, load_artefact
from voile.app.assess.charged_records import (
    charged_terms,
    one_row,
    rehearse_terms,
)
from voile.app.explain.assessed import same_price
from voile.app.federate import FederationAgreement, read_agreement
from voile.app.federate.files import FEDERATION_FILE
from voile.app.notebook import Workspace, open_workspace
from voile.app.recommend.artefact import MANIFEST as RECOMMENDER
from voile.app.recommend.artefact import load_recommender
from voile.app.trained_model import FOLDER as TRAINED_MODEL
from voile.app.trained_model import load_trained_model
from voile.app.workspace.file import books_beside
from voile.attacks.attribute_canaries import rehearse_attributes
from voile.attacks.claims import UNCHARGED, charge_beside
from voile.attacks.count_rehearsal import rehearse_count
from voile.attacks.figure_rehearsals import rehearse_own_rows
from voile.attacks.moment_rehearsals import invented_moments
from voile.attacks.rehearsal import Rehearsal
from voile.attacks.release_rehearsals import rehearse_release
from voile.attacks.statistics_rehearsals import invented_statistics
from voile.attacks.training_canaries import CanaryObjective, rehearse_stage
from voile.core.errors import InvalidInput, Refused, VerificationFailed
from voile.core.guarantee import Relation, RowPart
from voile.federation.history import event_as_text
from voile.federation.task import Task
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.shapley_guided_noise.plan import GuidedTask
from voile.pipelines.trusted_averaging.tasks import GlobalModel, LocalTraining
from voile.privacy.events import Gaussian, PoissonSampled, Repeated, from_dict
from voile.records.vault import WORKSPACE, Place
from voile.release.charged import ChargedRelease
from voile.training.private.attributes import AttributeSteps

GUIDED: Final = "shapley-guided noise"
"""The pipeline in which declared columns are protected, each party at a level of its own."""
NO_BOOKS: Final = "what was told about users to others: there are no books beside the recommender"
POPULATION: Final = 1_000
"""Records that a population is taken to have where a noise level is stated and no epsilon."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is assessed.

    Args:
        name: for the record.
        rehearsals: of every stage and release that is charged.
        left_out: what is charged and cannot be rehearsed, and why.
        folder: where findings are written.
        books: whose log is told; None if there is none.
    """

    name: str
    rehearsals: tuple[Rehearsal, ...]
    left_out: tuple[str, ...]
    folder: Path
    books: Place | None


def find_subject(path: Path) -> Subject:
    """An artefact, a trained model, a recommender, a workspace or `federation.toml`."""
    if path.is_dir() and is_artefact(path):
        return _of_artefact(load_artefact(path))
    if TRAINED_MODEL.is_at(path):
        return _of_trained_model(path)
    if (path / RECOMMENDER).is_file():
        return _of_recommender(path)
    if path.name == FEDERATION_FILE or (path / FEDERATION_FILE).is_file():
        return _of_agreement(path if path.is_file() else path / FEDERATION_FILE)
    if path.is_file() or (path / WORKSPACE).is_file():
        return _of_workspace(path)
    raise InvalidInput(
        f"{path}: expected the folder of an artefact, of a trained model or of a recommender, a "
        f"workspace ({WORKSPACE}) or {FEDERATION_FILE}"
    )


def _of_artefact(artefact: Artefact) -> Subject:
    settings, delta = artefact.settings, artefact.settings["promised"]["delta"]
    charged: dict[str, set[str]] = {}
    for row in artefact.history:
        if row.outcome.counts:
            charged.setdefault(row.stage, set()).add(row.event)
    found: list[Rehearsal] = []
    for stage, facts in settings["training"].items():
        task = _recorded_task(stage, facts, Relation(settings["relation"]))
        mine = charged.get(stage, set())
        if settings["pipeline"] == GUIDED:
            found += _recorded_levels(artefact, stage, task, mine)
        elif mine - {event_as_text(task.cost(1))}:
            raise _contradiction(artefact.folder, stage)
        else:
            found.append(rehearse_stage(stage, task, delta=delta))
    found += _count(settings.get("members_count"), Relation(settings["relation"]), delta)
    books = books_beside(artefact.folder.absolute().parent)
    return Subject(artefact.name, tuple(found), (), artefact.folder, books)


def _recorded_levels(
    artefact: Artefact, stage: str, task: NetworkTask, charged: set[str]
) -> list[Rehearsal]:
    """Each party was charged at the level that it declared; otherwise all were trained alike."""
    found, delta = [], artefact.settings["promised"]["delta"]
    for text in sorted(charged):
        event = from_dict(json.loads(text))
        match event:
            case Repeated(PoissonSampled(Gaussian(noise))):
                steps = replace(task, noise_multiplier=noise).steps(1)
            case _:
                steps = None
        if steps is None or event_as_text(steps.event()) != text:
            raise _contradiction(artefact.folder, stage)
        name = f"{stage}, noise {noise:.3g}" if len(charged) > 1 else stage
        privacy = AttributeSteps(difference=steps)
        found.append(rehearse_attributes(name, privacy, event, delta=delta))
    return found


def _contradiction(where: Path, stage: str) -> VerificationFailed:
    return VerificationFailed(
        f"{where}: {stage!r} was charged under other terms than its settings say"
    )


def _recorded_task(stage: str, facts: dict[str, Any], relation: Relation) -> NetworkTask:
    """A stage as an artefact records it; what it learned does not matter."""
    try:
        rate, steps = float(facts["sampling_rate"]), int(facts["steps_of_a_participation"])
        training = Training(
            hidden=tuple(facts["hidden"]),
            clipping_norm=float(facts["clipping_norm"]),
            sampling_rate=rate,
            epochs=rate * steps,
        )
        noise = float(facts["noise_multiplier"])
        return NetworkTask(CanaryObjective(1, 1), training, noise, relation)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(
            f"the artefact does not say how {stage!r} was trained in a way that can be rehearsed; "
            f"assess the {FEDERATION_FILE} that it was made from"
        ) from error


def _of_agreement(path: Path) -> Subject:
    agreement: FederationAgreement = read_agreement(path)
    found, left_out = [], []
    for stage in agreement.plan.stages:
        levels = (stage.task, *stage.personal.values())
        tasks = {event_as_text(task.cost(1)): task for task in levels}
        for task in tasks.values():
            rehearsals = _of_task(stage.name, task, agreement.delta)
            found += rehearsals
            if not rehearsals:
                left_out.append(f"{stage.name}: {type(task).__name__} has no rehearsal")
    relation = agreement.protected.relation
    found += _count(agreement.members_count, relation, agreement.delta)
    folder = path.absolute().parent
    return Subject(agreement.name, tuple(found), tuple(left_out), folder, None)


def _count(epsilon: float | None, relation: Relation, delta: float) -> list[Rehearsal]:
    """The count of members that every party may release, where one was agreed on."""
    return [] if epsilon is None else [rehearse_count(epsilon, relation, delta=delta)]


def _of_task(stage: str, task: Task, delta: float) -> list[Rehearsal]:
    """Of all parts of a task, each against its part of what a participation is charged."""
    charged = task.cost(1) or UNCHARGED
    if isinstance(task, GuidedTask):
        name = f"{stage}, noise {task.noise_multiplier:.3g}"
        return [rehearse_attributes(name, task.steps(1), charged, delta=delta)]
    inner: object = task.local if isinstance(task, GlobalModel) else task
    if isinstance(inner, NetworkTask):
        return [rehearse_stage(stage, inner, charged, delta=delta)]
    if not isinstance(inner, LocalTraining):
        return []
    training = inner.network.cost(1)
    if inner.own_rows is None or training is None:
        return [rehearse_stage(stage, inner.network, charged, delta=delta)]
    for_training = charge_beside(charged, training, inner.own_rows.event)
    name = f"{stage}, importance and accuracy"
    return [
        rehearse_stage(stage, inner.network, for_training, delta=delta),
        rehearse_own_rows(name, inner, charged, delta=delta),
    ]


def _of_recommender(folder: Path) -> Subject:
    moments = load_recommender(folder).moments
    spent = invented_moments(moments.budget, delta=moments.guarantee.delta)
    found = [rehearse_release(each.name, each) for each in spent]
    return _beside_books(moments.guarantee.protected.dataset, found, folder, NO_BOOKS)


def _of_trained_model(folder: Path) -> Subject:
    """Its three releases, as they were charged."""
    trained = load_trained_model(folder)
    budget, promised = trained.budget, trained.guarantee
    spent = invented_statistics(budget.relation, budget.rho, delta=promised.delta)
    pairs = zip(spent, trained.events, strict=True)
    found = [rehearse_release(each.name, each, event) for each, event in pairs]
    return _beside_books(promised.protected.dataset, found, folder)


def _beside_books(
    name: str, found: Sequence[Rehearsal], folder: Path, *without_books: str
) -> Subject:
    """With what else stands on record, where there are books beside the folder."""
    beside = folder.absolute().parent
    books = books_beside(beside) or _usual_books(beside)
    more, left_out = ([], list(without_books)) if books is None else _on_record(books, found)
    return Subject(name, (*found, *more), tuple(left_out), folder, books)


def _on_record(books: Place, known: Sequence[Rehearsal]) -> tuple[list[Rehearsal], list[str]]:
    """What was charged besides, and what of it cannot be rehearsed."""
    terms, unread = charged_terms(books)
    found, left_out = [], [f"{what}, on record: its event is not" for what in unread]
    claims = [one_row(each.event) for each in known]
    named = {(each.name, claim) for each, claim in zip(known, claims, strict=True)}
    for each in terms:
        if (each.what, each.event) in named:
            continue
        rehearsal = rehearse_terms(each)
        if rehearsal is not None:
            found.append(rehearsal)
        elif not any(same_price(each.event, claim) for claim in claims):
            left_out.append(f"{each.what}, on record: charged on other terms than are rehearsed")
    return found, list(dict.fromkeys(left_out))


def _of_workspace(path: Path) -> Subject:
    found, left_out = [], []
    with open_workspace(path) as workspace:
        for name in workspace.releases:
            release = _charged(workspace, name)
            if release is None:
                continue
            try:
                found.append(rehearse_release(name, release))
            except Refused as refused:
                left_out.append(f"{name}: {refused}")
        file = workspace.file
    more, besides = _on_record(file.place, found)
    left_out += besides
    return Subject(file.folder.name, (*found, *more), tuple(left_out), file.folder, file.place)


def _charged(workspace: Workspace, name: str) -> ChargedRelease | None:
    """A release by name; None if it costs nothing."""
    if workspace.file.spec(name).protect is RowPart.TRAINING:
        return None
    release = workspace.release(name, POPULATION)
    assert isinstance(release, ChargedRelease)
    return release


def _usual_books(folder: Path) -> Place | None:
    usual = Place.within(folder)
    return usual if Path(usual.database).is_file() else None


def events_of(subject: Subject) -> bytes:
    """All events in one text, for a digest."""
    listed = [(each.name, event_as_text(each.event)) for each in subject.rehearsals]
    return json.dumps(sorted(listed)).encode()
