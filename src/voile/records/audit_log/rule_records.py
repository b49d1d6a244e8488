"""The kinds of records that rules write; see `records` for what all kinds promise.

With these, and with the records of openings, charges, refusals and renewals, everything that rules
have done can be computed again from the log alone (`voile.compliance`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class RuleRecord:
    """One rule of a set. The set is in force from its last record on, in place of any before it.

    Args:
        rules: digest of the whole set.
        number, count: which rule of how many; a set without rules is one record with count 0.
        rule: the rule as canonical JSON; empty in a set without rules.
    """

    kind: ClassVar[str] = "rule"
    version: ClassVar[int] = 1
    time: int
    rules: bytes
    number: int
    count: int
    rule: str


@dataclass(frozen=True, kw_only=True)
class ObservationRecord:
    """A public figure that follows from no other record, such as the load of a service."""

    kind: ClassVar[str] = "observation"
    version: ClassVar[int] = 1
    time: int
    metric: str
    subject: str
    value: float


@dataclass(frozen=True, kw_only=True)
class AlertRecord:
    """A figure has reached the first threshold of a rule.

    Args:
        rule: name of the rule, which follows from its text.
        subject: the account, release or service that it is about.
        caller: of a rule about callers, the name that the log has for them.
        charge: the charge that it followed from; absent where it was none.
    """

    kind: ClassVar[str] = "alert"
    version: ClassVar[int] = 1
    time: int
    rule: str
    metric: str
    subject: str
    value: float
    threshold: float
    caller: str | None = None
    charge: str | None = None


@dataclass(frozen=True, kw_only=True)
class MeasureRecord:
    """A figure has reached the second threshold of a rule: from here on the rule acts.

    Args:
        action: what it does.
        until: what ends it.
    """

    kind: ClassVar[str] = "measure"
    version: ClassVar[int] = 1
    time: int
    rule: str
    metric: str
    subject: str
    value: float
    threshold: float
    action: str
    until: str
    caller: str | None = None
    charge: str | None = None


@dataclass(frozen=True, kw_only=True)
class LiftRecord:
    """A measure has ended.

    Args:
        cause: what ended it.
        reason: the words of whoever ended it, where somebody did.
    """

    kind: ClassVar[str] = "lift"
    version: ClassVar[int] = 1
    time: int
    rule: str
    subject: str
    cause: str
    caller: str | None = None
    reason: str | None = None
