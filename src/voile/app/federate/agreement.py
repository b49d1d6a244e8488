"""What all parties of a federation have agreed on. Everything in it is public."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from voile.app.federate.kinds import DEFAULT, KINDS
from voile.assess.members_count import count_event
from voile.core.choices import chosen
from voile.core.errors import InvalidInput
from voile.core.guarantee import Protected, declared_maximum
from voile.federation import Pipeline, PlainRound, RoundProtocol, SecureSum, Task
from voile.federation.aggregators import AGGREGATORS, MEAN, SumAggregator
from voile.federation.secure_aggregation import ThreatModel
from voile.federation.shared_noise import shares_of
from voile.federation.stored_text import file_stem
from voile.federation.task import FollowUp
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.pipelines.shapley_guided_noise import GuidedPlan
from voile.privacy.events import PrivacyEvent, PureDp
from voile.records.audit_log.notes import VerifierKey

SERVER: Final = "server"
_ORIGIN: Final = "voile.invalid"
_SHARING_NOW: Final = ("aggregate", "recommender")
"""Pipelines that have learned to share noise."""


@dataclass(frozen=True, eq=False)
class FederationAgreement:
    """The facts that noise, weights and promises follow from; `digest` stands for all of them.

    Every message and every record about a round names the digest, and a node refuses any other.

    Args:
        protected: what is promised: a row of this version of the data, whose label is the
            federation's name too.
        schema: what parties' records look like, as the pipeline reads it.
        sizes: how many rows each party declares.
        epsilon, delta: promised to each row of each party, for all that leaves.
        keys: the key that each party signs its log with, whose name is the origin of that log.
        pipeline: what is trained, one of `voile.app.federate.kinds.KINDS`.
        rounds, participations: see `FederationFacts`.
        hidden: widths of hidden layers; the default of each stage if None.
        aggregator: how updates become one, one of `voile.federation.aggregators.AGGREGATORS`.
        levels: epsilon of parties that have declared one of their own, by name.
        secure: against whom single updates are hidden by a secure sum; None: the server sees them.
        server_key: that the server signs its log with, and its messages of a secure sum.
        members_count: epsilon, within that of each row, that every party may spend once on how many
            of its rows an attacker would take for members; None: on nothing.
        records_per_person: how many rows of all parties together belong to one person at most, if
            that is declared.
        options: of the pipeline; None if it has none.
    """

    protected: Protected
    schema: Any
    sizes: Mapping[str, int]
    epsilon: float
    delta: float
    keys: Mapping[str, VerifierKey] = field(repr=False)
    pipeline: str = DEFAULT
    rounds: int = 10
    participations: int | None = None
    hidden: tuple[int, ...] | None = None
    aggregator: str = MEAN
    levels: Mapping[str, float] = field(default_factory=dict)
    secure: ThreatModel | None = None
    server_key: VerifierKey | None = field(default=None, repr=False)
    members_count: float | None = None
    records_per_person: int | None = None
    options: Any = None

    def __post_init__(self) -> None:
        if self.records_per_person is not None:
            declared_maximum(self.protected, self.records_per_person)
        if SERVER in self.sizes:
            raise InvalidInput(
                f"no party may be called {SERVER!r}: this name is reserved for the server"
            )
        if set(self.keys) != set(self.sizes):
            raise InvalidInput("every party has a declared size and a key")
        kind = chosen(KINDS, self.pipeline, "pipeline")
        if kind.fixed_rounds not in (None, self.rounds):
            raise InvalidInput(
                f"the pipeline {self.pipeline!r} has rounds = {kind.fixed_rounds} in each stage: "
                "leave `rounds` out"
            )
        if self.secure is not None and self.server_key is None:
            raise InvalidInput("a secure sum needs the server's key, which signs its messages")
        self._check_members_count()
        self._check_aggregator()

    def _check_aggregator(self) -> None:
        """An aggregator computes with updates that have left already: it costs no privacy."""
        found = chosen(AGGREGATORS, self.aggregator, "aggregator")
        if self.aggregator == MEAN:
            return
        if not KINDS[self.pipeline].takes_any_aggregator:
            raise InvalidInput(
                f"the pipeline {self.pipeline!r} weighs updates itself: leave `aggregator` out"
            )
        if self.secure is not None and not isinstance(found, SumAggregator):
            raise InvalidInput(
                f"aggregator {self.aggregator!r} has to see single updates, which a secure sum "
                "hides: use 'mean', 'adam' or 'yogi', or set secure = false"
            )
        asked = asked_in_a_round(len(self.sizes), self.rounds, self.participations)
        if asked < found.fewest:
            raise InvalidInput(
                f"aggregator {self.aggregator!r} needs {found.fewest} parties in a round, found "
                f"{asked}"
            )

    def _check_members_count(self) -> None:
        if self.members_count is None:
            return
        if self.protected.unit is not CLIPPED_UNIT or not KINDS[self.pipeline].counts_members:
            raise InvalidInput(
                "members are counted where rows are protected, not some columns, and a network is "
                "trained: leave members_count out"
            )
        # Beyond these bounds what numerical composition adds for its grid may not fit any more.
        if not self.epsilon / 100 <= self.members_count <= self.epsilon / 2:
            raise InvalidInput(
                f"members_count is a part of epsilon = {self.epsilon:g}, from a hundredth to half "
                f"of it; found {self.members_count:g}"
            )

    @property
    def name(self) -> str:
        return self.protected.dataset

    @cached_property
    def plan(self) -> Pipeline:
        """Stages and noise, from these facts alone."""
        facts = KINDS[self.pipeline].facts(
            self.levels,
            schema=self.schema,
            sizes=self.sizes,
            protected=self.protected,
            rounds=self.rounds,
            clients_per_round=asked_in_a_round(len(self.sizes), self.rounds, self.participations),
            participations=self.participations,
            protocol=self.protocol,
            **({} if self.options is None else {"options": self.options}),
        )
        trained = self.epsilon - sum(event.epsilon for event in self.reserved)
        return KINDS[self.pipeline].plan(
            facts, epsilon=trained, delta=self.delta, hidden=self.hidden
        )

    @property
    def reserved(self) -> tuple[PureDp, ...]:
        """What every party may release besides, once the model is trained."""
        if self.members_count is None:
            return ()
        return (count_event(self.members_count, self.protected.relation),)

    def epsilon_of(self, party: str) -> float:
        """What is promised to the rows of one party."""
        return self.levels.get(party, self.epsilon)

    @property
    def weakest_epsilon(self) -> float:
        """What is promised to every row, whoever has it."""
        return max(map(self.epsilon_of, self.sizes))

    def tasks_of(self, party: str) -> Mapping[str, Task | FollowUp]:
        """What one party runs, by stage."""
        plan = self.plan
        return plan.tasks_of(party) if isinstance(plan, GuidedPlan) else plan.tasks

    def events_of(self, party: str) -> tuple[PrivacyEvent, ...]:
        """The parts of one party's account."""
        plan = self.plan
        if isinstance(plan, GuidedPlan):
            return plan.events_of(party)
        return (*plan.participation_events, *self.reserved)

    @property
    def secrecy(self) -> tuple[str, ...]:
        """What it rests on that the server sees sums only; nothing where it sees single updates."""
        if self.secure is None:
            return ()
        asked = asked_in_a_round(len(self.sizes), self.rounds, self.participations)
        return self.secure.assumptions(asked)

    @property
    def protocol(self) -> RoundProtocol:
        """Of every stage."""
        aggregator = AGGREGATORS[self.aggregator]
        if self.secure is None or self.server_key is None:
            return PlainRound(aggregator)
        assert isinstance(aggregator, SumAggregator)
        keys = {name: key.public for name, key in self.keys.items()}
        return SecureSum(
            self.secure, {**keys, SERVER: self.server_key.public}, self.sizes, aggregator
        )

    def _level(self, party: str) -> dict[str, float]:
        """Nothing where none was declared: the form of older agreements never changes."""
        return {"epsilon": self.levels[party]} if party in self.levels else {}

    @property
    def _shares_noise(self) -> bool:
        """Where earlier versions agreed on noise of each party's own by the same words."""
        if self.pipeline not in _SHARING_NOW:
            return False
        shared = getattr(self.options, "shared", None)
        return shares_of(self.protocol, len(self.sizes), shared) > 1

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all of it. The form never changes: it stands in logs."""
        facts: dict[str, Any] = {
            "form": "voile agreement 1",
            "pipeline": self.pipeline,
            "protected": self.protected.texts,
            "schema": self.schema.digest,
            "parties": {
                name: {"rows": size, "key": str(self.keys[name]), **self._level(name)}
                for name, size in sorted(self.sizes.items())
            },
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rounds": self.rounds,
            "participations": self.participations,
            "hidden": None if self.hidden is None else list(self.hidden),
        }
        if self.secure is not None:
            facts["secure sum"] = {**self.secure.stated, "key": str(self.server_key)}
        if self.aggregator != MEAN:  # the form of older agreements never changes
            facts["aggregator"] = self.aggregator
        if self.members_count is not None:
            facts["members count"] = self.members_count
        if self.records_per_person is not None:
            facts["records per person"] = self.records_per_person
        if self.options is not None:
            facts["options"] = dict(self.options.stated)
        if self._shares_noise:
            facts["noise"] = "shared"
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def asked_in_a_round(parties: int, rounds: int, participations: int | None) -> int:
    """Everybody, unless each takes part in some of the rounds only."""
    if participations is None or participations >= rounds:
        return parties
    return max(1, parties * participations // rounds)


def origin_of(federation: str, party: str) -> str:
    """A name for the log of a party that nobody else uses."""
    return f"{_ORIGIN}/{file_stem(federation)}/{file_stem(party)}"


def federation_of(origin: str) -> str:
    """The name of the federation in what `origin_of` made; any other origin as it is."""
    parts = origin.split("/")
    if len(parts) != 3 or parts[0] != _ORIGIN:
        return origin
    return re.sub("-([0-9a-f]{1,6})-", lambda found: chr(int(found[1], 16)), parts[1])
