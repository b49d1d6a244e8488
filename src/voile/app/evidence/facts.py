"""`LogFacts`: what a log holds, read once; of releases only the newest are kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self, TypeAlias

from voile.records.audit_log import (
    AssessmentRecord,
    BudgetOpenedRecord,
    EventsAssessmentRecord,
    FederationRoundRecord,
    KeyIssuedRecord,
    KeyRevokedRecord,
    PostProcessingRecord,
    ReleaseRecord,
    decode_record,
)
from voile.records.storage import Reader
from voile.records.vault import Vault

_PAGE: Final = 1_000
Answered: TypeAlias = ReleaseRecord | PostProcessingRecord
_MODEL: Final = ", model "
_EXACT: Final = tuple(
    f"post-processed {words}" for words in ("exact Shapley", "tree Shapley", "Shapley values of")
)
"""How subjects of free and exact explanations begin: by enumeration, trees or a closed formula."""


class KindUse(NamedTuple):
    """How often records of a kind appear, and the first and the last of them."""

    times: int
    first: int
    last: int

    @property
    def ends(self) -> tuple[int, ...]:
        return (self.first,) if self.first == self.last else (self.first, self.last)


class Opened(NamedTuple):
    """An account, as the log knows it."""

    number: int
    record: BudgetOpenedRecord


class Attack(NamedTuple):
    """An assessment, as the log knows it."""

    number: int
    record: EventsAssessmentRecord | AssessmentRecord


class Answer(NamedTuple):
    """Something that left, as the log knows it."""

    number: int
    record: Answered

    @property
    def model(self) -> str:
        """Digest of the model that was asked, as far as a record shows it; empty if it does not.

        >>> Answer(0, object())._replace(record=type("R", (), {"subject": "x, model a1"})).model
        'a1'
        """
        return self.record.subject.rpartition(_MODEL)[2] if _MODEL in self.record.subject else ""


@dataclass(frozen=True)
class LogFacts:
    """What a log holds at one moment.

    Args:
        signed: how many records the last checkpoint covers.
        kinds: by kind.
        accounts: by name, as last opened.
        attacks: in order.
        answers: the newest releases and free calls, newest first.
        free_models: the last record of an exact and free explanation, for each model.
        rounds: of a federation, by the digest of what its parties agreed on.
    """

    origin: str
    size: int
    root: str
    signed: int
    kinds: Mapping[str, KindUse]
    accounts: Mapping[str, Opened]
    attacks: Sequence[Attack]
    answers: Sequence[Answer]
    free_models: Mapping[str, int] = field(default_factory=dict)
    rounds: Mapping[str, KindUse] = field(default_factory=dict)

    @classmethod
    def read(cls, vault: Vault, last: int) -> Self:
        """In one snapshot.

        Args:
            last: how many answers to keep.
        """
        return vault.storage.read_snapshot(lambda t: cls._read(vault, t, last))

    @classmethod
    def _read(cls, vault: Vault, t: Reader, last: int) -> Self:
        seen = _Seen(deque(maxlen=last))
        while page := vault.log.records(t, first=seen.size, limit=_PAGE):
            for content in page:
                seen.take(decode_record(content))
        head = vault.log.head(t)
        return cls(
            origin=vault.log.origin,
            size=head.size,
            root=head.root.hex(),
            signed=vault.log.signed_size(t),
            kinds=seen.kinds,
            accounts=seen.accounts,
            attacks=seen.attacks,
            answers=list(reversed(seen.answers)),
            free_models=seen.free_models,
            rounds=seen.rounds,
        )

    def use(self, kind: str) -> KindUse | None:
        """How often records of a kind appear; None if never."""
        return self.kinds.get(kind)

    def ends(self, *kinds: str) -> tuple[int, ...]:
        """Numbers of the first and the last record of each of these kinds."""
        found = [use.ends for kind in kinds if (use := self.use(kind)) is not None]
        return tuple(number for ends in found for number in ends)

    def count(self, *kinds: str) -> int:
        """How many records there are of these kinds."""
        return sum(use.times for kind in kinds if (use := self.use(kind)) is not None)


def _count(uses: dict[str, KindUse], key: str, number: int) -> None:
    before = uses.get(key)
    times, first = (0, number) if before is None else before[:2]
    uses[key] = KindUse(times + 1, first, number)


@dataclass
class _Seen:
    """Grows record by record."""

    answers: deque[Answer]
    size: int = 0
    kinds: dict[str, KindUse] = field(default_factory=dict)
    accounts: dict[str, Opened] = field(default_factory=dict)
    attacks: list[Attack] = field(default_factory=list)
    free_models: dict[str, int] = field(default_factory=dict)
    rounds: dict[str, KindUse] = field(default_factory=dict)

    def take(self, record: Any) -> None:
        number, self.size = self.size, self.size + 1
        _count(self.kinds, record.kind, number)
        match record:
            case BudgetOpenedRecord():
                self.accounts[record.account] = Opened(number, record)
            case FederationRoundRecord(agreement=str(agreement)):
                _count(self.rounds, agreement, number)
            case EventsAssessmentRecord() | AssessmentRecord():
                self.attacks.append(Attack(number, record))
            case PostProcessingRecord():
                answer = Answer(number, record)
                self.answers.append(answer)
                if record.subject.startswith(_EXACT):
                    self.free_models[answer.model] = number
            case ReleaseRecord():
                self.answers.append(Answer(number, record))


KEY_KINDS: Final = (KeyIssuedRecord.kind, KeyRevokedRecord.kind)
