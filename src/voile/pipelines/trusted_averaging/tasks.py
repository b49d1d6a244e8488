"""What a client does in a trusted round: it trains once, and three answers follow from that.

1. `LocalTraining` trains (with local DP-SGD, in private mode; this is what is charged), keeps the
   clipped change of the model and its importance shares, and tells its accuracy;
2. `ShareImportance` adds its shares, times its trust, to the common ones;
3. `ReportDivergence` tells how far its shares lie from the common ones;
4. `ContributeUpdate` computes everybody's weight from the record, and sends its change times its
   own.

Noise, if any, is in the change before it is clipped, weighed or compared: all that follows is
post-processing, whatever the weights are and whoever chose them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput, Refused
from voile.core.randomness import GeneratorSource
from voile.core.schema import Rows, Schema
from voile.federation.arrays import Array, Arrays, Shapes
from voile.federation.messages import Instruction
from voile.federation.pipeline import under
from voile.federation.task import FitResult, Unprotected
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.pipelines.trusted_averaging.importance import (
    ImportanceDesign,
    OverOwnRows,
    shares_of,
)
from voile.pipelines.trusted_averaging.trust import TrustRule, weights_of
from voile.privacy.events import Composed, PrivacyEvent

STAGE: Final = "trusted averaging"
IMPORTANCE: Final = f"{STAGE}: importance"
DIVERGENCE: Final = f"{STAGE}: divergence"
UPDATE: Final = f"{STAGE}: update"

MODEL, ROWS, LABELS, COMMON = "model", "public rows", "public labels", "common importance"
TRUST, ACCURACIES, DIVERGENCES = "trust", "accuracies", "divergence"
_ACCURACY, _IMPORTANCE, _CHANGE = "accuracy", "importance", "change"


def one_number(value: float) -> Array:
    return np.array([value], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class LocalTraining:
    """Trains the model on a client's rows, and says how good it is.

    Args:
        schema: what rows look like.
        network: what is trained, and how.
        longest: the change of the model is clipped to this norm.
        own_rows: importance and accuracy over the client's own rows, charged; None: over the public
            rows that come with the instruction, for free.
    """

    schema: Schema
    network: NetworkTask
    longest: float
    own_rows: OverOwnRows | None = None

    @property
    def shapes(self) -> Shapes:
        return {_ACCURACY: (1,)}

    def cost(self, size: int) -> PrivacyEvent | None:
        training = self.network.cost(size)
        if training is None or self.own_rows is None:
            return training
        return Composed((training, self.own_rows.event))

    @cached_property
    def output_head(self) -> OutputHead:
        return OutputHead.of_label(self.schema)

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        before = under(MODEL, instruction.given)
        asked = Instruction(STAGE, instruction.round, before, {}, instruction.agreement)
        fitted = self.network.fit(asked, records, size, source)
        change = clipped(fitted.change, self.longest)
        after = {name: before[name] + change[name] for name in before}
        model = NetworkModel.from_arrays(self.schema, self.output_head, after)
        strengths, accuracy = self._looked_at(model, instruction.given, records, size)
        kept = {f"{_CHANGE}/{name}": array for name, array in change.items()}
        kept[_IMPORTANCE] = shares_of(strengths).astype(np.float32)
        kept[_ACCURACY] = one_number(accuracy)
        # What was released, and not `cost` again: the client compares this with the charge.
        event = fitted.event
        if event is not None and self.own_rows is not None:
            event = Composed((event, self.own_rows.event))
        return FitResult({_ACCURACY: one_number(accuracy)}, event, kept)

    def _looked_at(
        self, model: NetworkModel, given: Arrays, records: Any, size: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.float64]], float]:
        rows, labels = public_rows(self.schema, given)
        if self.own_rows is None:
            right = _right(model, rows, labels)
            return self._design(rows).strengths(model), float(np.mean(right))
        own: TableRecords = records
        design = ImportanceDesign(self.schema, own.rows, rows)
        with np.errstate(all="ignore"):
            right = _right(model, own.rows, own.labels)
            return self.own_rows.noised(design, model, right, own.null, size, self.network.relation)

    def _design(self, rows: Rows) -> ImportanceDesign:
        """The same rows come with every instruction: the design is made once."""
        known: ImportanceDesign | None = getattr(self, "_known", None)
        if known is None or not np.array_equal(known.rows, rows[: len(known.rows)]):
            known = ImportanceDesign.from_rows(self.schema, rows)
            object.__setattr__(self, "_known", known)
        return known

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        return self.network.evaluate(arrays, given, rows)


@dataclass(frozen=True, eq=False)
class GlobalModel:
    """The stage as the server sees it: arrays of the model, and what an answer costs."""

    local: LocalTraining

    @property
    def shapes(self) -> Shapes:
        return self.local.network.shapes

    def cost(self, size: int) -> PrivacyEvent | None:
        return self.local.cost(size)

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        """Clients are set up with `LocalTraining`."""
        del instruction, records, size, source
        raise Refused("a client of a trusted round trains with `LocalTraining`")

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        return self.local.evaluate(arrays, given, rows)


@dataclass(frozen=True)
class ShareImportance:
    """Its importance shares times its trust, for the common ones; `parties` as agreed."""

    features: int
    rule: TrustRule
    parties: frozenset[str]
    follows: str = STAGE

    @property
    def shapes(self) -> Shapes:
        return {_IMPORTANCE: (self.features,)}

    def make(self, instruction: Instruction, client: str, kept: Arrays) -> Arrays:
        trusts = {n: float(a[0]) for n, a in under(TRUST, instruction.given).items()}
        check_agreed(trusts, self.parties)
        share = trusts.get(client, 0.0) / max(sum(trusts.values()), 1e-300)
        most = max(self.rule.largest_share, 1 / max(len(trusts), 1))
        if len(trusts) < 2 or client not in trusts or not 0 <= share <= most + 1e-6:
            raise Refused(
                f"{client!r} would count {share:.2f} of the common importance, or alone; the rule "
                f"says at most {most:.2f}, of two parties or more"
            )
        return {_IMPORTANCE: (trusts[client] * kept[_IMPORTANCE]).astype(np.float32)}


@dataclass(frozen=True)
class ReportDivergence:
    """How far its importance shares lie from the common ones."""

    rule: TrustRule
    follows: str = STAGE

    @property
    def shapes(self) -> Shapes:
        return {DIVERGENCES: (1,)}

    def make(self, instruction: Instruction, client: str, kept: Arrays) -> Arrays:  # noqa: ARG002
        own, common = kept[_IMPORTANCE], instruction.given[COMMON]
        return {DIVERGENCES: one_number(divergence_from(self.rule, own, common))}


@dataclass(frozen=True, eq=False)
class ContributeUpdate:
    """Its clipped change times its weight, which it computes itself from the record.

    Refused if the record does not say what it reported, speaks of fewer than two parties, or of any
    besides `parties`, which were agreed on. In a secure sum all are shown one record (what they
    sign names it), so each line of somebody who is in the sum was checked by the one it is about.
    """

    model_shapes: Shapes
    rule: TrustRule
    parties: frozenset[str]
    follows: str = STAGE

    @property
    def shapes(self) -> Shapes:
        return self.model_shapes

    def make(self, instruction: Instruction, client: str, kept: Arrays) -> Arrays:
        accuracies, found = recorded(instruction.given)
        check_agreed(found, self.parties)
        if client not in found or len(found) < 2:
            raise Refused(f"the record leaves {client!r} out, or speaks of nobody else")
        said = divergence_from(self.rule, kept[_IMPORTANCE], instruction.given[COMMON])
        if (accuracies[client][-1], found[client]) != (
            float(kept[_ACCURACY][0]),
            float(one_number(said)[0]),
        ):
            raise Refused(f"the record says something else of {client!r} than it reported")
        trusts = {name: self.rule.trust(past, found[name]) for name, past in accuracies.items()}
        weight = weights_of(self.rule, trusts, found).shares[client]
        change = under(_CHANGE, kept)
        return {name: (weight * array).astype(np.float32) for name, array in change.items()}


def check_agreed(named_parties: Iterable[str], parties: frozenset[str]) -> None:
    """Invented parties would take up weight, so that of the others less is hidden in a sum."""
    strangers = sorted(set(named_parties) - parties)
    if strangers:
        raise Refused(f"the record names parties that nobody has agreed on: {strangers[:3]}")


def divergence_from(rule: TrustRule, own: Any, common: Any) -> float:
    """Both came as float32, in which their sums may have lost a digit."""
    cut = [np.maximum(np.asarray(each, dtype=np.float64), 0.0) for each in (own, common)]
    if cut[0].shape != cut[1].shape or not all(0 < each.sum() < np.inf for each in cut):
        raise InvalidInput("expected the common importance shares of all features")
    return rule.divergence.between(*(each / each.sum() for each in cut))


def recorded(given: Arrays) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Accuracies so far and divergence of everybody, as the server says."""
    past = {n: [float(x) for x in array] for n, array in under(ACCURACIES, given).items()}
    found = {n: float(array[0]) for n, array in under(DIVERGENCES, given).items()}
    if set(past) != set(found) or not all(past.values()):
        raise InvalidInput("expected accuracies and a divergence of every party")
    return past, found


def public_rows(schema: Schema, given: Arrays) -> tuple[Rows, Any]:
    """The public rows of an instruction, clamped to the schema, and their labels."""
    if ROWS not in given:
        raise InvalidInput("an instruction to train comes with public rows")
    rows = schema.clamp(np.asarray(given[ROWS], dtype=np.float64))
    labels = np.asarray(given.get(LABELS, np.zeros(len(rows))), dtype=np.float64)
    return rows, labels


def clipped(change: Arrays, longest: float) -> dict[str, Array]:
    """The change, made shorter where its norm is larger."""
    length = float(
        np.sqrt(sum(float(np.square(a, dtype=np.float64).sum()) for a in change.values()))
    )
    scale = min(1.0, longest / length) if length > 0 else 1.0
    return {name: (array * np.float32(scale)).astype(np.float32) for name, array in change.items()}


def _right(model: NetworkModel, rows: Rows, labels: Any) -> Any:
    if not isinstance(rows, np.ndarray) or not len(rows):
        return np.zeros(1, dtype=bool)
    return model.predict(rows).argmax(axis=1) == np.asarray(labels)
