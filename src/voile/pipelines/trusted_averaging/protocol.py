"""A trusted round: four exchanges, two of which are sums that may be secure.

    train        everybody trains, and tells its accuracy                        in clear
    importance   shares times the trust of the round before                      a sum
    divergence   how far each lies from the common shares                        in clear
    update       clipped change times weight, divided by the surviving weights   a sum

Who falls out of an exchange is left out of those after it. What is remembered is the record of all
parties (`TrustHistory`), so a party that was away finds its trust again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.federation.aggregators import (
    CombinedUpdate,
    Contribution,
    Memory,
    SumAggregator,
    UpdateAggregator,
)
from voile.federation.arrays import Array, Arrays, Shapes, digest_of_arrays
from voile.federation.chain import digest_of_shown, link_before
from voile.federation.pipeline import name_arrays
from voile.federation.round_log import Outcome
from voile.federation.round_protocol import (
    ClientReply,
    Exchange,
    PlainRound,
    RoundCall,
    RoundProtocol,
    RoundResult,
)
from voile.federation.stored_text import stored_as
from voile.federation.sums import Totals
from voile.pipelines.trusted_averaging.history import Score, TrustHistory, recomputed_trust
from voile.pipelines.trusted_averaging.tasks import (
    ACCURACIES,
    COMMON,
    DIVERGENCE,
    DIVERGENCES,
    IMPORTANCE,
    LABELS,
    MODEL,
    ROWS,
    TRUST,
    UPDATE,
    one_number,
)
from voile.pipelines.trusted_averaging.trust import TrustRule, rewards_of, weights_of

FEWEST: Final = 2
LARGEST_SHARE: Final = 1.0
"""Of importance times trust, of one party and one feature."""
_SHOWN: Final = "shown/"
_NOTHING_SHOWN: Final = "00" * 32
_FARTHEST: Final = 64.0
"""No divergence is larger: −ln of the smoothing is 23."""


@stored_as("Total")
@dataclass(frozen=True)
class Total(SumAggregator):
    """The sum itself: clients have weighed what they send."""

    def weight(self, client: str, size: int) -> float:  # noqa: ARG002
        return 1.0

    def from_sum(self, total: Totals, weight: float, memory: Memory) -> CombinedUpdate:  # noqa: ARG002
        return CombinedUpdate({n: value.astype(np.float32) for n, value in total.items()}, memory)


@dataclass(frozen=True, eq=False)
class ComparisonRows:
    """Rows that nobody protects, on which all parties compare their models; labels if there are."""

    rows: NDArray[Any]
    labels: NDArray[Any]

    @property
    def given(self) -> dict[str, Array]:
        found = {ROWS: self.rows, LABELS: self.labels}
        return {name: np.asarray(array, dtype=np.float32) for name, array in found.items()}


class Reports(UpdateAggregator):
    """What each client said, in clear."""

    def __init__(self) -> None:
        self.said: dict[str, Arrays] = {}

    def combine(self, contributions: Sequence[Contribution], memory: Memory) -> CombinedUpdate:
        self.said = {part.client: part.change for part in contributions}
        return CombinedUpdate({}, memory)


@stored_as("TrustedRound")
@dataclass(frozen=True)
class TrustedRound:
    """Runs trusted rounds.

    Args:
        rule: what all parties have agreed on about trust.
        features: how many there are.
        public: on which models are compared; absent where a plan is made and not run.
        summing: how sums are made; it takes `Total`.
        pot: what is shared out by trust in each round.
    """

    rule: TrustRule
    features: int
    public: ComparisonRows | None = field(default=None, repr=False)
    summing: RoundProtocol = field(default_factory=lambda: PlainRound(Total()))
    pot: float = 1.0

    def check(self, clients: int, largest_change: float) -> None:
        """Both sums fit into whatever adds them up."""
        self.summing.check(clients, LARGEST_SHARE)
        self.summing.check(clients, largest_change)

    def remembered(self, shapes: Shapes) -> Memory:  # noqa: ARG002
        return {}

    def run(self, call: RoundCall, exchange: Exchange) -> RoundResult:
        assert self.public is not None
        return _Running(self, self.public, call, exchange).result()


class _Running:
    """One round, while it runs."""

    def __init__(
        self, terms: TrustedRound, public: ComparisonRows, call: RoundCall, exchange: Exchange
    ) -> None:
        self.terms, self.rule, self.public = terms, terms.rule, public
        self.call, self.exchange = call, exchange
        self.history = TrustHistory.from_memory(call.memory)
        self.heard: dict[str, ClientReply] = {}
        self.left = list(call.clients)
        self.shown = {stage: _digests(call.memory, stage) for stage in (IMPORTANCE, UPDATE)}

    def result(self) -> RoundResult:
        model = name_arrays(MODEL, self.call.instruction.arrays)
        said = self._reports("", {"accuracy": (1,)}, model | self.public.given, 1.0)
        accuracies = {
            n: [*self.history.accuracies(n), float(a["accuracy"][0])] for n, a in said.items()
        }
        common = self._common()
        if common is None:
            return self._nothing()
        found = self._reports(DIVERGENCE, {DIVERGENCES: (1,)}, {COMMON: common}, _FARTHEST)
        divergences = {name: float(a[DIVERGENCES][0]) for name, a in found.items()}
        if len(divergences) < FEWEST:
            return self._nothing()
        past = {name: accuracies[name] for name in divergences}
        trusts = {
            n: recomputed_trust(self.rule, each[:-1], each[-1], divergences[n])
            for n, each in past.items()
        }
        weights = weights_of(self.rule, trusts, divergences)
        record = _record(past, divergences) | {COMMON: common}
        total = self._sum(UPDATE, self.call.shapes, record, self.call.largest_change)
        surviving = sum(weights.shares[name] for name in self.left)
        if total is None or not surviving > 0:
            return self._nothing()
        rewards = rewards_of({name: trusts[name] for name in self.left}, self.terms.pot)
        scores = {
            n: Score(
                self.call.instruction.round, past[n][-1], divergences[n], trusts[n],
                weights.shares[n] / surviving, rewards[n],
            )
            for n in self.left
        }  # fmt: skip
        grown = self.history.after(scores, common.tolist(), equal=weights.equal)
        change = {n: (array / surviving).astype(np.float32) for n, array in total.items()}
        return self._done(change, grown.as_memory())

    def _common(self) -> Array | None:
        """The trust-weighted mean of importance shares; smoothed, it adds up to 1."""
        trusts = self.history.trusts(self.left)
        given = name_arrays(TRUST, {name: one_number(trust) for name, trust in trusts.items()})
        shapes = {"importance": (self.terms.features,)}
        total = self._sum(IMPORTANCE, shapes, given, LARGEST_SHARE)
        if total is None or not total["importance"].sum() > 0:
            return None
        cut = np.maximum(total["importance"].astype(np.float64), 0.0)
        return np.asarray(cut / cut.sum(), dtype=np.float32)

    # --- exchanges ------------------------------------------------------------------------------

    def _reports(
        self, stage: str, shapes: Shapes, given: Arrays, largest: float
    ) -> Mapping[str, Arrays]:
        reports = Reports()
        self._asked(PlainRound(reports), stage, shapes, given, largest)
        return {name: reports.said[name] for name in self.left if name in reports.said}

    def _sum(self, stage: str, shapes: Shapes, given: Arrays, largest: float) -> Arrays | None:
        if len(self.left) < FEWEST:
            return None
        result = self._asked(self.terms.summing, stage, shapes, given, largest)
        return result.change if len(self.left) >= FEWEST else None

    def _whom(self, protocol: RoundProtocol) -> list[str]:
        """A secure sum is among as many as were agreed on: who fell out before cannot follow."""
        return self.left if isinstance(protocol, PlainRound) else list(self.call.clients)

    def _asked(
        self, protocol: RoundProtocol, stage: str, shapes: Shapes, given: Arrays, largest: float
    ) -> RoundResult:
        """One exchange with everybody who is left; who fails is left out from then on."""
        instruction = self.call.instruction
        empty = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
        sent = self._filled(stage, 1)
        if stage in self.shown:
            self.shown[stage] = [*sent, digest_of_shown(*map(digest_of_arrays, (empty, given)))]
        call = RoundCall(
            replace(instruction, stage=stage or instruction.stage, arrays=empty, given=given),
            {name: self.call.clients[name] for name in self._whom(protocol)},
            largest,
            protocol.remembered(shapes),
            self.call.tell if not stage else _silent,
            link_before(instruction.agreement, stage, sent),
            self.call.sign,
        )
        result = protocol.run(call, self.exchange)
        for name in self.left:
            before, now = self.heard.get(name), result.heard[name]
            self.heard[name] = now if before is None else _both(before, now)
        self.left = [name for name in self.left if result.heard[name].outcome.counts]
        return result

    def _nothing(self) -> RoundResult:
        """Too few are left: the arrays and everybody's record stay as they are."""
        return self._done(None, self.history.as_memory())

    def _done(self, change: Arrays | None, record: Memory) -> RoundResult:
        """What was shown is remembered, too: the next round of each sum is chained to it."""
        rows = {
            f"{_SHOWN}{stage}": np.array(
                [list(bytes.fromhex(each)) for each in self._filled(stage, 0)], dtype=np.float64
            )
            for stage in self.shown
        }
        return RoundResult(change, {**record, **rows}, dict(sorted(self.heard.items())))

    def _filled(self, stage: str, back: int) -> list[str]:
        """What was shown in each round until so many before this one; nothing where none began."""
        rounds, found = self.call.instruction.round - back, self.shown.get(stage, [])
        return (found + [_NOTHING_SHOWN] * rounds)[:rounds]


def _digests(memory: Memory, stage: str) -> list[str]:
    rows = memory.get(f"{_SHOWN}{stage}", np.zeros((0, 32)))
    return [bytes(int(value) for value in row).hex() for row in rows]


def _silent(heard: int) -> None:
    """Progress is told of the first exchange, in which the work is done."""


def _both(before: ClientReply, now: ClientReply) -> ClientReply:
    """What is said of a client after two exchanges: the worse outcome, all the time it took."""
    seconds = before.seconds + now.seconds
    if not now.outcome.counts:
        return replace(now, seconds=seconds, note=before.note or now.note)
    outcome = before.outcome if before.outcome is Outcome.ANSWERED else now.outcome
    return replace(before, outcome=outcome, seconds=seconds)


def _record(past: Mapping[str, Sequence[float]], found: Mapping[str, float]) -> dict[str, Array]:
    """What nodes compute weights from."""
    accuracies = {name: np.array(each, dtype=np.float32) for name, each in past.items()}
    divergences = {name: one_number(each) for name, each in found.items()}
    return name_arrays(ACCURACIES, accuracies) | name_arrays(DIVERGENCES, divergences)
