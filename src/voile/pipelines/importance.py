"""One importance over the rows of all parties.

Every party explains its rows by the same model, and charges its account before anything leaves.
Noise is *local*, where each releases its own mean of absolute attributions, with all of the noise,
and the server averages. Or it is *shared*, in a secure sum: parties add their parts of one noise to
whole numbers (`voile.pipelines.shared_importance`). The mean over parties is post-processing; what
it promises is worked out by `voile.release.FederatedAggregate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.core.randomness import GeneratorSource
from voile.core.row_note import KnownNote
from voile.federation import FitResult, Instruction, SecureSum, Stage
from voile.federation.arrays import Arrays, Shapes
from voile.federation.rounds import StageResult
from voile.federation.shared_noise import of_whole_numbers, seen_by, sharing_assumptions
from voile.federation.task import Unprotected
from voile.pipelines.facts import FederationFacts
from voile.pipelines.promises import PromisedGuarantees, promise
from voile.pipelines.shared_importance import SUMS, ShareImportance, rho_within
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
        shares: how many honest parties give all of the noise together; 1 for local noise.
    """

    facts: FederationFacts
    release: PrivateGlobalImportance
    shares: int = 1

    def __post_init__(self) -> None:
        if self.shared and not isinstance(self.facts.protocol, SecureSum):
            raise Refused("parties share noise in a secure sum only; use one share")

    @property
    def shared(self) -> bool:
        """Whether parties add their parts of one noise."""
        return self.shares > 1

    @cached_property
    def task(self) -> ReleaseImportance | ShareImportance:
        if self.shared:
            rho = rho_within(self.release)
            return ShareImportance(self.release, self.facts, self.shares, rho)
        noise = max(self.release.noise(size).sigma for size in self.facts.sizes.values())
        width = self.release.importance.outputs.width(len(self.release.importance.output_names))
        return ReleaseImportance(self.release, width + _TAIL * noise)

    @property
    def tasks(self) -> Mapping[str, ReleaseImportance | ShareImportance]:
        return {STAGE: self.task}

    @property
    def stages(self) -> tuple[Stage, ...]:
        task, parties, protocol = self.task, len(self.facts.sizes), self.facts.protocol
        if self.shared:
            protocol = of_whole_numbers(protocol)
        return (Stage(STAGE, task, 1, parties, 1, protocol, task.largest),)

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        return (self.task.cost(1),)

    def start(self, stage: str) -> Arrays:
        kind: Any = np.int64 if self.shared else np.float32
        shapes = self.tasks[stage].shapes
        return {name: np.zeros(shape, dtype=kind) for name, shape in shapes.items()}

    def guarantee(self) -> Guarantee:
        """Of the mean over all parties."""
        return self.aggregate(tuple(self.facts.sizes), self.start(STAGE)).guarantees[0]

    def aggregate(self, parties: tuple[str, ...], arrays: Arrays) -> FederatedAggregate:
        """The mean over these parties, with what it promises and how far noise moves it."""
        values, rounding = self._means(parties, arrays)
        base = self.release.importance.base
        totals = SecretTotals(parties, values[np.newaxis], base, rounding, self.facts.secrecy)
        shared = [g for origin in self.release.origins for g in origin.guarantees]
        origin = trained_privately(*shared) if shared else PUBLIC
        silos = {name: Silo(self._statement(name), self.facts.sizes[name]) for name in parties}
        return FederatedAggregate(
            silos,
            dataset=self.protected.dataset,
            totals=totals,
            shared=origin,
        )

    def _means(self, parties: tuple[str, ...], arrays: Arrays) -> tuple[NDArray[np.float64], float]:
        """Over these parties, and how far they are rounded at most."""
        task, protocol = self.task, self.facts.protocol
        if isinstance(task, ShareImportance):
            rows = sum(self.facts.sizes[name] for name in parties)
            mean = task.mean(np.asarray(arrays[SUMS], np.int64), rows)
            return mean, task.step / 2 * len(parties) / rows
        values = np.asarray(arrays[VALUES], np.float64)
        if not isinstance(protocol, SecureSum):
            return values, 0.0
        return values, protocol.rounding_error(len(self.facts.sizes), task.largest)

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
        first, *others = own.guarantees(size)
        first, sigma = self._of_party(own, first, size)
        values = np.zeros((1, len(importance.players), len(importance.output_names)))
        return Explanation(
            values=values,
            base_values=importance.base,
            feature_names=importance.players,
            output_names=importance.output_names,
            standard_errors=np.full_like(values, sigma),
            half_widths=np.full_like(values, NORMAL * sigma),
            guarantees=(first, *others),
            notes=(KnownNote.ABSOLUTE, *importance.notes),
        )

    def _of_party(
        self, own: PrivateGlobalImportance, alone: Guarantee, size: int
    ) -> tuple[Guarantee, float]:
        """What holds for one party's rows, and the deviation of its noise on its own mean."""
        task, secrecy = self.task, self.facts.secrecy
        if not isinstance(task, ShareImportance):
            return replace(alone, against=_AGAINST), own.noise(size).sigma
        shared = replace(
            alone,
            epsilon=task.epsilon(),
            against=seen_by(self.shares, secrecy),
            computational=True,
            mechanism="discrete Gaussian noise in shares on sums of absolute attributions",
            composition="one sum; each party is charged all of it",
            assumptions=(
                *alone.assumptions,
                *sharing_assumptions(self.shares, task.epsilon(honest=1), secrecy),
            ),
        )
        return shared, task.deviation / size
