"""Training a recommender and asking it, from the command to what leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Final

from voile.app.artefact import is_artefact, load_artefact
from voile.app.calls import Context
from voile.app.commands.fields import RecordFiles
from voile.app.commands.recommend import (
    Audience,
    ExplainRecommendation,
    Recommend,
    TrainRecommender,
)
from voile.app.explain import ReleasedExplanation, ReleaseService, RowsToExplain
from voile.app.explain.artefacts import charged_since, records_so_far
from voile.app.explain.outputs import Outputs
from voile.app.explain_rows import ExplainResult, PreviewResult, assessed_claims
from voile.app.output_check import check_outputs, files_of
from voile.app.recommend.specification import (
    ITEMS,
    SCORES,
    ProfileLevel,
    RecommendationSpec,
)
from voile.app.recommend.training import (
    TrainingTerms,
    preview_training,
    train,
)
from voile.app.trained_recommender import (
    TrainedRecommender,
    check_not_inside,
    check_place,
    load_recommender,
    save_recommender,
)
from voile.core.errors import InvalidInput, Refused, VerificationFailed
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.core.rendering import write_page
from voile.federation import digest_of_arrays
from voile.federation.history import event_as_text
from voile.privacy.events import PrivacyEvent
from voile.recommenders import (
    ByItems,
    ByLabels,
    Interactions,
    ItemMoments,
    LabelImportance,
    LinearRecommender,
    NetworkRecommender,
    NoisyProfileOfUser,
    PopularityRecommender,
    ReasonsByLabels,
    ReasonsOfNetwork,
    ScoresOnly,
    TopLabelsOfUser,
    for_herself,
    joint_guarantee,
    read_catalogue,
    read_interactions,
)
from voile.recommenders.explaining import Groups, label_clusters
from voile.recommenders.federated import arrays_of_rounds
from voile.recommenders.kinds import HistoryNetwork, network_guarantee
from voile.records.audit_log import FederationRoundRecord, ReleaseRecord, decode_record
from voile.records.checkpoints import Kept
from voile.records.ledger.event_text import event_for_log, event_text
from voile.records.storage import Reader
from voile.records.vault import Place, Vault, check_named, usual_place
from voile.release import PostProcessed, Preview, Release

# -------------------------------------------------------------------------------------------------
# What is asked of a trained recommender, through the service: on record, and charged where due.
#
# Toward the user herself nothing is charged. Toward others a user pays for herself, from her
# account below the one that paid for the moments. That these moments were paid for, and on which
# terms, is looked up in the books before the first answer: an artefact's own word is never
# repeated.


_MOST_KNOWN: Final = 64
NO_HISTORY: Final = (
    "there are no interactions of this user, so this is what is popular with everybody; is the "
    "identifier spelt as in the interactions?"
)
_PURPOSES: Final = {Audience.SELF: "told to herself", Audience.OTHERS: "told to others"}
"""As records state it, in this version and those before."""
_LEAST_SPENT: Final = 0.98
"""Of what a federation promises, its moments spend at least this share."""
_DIGITS: Final = 12
"""Of a digest, in what a record says about its subject."""


def open_recommender(folder: Path) -> TrainedRecommender:
    """With the federation that left it there, if one did.

    `VerificationFailed` if that promised something else than the recommender states.
    """
    trained = load_recommender(folder)
    if not is_artefact(folder):
        return trained
    artefact = load_artefact(folder)
    if artefact.guarantees != (trained.guarantee,):
        raise VerificationFailed(f"{folder}: states another guarantee than its federation does")
    return replace(trained, federation=artefact.name)


def answer(
    service: ReleaseService,
    trained: TrainedRecommender,
    interactions: Interactions,
    spec: RecommendationSpec,
) -> ReleasedExplanation:
    """Recommend or explain: on record, charged where it is told to others, or refused."""
    release = build(service, trained, interactions, spec)
    rows, purpose = _rows(interactions, spec), _PURPOSES[spec.toward]
    if spec.toward is Audience.SELF:
        return service.answer(release, rows, caller=spec.caller, purpose=purpose)
    payer, _ = spec.price
    return service.answer(
        release, rows, payer=payer, caller=spec.caller, purpose=purpose, fresh=spec.fresh
    )


def preview(
    service: ReleaseService,
    trained: TrainedRecommender,
    interactions: Interactions,
    spec: RecommendationSpec,
) -> Preview:
    """What an answer would cost and be like; nothing is charged."""
    return service.preview(build(service, trained, interactions, spec), payer=spec.account)


def build(
    service: ReleaseService,
    trained: TrainedRecommender,
    interactions: Interactions,
    spec: RecommendationSpec,
) -> Release[Any]:
    """The release that keeps the promise."""
    if spec.toward is Audience.SELF:
        if trained.federation:
            check_rounds_here(service, trained)
        else:
            paying_account(service, trained)
        return _free_release(trained, spec)
    payer, epsilon = spec.price
    check_paid_here(service, trained, payer)
    profile = ByLabels(trained.linear, spec.by, spec.count, _groups(trained, spec))
    common: dict[str, Any] = {
        "epsilon": epsilon,
        "level": str(spec.level),
        "model": trained.digest,
        "origins": [trained.moments.origin],
        "protected": trained.guarantee.protected,
    }
    if spec.user is None:
        return LabelImportance(profile, users=len(interactions), delta=spec.delta, **common)
    if spec.top is not None:
        return TopLabelsOfUser(profile, k=spec.top, **common)
    return NoisyProfileOfUser(profile, delta=spec.delta, **common)


def check_paid_here(service: ReleaseService, trained: TrainedRecommender, account: str) -> None:
    """Refuse any account but the one that paid for the moments.

    What is said about a user adds to what the moments said about her: both must stand in one
    account. One below it will not do: of two parallel ones the dearer alone counts above, which is
    true of different users and not of one who is told about in both.
    """
    if trained.federation:
        raise Refused(
            f"this recommender was paid for by the parties of {trained.federation!r}, each from "
            "its own account: no account here can pay for what others are told about a user; "
            "nothing was charged"
        )
    payer = paying_account(service, trained)
    if payer != account:
        raise Refused(
            f"account {account!r} did not pay for this recommender. Explanations for others are "
            f"charged to {payer!r}, which did; nothing was charged"
        )


def paying_account(service: ReleaseService, trained: TrainedRecommender) -> str:
    """The account that paid for these very moments, on the terms that they state; or `Refused`.

    An artefact is not signed, so nothing in it is believed: the stored answers are compared byte
    by byte, the noise with the events that were charged, the catalogue with the digits of its
    digest on record, and the guarantee with what follows from those events, the account and the
    delta on record. Once for each opening of the books: charges
    are never taken back, and a database that was set back is noticed by every answer.
    """
    vault = service.vault
    known = trained.paid_in.get(vault.storage)
    if known is not None:
        return known
    try:
        found = vault.storage.read_snapshot(lambda t: _payer(vault, t, trained))
    except InvalidInput:  # no such charge, or no guarantee follows from what was charged
        found = None
    if found is None:
        raise Refused(
            "this database did not pay for this recommender on the terms it states, so its "
            "guarantee is not repeated. Name the database that `voile recommend train` charged, "
            "or train again there (what was paid for is free); nothing was charged"
        )
    trained.paid_in[vault.storage] = found
    return found


def check_rounds_here(service: ReleaseService, trained: TrainedRecommender) -> None:
    """`Refused` unless these books are the server's, and its log has the rounds of these very
    moments, under a promise that covers what they state.

    Every party's charge was compared with its own log when the federation ended.
    """
    vault = service.vault
    if vault.storage in trained.paid_in:
        return
    moments, promise = trained.moments, trained.guarantee
    sums = arrays_of_rounds(moments) if isinstance(moments, ItemMoments) else {}
    wanted = {
        (f"{trained.federation}: {stage}", sha256(digest_of_arrays(arrays).encode()).digest())
        for stage, arrays in sums.items()
    }
    records = vault.storage.read_snapshot(lambda t: _rounds(vault, t))
    found = {
        (each.federation, each.model)
        for each in records
        if each.delta == promise.delta
        and _LEAST_SPENT * each.epsilon <= promise.epsilon <= each.epsilon
    }
    if not wanted or not wanted <= found:
        raise Refused(
            "this database has no rounds of this recommender on the terms it states, so its "
            "guarantee is not repeated. Name that of the federation's server (log.db in its "
            "folder); nothing was charged"
        )
    trained.paid_in[vault.storage] = trained.federation


def _rounds(vault: Vault, t: Reader) -> list[FederationRoundRecord]:
    found, first = [], 0
    while lines := vault.log.records(t, first=first):
        first += len(lines)
        decoded = (decode_record(line) for line in lines)
        found += [each for each in decoded if isinstance(each, FederationRoundRecord)]
    return found


def _payer(vault: Vault, t: Reader, trained: TrainedRecommender) -> str | None:
    made, payers = trained.moments, set()
    for charge, content, event in zip(trained.charges, trained.packed, made.events, strict=True):
        settled = vault.ledger.paid(t, charge)
        record = decode_record(vault.log.record(t, settled.record))
        if not isinstance(record, ReleaseRecord) or settled.answer != content:
            return None
        if record.event != event_for_log(event_text(event)):
            return None
        _, _, shown = record.subject.rpartition("model ")
        if len(shown) < _DIGITS or not trained.catalogue.digest.startswith(shown):
            return None
        payers.add((record.account, record.delta))
    if len(payers) != 1:
        return None
    ((name, delta),) = payers
    protected = vault.ledger.account(t, name).protected
    if isinstance(made, HistoryNetwork):
        follows = network_guarantee(made.budget, made.steps, protected=protected, delta=delta)
    else:
        follows = joint_guarantee(made.budget, protected=protected, delta=delta)
    return name if follows == trained.guarantee else None


def _free_release(trained: TrainedRecommender, spec: RecommendationSpec) -> PostProcessed:
    """Built once for each way to ask, not once for each user."""
    groups = tuple((name, tuple(labels)) for name, labels in (spec.groups or {}).items())
    asked = spec.by, spec.count, groups
    if asked not in trained.free:
        if len(trained.free) >= _MOST_KNOWN:
            trained.free.clear()
        made = for_herself(_explainer(trained, spec), trained.guarantee, model=trained.digest)
        trained.free[asked] = made
    return trained.free[asked]


def _explainer(
    trained: TrainedRecommender, spec: RecommendationSpec
) -> ByItems | ByLabels | ScoresOnly | ReasonsOfNetwork | ReasonsByLabels:
    model = trained.model
    if spec.by == SCORES:
        return ScoresOnly(model, spec.count)
    if isinstance(model, NetworkRecommender) and spec.by == ITEMS:
        return ReasonsOfNetwork(model, spec.count)
    if not isinstance(model, LinearRecommender | PopularityRecommender) and spec.by != ITEMS:
        if spec.groups:
            raise Refused("groups of labels are formed where scores are sums, not by this model")
        return ReasonsByLabels(model, spec.by, spec.count)
    if spec.by == ITEMS:
        return ByItems(trained.linear, spec.count)
    return ByLabels(trained.linear, spec.by, spec.count, spec.groups)


def _groups(trained: TrainedRecommender, spec: RecommendationSpec) -> Groups | None:
    if spec.level is ProfileLevel.AGGREGATE:
        return label_clusters(trained.catalogue, spec.by)
    return spec.groups


def _rows(interactions: Interactions, spec: RecommendationSpec) -> RowsToExplain:
    if spec.user is None:
        return RowsToExplain(interactions)
    history = interactions.history(spec.user)
    if spec.toward is not Audience.SELF:  # others are not told whether there is anything of her
        return RowsToExplain([history], identifiers=[spec.user])
    return RowsToExplain([history], notes=() if len(history) else (NO_HISTORY,))


# --------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class RecommendationPage:
    """What is recommended to one user, and why: it is written for the user herself."""

    view: ClassVar[str] = "recommendation page"

    explanation: Explanation


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
        fresh=command.redraw,
        model=command.model,
    )
    with context.records(_place(command)) as service:
        if command.preview:
            return PreviewResult(preview_training(service, found, terms), len(found), "users")
        before = records_so_far(service)
        with context.charging(service.vault, lambda: ()):
            learned = train(service, found, terms, progress=context.steps)
            # Signed before anything leaves: a database that is set back afterwards is noticed.
            kept = context.sign(service.vault)
            trained = save_recommender(learned, command.folder, command.model)
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
        toward=command.audience,
        by=command.group_by,
        count=command.count,
        top=command.top,
        account=command.account,
        epsilon=command.epsilon,
        delta=command.delta,
        level=command.level,  # type: ignore[arg-type]
        fresh=command.redraw,
    )
    page = command.page
    if page is not None and (spec.toward is Audience.OTHERS or page.suffix != ".html"):
        raise InvalidInput(
            "--page writes an .html file, and only for the user: leave out --audience others"
        )
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
    to_herself = spec.toward is Audience.SELF
    outputs = Outputs(command.save_as, command.receipt, private=to_herself)
    pages = [] if page is None else [page]
    place = _place(command)
    _check_files(command, place, outputs, pages)
    files = [*outputs.files, *pages]
    if not preview_only:
        context.check_overwriting(files, allowed=command.overwrite)
    trained = open_recommender(command.model)
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
                shown = str(write_page(RecommendationPage(explained.explanation), page, mode=0o600))
                written = replace(written, files={**written.files, "page": [shown]})
    return RecommendationResult(explained, written, kept, place.policy, spec.top, to_herself)


def _events(trained: TrainedRecommender, charged: PrivacyEvent | None) -> set[str]:
    """What is charged for an answer or, where it is free, for the training behind it."""
    if charged is not None:
        return {event_as_text(charged)}
    return set(map(event_as_text, trained.moments.events))


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
