"""What follows from rules: a fact and where things stand give outcomes and where they stand then.

The same code runs in the transaction of a charge and over the log afterwards (`replay`). So
whatever it looks at is on record: times are the whole seconds that records state, windows begin
with the clock's minutes, hours and days (UTC), and shares are those of the ledger's arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from voile.compliance.rules import Action, Metric, Per, Rule, RuleSet
from voile.records.audit_log import AlertRecord, LiftRecord, MeasureRecord

# --- Where things stand --------------------------------------------------------------------------


class Stage(IntEnum):
    """How far a rule has come with a subject. Stored numbers never change their meaning."""

    QUIET = 0
    ALERTED = 1
    ACTING = 2
    LIFTED = 3
    """The custodian has ended the measure; it does not begin again by itself."""


class State(NamedTuple):
    """Where one rule stands with one subject.

    Args:
        since: of a measure, when it began.
        window, counted, total: number of the clock's window, and what was counted and added in it;
            of a share per caller the total has no window.
    """

    stage: int = Stage.QUIET
    since: int = 0
    window: int = 0
    counted: int = 0
    total: float = 0.0


QUIET: Final = State()
States: TypeAlias = dict[str, State]
"""By the name of the rule."""
Subject: TypeAlias = tuple[str, str]
"""What a state is about: an account, release or service, and a caller, empty for all of them."""


class Standings(Protocol):
    """Where all rules stand."""

    def read(self, subject: Subject) -> States:
        """Of one subject; not to be changed."""

    def write(self, changed: Mapping[Subject, States]) -> None:
        """Keep what was changed."""

    def subjects(self) -> Iterable[Subject]:
        """All that are known, in order."""


@dataclass
class MemoryStandings:
    """Standings of a replay."""

    kept: dict[Subject, States] = field(default_factory=dict)

    def read(self, subject: Subject) -> States:
        """See `Standings`."""
        return self.kept.get(subject, {})

    def write(self, changed: Mapping[Subject, States]) -> None:
        """See `Standings`."""
        self.kept.update(changed)

    def subjects(self) -> Iterable[Subject]:
        """See `Standings`."""
        return sorted(self.kept)


# --- What happens --------------------------------------------------------------------------------


class Use(NamedTuple):
    """The share of an account that is used, before and after a charge."""

    account: str
    before: float
    after: float


class Charged(NamedTuple):
    """A charge, on record.

    Args:
        caller: the name that the log has for who asked.
        epsilon: of the question, as its guarantee states it.
        uses: of the account and all above it, without plans.
    """

    time: int
    charge: str
    caller: str
    epsilon: float
    uses: tuple[Use, ...]


class RefusedFact(NamedTuple):
    """A refusal, on record: of the account that was asked, and all above it."""

    time: int
    caller: str
    epsilon: float
    accounts: tuple[str, ...]


class Renewed(NamedTuple):
    """Accounts have a new budget."""

    time: int
    accounts: frozenset[str]


class Observed(NamedTuple):
    """A figure of its own."""

    time: int
    metric: Metric
    subject: str
    value: float


class RulesChanged(NamedTuple):
    """Other rules are in force from now on."""

    time: int
    rules: RuleSet


class Lifted(NamedTuple):
    """The custodian has ended a measure."""

    time: int
    rule: str
    subject: Subject
    reason: str


Fact: TypeAlias = Charged | RefusedFact | Renewed | Observed | RulesChanged | Lifted


# --- What follows --------------------------------------------------------------------------------


class OutcomeKind(StrEnum):
    """What a rule has led to."""

    ALERT = "alert"
    MEASURE = "measure"
    LIFT = "lift"


class Outcome(NamedTuple):
    """Something that a rule has led to.

    Args:
        value, threshold: absent for a lift.
        cause: of a lift.
        charge: what it followed from, if that was a charge.
    """

    kind: OutcomeKind
    time: int
    rule: Rule
    subject: Subject
    value: float = 0.0
    threshold: float = 0.0
    cause: str = ""
    reason: str = ""
    charge: str = ""

    @property
    def record(self) -> AlertRecord | MeasureRecord | LiftRecord:
        """As the log has it."""
        subject, caller = self.subject
        named = {"time": self.time, "rule": self.rule.name, "subject": subject}
        who = {"caller": caller or None}
        if self.kind is OutcomeKind.LIFT:
            return LiftRecord(**named, **who, cause=self.cause, reason=self.reason or None)  # type: ignore[arg-type]
        figures = {"metric": self.rule.metric.value, "value": self.value}
        more = {**named, **who, **figures, "threshold": self.threshold}
        more["charge"] = self.charge or None
        if self.kind is OutcomeKind.ALERT:
            return AlertRecord(**more)  # type: ignore[arg-type]
        action, until = str(self.rule.action), self.rule.until or "question"
        return MeasureRecord(**more, action=action, until=until)  # type: ignore[arg-type]

    def __str__(self) -> str:
        who = " by one caller" if self.subject[1] else ""
        what = f"{self.rule.metric}{who} of {self.subject[0] or 'all accounts'}"
        if self.kind is OutcomeKind.LIFT:
            return f"lifted ({self.cause}): {self.rule.action} for {what}"
        reached = f"{what} is {self.value:.4g}, threshold {self.threshold:g}"
        if self.kind is OutcomeKind.ALERT:
            return f"alert: {reached}"
        return f"measure in force: {self.rule.action} ({reached})"


class _Turn:
    """States while one fact is looked at: read once, written once."""

    def __init__(self, standings: Standings, time: int, charge: str = "") -> None:
        self._standings, self.time, self.charge = standings, time, charge
        self._changed: dict[Subject, States] = {}
        self.outcomes: list[Outcome] = []

    def state(self, rule: Rule, subject: Subject) -> State:
        states = self._changed.get(subject)
        if states is None:
            states = self._standings.read(subject)
        return states.get(rule.name, QUIET)

    def keep(self, rule: Rule, subject: Subject, state: State) -> None:
        if state == self.state(rule, subject):
            return
        if subject not in self._changed:
            self._changed[subject] = dict(self._standings.read(subject))
        self._changed[subject][rule.name] = state

    def lift(self, rule: Rule, subject: Subject, cause: str, reason: str = "") -> None:
        self.outcomes.append(
            Outcome(OutcomeKind.LIFT, self.time, rule, subject, cause=cause, reason=reason)
        )

    def tell(self, kind: OutcomeKind, rule: Rule, subject: Subject, value: float) -> None:
        threshold = rule.alert if kind is OutcomeKind.ALERT else rule.act
        assert threshold is not None
        self.outcomes.append(
            Outcome(kind, self.time, rule, subject, float(value), threshold, charge=self.charge)
        )

    def end(self) -> list[Outcome]:
        if self._changed:
            self._standings.write(self._changed)
        return self.outcomes


def outcomes(rules: RuleSet, standings: Standings, fact: Fact) -> list[Outcome]:
    """What follows from a fact; standings are brought up to date."""
    turn = _Turn(standings, fact.time, fact.charge if isinstance(fact, Charged) else "")
    match fact:
        case Charged():
            _charged(rules, turn, fact)
        case RefusedFact():
            _refused(rules, turn, fact)
        case Observed():
            for rule in rules.of_metric(fact.metric):
                subject = (fact.subject, "")
                _cross(turn, rule, subject, turn.state(rule, subject), fact.value)
        case Renewed():
            _renewed(rules, turn, fact, standings)
        case RulesChanged():
            _changed(rules, turn, fact, standings)
        case Lifted():
            for rule in rules.rules:
                state = turn.state(rule, fact.subject)
                if rule.name == fact.rule and state.stage == Stage.ACTING:
                    turn.lift(rule, fact.subject, "custodian", fact.reason)
                    turn.keep(rule, fact.subject, state._replace(stage=Stage.LIFTED))
    return turn.end()


def _charged(rules: RuleSet, turn: _Turn, fact: Charged) -> None:
    for use in fact.uses:
        for rule in rules.of_account(use.account):
            if rule.metric is Metric.LOSS:
                _lost(turn, rule, (use.account, ""), fact.epsilon, charged=True)
            else:
                _used(turn, rule, use, fact.caller)
    _counted(rules, turn, fact.caller, refused=False)


def _used(turn: _Turn, rule: Rule, use: Use, caller: str) -> None:
    """A share of a budget: of everybody, or what the charges of one caller have moved it by."""
    if rule.per is Per.ACCOUNT:
        subject, value = (use.account, ""), use.after
        state = turn.state(rule, subject)
        if state is QUIET and not rule.reached(value, rule.least):
            return  # what nearly every charge meets
    else:
        subject = (use.account, caller)
        stage, since, window, counted, value = turn.state(rule, subject)
        value += use.after - use.before
        state = State(stage, since, window, counted, value)
    if state.stage == Stage.ACTING and rule.action is Action.LIMIT:
        state = _in_window(state, turn.time, rule.limit[1])
        state = state._replace(counted=state.counted + 1)
    _cross(turn, rule, subject, state, value)


def _lost(turn: _Turn, rule: Rule, subject: Subject, epsilon: float, *, charged: bool) -> None:
    """Epsilon over the allowance. A refused question uses up nothing."""
    assert rule.allowance is not None
    # Without a window people are told once an hour at most: every question is one of its own.
    state = _new_window(turn, rule, subject, rule.window_seconds or 3600)
    before = state.total if rule.window_seconds else 0.0
    if charged and rule.window_seconds:
        state = State(*state[:4], before + epsilon)
    _cross(turn, rule, subject, state, (before + epsilon) / rule.allowance)


def _counted(rules: RuleSet, turn: _Turn, caller: str, *, refused: bool) -> None:
    """Requests in a window, refusals in a row."""
    subject = ("", caller)
    for rule in rules.of_metric(Metric.REQUESTS):
        state = _new_window(turn, rule, subject, rule.window_seconds)
        state = State(*state[:3], state.counted + 1, state.total)
        _cross(turn, rule, subject, state, state.counted)
    for rule in rules.of_metric(Metric.REFUSALS):
        state = turn.state(rule, subject)
        if state is QUIET and not refused:
            continue
        state = state._replace(counted=state.counted + 1) if refused else QUIET
        _cross(turn, rule, subject, state, state.counted)


def _refused(rules: RuleSet, turn: _Turn, fact: RefusedFact) -> None:
    for account in fact.accounts:
        for rule in rules.of_account(account):
            if rule.metric is Metric.LOSS:
                _lost(turn, rule, (account, ""), fact.epsilon, charged=False)
    _counted(rules, turn, fact.caller, refused=True)


def _renewed(rules: RuleSet, turn: _Turn, fact: Renewed, standings: Standings) -> None:
    for subject in list(standings.subjects()):
        if subject[0] not in fact.accounts:
            continue
        for rule in rules.of_account(subject[0]):
            state = turn.state(rule, subject)
            if rule.metric is not Metric.BUDGET or state == QUIET:
                continue
            acting = state.stage == Stage.ACTING
            if acting and rule.until == "renewed":
                turn.lift(rule, subject, "renewed")
            goes_on = acting and rule.until != "renewed"
            turn.keep(rule, subject, state._replace(total=0.0) if goes_on else QUIET)


def _changed(rules: RuleSet, turn: _Turn, fact: RulesChanged, standings: Standings) -> None:
    kept = set(fact.rules.names)
    for subject in list(standings.subjects()):
        for rule in rules.rules:
            if rule.name in kept:
                continue
            state = turn.state(rule, subject)
            if state.stage == Stage.ACTING:
                turn.lift(rule, subject, "rules changed")
            turn.keep(rule, subject, QUIET)


def _cross(turn: _Turn, rule: Rule, subject: Subject, state: State, value: float) -> None:
    """Tell people at the first threshold, act at the second, end what has run out."""
    if state.stage == Stage.ACTING and is_over(rule, state, turn.time):
        turn.lift(rule, subject, "expired")
        state = state._replace(stage=Stage.QUIET)
    if state.stage != Stage.QUIET and not rule.reached(value, rule.least):
        if state.stage != Stage.ACTING:
            state = state._replace(stage=Stage.QUIET)
        elif rule.until == "below":
            turn.lift(rule, subject, "below")
            state = state._replace(stage=Stage.QUIET)
    if state.stage == Stage.QUIET and rule.reached(value, rule.alert):
        turn.tell(OutcomeKind.ALERT, rule, subject, value)
        state = state._replace(stage=Stage.ALERTED)
    if state.stage < Stage.ACTING and rule.reached(value, rule.act):
        turn.tell(OutcomeKind.MEASURE, rule, subject, value)
        state = state._replace(stage=Stage.ACTING, since=turn.time)
    turn.keep(rule, subject, state)


def is_over(rule: Rule, state: State, time: int) -> bool:
    """Whether a measure has lasted as long as it was to last."""
    return rule.lasts is not None and time >= state.since + rule.lasts


def _in_window(state: State, time: int, seconds: int) -> State:
    """The state in the window of this moment; a clock that goes back opens no earlier one."""
    window = time // seconds
    return state._replace(window=window, counted=0, total=0.0) if window > state.window else state


def _new_window(turn: _Turn, rule: Rule, subject: Subject, seconds: int) -> State:
    """The same for a rule that starts anew with each window."""
    before = turn.state(rule, subject)
    state = _in_window(before, turn.time, seconds)
    if state is before:
        return state
    if before.stage == Stage.ACTING and rule.window_seconds:
        turn.lift(rule, subject, "window ended")
    return state._replace(stage=Stage.QUIET)


# --- Is this allowed? ----------------------------------------------------------------------------


class Asked(NamedTuple):
    """Questions that would be charged, before anything is drawn.

    Args:
        accounts: the account that is asked and all above it, without plans.
        caller: the name that the log has for who asks.
        charges: how many.
        epsilon: of each.
        subject: the release, in the words of its records.
        coarser: it is one that was offered in place of a more detailed one.
    """

    time: int
    accounts: tuple[str, ...]
    caller: str
    charges: int
    epsilon: float
    subject: str
    coarser: bool = False


class Forbidden(NamedTuple):
    """What a measure in force says to a question.

    Args:
        epsilon: what was asked for altogether, as far as the rule counts it.
        seconds: after which it may be asked again, if that is known.
    """

    rule: Rule
    subject: Subject
    epsilon: float
    seconds: int | None = None

    def __str__(self) -> str:
        action = self.rule.action
        if action is Action.LIMIT:
            return f"a measure allows {self.rule.rate} charges of account {self.subject[0]!r}"
        if action is Action.STOP:
            return f"a measure has stopped charges of account {self.subject[0]!r}"
        if action is Action.COARSER:
            return "a measure offers a coarser level of this explanation"
        within = f" in one {self.rule.window}" if self.rule.window else ""
        return (
            f"the allowance of account {self.subject[0]!r} is epsilon = {self.rule.allowance:g}"
            f"{within}, and this would go beyond it"
        )


def forbidden(rules: RuleSet, standings: Standings, asked: Asked) -> Forbidden | None:
    """Why this may not be charged now; only reads."""
    for account in asked.accounts:
        for rule in rules.of_account(account):
            found = _forbidden(rule, standings, account, asked)
            if found is not None:
                return found
    for rule in () if asked.coarser else rules.of_metric(Metric.QUALITY):
        subject = (asked.subject, "")
        if _acting(rule, standings, subject, asked.time) is not None:
            return Forbidden(rule, subject, asked.epsilon)
    return None


def needs_approval(rules: RuleSet, standings: Standings, asked: Asked) -> bool:
    """Whether a measure in force asks for a second person's approval; only reads."""
    return any(
        rule.action is Action.APPROVE
        and _acting(rule, standings, (account, _who(rule, asked)), asked.time) is not None
        for account in asked.accounts
        for rule in rules.of_account(account)
    )


def _who(rule: Rule, asked: Asked) -> str:
    return asked.caller if rule.per is Per.CALLER else ""


def _forbidden(rule: Rule, standings: Standings, account: str, asked: Asked) -> Forbidden | None:
    if rule.metric is Metric.LOSS:
        return _beyond_allowance(rule, standings, account, asked)
    subject = (account, _who(rule, asked))
    state = _acting(rule, standings, subject, asked.time)
    if state is None or rule.action is Action.APPROVE:
        return None  # whether it was approved, the ledger knows (`needs_approval`)
    if rule.action is not Action.LIMIT:
        return Forbidden(rule, subject, asked.epsilon)
    most, seconds = rule.limit
    state = _in_window(state, asked.time, seconds)
    if state.counted + asked.charges <= most:
        return None
    return Forbidden(rule, subject, asked.epsilon, seconds - asked.time % seconds)


def _beyond_allowance(
    rule: Rule, standings: Standings, account: str, asked: Asked
) -> Forbidden | None:
    assert rule.allowance is not None
    subject, before, epsilon, wait = (account, ""), 0.0, asked.epsilon, None
    if seconds := rule.window_seconds:
        state = standings.read(subject).get(rule.name, QUIET)
        before = _in_window(state, asked.time, seconds).total
        epsilon, wait = epsilon * asked.charges, seconds - asked.time % seconds
    if rule.reached((before + epsilon) / rule.allowance, rule.act):
        return Forbidden(rule, subject, epsilon, wait)
    return None


def _acting(rule: Rule, standings: Standings, subject: Subject, time: int) -> State | None:
    """The state of a measure that is in force."""
    state = standings.read(subject).get(rule.name)
    if state is None or state.stage != Stage.ACTING or is_over(rule, state, time):
        return None
    return state


def acting(
    rules: RuleSet, standings: Standings, time: int
) -> Iterator[tuple[Rule, Subject, State]]:
    """All measures that are in force."""
    for subject in standings.subjects():
        for rule in rules.rules:
            state = _acting(rule, standings, subject, time)
            if state is not None and rule.act is not None:
                yield rule, subject, state
