"""A round in which the server learns the sum of updates and nothing else of them.

Several exchanges: everybody trains, keeps the update and advertises keys; shares of keys go around;
masked integers come in; survivors are agreed on and unmasked. Whoever falls out on the way is left
out, by name and kind; if too few are left there is no sum, and the arrays stay as they are.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from voile.core.errors import InvalidInput, Refused
from voile.federation.aggregators import FedAvg, Memory, SumAggregator, WholeSum, check_whole
from voile.federation.arrays import Arrays, Shapes, digest_of_arrays
from voile.federation.chain import AnnouncedRound, attempt_digest, digest_of_shown, next_link
from voile.federation.client import check_size
from voile.federation.messages import Advertised, SecureInstruction
from voile.federation.round_log import Outcome
from voile.federation.round_protocol import (
    ClientReply,
    Exchange,
    ExpectedAnswer,
    RoundCall,
    RoundResult,
    fault_of,
    note_of,
)
from voile.federation.secure_aggregation import (
    Attempt,
    AttemptStep,
    AttemptTerms,
    Quantisation,
    ServerAttempt,
    ThreatModel,
)
from voile.federation.secure_aggregation.attempts import BegunBefore
from voile.federation.secure_aggregation.masking import Words
from voile.federation.secure_aggregation.quantisation import WholeNumbers
from voile.federation.secure_aggregation.signed import SERVER
from voile.federation.secure_aggregation.threat_models import (
    ActiveServer,
    Complete,
    HonestButCurious,
    Sparse,
)
from voile.federation.stored_text import stored_as
from voile.federation.sums import Totals
from voile.federation.transport import NodeReply

ToWords: TypeAlias = Quantisation | WholeNumbers
_IN_THE_SUM: Final = (AttemptStep.CONSENT, AttemptStep.UNMASK)
"""Who falls out in these steps has sent a vector, which stays in the sum."""
stored_as("ActiveServer")(ActiveServer)
stored_as("HonestButCurious")(HonestButCurious)
stored_as("Complete")(Complete)
stored_as("Sparse")(Sparse)


@stored_as("SecureSum")
@dataclass(frozen=True)
class SecureSum:
    """The round protocol of the secure sum; everything in it is public and agreed on.

    Only an aggregator that is a sum can be used: one that has to see single updates is refused.

    Args:
        model: against whom it holds.
        identities: the public Ed25519 key of each party, and of the server as "server".
        sizes: how many records each party declares.
        aggregator: what becomes of the weighted sum.
    """

    model: ThreatModel
    identities: Mapping[str, bytes]
    sizes: Mapping[str, int]
    aggregator: SumAggregator = field(default_factory=FedAvg)

    def __post_init__(self) -> None:
        if not isinstance(self.aggregator, SumAggregator):
            raise Refused(
                f"{type(self.aggregator).__name__} has to see every single update, which a secure "
                "sum hides; use an aggregator that is a sum, such as FedAvg, or a plain round"
            )
        if SERVER in self.sizes or set(self.identities) != {*self.sizes, SERVER}:
            raise InvalidInput("every party, and the server, has a key and a declared size")
        for name, size in self.sizes.items():
            check_size(name, size)
        if any(len(key) != 32 for key in self.identities.values()):
            raise InvalidInput("keys are public Ed25519 keys of 32 bytes")
        for name in ("identities", "sizes"):  # equal ones read alike
            object.__setattr__(self, name, dict(sorted(getattr(self, name).items())))

    def check(self, clients: int, largest_change: float) -> None:
        """Thresholds hold, and no sum of so many can wrap around."""
        self.model.threshold_of(clients)
        if isinstance(self.aggregator, WholeSum):
            check_whole(clients, largest_change)
        self.quantisation(self._heaviest(clients), largest_change)

    def remembered(self, shapes: Shapes) -> Memory:
        return self.aggregator.remembered(shapes)

    def run(self, call: RoundCall, exchange: Exchange) -> RoundResult:
        if call.sign is None:
            raise InvalidInput("the server of a secure sum signs what it says: Rounds(sign=...)")
        running = _RunningAttempt(self, call)
        for reply in exchange(dict.fromkeys(call.clients, running.instruction)):
            running.take_advert(reply)
            call.tell(len(running.heard))
        try:
            for step in running.server.steps:
                for reply in exchange(running.server.requests(step)):
                    running.take(step, reply)
            totals = running.totals()
        except Refused as failure:
            return RoundResult(None, call.memory, running.without_a_sum(failure))
        weight = sum(self.weight(name) for name in running.server.survivors)
        combined = self.aggregator.from_sum(totals, weight, call.memory)
        return RoundResult(*combined, running.ordered())

    # --- what both sides derive from it -------------------------------------------------------

    def weight(self, name: str) -> float:
        """Of a party, from its declared size."""
        return self.aggregator.weight(name, self.sizes[name])

    def quantisation(self, asked: Sequence[str], largest_change: float) -> ToWords:
        """For those who are asked, in the width that as many of the heaviest need.

        In one width lighter parties have digits that are as fine or finer: none errs more than
        `rounding_error` says.
        """
        if isinstance(self.aggregator, WholeSum):
            return WholeNumbers(largest_change, len(asked))
        heaviest = map(self.weight, self._heaviest(len(asked)))
        width = Quantisation.for_sum(largest_change, heaviest).width
        return Quantisation.finest(largest_change, map(self.weight, asked), width)

    def terms(
        self, message: SecureInstruction, announced: AnnouncedRound, largest: float
    ) -> AttemptTerms:
        """Of an attempt among those who were shown what is announced; nobody else can be in it."""
        where = Attempt(announced.agreement, announced.stage, announced.round, announced.attempt)
        length = sum(array.size for array in message.instruction.arrays.values())
        asked = message.asked
        dtype = self.quantisation(asked, largest).dtype
        return AttemptTerms(where, asked, self.model, self.identities, length, dtype)

    def rounding_error(self, clients: int, largest_change: float) -> float:
        """Of the mean of a round, at most: everybody is asked for, the lightest survive."""
        found = self.quantisation(self._heaviest(clients), largest_change)
        weights = sorted(map(self.weight, self.sizes))
        return found.error_of_mean(weights[: self.model.threshold_of(clients)])

    def _heaviest(self, clients: int) -> list[str]:
        return sorted(self.sizes, key=self.weight)[-clients:]


class _RunningAttempt:
    """The server's part of one attempt: what was heard of whom."""

    def __init__(self, protocol: SecureSum, call: RoundCall) -> None:
        assert call.sign is not None
        self._protocol, self._call = protocol, call
        asked, name = tuple(call.clients), secrets.token_hex(16)
        self.instruction = begin(call, name, asked)
        terms = protocol.terms(
            self.instruction, announced_round(self.instruction), call.largest_change
        )
        self._quantisation = protocol.quantisation(asked, call.largest_change)
        self.server = ServerAttempt(terms, call.sign)
        self.heard: dict[str, ClientReply] = {}

    def take_advert(self, reply: NodeReply) -> None:
        answer = reply.content
        statement: Any = answer.statement if type(answer) is Advertised else None
        outcome, error = reply.outcome or self._fault(reply.node, statement), reply.error
        if outcome is None:
            try:
                self.server.take(AttemptStep.ADVERTISE, reply.node, answer.advert)
            except Refused as refusal:
                outcome, error = Outcome.WRONG_TYPE, refusal
        if isinstance(error, BegunBefore):  # a refusal before a charge is free, and this is none
            outcome = Outcome.OVER
        account = ""
        if outcome is None:
            outcome = Outcome.RESENT if statement.resent is True else Outcome.ANSWERED
            account = statement.account or ""
        self.heard[reply.node] = ClientReply(
            outcome, reply.seconds, account, note_of(statement), error
        )

    def _fault(self, client: str, statement: Any) -> Outcome | None:
        event = self._call.clients[client].event
        expected = ExpectedAnswer(client, event, {}, self._call.largest_change)
        return fault_of(statement, self._call.instruction, expected)

    def take(self, step: AttemptStep, reply: NodeReply) -> None:
        outcome, error = reply.outcome, reply.error
        if outcome is None:
            try:
                self.server.take(step, reply.node, reply.content)
            except Refused as refusal:
                outcome, error = Outcome.WRONG_TYPE, refusal
        if outcome is Outcome.REFUSED:  # it has trained and charged all the same
            outcome = Outcome.UNSUMMED
        before = self.heard[reply.node]
        seconds = before.seconds + reply.seconds
        if outcome is None or step in _IN_THE_SUM:
            self.heard[reply.node] = replace(before, seconds=seconds, error=error)
        else:
            self.heard[reply.node] = ClientReply(outcome, seconds, "", before.note, error)

    def totals(self) -> Totals:
        """The weighted sum of updates; `Refused` if there is none."""
        total, survivors = self.server.total(), self.server.survivors
        if not self._quantisation.within(total, map(self._protocol.weight, survivors)):
            raise Refused("a party has added more than any update may hold: the sum is of no use")
        return _by_name(self._quantisation.from_words(total), self._call.shapes)

    def ordered(self) -> dict[str, ClientReply]:
        return dict(sorted(self.heard.items()))

    def without_a_sum(self, failure: Refused) -> dict[str, ClientReply]:
        return {
            name: replace(found, outcome=Outcome.UNSUMMED, error=found.error or failure)
            if found.outcome.counts
            else found
            for name, found in self.ordered().items()
        }


def begin(call: RoundCall, attempt: str, asked: tuple[str, ...]) -> SecureInstruction:
    """What the server says first, signed."""
    assert call.sign is not None
    message = SecureInstruction(call.instruction, attempt, asked, call.previous, b"")
    return replace(message, signature=call.sign(announced_round(message).text))


def announced_round(message: SecureInstruction) -> AnnouncedRound:
    """What a server signs when it begins an attempt of a round."""
    instruction = message.instruction
    shown = digest_of_shown(*map(digest_of_arrays, (instruction.arrays, instruction.given)))
    link = next_link(message.previous, instruction.round, shown)
    return AnnouncedRound(
        instruction.agreement, instruction.stage, instruction.round, message.previous, link,
        attempt_digest(message.attempt, message.asked), message.signature,
    )  # fmt: skip


def flat_words(arrays: Arrays, weight: float, quantisation: ToWords) -> Words:
    """An update as integers, array after array in order of names."""
    parts: list[Words] = [
        quantisation.to_words(arrays[name].ravel(), weight) for name in sorted(arrays)
    ]
    return np.concatenate(parts)


def _by_name(values: Any, shapes: Shapes) -> Totals:
    ordered = sorted(shapes)
    ends = np.cumsum([int(np.prod(shapes[name])) for name in ordered])
    parts = np.split(values, ends[:-1])
    return {name: part.reshape(shapes[name]) for name, part in zip(ordered, parts, strict=True)}
