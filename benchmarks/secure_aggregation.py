"""What a secure sum costs: CPU and bytes of one party and of the server, beside a plain sum.

Everything runs in this process, message by message, and is measured in CPU time: one party is the
mean over the survivors. One party in ten falls out after it has shared its keys, which is what
costs the server most. A plain sum is a vector of float32 sent and added in double precision.

Masks are compared with those of Flower's SecAgg+ at an equal number of neighbours: each generated
and added, of 10^6 values. Theirs come from a Mersenne Twister seeded with 32 bits, which anybody
can try out; ours are streams of ChaCha20 with keys of 256 bits.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.harness import Figure, alternate, compare, write
from voile.federation.secure_aggregation import (
    ActiveServer,
    Attempt,
    AttemptsInMemory,
    AttemptStep,
    AttemptTerms,
    ClientAttempt,
    HonestButCurious,
    ServerAttempt,
    Signer,
    ThreatModel,
    sparse_for,
)
from voile.federation.secure_aggregation.masking import add_mask
from voile.federation.sums import OrderFreeSum

MILLION, SMALL, MASKS = 1_000_000, 10_000, 49
COUNTS = (10, 50, 100)


def run() -> None:
    figures: list[Figure] = []
    for length in (SMALL, MILLION):
        for count in COUNTS:
            figures += _beside_a_plain_sum(count, length)
    figures += [_masks(), *_growth()]
    write("secure_aggregation", "a plain sum; Flower's SecAgg+ for masks", figures)


def _beside_a_plain_sum(count: int, length: int) -> list[Figure]:
    ours, plain = measured(count, length, ActiveServer()), plainly(count, length)
    case = f"{count} parties, {'10⁶' if length == MILLION else '10⁴'} values"
    client = compare(f"{case}: a party", "ms", ours.client, plain.client)
    if (count, length) == (50, MILLION):
        target = "at most 1 s"
        client = Figure(client.what, "ms", client.ours, client.peer, client.ratio, target,
                        ours.client <= 1000)  # fmt: skip
    return [
        client,
        compare(f"{case}: the server", "ms", ours.server, plain.server),
        compare(f"{case}: sent by a party", "kB", ours.sent, plain.sent),
        Figure(f"{case}: sent to a party", "kB", ours.got, None, None),
    ]


def _masks() -> Figure:
    ours, theirs = alternate([_our_masks, _their_masks])
    what = f"{MASKS} masks of 10⁶ values; peer: SecAgg+"
    return compare(what, "ms", ours, theirs, at_most=1.0)


def _our_masks() -> float:
    seeds = [secrets.token_bytes(32) for _ in range(MASKS)]
    vector = np.zeros(MILLION, dtype=np.uint32)

    def work() -> None:
        for seed in seeds:
            add_mask(vector, seed)

    return _milliseconds(work)


def _their_masks() -> float:
    from flwr.common.secure_aggregation.ndarrays_arithmetic import parameters_addition
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    seeds = [secrets.token_bytes(32) for _ in range(MASKS)]
    vector: Any = [np.zeros(MILLION, dtype=np.int64)]

    def work() -> None:
        added = vector
        for seed in seeds:
            added = parameters_addition(added, pseudo_rand_gen(seed, 1 << 32, [(MILLION,)]))

    return _milliseconds(work)


def _growth() -> list[Figure]:
    """At 10⁴ values; the peer is a complete graph of ten."""
    few, found = measured(10, SMALL, HonestButCurious()), []
    models: list[tuple[int, ThreatModel]] = [(200, HonestButCurious())]
    for count in (100, 500):
        graph = sparse_for(count, colluders=1, dropouts=count // 10)
        models.append((count, HonestButCurious(graph=graph)))
    for count, model in models:
        degree = getattr(model.graph, "degree", count - 1)
        case = f"{count} parties with {degree} neighbours each"
        ours = measured(count, SMALL, model)
        found += [
            compare(f"{case}: a party; peer: 10", "ms", ours.client, few.client),
            compare(f"{case}: the server; peer: 10", "ms", ours.server, few.server),
            compare(f"{case}: sent by a party; peer: 10", "kB", ours.sent, few.sent),
            compare(f"{case}: sent to a party; peer: 10", "kB", ours.got, few.got),
        ]
    return found


# --- one attempt ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one party and of the server; kilobytes that a party sends and gets."""

    client: float
    server: float
    sent: float
    got: float


class Clock:
    """CPU time of whatever is called through it."""

    def __init__(self) -> None:
        self.total = 0.0

    def __call__(self, work: Callable[..., Any], *given: Any) -> Any:
        begin = time.process_time()
        found = work(*given)
        self.total += time.process_time() - begin
        return found


def measured(count: int, length: int, model: ThreatModel) -> Cost:
    """One attempt, message by message; a tenth of the parties falls out after sharing keys."""
    names = tuple(f"party {place:03}" for place in range(count))
    keys = {name: Ed25519PrivateKey.generate() for name in (*names, "server")}
    public = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    attempt = Attempt("agreement", "stage", 1, secrets.token_hex(16))
    terms = AttemptTerms(attempt, names, model, public, length, np.uint32)
    vector = np.arange(length, dtype=np.uint32)
    gone = set(names[: count // 10])
    clocks = {name: Clock() for name in names}
    at_server, sent, got = Clock(), 0, 0
    server = ServerAttempt(terms, _signer(keys["server"]))
    clients = {}
    for name in names:
        made = clocks[name](ClientAttempt, terms, name, _signer(keys[name]), AttemptsInMemory())
        clients[name] = made
        advert = clocks[name](made.advertise, vector)
        at_server(server.take, AttemptStep.ADVERTISE, name, advert)
    for step in server.steps:
        for name, message in at_server(server.requests, step).items():
            if step is AttemptStep.SHARE or name not in gone:
                answer = clocks[name](clients[name].handle, message)
                at_server(server.take, step, name, answer)
                if name not in gone:
                    sent += len(answer.body) + len(answer.signature)
                    got += len(message.body) + len(message.signature)
    total, left = at_server(server.total), count - len(gone)
    assert np.array_equal(total, vector * np.uint32(left))
    client = sum(clock.total for name, clock in clocks.items() if name not in gone) / left
    return Cost(1e3 * client, 1e3 * at_server.total, sent / left / 1e3, got / left / 1e3)


def plainly(count: int, length: int) -> Cost:
    """The same vectors in the open."""
    vector = np.arange(length, dtype=np.float32)
    at_clients, at_server = Clock(), Clock()
    adding = OrderFreeSum({"v": (length,)}, largest=float(length), weight=count, terms=count)

    def take(content: bytes) -> None:
        adding.add({"v": np.frombuffer(content, dtype=np.float32)}, 1.0)

    for _ in range(count):
        at_server(take, at_clients(vector.tobytes))
    return Cost(1e3 * at_clients.total / count, 1e3 * at_server.total, vector.nbytes / 1e3, 0.0)


def _signer(key: Ed25519PrivateKey) -> Signer:
    return lambda text: key.sign(text.encode())


def _milliseconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return 1e3 * (time.process_time() - begin)
