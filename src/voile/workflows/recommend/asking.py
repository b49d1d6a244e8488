"""What is asked of a trained recommender, through the service: on record, and charged where due.

Toward the user herself nothing is charged. Toward others a user pays for herself, from her account
below the one that paid for the moments; that these moments were paid for there is looked up.
"""

from __future__ import annotations

from typing import Any

from voile.audit_log import decode_record
from voile.core.errors import InvalidInput, Refused
from voile.core.storage import Reader
from voile.recommenders import (
    ByItems,
    ByLabels,
    Interactions,
    LabelImportance,
    NoisyProfileOfUser,
    ScoresOnly,
    TopLabelsOfUser,
    for_herself,
)
from voile.recommenders.explaining import Groups, label_clusters
from voile.release import Preview, Release
from voile.workflows.explain import Explained, ReleaseService, RowsToExplain
from voile.workflows.recommend.artefact import TrainedRecommender
from voile.workflows.recommend.specification import (
    ITEMS,
    SCORES,
    ProfileLevel,
    RecommendationSpec,
    Toward,
)


def answer(
    service: ReleaseService,
    trained: TrainedRecommender,
    interactions: Interactions,
    spec: RecommendationSpec,
) -> Explained:
    """Recommend or explain: on record, charged where it is told to others, or refused."""
    release = build(service, trained, interactions, spec)
    rows, purpose = _rows(interactions, spec), f"told to {spec.toward}"
    if spec.toward is Toward.HERSELF:
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
    if spec.toward is Toward.HERSELF:
        return for_herself(_explainer(trained, spec), trained.guarantee, model=trained.digest)
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
    """Refuse moments that this account, or one above it, did not pay for.

    What is said about a user adds to what the moments said about her; both must stand in one
    account. The stored answers are compared byte by byte: nothing is believed by say-so.
    """
    custody = service.custody

    def paid(t: Reader) -> bool:
        above = {node.account.name for node in custody.ledger.path(t, account)}
        for charge, content in zip(trained.charges, trained.arrays.values(), strict=True):
            settled = custody.ledger.paid(t, charge)
            record = decode_record(custody.log.record(t, settled.record))
            if settled.answer != content or getattr(record, "account", None) not in above:
                return False
        return True

    try:
        found = custody.storage.read_snapshot(paid)
    except InvalidInput:  # no such charge, or no such account
        found = False
    if not found:
        raise Refused(
            f"account {account!r} did not pay for the moments of this recommender: what is said "
            "about a user to others must be charged where they were; nothing was charged"
        )


def _explainer(
    trained: TrainedRecommender, spec: RecommendationSpec
) -> ByItems | ByLabels | ScoresOnly:
    if spec.by == SCORES:
        return ScoresOnly(trained.model, spec.count)
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
    named = None if spec.toward is Toward.HERSELF else [spec.user]
    return RowsToExplain([history], identifiers=named)
