"""How the messages of one round become one change of the global arrays.

A plain round is one exchange: everybody who was asked gets the arrays and sends an update. Other
protocols may need several exchanges, and see less. Who may be seen what is a matter of types: a
protocol says which aggregators it takes, and an aggregator what it has to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from voile.federation.aggregators import (
    Aggregator,
    CombinedUpdate,
    Contribution,
    FedAvg,
    Memory,
    SumAggregator,
    UpdateAggregator,
    WholeSum,
    check_whole,
)
from voile.federation.arrays import Arrays, Shapes, shapes_of
from voile.federation.messages import LONGEST_STATEMENT, Instruction, Message, Update
from voile.federation.round_log import Outcome
from voile.federation.secure_aggregation import Signer
from voile.federation.stored_text import stored_as
from voile.federation.sums import OrderFreeSum
from voile.federation.transport import NodeReply

# -------------------------------------------------------------------------------------------------
# What a server checks before it uses an answer. The first reason to reject it is the outcome.


class ExpectedAnswer(NamedTuple):
    """What an answer is compared with.

    Args:
        client: who was asked.
        event: what one participation of it costs, as agreed on (`history.event_as_text`).
        like: arrays of the same names, kinds of numbers and shapes.
        largest: value that an update may have, in size.
    """

    client: str
    event: str
    like: Arrays
    largest: float


def fault_of(answer: Any, instruction: Instruction, expected: ExpectedAnswer) -> Outcome | None:
    """Why an answer cannot be used, or None. Whatever it is, looking at it never raises.

    1. It is an update, from the client that was asked, for this stage, round and agreement.
    2. It states the cost that was agreed on.
    3. It maps exactly the names of the global arrays to arrays of the same kinds and shapes.
    4. Every value is finite, and at most `largest` in size.
    """
    try:
        return _fault_of(answer, instruction, expected)
    except Exception:  # an object that cannot even be compared or listed
        return Outcome.WRONG_TYPE


def _fault_of(answer: Any, instruction: Instruction, expected: ExpectedAnswer) -> Outcome | None:
    if type(answer) is not Update or not isinstance(answer.arrays, Mapping):
        return Outcome.WRONG_TYPE
    wanted = expected.client, instruction.stage, instruction.round, instruction.agreement
    if (answer.client, answer.stage, answer.round, answer.agreement) != wanted:
        return Outcome.WRONG_SENDER
    if type(answer.event) is not str or not all(map(_is_statement, (answer.account, answer.note))):
        return Outcome.WRONG_TYPE
    if answer.event != expected.event:
        return Outcome.OTHER_COST
    arrays, like = answer.arrays, expected.like
    if set(arrays) != set(like):
        return Outcome.WRONG_SHAPE
    if any(type(a) is not np.ndarray or a.dtype != like[n].dtype for n, a in arrays.items()):
        return Outcome.WRONG_TYPE
    if any(arrays[name].shape != array.shape for name, array in like.items()):
        return Outcome.WRONG_SHAPE
    sizes = [abs(float(x)) for a in arrays.values() if a.size for x in (a.min(), a.max())]
    if not np.isfinite(sizes).all():
        return Outcome.NOT_FINITE
    return Outcome.TOO_LARGE if max(sizes, default=0.0) > expected.largest else None


def note_of(answer: Any) -> str:
    """What an update states about its randomness, also one that cannot be used: it was seen."""
    stated = answer.note if type(answer) is Update else None
    return stated if stated is not None and _is_statement(stated) else ""


def _is_statement(stated: Any) -> bool:
    """It is shown and kept, so it is printable and of moderate length, or absent."""
    if stated is None:
        return True
    return type(stated) is str and stated.isprintable() and 0 < len(stated) <= LONGEST_STATEMENT


# --------------------------------------------------------------------------------------------------


Exchange: TypeAlias = Callable[[Mapping[str, Message]], Iterator[NodeReply]]
"""A transport with its deadline."""


class AgreedTerms(NamedTuple):
    """What is known of a client beforehand: its declared size, and what an update of it costs."""

    size: int
    event: str


@dataclass(frozen=True, eq=False)
class RoundCall:
    """What a round begins with.

    Args:
        instruction: what is to be trained.
        clients: who is asked, in order of names.
        largest_change: an update with a larger value, in size, is left out.
        memory: what was remembered after the round before.
        tell: called with the number of clients heard of so far.
        previous: what this round is chained to (`voile.federation.chain`).
        sign: with the server's key, where it has one.
    """

    instruction: Instruction
    clients: Mapping[str, AgreedTerms]
    largest_change: float
    memory: Memory
    tell: Callable[[int], None] = field(repr=False)
    previous: str = ""
    sign: Signer | None = field(default=None, repr=False)

    @property
    def shapes(self) -> Shapes:
        return shapes_of(self.instruction.arrays)


@dataclass(frozen=True, eq=False)
class ClientReply:
    """What became of one client's part: everything but what it sent.

    Args:
        account, note: as the client states them (`voile.federation.messages.Update`).
        error: for whoever sits at this machine.
    """

    outcome: Outcome
    seconds: float
    account: str = ""
    note: str = ""
    error: BaseException | None = None


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What a round ends with.

    Args:
        change: of the arrays; None if too few answered.
        memory: what is remembered for the next round.
        heard: of everybody who was asked, in order of names.
    """

    change: Arrays | None
    memory: Memory
    heard: dict[str, ClientReply]


class RoundProtocol(Protocol):
    """Runs rounds, one at a time. Two with the same `stored_text` do the same."""

    def check(self, clients: int, largest_change: float) -> None:
        """Refuse what could not be run, when a stage is put together.

        Args:
            clients: how many are asked in a round.
            largest_change: value of an update, in size.
        """

    def remembered(self, shapes: Shapes) -> Memory:
        """What is remembered before the first round."""

    def run(self, call: RoundCall, exchange: Exchange) -> RoundResult:
        """Whatever clients do, it ends: who cannot be used is left out, by name and kind."""


@stored_as("PlainRound")
@dataclass(frozen=True)
class PlainRound:
    """One exchange. The server is shown every update, whatever the aggregator needs to see."""

    aggregator: Aggregator = field(default_factory=FedAvg)

    def check(self, clients: int, largest_change: float) -> None:
        """Any number of clients will do: with too few for the aggregator nothing changes."""
        if isinstance(self.aggregator, WholeSum):
            check_whole(clients, largest_change)

    def remembered(self, shapes: Shapes) -> Memory:
        return self.aggregator.remembered(shapes)

    def run(self, call: RoundCall, exchange: Exchange) -> RoundResult:
        gathered = _gathering(self.aggregator, call)
        heard: dict[str, ClientReply] = {}
        for reply in exchange(dict.fromkeys(call.clients, call.instruction)):
            heard[reply.node] = found = _heard(call, reply)
            if found.outcome.counts:
                gathered.add(reply.node, reply.content.arrays)
            call.tell(len(heard))
        ordered = dict(sorted(heard.items()))
        if gathered.count < self.aggregator.fewest:
            return RoundResult(None, call.memory, ordered)
        return RoundResult(*gathered.combined(call.memory), ordered)


def _heard(call: RoundCall, reply: NodeReply) -> ClientReply:
    answer = reply.content
    outcome = reply.outcome or _fault(call, reply.node, answer)
    account = ""
    if outcome is None:
        outcome = Outcome.RESENT if answer.resent is True else Outcome.ANSWERED
        account = answer.account or ""
    return ClientReply(outcome, reply.seconds, account, note_of(answer), reply.error)


def _fault(call: RoundCall, client: str, answer: Any) -> Outcome | None:
    event = call.clients[client].event
    expected = ExpectedAnswer(client, event, call.instruction.arrays, call.largest_change)
    return fault_of(answer, call.instruction, expected)


# --- what aggregators see --------------------------------------------------------------------


class _Gathering(Protocol):
    @property
    def count(self) -> int: ...

    def add(self, client: str, arrays: Arrays) -> None: ...

    def combined(self, memory: Memory) -> CombinedUpdate: ...


def _gathering(aggregator: Aggregator, call: RoundCall) -> _Gathering:
    if isinstance(aggregator, WholeSum):
        return _SummedWhole(aggregator, call)
    if isinstance(aggregator, SumAggregator):
        return _Summed(aggregator, call)
    return _Listed(aggregator, call)


class _Summed:
    """Adds each update up and forgets it: the same memory, however many there are."""

    def __init__(self, aggregator: SumAggregator, call: RoundCall) -> None:
        self._aggregator = aggregator
        self._weights = {n: aggregator.weight(n, c.size) for n, c in call.clients.items()}
        self._sum = OrderFreeSum(
            call.shapes,
            largest=call.largest_change,
            weight=sum(self._weights.values()),
            terms=len(self._weights),
        )

    @property
    def count(self) -> int:
        return self._sum.terms

    def add(self, client: str, arrays: Arrays) -> None:
        self._sum.add(arrays, self._weights[client])

    def combined(self, memory: Memory) -> CombinedUpdate:
        return self._aggregator.from_sum(self._sum.totals, self._sum.weight, memory)


class _SummedWhole:
    """Adds whole numbers up: no sum is rounded, so it is the same in any order."""

    def __init__(self, aggregator: WholeSum, call: RoundCall) -> None:
        self._aggregator, self.count = aggregator, 0
        self._sums = {n: np.zeros(s, dtype=np.int64) for n, s in call.shapes.items()}

    def add(self, client: str, arrays: Arrays) -> None:  # noqa: ARG002
        for name, total in self._sums.items():
            np.add(total, arrays[name], out=total, casting="no")
        self.count += 1

    def combined(self, memory: Memory) -> CombinedUpdate:
        return self._aggregator.from_sum(self._sums, float(self.count), memory)


class _Listed:
    """Keeps every update."""

    def __init__(self, aggregator: UpdateAggregator, call: RoundCall) -> None:
        self._aggregator, self._clients = aggregator, call.clients
        self._kept: dict[str, Contribution] = {}

    @property
    def count(self) -> int:
        return len(self._kept)

    def add(self, client: str, arrays: Arrays) -> None:
        self._kept[client] = Contribution(client, self._clients[client].size, arrays)

    def combined(self, memory: Memory) -> CombinedUpdate:
        ordered = [self._kept[name] for name in sorted(self._kept)]
        return self._aggregator.combine(ordered, memory)
