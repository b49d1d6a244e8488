"""The kinds of records that a federation writes; see `records` for what all kinds promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class FederationRoundRecord:
    """One round of a federation.

    Args:
        model: digest of the global arrays after the round.
        published_hash: H_t of FedXChain (III-F), see `digests.published_round_hash`; in other
            federations SHA-256 over `model` and H_{t-1}. By itself it proves nothing against
            whoever keeps the chain, the log around it does.
        previous_hash: H_{t-1}; absent in the first round.
    """

    kind: ClassVar[str] = "federation round"
    version: ClassVar[int] = 1
    time: int
    federation: str
    round: int
    clients: int
    epsilon: float
    delta: float
    model: bytes
    published_hash: bytes
    previous_hash: bytes | None = None
    agreement: str | None = None


@dataclass(frozen=True, kw_only=True)
class ParticipationRecord:
    """A client of a federation charged its own account before it trained for one round.

    Args:
        federation, stage, round: what for.
        charge: the ledger's name for this charge.
        epsilon, delta: what the client's account promises in all; `event` is this round's part.
        event, cost: as in `ReleaseRecord`.
    """

    kind: ClassVar[str] = "participation"
    version: ClassVar[int] = 1
    time: int
    account: str
    charge: str
    federation: str
    stage: str
    round: int
    epsilon: float
    delta: float
    unit: str
    relation: str
    dataset: str
    event: str | None = None
    cost: str | None = None
    agreement: str | None = None


@dataclass(frozen=True, kw_only=True)
class AbsenceRecord:
    """A client that was asked did not contribute to a round, and what became of its answer."""

    kind: ClassVar[str] = "absence"
    version: ClassVar[int] = 1
    time: int
    federation: str
    round: int
    client: str
    outcome: str
    agreement: str | None = None


@dataclass(frozen=True, kw_only=True)
class RoundShownRecord:
    """A client was shown a round of the chain of rounds that the server signs.

    Two clients whose logs hold different links for one round and stage, or one log that does, prove
    that the server showed different histories: it signed both.

    Args:
        previous: link that the round is chained to.
        link: of this round, over the arrays that were sent.
        begun: digest of the attempt, of those who were asked and of what else was sent.
        signature: of the server, in hexadecimal.
    """

    kind: ClassVar[str] = "round shown"
    version: ClassVar[int] = 1
    time: int
    federation: str
    stage: str
    round: int
    previous: bytes
    link: bytes
    begun: bytes
    signature: str
    agreement: str


@dataclass(frozen=True, kw_only=True)
class TrustRecord:
    """How far one party of a federation was trusted in one round, and what that followed from.

    Args:
        accuracy, divergence: as reported, or as the server measured them (FedXChain's NSDS);
            `consistency` and `trust` follow from these and earlier records, and anybody can
            compute them again.
        weight: the share that its update had; of all parties of a round they add up to 1. Follows
            from the others where they were reported. Where the server measures, it also follows
            from the `EvidenceRecord` of each party and the `WeightingRecord` of the round.
        measure: which divergence.
        covered: "released" where accuracy and divergence are covered by the guarantee of the
            federation, "exact" where they are not: then as many reports as there are features
            determine what they were computed from.
    """

    kind: ClassVar[str] = "trust"
    version: ClassVar[int] = 1
    time: int
    federation: str
    round: int
    client: str
    accuracy: float
    divergence: float
    consistency: float
    trust: float
    weight: float
    measure: str
    covered: str
    agreement: str | None = None


@dataclass(frozen=True, kw_only=True)
class RewardRecord:
    """What a party of a federation earned in one round by its trust."""

    kind: ClassVar[str] = "reward"
    version: ClassVar[int] = 1
    time: int
    federation: str
    round: int
    client: str
    trust: float
    reward: float
    agreement: str | None = None


@dataclass(frozen=True, kw_only=True)
class WeightingRecord:
    """How a server that sees updates weighed them in one round; the same for all parties.

    Args:
        public_rows: digest of the public rows and labels that parties were judged on.
        rows, steps, rate, clipping_norm: how the server trained its reference update: this many
            public rows in each step; no norm where gradients were not clipped.
        level, directions, needed: the median party must exceed `needed`, which follows from this
            many random directions and this level, before any two parties are told apart.
        median_discrimination, median_cosine: of the parties in this round.
        told_apart: 1 if scores counted, 0 if all updates of a usual length counted alike.
        tau, largest_share, shortest, longest: what divergence costs, the largest weight, and the
            lengths of updates that count, in median lengths.
    """

    kind: ClassVar[str] = "weighting"
    version: ClassVar[int] = 1
    time: int
    federation: str
    round: int
    public_rows: bytes
    rows: int
    steps: int
    rate: float
    level: float
    directions: int
    needed: float
    median_discrimination: float
    median_cosine: float
    told_apart: int
    tau: float
    largest_share: float
    shortest: float
    longest: float
    clipping_norm: float | None = None
    agreement: str | None = None


@dataclass(frozen=True, kw_only=True)
class EvidenceRecord:
    """What a server that sees updates measured of one party up to one round.

    Args:
        length: of its update, in median lengths of the round.
        discrimination: 2·AUC − 1 on the public rows, of the start plus all its updates.
        cosine: of the sum of its updates and the sum of the reference updates.
        scored, matched: both over the median party's, in [0, 1], as they counted; those of an
            earlier round where this one tells nothing apart.
    """

    kind: ClassVar[str] = "evidence"
    version: ClassVar[int] = 1
    time: int
    federation: str
    round: int
    client: str
    length: float
    discrimination: float
    cosine: float
    scored: float
    matched: float
    agreement: str | None = None
