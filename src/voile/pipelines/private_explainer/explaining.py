"""FastSHAP++: black box, surrogate and explainer trained across clients, each with its own budget.

And what voile adds: with a private surrogate, Shapley values of it are post-processing. They are
computed exactly, sampled, or given by an explainer that is distilled from the surrogate alone; and
interventional values of the private black box over public reference rows need no surrogate at all.
None of this costs anything for the third stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from voile.attribution import FastShap, Surrogate, distil, is_exact
from voile.attribution.fastshap import EXPLAINER_PLAN, DistilledExplainer, exact_values, sampled
from voile.core.errors import Refused
from voile.core.explanation import Explanation
from voile.core.randomness import GeneratorSource
from voile.federation.arrays import digest_of_arrays
from voile.federation.pipeline import run_pipeline
from voile.federation.rounds import Rounds, StageResult
from voile.federation.task import Unprotected
from voile.models import Model
from voile.pipelines.objectives import (
    BLACK_BOX,
    EXPLAINER,
    SURROGATE,
    Imitate,
    LearnLabels,
)
from voile.pipelines.private_explainer.plan import PipelinePlan
from voile.pipelines.promises import PromisedGuarantees, interventional, promise
from voile.pipelines.tables import NetworkModel
from voile.release.origin import Origin
from voile.training import Progress, TrainingPlan, arrays_of, with_arrays

ORDERS: Final = 200


@dataclass(frozen=True, eq=False)
class PrivateExplainer:
    """What came of a federation, and every explanation that follows from it for free.

    Args:
        plan: what was agreed on.
        results: of each stage, by name.
    """

    plan: PipelinePlan
    results: Mapping[str, StageResult]
    _distilled: set[str] = field(default_factory=set, repr=False)

    @cached_property
    def black_box(self) -> Model:
        """The model that is explained."""
        if self.plan.facts.black_box is not None:
            return self.plan.facts.black_box
        objective = self.plan.objectives[BLACK_BOX]
        assert isinstance(objective, LearnLabels)
        arrays = self.results[BLACK_BOX].arrays
        return NetworkModel.from_arrays(self.plan.facts.schema, objective.output_head, arrays)

    @cached_property
    def surrogate(self) -> Surrogate:
        """Answers for the black box when only some features are present."""
        objective = self.plan.objectives[SURROGATE]
        assert isinstance(objective, Imitate)
        return objective.surrogate(with_arrays(self.results[SURROGATE].arrays))

    @cached_property
    def trained_explainer(self) -> FastShap:
        """The explainer that was trained on the clients' rows, in the published settings."""
        if EXPLAINER not in self.results:
            raise Refused(
                f"in the setting {self.plan.setting!s} no explainer is trained on rows; use "
                "`of_surrogate` or `distilled`, which cost nothing"
            )
        return FastShap(self.surrogate, with_arrays(self.results[EXPLAINER].arrays))

    def promise(self, *stages: str) -> PromisedGuarantees:
        """Guarantees and notes of whatever is made from these stages."""
        return promise(self.plan, self.results, *stages)

    # --- explanations that cost nothing -------------------------------------------------------

    def of_surrogate(self, X: Any, *, orders: int = ORDERS, seed: int = 0) -> Explanation:  # noqa: N803
        """Shapley values of the surrogate's game: what the black box says, given some features.

        Exact up to 16 players, sampled with standard errors beyond.
        """
        if is_exact(self.surrogate.players.count):
            found = exact_values(self.surrogate, X)
        else:
            found = sampled(self.surrogate, X, orders=orders, seed=seed)
        return self.promise(BLACK_BOX, SURROGATE).on(found)

    def of_black_box(self, X: Any, reference: Any, *, origin: Origin) -> Explanation:  # noqa: N803
        """Interventional Shapley values of the black box over reference rows.

        Another game than the surrogate's: absent features are taken from reference rows, whatever
        goes with what. With a black box of your own the promise is yours to make: none is attached.

        Args:
            X: the rows to explain.
            reference: public rows, or rows that were made with differential privacy.
            origin: what the reference rows were made from; refused if that has no guarantee. What
                it promises about the clients' own data is added to what training promised.
        """
        facts, promised = self.plan.facts, self.promise(BLACK_BOX)
        return interventional(
            self.black_box,
            X,
            reference,
            promised,
            origin=origin,
            schema=facts.schema,
            groups=facts.groups,
        )

    def distilled(
        self,
        source: GeneratorSource,
        *,
        plan: TrainingPlan = EXPLAINER_PLAN,
        progress: Progress | None = None,
    ) -> DistilledExplainer:
        """A fast explainer, learned from the surrogate and the public schema alone."""
        found = distil(
            self.surrogate, self.plan.facts.schema, source=source, plan=plan, progress=progress
        )
        self._distilled.add(digest_of_arrays(arrays_of(found.explainer.network)))
        return found

    def by_network(self, explainer: FastShap, X: Any) -> Explanation:  # noqa: N803
        """Explanations of a distilled explainer, or of the trained one, with what is promised."""
        found = digest_of_arrays(arrays_of(explainer.network))
        if found in self._distilled:
            return self.promise(BLACK_BOX, SURROGATE).on(explainer(X))
        trained = self.results.get(EXPLAINER)
        if trained is None or found != digest_of_arrays(trained.arrays):
            raise Refused(
                "this explainer was neither distilled nor trained here, so nothing is known about "
                "the rows that it was made from"
            )
        return self.promise(BLACK_BOX, SURROGATE, EXPLAINER).on(explainer(X))


def train_private_explainer(
    plan: PipelinePlan,
    rounds: Rounds,
    *,
    unprotected: Unprotected | None = None,
) -> PrivateExplainer:
    """Run all stages of a plan; see `voile.federation.run_pipeline`.

    Args:
        plan: from `split_total` or `separate_budgets`.
        rounds: over clients that were set up with `plan.tasks`.
        unprotected: `TableRecords` of held-out clients, which figures may be published about.
    """
    return PrivateExplainer(plan, run_pipeline(plan, rounds, unprotected=unprotected))
