"""Rules inside transactions: asked before a charge, told of it after it, on record with it.

1. Before anything is drawn, and again in the transaction that charges: does a measure in force
   forbid this? Measures follow from records of the log, which are public facts.
2. After the charge and its record: what follows? Each alert, measure and lift is appended to the
   log and left in the outbox, in the same transaction.

So whatever is charged after a measure took effect was charged under it, however many ask at once,
and a crash keeps the charge with its alerts, or neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from voile import compliance
from voile.compliance import (
    Action,
    Asked,
    Charged,
    Fact,
    Forbidden,
    Lifted,
    Metric,
    Observed,
    Outcome,
    RefusedFact,
    Renewed,
    RulesChanged,
    RuleSet,
    State,
    Use,
    forbidden,
    outcomes,
)
from voile.compliance.evaluation import OutcomeKind, States, Subject
from voile.core.errors import InvalidInput, Refused
from voile.privacy.accounting.measures import consumed
from voile.records.audit_log import AuditLog, ObservationRecord, RuleRecord
from voile.records.ledger import AccountNode, Ledger, ReplayKey
from voile.records.rule_book import (
    BOOK,
    STANDINGS,
    StandingRow,
    add_message,
    keep_texts,
    texts_in_force,
)
from voile.records.storage import Reader, Transaction
from voile.records.vault import Vault

_MOST_KNOWN: Final = 10_000
_LONGEST_SUBJECT: Final = 200
_HOURLY: Final = "explanation.quality within the hour"
"""In place of a caller: the worst figure of a release in this hour."""
ECS_VERSION: Final = "8.17.0"


class MeasureInForce(Refused):
    """A measure forbids this charge.

    Args:
        forbidden: which rule, and for how long if that is known.
    """

    def __init__(self, forbidden: Forbidden) -> None:
        self.forbidden = forbidden
        wait = "" if forbidden.seconds is None else f"; try again in {forbidden.seconds} seconds"
        super().__init__(f"{forbidden} (rule {forbidden.rule.name}); nothing was charged{wait}")


class CoarserOffered(Refused):
    """A measure offers a coarser level, and the request does not say that one will do.

    Args:
        level: which one; empty if that is not known yet.
    """

    def __init__(self, forbidden: Forbidden, level: str = "") -> None:
        self.forbidden, self.level = forbidden, level
        which = f": {level}" if level else ""
        super().__init__(
            f"{forbidden}{which} (rule {forbidden.rule.name}); nothing was charged. Ask with "
            "--coarser (`coarser` in a request) to get it"
        )

    def at(self, level: str) -> CoarserOffered:
        """The same offer, with the level."""
        return CoarserOffered(self.forbidden, level)


# --- what the database holds ---------------------------------------------------------------------


def rules_in_force(t: Reader) -> RuleSet:
    """The rules that are in force; remembered while nobody else writes."""
    known: RuleSet | None = t.memory.get(BOOK.name)
    if known is None:
        known = t.memory[BOOK.name] = RuleSet.from_texts(texts_in_force(t))
    return known


class StoredStandings:
    """Where rules stand, in the database; remembered while nobody else writes."""

    def __init__(self, t: Any) -> None:
        self._t = t
        self._known: dict[str, _Kept | None] = t.memory.setdefault(STANDINGS.name, {})
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()

    def read(self, subject: Subject) -> States:
        """See `voile.compliance.Standings`."""
        kept = self._of_caller(subject[1])
        return _NOTHING if kept is None else kept.get(subject[0], _NOTHING)

    def write(self, changed: Mapping[Subject, States]) -> None:
        """See `voile.compliance.Standings`."""
        callers = {caller for _, caller in changed}
        before = {caller: self._of_caller(caller) for caller in callers}
        for caller in sorted(callers):
            kept = dict(before[caller] or {})
            kept |= {subject: states for (subject, who), states in changed.items() if who == caller}
            row = StandingRow(caller, _written(kept))
            (self._t.insert if before[caller] is None else self._t.replace)(STANDINGS, row)
            self._known[caller] = kept
        self._t.memory[STANDINGS.name] = self._known  # speaks of what was written just now

    def subjects(self) -> Iterable[Subject]:
        """See `voile.compliance.Standings`."""
        rows = self._t.scan(STANDINGS)
        return sorted((subject, row.caller) for row in rows for subject in _kept(row))

    def _of_caller(self, caller: str) -> _Kept | None:
        if caller not in self._known:
            row = self._t.get(STANDINGS, caller)
            self._known[caller] = None if row is None else _kept(row)
        return self._known[caller]


_Kept: TypeAlias = dict[str, States]
"""Of one caller, by subject."""
_NOTHING: Final[States] = {}


def _kept(row: StandingRow) -> _Kept:
    found: _Kept = {}
    for subject, rule, *state in json.loads(row.states):
        found.setdefault(subject, {})[rule] = State(*state)
    return found


def _written(kept: _Kept) -> str:
    """As JSON; what is quiet need not be kept."""
    states = [
        f"{_named(subject, rule)}{stage:d},{since},{window},{counted},{total!r}]"
        for subject, states in kept.items()
        for rule, (stage, since, window, counted, total) in states.items()
        if stage or since or window or counted or total
    ]
    return f"[{','.join(states)}]"


@lru_cache(maxsize=4096)
def _named(subject: str, rule: str) -> str:
    return json.dumps([subject, rule])[:-1] + ","


def name_in_log(vault: Vault, caller: str) -> str:
    """What the log calls a caller: always the same, and only the custodian can tell who it is."""
    return _name_in_log(vault.key, caller)


@lru_cache(maxsize=1024)
def _name_in_log(key: ReplayKey, caller: str) -> str:
    return key.nonce(caller, "name of a caller in the log")[:8].hex()


# --- before a charge -----------------------------------------------------------------------------


class Question(NamedTuple):
    """What rules need to know of questions that would be charged.

    Args:
        account: who pays.
        charges: how many.
        epsilon: of each, as its guarantee states it.
        subject: the release.
        quality: half-width of a released value over the width of the output, if that is known.
        coarser: it was offered in place of a more detailed one.
    """

    account: str
    caller: str
    charges: int
    epsilon: float
    subject: str
    quality: float | None = None
    coarser: bool = False


def check_rules(vault: Vault, t: Reader, question: Question) -> Refused | None:
    """Why this must not be charged; only reads."""
    rules = rules_in_force(t)
    if not rules.rules or not question.charges:
        return None
    asked = _asked(vault, t, rules, question)
    found = forbidden(rules, StoredStandings(t), asked)
    if found is None:
        return None
    return CoarserOffered(found) if found.rule.action is Action.COARSER else MeasureInForce(found)


def needs_approval(vault: Vault, t: Reader, question: Question) -> bool:
    """Whether a measure asks for a second person's approval; only reads."""
    rules = rules_in_force(t)
    if not any(rule.action is Action.APPROVE for rule in rules.of_metric(Metric.BUDGET)):
        return False
    asked = _asked(vault, t, rules, question)
    return compliance.needs_approval(rules, StoredStandings(t), asked)


def _asked(vault: Vault, t: Reader, rules: RuleSet, question: Question) -> Asked:
    return Asked(
        int(vault.ledger.now()),
        tuple(
            [
                node.account.name
                for node in _watched(vault.ledger, t, question.account)
                if rules.of_account(node.account.name)
            ]
        ),
        name_in_log(vault, question.caller),
        question.charges,
        question.epsilon,
        _short(question.subject),
        question.coarser,
    )


def _watched(ledger: Ledger, t: Reader, account: str) -> list[AccountNode]:
    """An account and all above it. Plans are left out: what is on one was decided beforehand."""
    return [
        node
        for node in ledger.path(t, account)
        if not node.account.is_plan and node.account.measure is not None
    ]


def shares(vault: Vault, t: Reader, account: str) -> dict[str, float]:
    """Of the account and those above it that a rule speaks of, the share that is used."""
    rules = rules_in_force(t)
    if not rules.rules:
        return {}
    return {
        node.account.name: consumed(node.standing.spent, node.account.budgets)
        for node in _watched(vault.ledger, t, account)
        if rules.of_account(node.account.name)
    }


# --- after it ------------------------------------------------------------------------------------


def after_charge(
    vault: Vault,
    t: Transaction,
    question: Question,
    *,
    charge: str,
    time: int,
    before: dict[str, float],
) -> None:
    """What follows from a charge whose record was written.

    Args:
        before: `shares` before the charge.
    """
    rules = rules_in_force(t)
    if not rules.rules:
        return
    after = shares(vault, t, question.account)
    uses = tuple(Use(name, before.get(name, 0.0), share) for name, share in after.items())
    caller = name_in_log(vault, question.caller)
    _follow(vault.log, t, Charged(time, charge, caller, question.epsilon, uses))
    if question.quality is not None and rules.of_metric(Metric.QUALITY):
        _note_quality(vault, t, _short(question.subject), question.quality, time)


def after_refusal(
    vault: Vault, t: Transaction, account: str, *, caller: str, epsilon: float, time: int
) -> None:
    """What follows from a refusal that was written down.

    Args:
        caller: the name that the log has for them.
    """
    path = tuple(node.account.name for node in _watched(vault.ledger, t, account))
    _follow(vault.log, t, RefusedFact(time, caller, epsilon, path))


def after_renewal(
    ledger: Ledger, log: AuditLog, t: Transaction, account: str, *, time: int
) -> None:
    """What follows from a renewal that was written down."""
    if not rules_in_force(t).rules:
        return
    renewed = frozenset(
        subject
        for subject, _ in StoredStandings(t).subjects()
        if ledger.is_open(t, subject)
        and any(node.account.name == account for node in ledger.path(t, subject))
    )
    _follow(log, t, Renewed(time, renewed))


def observe(vault: Vault, metric: Metric, subject: str, value: float) -> list[Outcome]:
    """A figure that follows from no record: written down, with what follows from it."""

    def command(t: Transaction) -> list[Outcome]:
        return _observe(vault, t, metric, subject, value, int(vault.ledger.now()))

    return vault.storage.submit(command)


def lift(vault: Vault, rule: str, subject: Subject, reason: str) -> Outcome:
    """End a measure, on record, with the reason."""

    def command(t: Transaction) -> Outcome:
        fact = Lifted(int(vault.ledger.now()), rule, subject, reason)
        found = _follow(vault.log, t, fact)
        if not found:
            raise InvalidInput(
                "no measure of this rule is in force there; `voile compliance show` lists those "
                "that are"
            )
        return found[0]

    return vault.storage.submit(command)


def put_in_force(vault: Vault, rules: RuleSet) -> bool:
    """These rules count from now on, on record; false if they did already."""
    if vault.storage.read_snapshot(texts_in_force) == list(rules.texts):
        return False

    def command(t: Transaction) -> bool:
        before = rules_in_force(t)
        if before == rules:
            return False
        now, count = int(vault.ledger.now()), len(rules.rules)
        for number, text in enumerate(rules.texts or [""]):
            record = RuleRecord(time=now, rules=rules.digest, number=number, count=count, rule=text)
            vault.log.append(t, record)
        _follow(vault.log, t, RulesChanged(now, rules))
        keep_texts(t, rules.texts)
        t.memory[BOOK.name] = rules
        return True

    return vault.storage.submit(command)


def _observe(
    vault: Vault, t: Transaction, metric: Metric, subject: str, value: float, time: int
) -> list[Outcome]:
    record = ObservationRecord(time=time, metric=metric.value, subject=subject, value=value)
    vault.log.append(t, record)
    return _follow(vault.log, t, Observed(time, metric, subject, value))


def _note_quality(vault: Vault, t: Transaction, subject: str, quality: float, time: int) -> None:
    """The worst of an hour is looked at with the first charge after it."""
    standings, place, hour = StoredStandings(t), (subject, _HOURLY), time // 3600
    state = standings.read(place).get("", State(window=hour))
    if hour > state.window:
        _observe(vault, t, Metric.QUALITY, subject, state.total, time)
        state = State(window=hour)
    if quality > state.total:
        state = state._replace(total=float(quality))
    standings.write({place: {"": state}})


def _follow(log: AuditLog, t: Transaction, fact: Fact) -> list[Outcome]:
    """What follows, on record and left to be sent."""
    found = outcomes(rules_in_force(t), StoredStandings(t), fact)
    for each in found:
        number = log.append(t, each.record).number
        body = message(each, log.origin, number)
        add_message(t, body, time=float(each.time), custodian=False)
    return found


def message(outcome: Outcome, origin: str, record: int) -> dict[str, Any]:
    """What people are told, by the field names of the Elastic Common Schema."""
    severe = outcome.kind is OutcomeKind.MEASURE
    subject, caller = outcome.subject
    told: dict[str, Any] = {
        "@timestamp": _timestamp(outcome.time),
        "ecs.version": ECS_VERSION,
        "event.kind": "event" if outcome.kind is OutcomeKind.LIFT else "alert",
        "event.module": "voile",
        "event.dataset": "voile.compliance",
        "event.action": outcome.kind.value,
        "event.id": f"{origin}#{record}",
        "log.level": "error" if severe else "warning",
        "message": str(outcome),
        "rule.id": outcome.rule.name,
        "rule.name": outcome.rule.metric.value,
        "service.name": "voile",
        "voile.subject": subject,
        "voile.record": record,
    }
    if outcome.kind is not OutcomeKind.LIFT:
        told |= {"voile.value": outcome.value, "voile.threshold": outcome.threshold}
    more = {"user.hash": caller, "voile.charge": outcome.charge, "event.reason": outcome.reason}
    return told | {name: value for name, value in more.items() if value}


def finding_message(
    account: str, rule: str, detail: str, charges: Sequence[str], time: float
) -> dict[str, Any]:
    """The same of a finding of the reconstruction watch, for the custodian alone."""
    return {
        "@timestamp": _timestamp(int(time)),
        "ecs.version": ECS_VERSION,
        "event.kind": "alert",
        "event.module": "voile",
        "event.dataset": "voile.watch",
        "event.action": "finding",
        "log.level": "warning",
        "message": f"{rule}: {detail}",
        "rule.name": Metric.OVERLAP.value,
        "service.name": "voile",
        "voile.subject": account,
        "voile.charges": list(charges),
    }


def _timestamp(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _short(subject: str) -> str:
    """A release in few words: a record is short."""
    return subject if len(subject) <= _LONGEST_SUBJECT else subject[:_LONGEST_SUBJECT]
