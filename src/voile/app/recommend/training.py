"""The item side of a recommender, charged to an account in two releases.

Popularity is charged first, then the Gram matrix on the head that it chose. Each is one
transaction: whoever is killed between them finds the first one stored and pays for the second
alone. Asking again gives the same moments, at no cost; new ones (`fresh`) are paid for again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from voile.app.explain import ReleaseService
from voile.app.explain.affordable import affordable
from voile.app.explain.charging import AccountQuestions
from voile.app.explain.in_turn import ask_artefact, check_rest_fits, is_answered
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
from voile.records.ledger import Account
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
        asked_first = _questions(service.vault, first, terms)
        check_rest_fits(service.vault, asked_first, [budget.gram_noise.event()])
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
    if first.budget.popularity_only or not is_answered(vault, asked):
        return affordable(vault, asked, terms.account, both)
    chosen = service.obtain(first, payer=terms.account, caller=terms.caller)  # paid for before
    event = first.budget.gram_noise.event()
    left = _questions(vault, _second(interactions, first, chosen), terms, event)
    said = affordable(vault, left, terms.account, event)
    if is_answered(vault, left):
        return said
    return tuple(f"popularity was paid for before; what is left {each}" for each in said)


def _questions(
    vault: Vault,
    release: PrivatePopularity | PrivateGram,
    terms: TrainingTerms,
    event: PrivacyEvent | None = None,
) -> AccountQuestions:
    """The question for one of both releases, charged as this event if that is another one."""
    return ask_artefact(
        vault, release, terms.account, caller=terms.caller, event=event, fresh=terms.fresh
    )
