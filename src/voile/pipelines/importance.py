"""One importance over the rows of all parties: each releases its own, with noise, and the server
averages.

Every party explains its rows by the same model, adds noise to its mean of absolute attributions,
and charges its account before anything leaves. The mean over parties is post-processing; what it
promises is worked out by `voile.release.FederatedAggregate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.core.randomness import GeneratorSource
from voile.core.row_note import KnownNote
from voile.federation import FitResult, Instruction, SecureSum, Stage
from voile.federation.arrays import Arrays, Shapes
from voile.federation.rounds import StageResult
from voile.federation.task import Unprotected
from voile.pipelines.facts import FederationFacts
from voile.pipelines.promises import PromisedGuarantees, promise
from voile.privacy.events import PrivacyEvent
from voile.release import (
    PUBLIC,
    FederatedAggregate,
    PrivateGlobalImportance,
    Silo,
    trained_privately,
)
from voile.release.federated import NORMAL, SecretTotals

STAGE: Final = "importance"
VALUES: Final = "mean absolute attributions"
_AGAINST: Final = (Adversary.PUBLIC, Adversary.SERVER_SEEING_UPDATES, Adversary.OTHER_CLIENTS)
_TAIL: Final = 40.0
"""Standard deviations of noise that an answer is not expected to leave; it is cut there."""


@dataclass(frozen=True, eq=False)
class ReleaseImportance:
    """What a party does: it draws the release over its own rows.

    The noise is drawn by the release, exactly, and never from a seed.

    Args:
        release: with public settings only.
        largest: answers are cut to this size, noise included.
    """

    release: PrivateGlobalImportance
    largest: float

    @property
    def shapes(self) -> Shapes:
        importance = self.release.importance
        return {VALUES: (len(importance.players), len(importance.output_names))}

    def cost(self, size: int) -> PrivacyEvent:
        return self.release.cost(size)

    def fit(
        self,
        instruction: Instruction,  # noqa: ARG002
        records: Any,
        size: int,
        source: GeneratorSource,  # noqa: ARG002
    ) -> FitResult:
        noisy = self.release.draw(records).values[0].clip(-self.largest, self.largest)
        return FitResult({VALUES: noisy.astype(np.float32)}, self.cost(size))

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:  # noqa: ARG002
        return {}


@dataclass(frozen=True, eq=False)
class ImportancePlan:
    """One round in which every party releases its importance; a `voile.federation.Pipeline`.

    Args:
        facts: what is public.
        release: of each party, over its own rows.
    """

    facts: FederationFacts
    release: PrivateGlobalImportance

    @cached_property
    def task(self) -> ReleaseImportance:
        noise = max(self.release.noise(size).sigma for size in self.facts.sizes.values())
        width = self.release.importance.outputs.width(len(self.release.importance.output_names))
        return ReleaseImportance(self.release, width + _TAIL * noise)

    @property
    def tasks(self) -> Mapping[str, ReleaseImportance]:
        return {STAGE: self.task}

    @property
    def stages(self) -> tuple[Stage, ...]:
        task, parties = self.task, len(self.facts.sizes)
        return (Stage(STAGE, task, 1, parties, 1, self.facts.protocol, task.largest),)

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        return (self.task.cost(1),)

    def start(self, stage: str) -> Arrays:
        shapes = self.tasks[stage].shapes
        return {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}

    def guarantee(self) -> Guarantee:
        """Of the mean over all parties."""
        return self.aggregate(tuple(self.facts.sizes), self.start(STAGE)).guarantees[0]

    def aggregate(self, parties: tuple[str, ...], arrays: Arrays) -> FederatedAggregate:
        """The mean over these parties, with what it promises and how far noise moves it."""
        protocol, values = self.facts.protocol, np.asarray(arrays[VALUES], np.float64)[np.newaxis]
        rounding = (
            protocol.rounding_error(len(self.facts.sizes), self.task.largest)
            if isinstance(protocol, SecureSum)
            else 0.0
        )
        base = self.release.importance.base
        totals = SecretTotals(parties, values, base, rounding, self.facts.secrecy)
        shared = [g for origin in self.release.origins for g in origin.guarantees]
        origin = trained_privately(*shared) if shared else PUBLIC
        silos = {name: Silo(self._statement(name), self.facts.sizes[name]) for name in parties}
        return FederatedAggregate(
            silos,
            dataset=self.protected.dataset,
            totals=totals,
            shared=origin,
        )

    def promised(self, results: Mapping[str, StageResult]) -> PromisedGuarantees:
        """Of the mean that was taken."""
        return promise(self, results, STAGE)

    def _statement(self, party: str) -> Explanation:
        """All that a party says in public: no value, and what its release promises."""
        size, importance = self.facts.sizes[party], self.release.importance
        own = replace(
            self.release,
            protected=self.protected.in_dataset(f"{self.protected.dataset}: {party}"),
        )
        sigma = own.noise(size).sigma
        first, *others = own.guarantees(size)
        values = np.zeros((1, len(importance.players), len(importance.output_names)))
        return Explanation(
            values=values,
            base_values=importance.base,
            feature_names=importance.players,
            output_names=importance.output_names,
            standard_errors=np.full_like(values, sigma),
            half_widths=np.full_like(values, NORMAL * sigma),
            guarantees=(replace(first, against=_AGAINST), *others),
            notes=(KnownNote.ABSOLUTE, *importance.notes),
        )
