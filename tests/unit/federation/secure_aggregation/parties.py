"""Parties with keys, and attempts that run over messages in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from voile.core.errors import Refused
from voile.federation.secure_aggregation import (
    Attempt,
    AttemptsInMemory,
    AttemptStep,
    AttemptTerms,
    ClientAttempt,
    HonestButCurious,
    ServerAttempt,
    Signer,
    ThreatModel,
)

SERVER = "server"


@lru_cache(maxsize=1024)
def key(name: str) -> Ed25519PrivateKey:  # noqa: ARG001
    return Ed25519PrivateKey.generate()


def signer(name: str) -> Signer:
    return lambda text: key(name).sign(text.encode())


def identities(names: Iterable[str]) -> dict[str, bytes]:
    return {name: key(name).public_key().public_bytes_raw() for name in (*names, SERVER)}


def names_of(count: int) -> tuple[str, ...]:
    return tuple(f"party {place:03}" for place in range(count))


def terms_for(
    count: int,
    model: ThreatModel | None = None,
    *,
    attempt: str = "first",
    number: int = 1,
    length: int = 5,
    dtype: Any = np.uint32,
) -> AttemptTerms:
    names = names_of(count)
    where = Attempt("agreed", "stage", number, attempt)
    chosen = HonestButCurious() if model is None else model
    return AttemptTerms(where, names, chosen, identities(names), length, dtype)


def vectors_for(terms: AttemptTerms, seed: int = 1) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    most = np.iinfo(terms.dtype).max
    return {
        name: draw.integers(0, most, terms.length, dtype=terms.dtype, endpoint=True)
        for name in terms.asked
    }


def sum_of(vectors: Mapping[str, Any], names: Iterable[str]) -> Any:
    return np.sum(
        [vectors[name] for name in names], axis=0, dtype=next(iter(vectors.values())).dtype
    )


@dataclass
class Run:
    """An attempt, message by message.

    Args:
        lost: by step, who does not answer from then on.
        deaf: by step, whose answers to it are lost although they were given.
        kind: of the clients, some of which are broken.
    """

    terms: AttemptTerms
    vectors: Mapping[str, Any]
    stores: Mapping[str, Any] = field(default_factory=dict)
    lost: Mapping[AttemptStep, Iterable[str]] = field(default_factory=dict)
    deaf: Mapping[AttemptStep, Iterable[str]] = field(default_factory=dict)
    seen: list[Any] = field(default_factory=list)
    kind: type[ClientAttempt] = ClientAttempt

    def __post_init__(self) -> None:
        self.stores = {n: self.stores.get(n) or AttemptsInMemory() for n in self.terms.asked}
        self.server = ServerAttempt(self.terms, signer(SERVER))
        self.gone: set[str] = set()
        self.clients: dict[str, ClientAttempt] = {}

    def all_steps(self) -> Any:
        """The sum, or `Refused`."""
        self.advertise()
        for step in self.server.steps:
            self.step(step)
        return self.server.total()

    def advertise(self) -> None:
        self.gone |= set(self.lost.get(AttemptStep.ADVERTISE, ()))
        for name in self.terms.asked:
            if name not in self.gone:
                made = self.kind(self.terms, name, signer(name), self.stores[name])
                self.clients[name] = made
                ask = partial(made.advertise, self.vectors[name])
                self.answered(AttemptStep.ADVERTISE, name, ask)

    def step(self, step: AttemptStep, change: Callable[[str, Any], Any] = lambda _, m: m) -> None:
        self.gone |= set(self.lost.get(step, ()))
        for name, message in self.server.requests(step).items():
            if name not in self.gone:
                said = change(name, message)
                self.answered(step, name, partial(self.clients[name].handle, said))

    def answered(self, step: AttemptStep, name: str, ask: Callable[[], Any]) -> None:
        answer = ask()
        if name in self.deaf.get(step, ()):
            return
        self.seen.append((step, name, answer))
        self.server.take(step, name, answer)


def other_attempt(terms: AttemptTerms, name: str) -> AttemptTerms:
    return replace(terms, attempt=replace(terms.attempt, name=name))


def refusal(ask: Callable[..., Any], *given: Any) -> str:
    try:
        ask(*given)
    except Refused as refused:
        return str(refused)
    raise AssertionError("nothing was refused")
