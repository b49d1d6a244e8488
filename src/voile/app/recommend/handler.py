"""Training a recommender and asking it, from the command to what leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from voile.app.calls import Context
from voile.app.commands.fields import RecordFiles
from voile.app.commands.recommend import ExplainRecommendation, Recommend, TrainRecommender
from voile.app.explain.assessed import assessed_claims
from voile.app.explain.in_turn import charged_since, records_so_far
from voile.app.explain.outputs import Outputs
from voile.app.explain_rows import ExplainResult, PreviewResult
from voile.app.output_check import check_outputs, files_of
from voile.app.recommend.artefact import (
    TrainedRecommender,
    check_not_inside,
    check_place,
    load_recommender,
    save_recommender,
)
from voile.app.recommend.asking import answer, build, preview
from voile.app.recommend.page import write_page
from voile.app.recommend.specification import SCORES, RecommendationSpec, Toward
from voile.app.recommend.training import (
    TrainingTerms,
    preview_training,
    train,
)
from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee
from voile.federation.history import event_as_text
from voile.privacy.events import PrivacyEvent
from voile.recommenders import read_catalogue, read_interactions
from voile.records.checkpoints import Kept
from voile.records.vault import Place, check_named, usual_place


@dataclass(frozen=True)
class TrainedResult:
    """A recommender that was paid for.

    Args:
        new: charges that were made by this call; others were paid before.
        kept: the checkpoint over its records; None where a schedule signs it.
    """

    folder: Path
    users: int
    items: int
    head: int
    charges: tuple[str, ...]
    new: tuple[str, ...]
    guarantee: Guarantee
    kept: Kept | None


@dataclass(frozen=True)
class RecommendationResult(ExplainResult):
    """An answer of a recommender.

    Args:
        to_herself: it is for the user alone.
    """

    to_herself: bool = False


def train_recommender(command: TrainRecommender, context: Context) -> TrainedResult | PreviewResult:
    """Check, then charge two releases, and write what was learned."""
    check_place(command.folder)
    catalogue = read_catalogue(command.catalogue, name=command.catalogue.stem)
    found = read_interactions(command.interactions, catalogue)
    terms = TrainingTerms(
        account=command.account,
        epsilon=command.epsilon,
        delta=command.delta,
        caller=command.caller,
        fresh=command.fresh,
    )
    with context.records(_place(command)) as service:
        if command.preview:
            return PreviewResult(preview_training(service, found, terms), len(found), "users")
        before = records_so_far(service)
        with context.charging(service.vault, lambda: ()):
            learned = train(service, found, terms, progress=context.steps)
            trained = save_recommender(learned, command.folder)
            kept = context.sign(service.vault)
        new = charged_since(service, trained.charges, before)
    return TrainedResult(
        command.folder,
        len(found),
        len(found.catalogue),
        len(trained.moments.head),
        tuple(trained.charges),
        tuple(new),
        trained.guarantee,
        kept,
    )


def recommend(command: Recommend, context: Context) -> RecommendationResult:
    """Recommend to the user herself: free, on record."""
    spec = RecommendationSpec(
        caller=command.caller, user=command.user, by=SCORES, count=command.count
    )
    result = _answer(command, spec, context)
    assert isinstance(result, RecommendationResult)
    return result


def explain_recommendation(
    command: ExplainRecommendation, context: Context
) -> RecommendationResult | PreviewResult:
    """Say why, to the user herself or to others."""
    spec = RecommendationSpec(
        caller=command.caller,
        user=command.user,
        toward=command.to,  # type: ignore[arg-type]
        by=command.by_what,
        count=command.count,
        top=command.top,
        account=command.account,
        epsilon=command.epsilon,
        delta=command.delta,
        level=command.level,  # type: ignore[arg-type]
        fresh=command.fresh,
    )
    page = command.page
    if page is not None and (spec.toward is Toward.OTHERS or page.suffix != ".html"):
        raise InvalidInput("--page writes an .html file for the user herself, and for nobody else")
    return _answer(command, spec, context, preview_only=command.preview, page=page)


def _answer(
    command: Recommend | ExplainRecommendation,
    spec: RecommendationSpec,
    context: Context,
    *,
    preview_only: bool = False,
    page: Path | None = None,
) -> RecommendationResult | PreviewResult:
    """Check, compute, charge and record; then write."""
    to_herself = spec.toward is Toward.HERSELF
    outputs = Outputs(command.save_as, command.receipt, private=to_herself)
    pages = [] if page is None else [page]
    place = _place(command)
    _check_files(command, place, outputs, pages)
    files = [*outputs.files, *pages]
    if not preview_only:
        context.check_overwriting(files, allowed=command.overwrite)
    trained = load_recommender(command.model)
    found = read_interactions(command.interactions, trained.catalogue)
    with context.records(place) as service:
        vault = service.vault
        outputs.check_signing(vault.keeper)
        if preview_only:
            users = len(found) if spec.user is None else 1
            return PreviewResult(preview(service, trained, found, spec), users, "users")
        event = build(service, trained, found, spec).cost(1)
        assessed = assessed_claims(vault, command.model, _events(trained, event))
        with context.charging(vault, lambda: files):
            explained = answer(service, trained, found, spec)
            explained = replace(explained, assessed=assessed)
            kept = context.sign(vault)
            written = outputs.write(service, explained)
            if page is not None:
                shown = str(write_page(explained.explanation, page))
                written = replace(written, files={**written.files, "page": [shown]})
    return RecommendationResult(explained, written, kept, place.policy, spec.top, to_herself)


def _events(trained: TrainedRecommender, charged: PrivacyEvent | None) -> set[str]:
    """What is charged for an answer or, where it is free, for the training behind it."""
    if charged is not None:
        return {event_as_text(charged)}
    return {event_as_text(noise.event()) for noise in trained.moments.budget.noises}


def _check_files(
    command: Recommend | ExplainRecommendation,
    place: Place,
    outputs: Outputs,
    pages: Sequence[Path],
) -> None:
    """Refuse what cannot or must not be written."""
    interactions = [] if command.interactions == "-" else [Path(command.interactions)]
    needed = [*files_of(place), *interactions]
    outputs.check(needed)
    check_outputs(pages, [*needed, *outputs.files])
    check_not_inside(command.model, [*outputs.files, *pages])


def _place(command: RecordFiles) -> Place:
    check_named(command.signing_key, command.policy)
    return usual_place(
        database=command.database,
        signing_key=command.signing_key,
        policy=command.policy,
        replay_key=command.replay_key,
    )
