"""The item side of a recommender, charged to an account in two releases.

Popularity comes first, then the Gram matrix, or a network, on the head that it chose. Both are
charged in one transaction, or neither. Asking again gives the same moments, at no cost; new ones
(`fresh`) are paid for again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from voile.app.explain import ReleaseService
from voile.app.explain.artefacts import Made, ReleaseChain
from voile.core.choices import chosen
from voile.core.errors import Refused
from voile.core.guarantee import Guarantee
from voile.privacy.accounting.measures import MeasureKind
from voile.privacy.calibration import Reading
from voile.privacy.events import Composed, PrivacyEvent
from voile.recommenders import (
    Interactions,
    ItemMoments,
    ItemPopularity,
    MomentsBudget,
    PrivateGram,
    PrivateNetwork,
    PrivatePopularity,
    joint_guarantee,
)
from voile.recommenders.kinds import (
    DEFAULT,
    MODELS,
    FromMoments,
    HistoryNetwork,
    RecommenderKind,
    network_guarantee,
)
from voile.recommenders.moments import Progress
from voile.records.ledger import Account
from voile.release import Preview, Release
from voile.training.private import PrivateSteps


@dataclass(frozen=True, kw_only=True)
class TrainingTerms:
    """Who pays how much for the item side.

    Args:
        account: over users; best a parallel one, so that each user can pay for herself later.
        epsilon, delta: of both releases together, in the measure of that account.
        caller: who asks.
        fresh: pay for new moments, even if there are some.
        model: which model, one of `voile.recommenders.kinds.MODELS`.
    """

    account: str
    epsilon: float
    delta: float
    model: str = DEFAULT
    caller: str = "custodian"
    fresh: bool = False


def train(
    service: ReleaseService,
    interactions: Interactions,
    terms: TrainingTerms,
    *,
    progress: Progress | None = None,
) -> ItemMoments | HistoryNetwork:
    """Learn the item side, or get it again; `BudgetExceeded` before anything is drawn."""
    plan = _plan(service, interactions, terms, progress)
    popularity, *made = _chain(service, plan, terms).obtain()
    assert isinstance(popularity, ItemPopularity)
    return plan.finish(popularity, made[0] if made else None)


def preview_training(
    service: ReleaseService, interactions: Interactions, terms: TrainingTerms
) -> Preview:
    """What training would cost and be like, both releases together; nothing is charged."""
    plan = _plan(service, interactions, terms, None)
    found = service.preview(plan.first, payer=terms.account)
    values = sum(noise.shape[0] for noise in plan.first.budget.noises)
    drawn: tuple[str, ...] = (f"{values:,} values are drawn by an exact sampler",)
    if plan.steps is not None:
        noise = f"noise multiplier {plan.steps.noise_multiplier:.3g} in each step of training"
        found, drawn = Preview(None, (), accuracy=noise), ()
    return replace(
        found,
        event=Composed(plan.events),
        guarantees=(plan.promise,),
        remarks=(*found.remarks, *drawn, *_chain(service, plan, terms).affordable()),
    )


@dataclass(frozen=True, eq=False)
class _SecondRelease:
    """What follows popularity: what it costs, and how it is made."""

    event: PrivacyEvent
    release: Callable[[ItemPopularity], PrivateGram | PrivateNetwork]


@dataclass(frozen=True, eq=False)
class _TrainingPlan:
    """The releases of one model.

    Args:
        first: popularity.
        second: what follows it; None where popularity gets the whole budget.
        promise: of both together.
        kind: which model.
        steps: of a network; None for moments.
    """

    first: PrivatePopularity
    second: _SecondRelease | None
    promise: Guarantee
    kind: RecommenderKind
    steps: PrivateSteps | None = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        second = () if self.second is None else (self.second.event,)
        return (self.first.cost(1), *second)

    def finish(self, popularity: ItemPopularity, made: Any) -> ItemMoments | HistoryNetwork:
        catalogue, budget = self.first.interactions.catalogue, self.first.budget
        if isinstance(self.kind, FromMoments):
            return ItemMoments(catalogue, budget, popularity, made, self.promise)
        assert self.steps is not None
        parts = (self.steps, popularity, made, self.promise)
        return HistoryNetwork(catalogue, budget, self.kind, *parts)


def _plan(
    service: ReleaseService,
    interactions: Interactions,
    terms: TrainingTerms,
    progress: Progress | None,
) -> _TrainingPlan:
    kind = chosen(MODELS, terms.model, "model")
    first = _first(service, interactions, terms, progress)
    budget, common = first.budget, {"protected": first.protected, "delta": terms.delta}
    if isinstance(kind, FromMoments):
        promise = joint_guarantee(budget, protected=first.protected, delta=terms.delta)
        second = None if budget.popularity_only else _gram(interactions, first, progress)
        return _TrainingPlan(first, second, promise, kind)
    read = _reading(service.vault.account(terms.account), terms.delta)
    steps = kind.plan(budget, epsilon=terms.epsilon, delta=terms.delta, read=read)

    def network(chosen: ItemPopularity) -> PrivateNetwork:
        return PrivateNetwork(
            interactions,
            kind.network,
            chosen=chosen,
            head=budget.head,
            privacy=steps,
            rate=kind.rate,
            **common,  # type: ignore[arg-type]
        )

    promise = network_guarantee(budget, steps, protected=first.protected, delta=terms.delta)
    return _TrainingPlan(first, _SecondRelease(steps.event(), network), promise, kind, steps)


def _reading(account: Account, delta: float) -> Reading | None:
    """The epsilon that an account reads an event as; None for a plan."""
    measure = account.measure
    if account.is_plan or measure is None:
        return None
    if measure.kind is not MeasureKind.RENYI:
        raise Refused(
            f"account {account.name!r} cannot hold sampled noise, by which a network is trained: "
            "open one with Rényi orders (`voile budget open ... --order 8 --order 16 --order 32`)"
        )
    return lambda event: measure.epsilon(measure.cost(event), delta)


def budget_for(
    account: Account, interactions: Interactions, epsilon: float, delta: float
) -> MomentsBudget:
    """Calibrated against what will be charged.

    A plan of both events is composed exactly; an adaptive account adds up concentrated costs and
    needs a little more noise for the same figures.
    """
    facts: dict[str, Any] = {
        "users": len(interactions),
        "items": len(interactions.catalogue),
        "relation": account.protected.relation,
        "epsilon": epsilon,
        "delta": delta,
    }
    if account.is_plan:
        return MomentsBudget.exact(**facts)
    return MomentsBudget.concentrated(**facts, most_rho=account.most_rho(epsilon, delta))


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


def _gram(
    interactions: Interactions, first: PrivatePopularity, progress: Progress | None
) -> _SecondRelease:
    def release(chosen: ItemPopularity) -> PrivateGram:
        return PrivateGram(
            interactions,
            first.budget,
            protected=first.protected,
            delta=first.delta,
            progress=progress,
            chosen=chosen,
        )

    return _SecondRelease(first.budget.gram_noise.event(), release)


def _chain(service: ReleaseService, plan: _TrainingPlan, terms: TrainingTerms) -> ReleaseChain:
    def following(made: Made) -> Release[Any]:
        if not made:
            return plan.first
        (popularity,) = made
        assert plan.second is not None
        assert isinstance(popularity, ItemPopularity)
        return plan.second.release(popularity)

    return ReleaseChain(
        service, following, plan.events, terms.account, terms.caller, fresh=terms.fresh
    )
