"""What all parties of a federation have agreed on. Everything in it is public."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from voile.audit_log.notes import VerifierKey
from voile.core.errors import InvalidInput
from voile.core.guarantee import Protected
from voile.core.schema import Schema
from voile.federation.files import file_stem
from voile.pipelines.private_explainer.plan import Facts, PipelinePlan, split_total

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
        rounds, participations: see `Facts`.
        hidden: widths of hidden layers; the default of each stage if None.
    """

    protected: Protected
    schema: Schema
    sizes: Mapping[str, int]
    epsilon: float
    delta: float
    keys: Mapping[str, VerifierKey] = field(repr=False)
    rounds: int = 10
    participations: int | None = None
    hidden: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if SERVER in self.sizes:
            raise InvalidInput(f"no party may be called {SERVER!r}: that is the server")
        if set(self.keys) != set(self.sizes):
            raise InvalidInput("every party has a declared size and a key")

    @property
    def name(self) -> str:
        return self.protected.dataset

    @cached_property
    def plan(self) -> PipelinePlan:
        """Stages and noise, from these facts alone."""
        each = None
        if self.participations is not None and self.participations < self.rounds:
            each = max(1, len(self.sizes) * self.participations // self.rounds)
        facts = Facts(
            schema=self.schema,
            sizes=self.sizes,
            protected=self.protected,
            rounds=self.rounds,
            clients_per_round=each,
            participations=self.participations,
        )
        plan = split_total(facts, epsilon=self.epsilon, delta=self.delta)
        if self.hidden is None:
            return plan
        wide = {name: replace(each, hidden=self.hidden) for name, each in plan.training.items()}
        return replace(plan, training=wide)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all of it. The form never changes: it stands in logs."""
        facts = {
            "form": "voile agreement 1",
            "pipeline": "private explainer",
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
