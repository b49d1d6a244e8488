"""What the log says, as frozen data: one class for each kind of record.

A record holds public facts only. What was asked and what was answered appear as commitments that
hide them; a protected value never appears, not even hashed.

Compatibility promise: a record of a released version is readable for ever. No kind loses a field or
changes a meaning; a change is a new version of the kind, beside the old one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, ClassVar, Final, NewType, TypeAlias, get_args, get_type_hints

from voile.core.choices import chosen
from voile.core.errors import InvalidInput
from voile.records.audit_log import canonical
from voile.records.audit_log.canonical import Flat, Malformed
from voile.records.audit_log.merkle import HASH_SIZE
from voile.records.audit_log.rule_records import (
    AlertRecord,
    LiftRecord,
    MeasureRecord,
    ObservationRecord,
    RuleRecord,
)

# --- The kinds of records that a federation writes; see `records` for what all kinds promise -----


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


# --------------------------------------------------------------------------------------------------


LARGEST_RECORD: Final = 1024
"""Bytes; keeps a receipt below 4 KiB with a million records and five witnesses."""


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """An explanation left the house, and was charged to an account.

    Args:
        time: seconds since 1970.
        account: the ledger's account.
        charge: the ledger's name for this charge.
        subject: which model, explainer or artefact was asked.
        epsilon, delta, unit, relation, dataset, mechanism: the headline of what is promised.
        guarantees: digest of all guarantees in full (`digests.guarantees_digest`).
        query, answer: commitments.
        event: what was charged, as JSON text, or `sha256:` and its digest where that is too long.
        cost: what it costs in the measure of the account's tree, numbers in hexadecimal. With the
            records of opening and renewal, all totals can be recomputed from the log alone.
        caller: while rules are in force, a name for who asked that only the custodian can tell.
    """

    kind: ClassVar[str] = "release"
    version: ClassVar[int] = 1
    time: int
    account: str
    charge: str
    subject: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    dataset: str
    mechanism: str
    guarantees: bytes
    query: bytes
    answer: bytes
    event: str | None = None
    cost: str | None = None
    caller: str | None = None


@dataclass(frozen=True, kw_only=True)
class PostProcessingRecord:
    """Explanations left the house that cost nothing: made from artefacts that were paid for.

    One record for a whole call, however many rows it explained.

    Args:
        call: a random name; the nonces of the call are derived from it and a key kept elsewhere.
        subject: which explainer was asked.
        rows: how many rows were explained.
        promise: where the guarantee comes from, or that there is none.
        epsilon, delta, unit, relation, dataset: the headline of what is carried forward; absent
            where there is no guarantee.
        guarantees: digest of all guarantees in full.
        query, answer: commitments to the whole call.
        rows_root: root of the tree over a commitment for each row (`row_receipt`).
    """

    kind: ClassVar[str] = "post-processing"
    version: ClassVar[int] = 1
    time: int
    call: str
    subject: str
    rows: int
    promise: str
    guarantees: bytes
    query: bytes
    answer: bytes
    rows_root: bytes
    epsilon: float | None = None
    delta: float | None = None
    unit: str | None = None
    relation: str | None = None
    dataset: str | None = None


@dataclass(frozen=True, kw_only=True)
class RefusalRecord:
    """A request was refused. The reason must follow from public facts.

    `caller` is as of a `ReleaseRecord`.
    """

    kind: ClassVar[str] = "refusal"
    version: ClassVar[int] = 1
    time: int
    account: str
    reason: str
    epsilon: float
    delta: float
    query: bytes | None = None
    caller: str | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetOpenedRecord:
    """An account came into being. `parent` is absent for one that stands alone.

    Args:
        composition: how charges add up: a filter and its measure, or a plan.
        children: whether accounts below it are charged one after the other or in parallel.
        cost: what a plan costs the accounts above it, paid at once.
    """

    kind: ClassVar[str] = "budget opened"
    version: ClassVar[int] = 1
    time: int
    account: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    dataset: str
    parent: str | None = None
    composition: str | None = None
    children: str | None = None
    cost: str | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetRenewedRecord:
    """An account got a new budget: somebody decided that, and said why.

    `cost` is what a plan that runs once more costs the accounts above it.
    """

    kind: ClassVar[str] = "budget renewed"
    version: ClassVar[int] = 1
    time: int
    account: str
    period: str
    epsilon: float
    delta: float
    reason: str
    cost: str | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetPolicyRecord:
    """An account got other rules than its budget alone; -1 stands for none.

    Args:
        thresholds: percents at which alerts are recorded, joined by spaces.
        renew, cool_down: when a period ends, and hours until the next one.
        allowance, window: the share of the budget for one caller in one window.
        approval: the share of the budget above which a second person approves.
        reason: why, in the words of whoever decided it.
    """

    kind: ClassVar[str] = "budget policy"
    version: ClassVar[int] = 1
    time: int
    account: str
    thresholds: str
    renew: str
    cool_down: float
    allowance: float
    window: str
    approval: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class BudgetApprovalRecord:
    """A step on the way to an expensive charge. The log names nobody: the journal says who.

    Args:
        request: number of the request in the account's journal.
        step: "requested", "approved" or "spent".
        event: the price, as in `ReleaseRecord`.
        charge: the ledger's name for the charge that used it; absent before.
    """

    kind: ClassVar[str] = "budget approval"
    version: ClassVar[int] = 1
    time: int
    account: str
    request: str
    step: str
    event: str
    charge: str | None = None


@dataclass(frozen=True, kw_only=True)
class AssessmentRecord:
    """We attacked ourselves: what was claimed, what the attack measured, whether the claim held."""

    kind: ClassVar[str] = "assessment"
    version: ClassVar[int] = 1
    time: int
    subject: str
    attack: str
    claimed_epsilon: float
    claimed_delta: float
    measured_epsilon: float
    confidence: float
    trials: int
    outcome: str
    report: bytes


@dataclass(frozen=True, kw_only=True)
class EventsAssessmentRecord:
    """We tried to refute what is charged, by trials on invented records; nobody's rows were
    looked at.

    Args:
        subject: what was assessed.
        events: digest of all events that were tried.
        software: version of voile that was tried, and tried it.
        runs: of all trials together.
        e_value: the largest over its threshold; from 1 on, a claim is refuted.
        verdict: "refuted", "not refuted" or "blind"; the worst of all events.
        findings: digest of what was found, in full.
    """

    kind: ClassVar[str] = "assessment"
    version: ClassVar[int] = 2
    time: int
    subject: str
    events: bytes
    software: str
    runs: int
    e_value: float
    verdict: str
    findings: bytes


@dataclass(frozen=True, kw_only=True)
class KeyRotationRecord:
    """From the checkpoint that covers this record on, the log signs with another key."""

    kind: ClassVar[str] = "key rotation"
    version: ClassVar[int] = 1
    time: int
    old_key: str
    new_key: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CheckpointAcceptedRecord:
    """The pinned checkpoint was lost, and somebody said that this database is the current one.

    Args:
        size, root: the log as it was then, without this record.
        reason: why, in the words of whoever said it.
    """

    kind: ClassVar[str] = "checkpoint accepted"
    version: ClassVar[int] = 1
    time: int
    size: int
    root: bytes
    reason: str


@dataclass(frozen=True, kw_only=True)
class KeyIssuedRecord:
    """A service issued an API key. The log names nobody: of the key only its public name is here.

    Args:
        key: public name of the key.
        duties: what it may do, words joined by spaces.
        expires: seconds since 1970.
        issuer: the command line, or the public name of the key that asked for it.
    """

    kind: ClassVar[str] = "key issued"
    version: ClassVar[int] = 1
    time: int
    key: str
    duties: str
    expires: int
    issuer: str


@dataclass(frozen=True, kw_only=True)
class KeyRevokedRecord:
    """An API key was ended; see `KeyIssuedRecord`."""

    kind: ClassVar[str] = "key revoked"
    version: ClassVar[int] = 1
    time: int
    key: str
    issuer: str


@dataclass(frozen=True, kw_only=True)
class AnswersErasedRecord:
    """Stored answers were erased, and with them what names the records they were about.

    Charges and commitments stay. A charge from before that moment may be without its answer, and
    as many are as these records say together.

    Args:
        before: seconds since 1970; what was charged earlier was erased.
        answers: how many were erased.
        issuer: the command line.
    """

    kind: ClassVar[str] = "answers erased"
    version: ClassVar[int] = 1
    time: int
    before: float
    answers: int
    issuer: str


Record: TypeAlias = (
    ReleaseRecord
    | PostProcessingRecord
    | RefusalRecord
    | BudgetOpenedRecord
    | BudgetRenewedRecord
    | BudgetPolicyRecord
    | BudgetApprovalRecord
    | FederationRoundRecord
    | ParticipationRecord
    | AbsenceRecord
    | RoundShownRecord
    | TrustRecord
    | RewardRecord
    | WeightingRecord
    | EvidenceRecord
    | AssessmentRecord
    | EventsAssessmentRecord
    | KeyRotationRecord
    | CheckpointAcceptedRecord
    | KeyIssuedRecord
    | KeyRevokedRecord
    | RuleRecord
    | ObservationRecord
    | AlertRecord
    | MeasureRecord
    | LiftRecord
    | AnswersErasedRecord
)
Encoded = NewType("Encoded", bytes)
"""The canonical bytes of a record, made here."""
KINDS: Final = {(kind.kind, kind.version): kind for kind in get_args(Record)}


def _columns(kind: type[Any]) -> dict[str, frozenset[type]]:
    """The fields of a kind, and the types each may have."""
    hints = get_type_hints(kind)
    return {f.name: frozenset(get_args(hints[f.name]) or (hints[f.name],)) for f in fields(kind)}


_COLUMNS: Final[dict[type[Any], dict[str, frozenset[type]]]] = {
    kind: _columns(kind) for kind in KINDS.values()
}


def _columns_of(record: object) -> dict[str, frozenset[type]]:
    columns = _COLUMNS.get(type(record))
    if columns is None:
        raise InvalidInput(f"expected a record of the audit log, found {type(record).__name__}")
    return columns


def canonical_bytes(record: Record) -> Encoded:
    """The bytes that are hashed into the log."""
    columns = _columns_of(record)
    flat: Flat = {"kind": record.kind, "version": record.version}
    for name, value in vars(record).items():
        plain = _plain(name, value, columns[name])
        if plain is not None:
            flat[name] = plain
    return _encoded(record.kind, canonical.encode_flat, flat)


class Draft:
    """A record of which a few fields are still open; all others are checked and written once.

    Args:
        record: says what the others are; what it holds in the open fields does not matter.
        still_open: fields that are never absent.
    """

    def __init__(self, record: Record, *still_open: str) -> None:
        self._kind = record.kind
        kinds = _columns_of(record)
        whole = canonical.decode_flat(canonical_bytes(record))
        *befores, self._end = canonical.text_around(whole, frozenset(still_open))
        names = sorted(still_open)
        self._open = [(n, kinds[n], text) for n, text in zip(names, befores, strict=True)]

    def filled(self, **values: str | int | bytes | float) -> Encoded:
        """The canonical bytes of the record with these values in the open fields."""
        return _encoded(self._kind, self._fill, values)

    def _fill(self, values: dict[str, str | int | bytes | float]) -> bytes:
        text = ""
        for name, kinds, before in self._open:
            value = values[name]
            kind = type(value)
            if kind not in kinds:
                raise _wrong_type(name, kind, kinds)
            if kind is str or kind is int:
                text += before + canonical.written(value)  # type: ignore[arg-type]
            else:
                text += f'{before}"{_written(name, value)}"'  # type: ignore[arg-type]
        return canonical.utf8(text + self._end)


def _plain(name: str, value: object, kinds: frozenset[type]) -> str | int | None:
    kind = type(value)
    if kind not in kinds:
        raise _wrong_type(name, kind, kinds)
    if kind is str or kind is int or kind is NoneType:
        return value  # type: ignore[return-value]
    return _written(name, value)  # type: ignore[arg-type]


def _encoded(kind: str, encode: Callable[[Any], bytes], values: object) -> Encoded:
    try:
        content = encode(values)
    except Malformed as error:
        raise InvalidInput(f"{kind}: {error}") from None
    if len(content) > LARGEST_RECORD:
        raise InvalidInput(
            f"a record holds at most {LARGEST_RECORD} bytes, this {kind} has "
            f"{len(content)}; put a digest in place of long text"
        )
    return Encoded(content)


def decode_record(content: bytes) -> Record:
    """The record behind canonical bytes; anything `canonical_bytes` would not write is refused."""
    try:
        flat = canonical.parse_flat(content)  # written again below, and compared
    except Malformed as error:
        raise InvalidInput(f"not a record: {error}") from None
    name, version = flat.pop("kind", None), flat.pop("version", None)
    kind = chosen(KINDS, (name, version), "kind and version of a record")
    hints = _COLUMNS[kind]
    needed = {field for field, hint in hints.items() if NoneType not in hint}
    if not needed <= flat.keys() <= hints.keys():
        raise InvalidInput(f"a {name} has the fields {sorted(hints)}, found {sorted(flat)}")
    values = {field: _read(field, value, hints[field]) for field, value in flat.items()}
    record: Record = kind(**values)
    if canonical_bytes(record) != content:
        raise InvalidInput(f"a {name} in another spelling than the canonical one")
    return record


def _written(name: str, value: bytes | float) -> str:
    """Digests and numbers in hexadecimal: no bit is lost, nobody has to agree on decimals."""
    if isinstance(value, bytes) and len(value) != HASH_SIZE:
        raise InvalidInput(f"field {name!r} holds {HASH_SIZE} bytes, found {len(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"field {name!r} holds a finite number, found {value}")
    return value.hex()


def _wrong_type(name: str, found: type, expected: frozenset[type]) -> InvalidInput:
    names = " or ".join(sorted(kind.__name__ for kind in expected))
    return InvalidInput(f"field {name!r} holds {names}, found {found.__name__}")


def _read(name: str, value: str | int, hint: frozenset[type]) -> object:
    """The inverse of `_written`; what it lets through too easily, encoding again catches."""
    try:
        if float in hint and isinstance(value, str):
            return float.fromhex(value)
        if bytes in hint and isinstance(value, str):
            return bytes.fromhex(value)
    except (ValueError, OverflowError):
        raise InvalidInput(f"field {name!r}: expected hexadecimal, found {value!r}") from None
    return value
