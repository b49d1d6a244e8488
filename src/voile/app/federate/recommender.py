"""`pipeline = "recommender"`: item moments of several shops, and a recommender made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar

from voile.app.artefact_manifest import RECOMMENDER
from voile.app.federate.base import FinishContext, PipelineOutput, ServerSide, TableKind
from voile.app.federate.expectation import FederationPreview, PreviewWarning
from voile.app.federate.noise import (
    NoiseOptions,
    read_noise,
    said_of_sharing,
    seconds_of_noise,
)
from voile.app.trained_recommender import save_recommender
from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit
from voile.federation import StageResult
from voile.federation.shared_noise import shares_of
from voile.pipelines.private_explainer.plan import BudgetReadings, StageSpending
from voile.pipelines.promises import promise
from voile.privacy.accounting.accountants import tightest_epsilon
from voile.privacy.events import Composed
from voile.recommenders import (
    Catalogue,
    Interactions,
    MomentsBudget,
    read_catalogue,
    read_interactions,
)
from voile.recommenders.federated import MomentsPlan
from voile.recommenders.moments import expected_quality


class RecommenderKind(TableKind):
    """Each shop brings its users' interactions with the items of one catalogue.

    A record is a user, whatever the number of her lines; shops declare how many users they have.
    """

    takes_tables: ClassVar[bool] = False
    uses_open_rows: ClassVar[bool] = False
    unit: ClassVar[ProtectedUnit] = ProtectedUnit.USER
    fixed_rounds: ClassVar[int | None] = 1

    def schema(self, path: Path) -> Any:
        return read_catalogue(path, name=path.stem)

    def records(self, schema: Catalogue, path: Path) -> Interactions:  # type: ignore[override]
        return read_interactions(path, schema)

    def options(self, stated: Mapping[str, Any], folder: Path) -> NoiseOptions | None:  # noqa: ARG002
        return read_noise(stated)

    def facts(self, levels: Mapping[str, float], **common: Any) -> dict[str, Any]:
        if levels:
            raise InvalidInput(f"shops have no levels of their own, found {sorted(levels)}")
        return common

    def plan(
        self,
        facts: Mapping[str, Any],
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> MomentsPlan:
        if hidden is not None:
            raise InvalidInput("moments have no hidden layers; leave `hidden` out")
        catalogue, sizes, protected = facts["schema"], facts["sizes"], facts["protected"]
        shared = facts.get("options", NoiseOptions()).shared
        shares = shares_of(facts["protocol"], len(sizes), shared)
        spent = MomentsBudget.exact if shares == 1 else MomentsBudget.concentrated
        for share in (1.0, 0.999, 0.99):  # numerical composition adds a little for its grid
            budget = spent(
                users=sum(sizes.values()),
                items=len(catalogue),
                relation=protected.relation,
                epsilon=share * epsilon,
                delta=delta,
            )
            budget = replace(budget, parties=len(sizes), shares=shares)
            plan = MomentsPlan(catalogue, sizes, protected, budget, delta, facts["protocol"])
            events = Composed(plan.participation_events)
            if tightest_epsilon(events, delta) <= epsilon:
                return plan
        raise InvalidInput(f"no noise was found for epsilon = {epsilon:g} at delta = {delta:g}")

    def preview(
        self,
        agreement: Any,
        server: ServerSide,  # noqa: ARG002
    ) -> FederationPreview:
        plan = agreement.plan
        assert isinstance(plan, MomentsPlan)
        said = expected_quality(plan.budget)
        shops = len(plan.sizes)
        sharing = said_of_sharing(shops, plan.shares, plan.protocol)
        values = sum(prod(shape) for task in plan.tasks.values() for shape in task.shapes.values())
        concerns = map(PreviewWarning, said if plan.budget.popularity_only else ())
        return FederationPreview(
            concerns=tuple(concerns),
            lines=(sharing, *(() if plan.budget.popularity_only else said)),
            seconds=seconds_of_noise(shops, values),
        )

    def finish(
        self,
        plan: MomentsPlan,
        results: Mapping[str, StageResult],
        context: FinishContext,  # noqa: ARG002
    ) -> PipelineOutput:
        moments = plan.moments(results)
        alone = {
            stage: StageSpending(tightest_epsilon(task.cost(1), plan.delta), plan.delta)
            for stage, task in plan.tasks.items()
        }
        joint = StageSpending(plan.guarantee().epsilon, plan.delta)
        promised = promise(plan, results, *plan.tasks)
        # The folder is one of `voile recommend train`, too.
        files = {RECOMMENDER: lambda path: save_recommender(moments, path.parent)}
        return PipelineOutput(files, promised, BudgetReadings(alone, joint, joint))
