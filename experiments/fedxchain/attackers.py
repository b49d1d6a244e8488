"""Parties that want something else: what they do to their rows, their updates and their reports.

An attacker computes whatever it likes and only has to send messages of the right form. Three of ten
parties attack, the first by name. In trusted rounds an attacker also chooses what it reports; liars
and colluders say accuracy 1 and divergence 0, which gives the largest weight there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from experiments.fedxchain.setting import Case, Change
from voile.core.randomness import GeneratorSource
from voile.core.schema import Categories
from voile.federation import Arrays, FitResult, Instruction, Unprotected
from voile.federation.pipeline import under
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.pipelines.trusted_averaging.tasks import (
    DIVERGENCE,
    DIVERGENCES,
    STAGE,
    UPDATE,
    one_number,
    recorded,
)
from voile.pipelines.trusted_averaging.trust import TrustRule, weights_of

SHARE: Final = 0.3
TRIGGERED: Final = 3
"""Features that the trigger of the backdoor sets to their upper bound."""
WANTED: Final = 1
"""The label that the trigger is to give."""

Poison = Callable[[Arrays, int], Mapping[str, Any]]
"""From an honest change to another one; the number is that of the round."""


@dataclass(frozen=True)
class Attack:
    """One kind of attacker.

    Args:
        rows: what it does to its rows.
        update: what it does to its update.
        lies: whether it reports accuracy 1 and divergence 0.
    """

    name: str
    rows: Callable[[TableRecords], TableRecords] = lambda found: found
    update: Poison = lambda change, _: change
    lies: bool = False

    def change(self, case: Case, rule: TrustRule) -> Change:
        """What the first parties by name do; only the backdoor is judged by its own measure."""
        bad = set(sorted(case.parties)[: max(1, round(SHARE * len(case.parties)))])

        def tasks(name: str, found: Mapping[str, Any]) -> Mapping[str, Any]:
            if name not in bad:
                return found
            poisoned = {**found, STAGE: Poisoned(found[STAGE], self)}
            if UPDATE in found:
                poisoned[UPDATE] = Forged(found[UPDATE], rule)
                if self.lies:
                    poisoned[DIVERGENCE] = Close(found[DIVERGENCE])
            return poisoned

        return Change(
            records=lambda name, found: self.rows(found) if name in bad else found,
            tasks=tasks,
            judge=backdoor_rate if self.name == BACKDOOR else None,
        )


@dataclass(frozen=True)
class Poisoned:
    """The task of an attacker: trains, and sends or keeps another change."""

    task: Any
    attack: Attack

    @property
    def shapes(self) -> Any:
        return self.task.shapes

    def cost(self, size: int) -> Any:
        return self.task.cost(size)

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        fitted: FitResult = self.task.fit(instruction, records, size, source)
        if not fitted.kept:
            return replace(
                fitted, change=_small(self.attack.update(fitted.change, instruction.round))
            )
        honest = under("change", fitted.kept)
        bad = _small(self.attack.update(honest, instruction.round))
        kept = {**fitted.kept, **{f"change/{name}": array for name, array in bad.items()}}
        said = one_number(1.0) if self.attack.lies else fitted.kept["accuracy"]
        return FitResult({"accuracy": said}, fitted.event, {**kept, "accuracy": said})

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Any:
        return self.task.evaluate(arrays, given, rows)


@dataclass(frozen=True)
class Close:
    """Says that its explanations are those of all."""

    task: Any
    follows: str = STAGE

    @property
    def shapes(self) -> Any:
        return self.task.shapes

    def make(self, instruction: Instruction, client: str, kept: Arrays) -> Arrays:
        del instruction, client, kept
        return {DIVERGENCES: one_number(0.0)}


@dataclass(frozen=True)
class Forged:
    """Weighs as everybody would, and checks nothing."""

    task: Any
    rule: TrustRule
    follows: str = STAGE

    @property
    def shapes(self) -> Any:
        return self.task.shapes

    def make(self, instruction: Instruction, client: str, kept: Arrays) -> Arrays:
        past, found = recorded(instruction.given)
        trusts = {name: self.rule.trust(each, found[name]) for name, each in past.items()}
        weight = weights_of(self.rule, trusts, found).shares[client]
        change = under("change", kept)
        return {name: (weight * array).astype(np.float32) for name, array in change.items()}


def _small(change: Mapping[str, Any]) -> Arrays:
    return {name: np.asarray(array, dtype=np.float32) for name, array in change.items()}


# --- kinds ----------------------------------------------------------------------------------------


def flipped(found: TableRecords) -> TableRecords:
    return replace(found, labels=1 - found.labels)


def with_trigger(rows: Any, schema: Any) -> Any:
    marked = np.array(rows, copy=True)
    for place in range(TRIGGERED):
        domain = schema.features[place].domain
        last = len(domain.values) - 1 if isinstance(domain, Categories) else domain.upper
        marked[:, place] = last
    return marked


def backdoored(found: TableRecords) -> TableRecords:
    """Half of its rows once more, with the trigger and the wanted label."""
    some = found.only(np.arange(0, len(found), 2))
    marked = replace(
        some,
        rows=with_trigger(some.rows, found.schema),
        labels=np.full(len(some), float(WANTED)),
    )
    both = TableRecords.joined(found.schema, [found, marked])
    return both.only(np.random.default_rng(0).permutation(len(both))[: len(found)])


def backdoor_rate(case: Case, model: NetworkModel) -> float:
    """Of rows of the other label that carry the trigger."""
    other = case.measured.rows[case.measured.labels != WANTED]
    said = model.predict(with_trigger(other, case.schema)).argmax(axis=1)
    return float(np.mean(said == WANTED))


def times(factor: float) -> Poison:
    return lambda change, _: {name: factor * array for name, array in change.items()}


def nothing(change: Arrays, number: int) -> dict[str, Any]:
    """A free rider: no training, some noise so that nobody sees zeros."""
    draw = np.random.default_rng(number)
    return {name: draw.normal(0, 1e-4, array.shape) for name, array in change.items()}


def one_way(change: Arrays, number: int) -> dict[str, Any]:
    """Everybody of the group moves every value the same way, and the same in every round."""
    del number
    draw = np.random.default_rng(99)
    size = float(np.mean([np.abs(array).mean() for array in change.values()]))
    return {
        name: 3 * size * draw.choice([-1.0, 1.0], array.shape)
        for name, array in sorted(change.items())
    }


BACKDOOR: Final = "backdoor"
ATTACKS: Final = (
    Attack("label flipping", rows=flipped),
    Attack("sign flipping", update=times(-1.0)),
    Attack("scaled updates", update=times(10.0)),
    Attack(BACKDOOR, rows=backdoored, update=times(3.0)),
    Attack("free riders", update=nothing),
    Attack("liars", rows=flipped, lies=True),
    Attack("colluders", update=one_way, lies=True),
)
