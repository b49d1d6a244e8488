"""What is charged somewhere, as trials."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.app.artefact import Artefact, is_artefact, load_artefact
from voile.app.artefact_manifest import RECOMMENDER
from voile.app.explain_rows import same_price
from voile.app.federate import FederationAgreement, read_agreement
from voile.app.federate.files import FEDERATION_FILE
from voile.app.notebook import Workspace, open_workspace
from voile.app.trained_folder import FOLDER as TRAINED_MODEL
from voile.app.trained_model import TrainedModel, load_trained_model
from voile.app.trained_network import TrainedNetwork
from voile.app.trained_recommender import load_recommender
from voile.app.workspace.file import books_beside
from voile.assess.assessment import AuditTrial
from voile.assess.claims import UNCHARGED, charge_beside
from voile.assess.explanation_trials import importance_sum_trial
from voile.assess.figure_trials import (
    count_trial,
    invented_rate,
    own_rows_trial,
)
from voile.assess.network_trials import invented_scores
from voile.assess.release_trials import release_trial
from voile.assess.shared_sums import honest_of
from voile.assess.statistics_trials import invented_share, sum_trial
from voile.assess.training_canaries import CanaryObjective, attribute_trial, stage_trial
from voile.assess.user_trials import invented_labels, invented_moments, moments_sum_trial
from voile.core.errors import InvalidInput, Refused, VerificationFailed
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.federation.history import event_as_text
from voile.federation.task import Task
from voile.pipelines.importance import ReleaseImportance
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.shapley_guided_noise.plan import GuidedTask
from voile.pipelines.shared_importance import ShareImportance
from voile.pipelines.statistics import StatisticsTask
from voile.pipelines.trusted_averaging.tasks import GlobalModel, LocalTraining
from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.events import (
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
    from_dict,
)
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.recommenders import LabelImportance, NoisyProfileOfUser, TopLabelsOfUser
from voile.recommenders.federated import ReleasePopularity
from voile.recommenders.kinds import HistoryNetwork
from voile.recommenders.shared_moments import SharePopularity
from voile.records.audit_log import ReleaseRecord, decode_record
from voile.records.ledger.event_text import event_from
from voile.records.storage import Reader
from voile.records.vault import WORKSPACE, Place, Vault, open_vault_at
from voile.release import PUBLIC, NoisyValues, PrivateClusters, PrivateHistograms
from voile.release.charged import ChargedRelease
from voile.training.private.attributes import AttributeSteps

# --- What stands on record as charged, as trials: releases that no file names --------------------
# A record names the kind of a release in words, what was charged, and how neighbours differ. That
# is enough to build such a release on invented records. Schemas, labels and models do not stand
# there, and an event does not depend on them.


_AT_A_TIME: Final = 1000
_DELTA: Final = 1e-6
_LABELS: Final = 4
_SCHEMA: Final = Schema(
    "invented",
    (
        Feature("first", Numbers(0.0, 1.0)),
        Feature("second", Numbers(0, 9, whole=True)),
        Feature("third", Categories(("a", "b", "c"))),
    ),
)


@dataclass(frozen=True)
class ChargedTerms:
    """What records of one kind have in common: those that say the same are one claim.

    Args:
        what: how the record names the kind; without model and number.
        event: of one row.
        unit, relation: how neighbours differ.
        choice: of names, how many out of how many.
    """

    what: str
    event: PrivacyEvent
    unit: str
    relation: str
    choice: tuple[int, int] | None = None

    @property
    def protected(self) -> Protected:
        unit = ProtectedUnit(self.unit)
        columns = ("private",) if unit is ProtectedUnit.COLUMNS else ()
        return Protected(unit, Relation(self.relation), "invented", columns)

    @property
    def price(self) -> dict[str, Any]:
        """Of a release that costs the event."""
        match self.event:
            case Gaussian(multiplier):
                return {"epsilon": gaussian_epsilon(multiplier, _DELTA), "delta": _DELTA}
            case Zcdp(rho):
                return {"epsilon": zcdp_to_epsilon(rho, _DELTA), "delta": _DELTA}
            case Laplace(multiplier):
                return {"epsilon": 1 / multiplier, "delta": 0.0}
            case PureDp(epsilon):
                return {"epsilon": epsilon}
        raise InvalidInput(f"{self.event} is not the price of a release that is known here")


def charged_terms(books: Place) -> tuple[tuple[ChargedTerms, ...], tuple[str, ...]]:
    """What was charged as a release, each claim once; and subjects whose event is not on record."""
    found: dict[ChargedTerms, None] = {}
    unread: dict[str, None] = {}
    with open_vault_at(books, signing=None) as vault:
        for record in _releases(vault):
            if record.event is None or record.event.startswith("sha256:"):
                unread[_kind(record.subject)] = None
            else:
                found[_terms(record, record.event)] = None
    return tuple(found), tuple(unread)


def _releases(vault: Vault) -> Iterator[ReleaseRecord]:
    first, page = 0, True
    while page:

        def read(t: Reader, first: int = first) -> Sequence[bytes]:
            return vault.log.records(t, first=first, limit=_AT_A_TIME)

        contents = vault.storage.read_snapshot(read)
        decoded = map(decode_record, contents)
        yield from (each for each in decoded if isinstance(each, ReleaseRecord))
        first, page = first + len(contents), bool(contents)


def _terms(record: ReleaseRecord, event: str) -> ChargedTerms:
    said = re.match(r"subset selection of (\d+) out of (\d+)", record.mechanism)
    choice = (int(said[1]), int(said[2])) if said else None
    return ChargedTerms(
        _kind(record.subject), one_row(event_from(event)), record.unit, record.relation, choice
    )


def _kind(subject: str) -> str:
    return re.sub(r" of \d+ rows|at most \d+ ", "", subject.partition(", model ")[0]).strip()


def one_row(event: PrivacyEvent) -> PrivacyEvent:
    """Of one explained row, or one part: what a claim is about."""
    match event:
        case Repeated(inner) if isinstance(inner, Gaussian):
            return inner
        case Parallel(events):
            return one_row(events[0])
    return event


def terms_trial(terms: ChargedTerms) -> AuditTrial | None:
    """None for kinds that a record does not tell enough about."""
    build = next((made for words, made in _KINDS.items() if re.match(words, terms.what)), None)
    if build is None:
        return None
    try:
        release = build(terms)
    except (InvalidInput, ValueError):
        return None
    return release_trial(f"{terms.what} (on record)", release, terms.event)


# --- kinds ----------------------------------------------------------------------------------------


def _synthetic(terms: ChargedTerms) -> ChargedRelease:
    return PrivateHistograms(
        _SCHEMA.null_row[np.newaxis], _SCHEMA, protected=terms.protected, size=50, **terms.price
    )


def _clusters(terms: ChargedTerms) -> ChargedRelease:
    return PrivateClusters(
        _SCHEMA.null_row[np.newaxis], _SCHEMA, protected=terms.protected, count=2, **terms.price
    )


def _rate(terms: ChargedTerms) -> ChargedRelease:
    if not isinstance(terms.event, Gaussian):
        raise InvalidInput(f"{terms.event} is not the price of a rate")
    return invented_rate(
        terms.protected, noise_multiplier=terms.event.noise_multiplier, delta=_DELTA
    )


def _statistics(terms: ChargedTerms) -> ChargedRelease:
    if not isinstance(terms.event, Zcdp):
        raise InvalidInput(f"{terms.event} is not the price of private statistics")
    return invented_share(terms.what, terms.protected.relation, terms.event.rho, delta=_DELTA)


def _declared(terms: ChargedTerms) -> ChargedRelease:
    protected = terms.protected
    norm = Norm.L1 if isinstance(terms.event, Laplace) else Norm.L2
    declared = Sensitivity(value=1.0, norm=norm, unit=protected.unit, relation=protected.relation)
    return NoisyValues(
        declared,
        protected=protected,
        feature_names=("value",),
        name="invented",
        model="invented",
        **terms.price,
    )


def _about_users(kind: Any, **more: Any) -> Callable[[ChargedTerms], ChargedRelease]:
    def build(terms: ChargedTerms) -> ChargedRelease:
        chosen = terms.choice or (1, _LABELS)
        named = {"k": chosen[0]} if kind is TopLabelsOfUser else {}
        made: ChargedRelease = kind(
            invented_labels(chosen[1]),
            protected=terms.protected,
            origins=[PUBLIC],
            model="invented",
            **terms.price,
            **named,
            **more,
        )
        return made

    return build


_KINDS: Final[Mapping[str, Callable[[ChargedTerms], ChargedRelease]]] = {
    "synthetic background": _synthetic,
    "clusters of features": _clusters,
    "contribution rate": _rate,
    "(fine tables|centred moments|calibration table)$": _statistics,
    "importance of .* of the history$": _about_users(LabelImportance, users=2),
    "noisy .* of the history$": _about_users(NoisyProfileOfUser),
    "top .* of the history$": _about_users(TopLabelsOfUser),
    "noisy ": _declared,
}
"""How a subject on record begins, and what is built from its terms; of two that fit, the first."""


# --------------------------------------------------------------------------------------------------


GUIDED: Final = "shapley-guided noise"
"""The pipeline in which declared columns are protected, each party at a level of its own."""
NETWORK_OF_USERS: Final = "training of the network: users in its steps are not audited"
NO_BOOKS: Final = "what was told about users to others: there are no books beside the recommender"
POPULATION: Final = 1_000
"""Records that a population is taken to have where a noise level is stated and no epsilon."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is assessed.

    Args:
        name: for the record.
        trials: of every stage and release that is charged.
        left_out: what is charged and cannot be audited, and why.
        folder: where findings are written.
        books: whose log is told; None if there is none.
    """

    name: str
    trials: tuple[AuditTrial, ...]
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
    found: list[AuditTrial] = []
    for stage, facts in settings["training"].items():
        task = _recorded_task(stage, facts, Relation(settings["relation"]))
        mine = charged.get(stage, set())
        if settings["pipeline"] == GUIDED:
            found += _recorded_levels(artefact, stage, task, mine)
        elif mine - {event_as_text(task.cost(1))}:
            raise _contradiction(artefact.folder, stage)
        else:
            found.append(stage_trial(stage, task, delta=delta))
    found += _count(settings.get("members_count"), Relation(settings["relation"]), delta)
    books = books_beside(artefact.folder.absolute().parent)
    return Subject(artefact.name, tuple(found), (), artefact.folder, books)


def _recorded_levels(
    artefact: Artefact, stage: str, task: NetworkTask, charged: set[str]
) -> list[AuditTrial]:
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
        found.append(attribute_trial(name, privacy, event, delta=delta))
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
            f"the artefact does not say how {stage!r} was trained in a way that can be audited; "
            f"assess the {FEDERATION_FILE} that it was made from"
        ) from error


def _of_agreement(path: Path) -> Subject:
    agreement: FederationAgreement = read_agreement(path)
    found, left_out = [], []
    for stage in agreement.plan.stages:
        levels = (stage.task, *stage.personal.values())
        tasks = {event_as_text(task.cost(1)): task for task in levels}
        for task in tasks.values():
            trials = _of_task(stage.name, task, agreement.delta)
            found += trials
            if not trials:
                left_out.append(f"{stage.name}: {type(task).__name__} has no trial")
    relation = agreement.protected.relation
    found += _count(agreement.members_count, relation, agreement.delta)
    folder = path.absolute().parent
    return Subject(agreement.name, tuple(found), tuple(left_out), folder, None)


def _count(epsilon: float | None, relation: Relation, delta: float) -> list[AuditTrial]:
    """The count of members that every party may release, where one was agreed on."""
    return [] if epsilon is None else [count_trial(epsilon, relation, delta=delta)]


def _of_task(stage: str, task: Task, delta: float) -> list[AuditTrial]:
    """Of all parts of a task, each against its part of what a participation is charged."""
    charged = task.cost(1) or UNCHARGED
    if isinstance(task, GuidedTask):
        name = f"{stage}, noise {task.noise_multiplier:.3g}"
        return [attribute_trial(name, task.steps(1), charged, delta=delta)]
    if isinstance(task, StatisticsTask):
        return [sum_trial(task, charged, delta=delta)]
    if isinstance(task, ReleaseImportance):
        return [release_trial(stage, task.release, charged)]
    if isinstance(task, ShareImportance):
        honest = honest_of(task.facts.protocol, len(task.facts.sizes), task.shares)
        name = f"{stage}, a sum"
        return [importance_sum_trial(name, task, charged, honest=honest, delta=delta)]
    if isinstance(task, ReleasePopularity | SharePopularity):
        return [_moments_trial(stage, task, charged, delta)]
    inner: object = task.local if isinstance(task, GlobalModel) else task
    if isinstance(inner, NetworkTask):
        return [stage_trial(stage, inner, charged, delta=delta)]
    if not isinstance(inner, LocalTraining):
        return []
    training = inner.network.cost(1)
    if inner.own_rows is None or training is None:
        return [stage_trial(stage, inner.network, charged, delta=delta)]
    for_training = charge_beside(charged, training, inner.own_rows.event)
    name = f"{stage}, importance and accuracy"
    return [
        stage_trial(stage, inner.network, for_training, delta=delta),
        own_rows_trial(name, inner, charged, delta=delta),
    ]


def _moments_trial(
    stage: str, task: ReleasePopularity | SharePopularity, charged: PrivacyEvent, delta: float
) -> AuditTrial:
    plan, place = task.plan, [*task.plan.tasks].index(stage)
    if isinstance(task, ReleasePopularity):
        return release_trial(stage, invented_moments(plan.budget, delta=delta)[place], charged)
    honest = honest_of(plan.protocol, len(plan.sizes), plan.budget.shares)
    name = f"{stage}, a sum"
    return moments_sum_trial(name, plan.budget, place, charged, honest=honest, delta=delta)


def _of_recommender(folder: Path) -> Subject:
    moments = load_recommender(folder).moments
    is_network, budget = isinstance(moments, HistoryNetwork), moments.budget
    delta = moments.guarantee.delta
    spent = invented_moments(budget, delta=delta)[: 1 if is_network else None]
    found = [release_trial(each.name, each) for each in spent]
    if budget.shares > 1:  # as many honest shops are in every sum as were promised
        found = [
            moments_sum_trial(each.name, budget, place, event, honest=budget.shares, delta=delta)
            for place, (each, event) in enumerate(zip(spent, budget.events, strict=True))
        ]
    name, left_out = moments.guarantee.protected.dataset, [NETWORK_OF_USERS] * is_network
    return _beside_books(name, found, folder, left_out, without_books=[NO_BOOKS])


def _of_trained_model(folder: Path) -> Subject:
    """Its releases, as they were charged."""
    trained = load_trained_model(folder)
    found = _statistics_trials(trained) if isinstance(trained, TrainedModel) else []
    if isinstance(trained, TrainedNetwork):
        found = _network_trials(trained)
    return _beside_books(trained.guarantee.protected.dataset, found, folder)


def _statistics_trials(trained: TrainedModel) -> list[AuditTrial]:
    budget, delta = trained.budget, trained.guarantee.delta
    found = []
    for (name, rho), event in zip(budget.rhos.items(), trained.events, strict=True):
        release = invented_share(name, budget.relation, rho, delta=delta)
        found.append(release_trial(name, release, event))
    return found


def _network_trials(trained: TrainedNetwork) -> list[AuditTrial]:
    """All steps, as one participation, and the table of scores."""
    plan, delta = trained.plan, trained.guarantee.delta
    relation, (steps, *table) = plan.protected.relation, trained.events
    training = replace(plan.training, epochs=float(plan.steps))
    task = NetworkTask(CanaryObjective(1, 1), training, plan.noise_multiplier, relation)
    found = [stage_trial(trained.releases[0], task, steps, delta=delta)]
    for event in table:
        scores = invented_scores(relation, plan.score_rho, delta=delta)
        found.append(release_trial(trained.releases[1], scores, event))
    return found


def _beside_books(
    name: str,
    found: Sequence[AuditTrial],
    folder: Path,
    left_out: Sequence[str] = (),
    *,
    without_books: Sequence[str] = (),
) -> Subject:
    """With what else stands on record, where there are books beside the folder."""
    beside = folder.absolute().parent
    books = books_beside(beside) or _usual_books(beside)
    more, others = ([], without_books) if books is None else _on_record(books, found)
    return Subject(name, (*found, *more), (*left_out, *others), folder, books)


def _on_record(books: Place, known: Sequence[AuditTrial]) -> tuple[list[AuditTrial], list[str]]:
    """What was charged besides, and what of it cannot be audited."""
    terms, unread = charged_terms(books)
    found, left_out = [], [f"{what}, on record: its event is not" for what in unread]
    claims = [one_row(each.event) for each in known]
    named = {(each.name, claim) for each, claim in zip(known, claims, strict=True)}
    for each in terms:
        if (each.what, each.event) in named:
            continue
        trial = terms_trial(each)
        if trial is not None:
            found.append(trial)
        elif not any(same_price(each.event, claim) for claim in claims):
            left_out.append(f"{each.what}, on record: charged on other terms than are audited")
    return found, list(dict.fromkeys(left_out))


def _of_workspace(path: Path) -> Subject:
    found, left_out = [], []
    with open_workspace(path) as workspace:
        for name in workspace.releases:
            release = _charged(workspace, name)
            if release is None:
                continue
            try:
                found.append(release_trial(name, release))
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
    listed = [(each.name, event_as_text(each.event)) for each in subject.trials]
    return json.dumps(sorted(listed)).encode()
