"""What is asked of a trained recommender, through the service: on record, and charged where due.

Toward the user herself nothing is charged. Toward others a user pays for herself, from her account
below the one that paid for the moments. That these moments were paid for, and on which terms, is
looked up in the books before the first answer: an artefact's own word is never repeated.
"""

from __future__ import annotations

from typing import Any, Final

from voile.app.explain import Explained, ReleaseService, RowsToExplain
from voile.app.recommend.artefact import TrainedRecommender
from voile.app.recommend.specification import (
    ITEMS,
    SCORES,
    ProfileLevel,
    RecommendationSpec,
    Toward,
)
from voile.core.errors import InvalidInput, Refused
from voile.recommenders import (
    ByItems,
    ByLabels,
    Interactions,
    LabelImportance,
    NoisyProfileOfUser,
    ScoresOnly,
    TopLabelsOfUser,
    for_herself,
    joint_guarantee,
)
from voile.recommenders.explaining import Groups, label_clusters
from voile.records.audit_log import ReleaseRecord, decode_record
from voile.records.ledger.event_text import event_text
from voile.records.storage import Reader
from voile.records.vault import Vault
from voile.release import PostProcessed, Preview, Release

_MOST_KNOWN: Final = 64
NO_HISTORY: Final = (
    "there are no interactions of this user, so this is what is popular with everybody; is the "
    "identifier spelt as in the interactions?"
)
_DIGITS: Final = 12
"""Of a digest, in what a record says about its subject."""


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
    payer = paying_account(service, trained)
    if payer != account:
        raise Refused(
            f"account {account!r} did not pay for the moments of this recommender: what is said "
            f"about users to others is charged to {payer!r}, the account that paid for them; "
            "nothing was charged"
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
            "these books did not pay for the moments of this recommender on the terms that it "
            "states, so its guarantee is not repeated: name the database that `voile recommend "
            "train` charged, or train again there (what was paid for is given again at no cost); "
            "nothing was charged"
        )
    trained.paid_in[vault.storage] = found
    return found


def _payer(vault: Vault, t: Reader, trained: TrainedRecommender) -> str | None:
    budget, payers = trained.moments.budget, set()
    moments = zip(trained.charges, trained.packed, budget.noises, strict=True)
    for charge, content, noise in moments:
        settled = vault.ledger.paid(t, charge)
        record = decode_record(vault.log.record(t, settled.record))
        if not isinstance(record, ReleaseRecord) or settled.answer != content:
            return None
        if record.event != event_text(noise.event()):
            return None
        _, _, shown = record.subject.rpartition("model ")
        if len(shown) < _DIGITS or not trained.catalogue.digest.startswith(shown):
            return None
        payers.add((record.account, record.delta))
    if len(payers) != 1:
        return None
    ((name, delta),) = payers
    protected = vault.ledger.account(t, name).protected
    follows = joint_guarantee(budget, protected=protected, delta=delta)
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
    if spec.toward is not Toward.HERSELF:  # others are not told whether there is anything of her
        return RowsToExplain([history], identifiers=[spec.user])
    return RowsToExplain([history], notes=() if len(history) else (NO_HISTORY,))
