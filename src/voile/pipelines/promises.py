"""What may be said of whatever is made from stages that were trained with local DP-SGD.

Before training, `dp_sgd_guarantee` says what was planned. After it, `promise` says what has come of
that: which answers were seen, at what cost, with what randomness, and who charged them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from voile.attribution import shapley_explainer
from voile.attribution.players import Groups
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee
from voile.core.row_note import KnownNote
from voile.core.schema import Schema
from voile.federation.history import HistoryRow, unbounded
from voile.federation.pipeline import Pipeline
from voile.federation.rounds import StageResult
from voile.models import Model
from voile.pipelines.facts import FederationFacts
from voile.release.origin import Origin, joint_guarantees, stated, trained_privately

ASSUMPTIONS: Final = (
    "no person's rows are at two clients, or in another federation or account that is not added up",
    "each client keeps its own participation cap",
    "each client did what it states: it trained with the noise whose cost it states, and "
    "charged the account that it names",
    "running time is not observed",
    "settings of training were not tuned on these rows",
)


def dp_sgd_guarantee(
    facts: FederationFacts,
    stages: Sequence[str],
    *,
    epsilon: float,
    delta: float,
    assumptions: tuple[str, ...] = (),
) -> Guarantee:
    """What local DP-SGD promises about each client's rows, whoever looks.

    Noise is each client's own, so the figures hold against a server that sees single updates. Where
    sums are added up in secret, no server does, as long as what is assumed of it is true.

    Args:
        facts: what is public.
        stages: which of them the figures are about.
        epsilon, delta: of all participations in these stages that the cap allows.
        assumptions: what must be true besides `ASSUMPTIONS`.
    """
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        protected=facts.protected,
        against=_against(facts),
        computational=True,
        mechanism="DP-SGD with Poisson sampling at each client (" + ", ".join(stages) + ")",
        composition=(
            "privacy-loss distributions of all steps of all participations; clients are "
            "disjoint, so the largest counts, and all have the same"
        ),
        public_facts=(
            f"schema {facts.schema.name!r}",
            "the declared number of rows of each client",
            f"{facts.rounds} rounds, at most {facts.participations} participations "
            "of a client in each stage, all settings of training",
        ),
        assumptions=(*ASSUMPTIONS, *assumptions, *_secrecy(facts)),
    )


def _against(facts: FederationFacts) -> tuple[Adversary, ...]:
    sums = (Adversary.SERVER_SEEING_SUMS,) if facts.secrecy else ()
    updates = Adversary.SERVER_SEEING_UPDATES
    return (Adversary.PUBLIC, *sums, updates, Adversary.OTHER_CLIENTS)


def _secrecy(facts: FederationFacts) -> tuple[str, ...]:
    if not facts.secrecy:
        return ()
    return (*facts.secrecy, "if that is false, a server sees single updates, and the figures hold")


class PromisedGuarantees(NamedTuple):
    """What goes with whatever was made: guarantees, and notes such as why there are none."""

    guarantees: tuple[Guarantee, ...]
    notes: tuple[str, ...]

    def on(self, explanation: Explanation) -> Explanation:
        notes = (*explanation.notes, *self.notes)
        return replace(explanation, guarantees=self.guarantees, notes=notes)


def promise(
    pipeline: Pipeline, results: Mapping[str, StageResult], *stages: str
) -> PromisedGuarantees:
    """Of whatever is made from these stages; nothing at all if none of them was trained here.

    Args:
        pipeline: what was agreed on.
        results: of each stage that was run, by name.
    """
    used = [stage for stage in stages if stage in results]
    if not _without_noise(pipeline).isdisjoint(used):
        return PromisedGuarantees((), (KnownNote.NOT_PRIVATE,))
    note = next((result.note for result in results.values() if result.note is not None), None)
    if note is not None:
        return PromisedGuarantees((), (note,))
    if not used:
        return PromisedGuarantees((), ())
    # Each answer says which account was charged with it; books that only count say none.
    paid = all(row.account for row in _rows(results) if row.outcome.counts)
    return PromisedGuarantees(
        (_joint(pipeline, results),), () if paid else (KnownNote.NOT_CHARGED,)
    )


def _joint(pipeline: Pipeline, results: Mapping[str, StageResult]) -> Guarantee:
    """Of all private stages, whichever were used: who sees one has seen the others, too.

    Where another stage was trained without noise, or a client stated another cost than the plan's,
    a server has seen updates that nothing bounds; against it, and whomever it tells, nothing is
    promised.
    """
    joint = pipeline.guarantee()
    kept = []
    if not _without_noise(pipeline).isdisjoint(results):
        kept.append("nothing of the stages that were trained without noise is released")
    if loud := unbounded(_rows(results)):
        kept.append(
            "nothing of the updates that stated another cost than the plan's is released; "
            f"they came from {', '.join(loud)} and were left out"
        )
    if not kept:
        return joint
    return replace(joint, against=(Adversary.PUBLIC,), assumptions=(*joint.assumptions, *kept))


def _without_noise(pipeline: Pipeline) -> set[str]:
    """Whether there is noise does not depend on a client's size."""
    return {stage.name for stage in pipeline.stages if stage.task.cost(1) is None}


def _rows(results: Mapping[str, StageResult]) -> list[HistoryRow]:
    return [row for result in results.values() for row in result.rows]


class ExplainedForFree(ABC):
    """A model that came of a federation: explanations of it are post-processing."""

    plan: Any
    """With the public `facts` of the federation."""

    @property
    @abstractmethod
    def model(self) -> Model:
        """From rows to the probabilities of the label's categories."""

    @abstractmethod
    def promise(self) -> PromisedGuarantees:
        """Guarantees and notes of whatever is made from the model."""

    def explain(
        self,
        X: Any,  # noqa: N803
        reference: Any,
        *,
        origin: Origin,
        groups: Groups | None = None,
    ) -> Explanation:
        """Interventional Shapley values of the probabilities over reference rows.

        Args:
            X: the rows to explain.
            reference: public rows, or rows that were made with differential privacy.
            origin: what the reference rows were made from; refused if that has no guarantee. What
                it promises about the same data is added to what training promised.
            groups: features that act together as one player.
        """
        schema = self.plan.facts.schema
        return interventional(
            self.model, X, reference, self.promise(), origin=origin, schema=schema, groups=groups
        )


def interventional(
    model: Model,
    X: Any,  # noqa: N803
    reference: Any,
    promised: PromisedGuarantees,
    *,
    origin: Origin,
    schema: Schema,
    groups: Groups | None = None,
) -> Explanation:
    """Interventional Shapley values over reference rows: post-processing of model and rows.

    Args:
        model: what is explained.
        X: the rows to explain.
        reference: public rows, or rows that were made with differential privacy.
        promised: what training promises about the model.
        origin: what the reference rows were made from; refused if that has no guarantee. What it
            promises about the same data is added to what training promised.
        schema: what rows look like.
        groups: features that act together as one player.
    """
    (origin,) = stated([origin])
    joint_guarantees([origin])  # rows without a guarantee are refused before they are used
    explainer = shapley_explainer(model, reference, schema=schema, groups=groups)
    found = promised.on(explainer(X))
    if not found.guarantees:
        return found
    both = joint_guarantees([trained_privately(*found.guarantees), origin])
    return replace(found, guarantees=both)
