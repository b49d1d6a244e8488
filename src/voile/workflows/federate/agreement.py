"""What all parties of a federation have agreed on. Everything in it is public."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from voile.audit_log.notes import VerifierKey
from voile.core.errors import InvalidInput
from voile.core.guarantee import Protected
from voile.core.schema import Schema
from voile.federation import Pipeline
from voile.federation.files import file_stem
from voile.pipelines.facts import FederationFacts
from voile.workflows.federate.kinds import DEFAULT, KINDS

SERVER: Final = "server"


@dataclass(frozen=True, eq=False)
class FederationAgreement:
    """The facts that noise, weights and promises follow from; `digest` stands for all of them.

    Every message and every record about a round names the digest, and a node refuses any other.

    Args:
        protected: what is promised: a row of this version of the data, whose label is the
            federation's name too.
        schema: of the rows.
        sizes: how many rows each party declares.
        epsilon, delta: promised to each row of each party, for all that leaves.
        keys: the key that each party signs its log with, whose name is the origin of that log.
        pipeline: what is trained, one of `voile.workflows.federate.kinds.KINDS`.
        rounds, participations: see `FederationFacts`.
        hidden: widths of hidden layers; the default of each stage if None.
    """

    protected: Protected
    schema: Schema
    sizes: Mapping[str, int]
    epsilon: float
    delta: float
    keys: Mapping[str, VerifierKey] = field(repr=False)
    pipeline: str = DEFAULT
    rounds: int = 10
    participations: int | None = None
    hidden: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if SERVER in self.sizes:
            raise InvalidInput(f"no party may be called {SERVER!r}: that is the server")
        if set(self.keys) != set(self.sizes):
            raise InvalidInput("every party has a declared size and a key")
        if self.pipeline not in KINDS:
            raise InvalidInput(f"there is no pipeline {self.pipeline!r}; there are {list(KINDS)}")

    @property
    def name(self) -> str:
        return self.protected.dataset

    @cached_property
    def plan(self) -> Pipeline:
        """Stages and noise, from these facts alone."""
        each = None
        if self.participations is not None and self.participations < self.rounds:
            each = max(1, len(self.sizes) * self.participations // self.rounds)
        facts = FederationFacts(
            schema=self.schema,
            sizes=self.sizes,
            protected=self.protected,
            rounds=self.rounds,
            clients_per_round=each,
            participations=self.participations,
        )
        return KINDS[self.pipeline].plan(
            facts, epsilon=self.epsilon, delta=self.delta, hidden=self.hidden
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all of it. The form never changes: it stands in logs."""
        facts = {
            "form": "voile agreement 1",
            "pipeline": self.pipeline,
            "protected": self.protected.texts,
            "schema": self.schema.digest,
            "parties": {
                name: {"rows": size, "key": str(self.keys[name])}
                for name, size in sorted(self.sizes.items())
            },
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rounds": self.rounds,
            "participations": self.participations,
            "hidden": None if self.hidden is None else list(self.hidden),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def origin_of(federation: str, party: str) -> str:
    """A name for the log of a party that nobody else uses."""
    return f"voile.invalid/{file_stem(federation)}/{file_stem(party)}"
