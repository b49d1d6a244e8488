"""The item side of a recommender, charged to an account in two releases.

Popularity is charged first, then the Gram matrix on the head that it chose. Each is one
transaction: whoever is killed between them finds the first one stored and pays for the second
alone. Asking again gives the same moments, at no cost; new ones (`fresh`) are paid for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from voile.app.explain import ReleaseService
from voile.app.explain.charging import AccountQuestions, record_refusal
from voile.app.explain.questions import ReleaseTerms
from voile.app.explain.walk import affordable, look_now
from voile.core.errors import BudgetExceeded
from voile.privacy.events import Composed, PrivacyEvent
from voile.recommenders import (
    Interactions,
    ItemMoments,
    ItemPopularity,
    MomentsBudget,
    PrivateGram,
    PrivatePopularity,
    joint_guarantee,
)
from voile.recommenders.moments import Progress
from voile.records.ledger import Account, check_fits
from voile.records.storage import Reader
from voile.records.vault import Vault
from voile.release import Preview


@dataclass(frozen=True, kw_only=True)
class TrainingTerms:
    """Who pays how much for the item side.

    Args:
        account: over users; best a parallel one, so that each user can pay for herself later.
        epsilon, delta: of both releases together, in the measure of that account.
        caller: who asks.
        fresh: pay for new moments, even if there are some.
    """

    account: str
    epsilon: float
    delta: float
    caller: str = "custodian"
    fresh: bool = False


def train(
    service: ReleaseService,
    interactions: Interactions,
    terms: TrainingTerms,
    *,
    progress: Progress | None = None,
) -> ItemMoments:
    """Learn the item side, or get it again; `BudgetExceeded` before anything is drawn."""
    first = _first(service, interactions, terms, progress)
    budget = first.budget
    if not budget.popularity_only:
        _check_both_fit(service, first, terms, budget.gram_noise.event())
    asked = {"payer": terms.account, "caller": terms.caller, "fresh": terms.fresh}
    popularity = service.obtain(first, **asked)  # type: ignore[arg-type]
    gram = None
    if not budget.popularity_only:
        second = _second(interactions, first, popularity, progress)
        # Never fresh by itself: the charge of the first release is part of the question.
        gram = service.obtain(second, payer=terms.account, caller=terms.caller)
    promise = joint_guarantee(budget, protected=first.protected, delta=terms.delta)
    return ItemMoments(interactions.catalogue, budget, popularity, gram, promise)


def preview_training(
    service: ReleaseService, interactions: Interactions, terms: TrainingTerms
) -> Preview:
    """What training would cost and be like, both releases together; nothing is charged."""
    first = _first(service, interactions, terms, None)
    found = service.preview(first, payer=terms.account)
    values = sum(noise.shape[0] for noise in first.budget.noises)
    drawn = f"{values:,} values are drawn by an exact sampler"
    return replace(
        found,
        event=_both(first.budget),
        guarantees=(joint_guarantee(first.budget, protected=first.protected, delta=terms.delta),),
        remarks=(*found.remarks, drawn, *_affordable(service, interactions, first, terms)),
    )


def records_so_far(service: ReleaseService) -> int:
    """How many there are in the log, for `charged_since`."""
    vault = service.vault
    return vault.storage.read_snapshot(lambda t: vault.log.head(t).size)


def charged_since(service: ReleaseService, charges: Sequence[str], records: int) -> tuple[str, ...]:
    """Which of these came after so many records; the others were answered before."""
    vault = service.vault

    def find(t: Reader) -> tuple[str, ...]:
        return tuple(each for each in charges if vault.ledger.paid(t, each).record >= records)

    return vault.storage.read_snapshot(find)


def budget_for(
    account: Account, interactions: Interactions, epsilon: float, delta: float
) -> MomentsBudget:
    """Calibrated against what will be charged.

    A plan of both events is composed exactly; an adaptive account adds up concentrated costs and
    needs a little more noise for the same figures.
    """
    make = MomentsBudget.exact if account.is_plan else MomentsBudget.concentrated
    return make(
        users=len(interactions),
        items=len(interactions.catalogue),
        relation=account.protected.relation,
        epsilon=epsilon,
        delta=delta,
    )


def _first(
    service: ReleaseService,
    interactions: Interactions,
    terms: TrainingTerms,
    progress: Progress | None,
) -> PrivatePopularity:
    account = service.vault.account(terms.account)
    return PrivatePopularity(
        interactions,
        budget_for(account, interactions, terms.epsilon, terms.delta),
        protected=account.protected,
        delta=terms.delta,
        progress=progress,
    )


def _second(
    interactions: Interactions,
    first: PrivatePopularity,
    chosen: ItemPopularity,
    progress: Progress | None = None,
) -> PrivateGram:
    return PrivateGram(
        interactions,
        first.budget,
        protected=first.protected,
        delta=first.delta,
        progress=progress,
        chosen=chosen,
    )


def _both(budget: MomentsBudget) -> PrivacyEvent:
    return Composed(tuple(noise.event() for noise in budget.noises))


def _affordable(
    service: ReleaseService,
    interactions: Interactions,
    first: PrivatePopularity,
    terms: TrainingTerms,
) -> tuple[str, ...]:
    """Whether the account can pay for both releases, or for what is left to pay of them."""
    vault, both = service.vault, _both(first.budget)
    asked = _questions(vault, first, terms, both)
    if first.budget.popularity_only or not _is_answered(vault, asked):
        return affordable(vault, asked, terms.account, both)
    chosen = service.obtain(first, payer=terms.account, caller=terms.caller)  # paid for before
    event = first.budget.gram_noise.event()
    left = _questions(vault, _second(interactions, first, chosen), terms, event)
    said = affordable(vault, left, terms.account, event)
    if _is_answered(vault, left):
        return said
    return tuple(f"popularity was paid for before; what is left {each}" for each in said)


def _questions(
    vault: Vault,
    release: PrivatePopularity | PrivateGram,
    terms: TrainingTerms,
    event: PrivacyEvent | None = None,
) -> AccountQuestions:
    """The question for one of both releases, charged as this event if that is another one."""
    account, facts = vault.account(terms.account), ReleaseTerms(release)
    request = facts.artefact(terms.account, caller=terms.caller, purpose=release.name)
    request = request if event is None else replace(request, event=event)
    return AccountQuestions.to_account(vault, account, [request], fresh=terms.fresh)


def _is_answered(vault: Vault, asked: AccountQuestions) -> bool:
    looked = look_now(vault, asked)
    return not isinstance(looked, Exception) and None not in looked[1]


def _check_both_fit(
    service: ReleaseService, first: PrivatePopularity, terms: TrainingTerms, then: PrivacyEvent
) -> None:
    """Refuse before the first release is charged if the second one would not fit any more.

    If the first one was paid for already, the second is looked at when it is asked for.
    """
    vault = service.vault
    asked = _questions(vault, first, terms)

    def look(t: Reader) -> BudgetExceeded | None:
        if not terms.fresh and vault.ledger.answered(t, asked.asked[0]) is not None:
            return None
        both = (asked.charges[0], replace(asked.charges[0], event=then))
        try:
            check_fits(vault.ledger, t, asked.account, both)
        except BudgetExceeded as exceeded:
            return exceeded
        return None

    refused = vault.storage.read_snapshot(look)
    if refused is not None:
        vault.storage.submit(lambda t: record_refusal(vault, t, asked, refused))
        raise refused
