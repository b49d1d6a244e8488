"""What rules have led to, computed again from the records of the log alone.

Every alert, measure and lift is written in the transaction of what caused it, right after its
record. So a replay knows, at each record, what has to follow before the next fact; anything else is
a finding: somebody wrote into the log, or a measure was passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from voile.compliance.evaluation import (
    Charged,
    Fact,
    Lifted,
    MemoryStandings,
    Observed,
    Outcome,
    RefusedFact,
    Renewed,
    RulesChanged,
    Use,
    outcomes,
)
from voile.compliance.rules import Metric, RuleSet
from voile.privacy.accounting.measures import Measure, Sums, consumed
from voile.records.audit_log import (
    AlertRecord,
    BudgetOpenedRecord,
    BudgetRenewedRecord,
    LiftRecord,
    MeasureRecord,
    ObservationRecord,
    ParticipationRecord,
    RefusalRecord,
    ReleaseRecord,
    RuleRecord,
)
from voile.records.ledger import Act
from voile.records.ledger.event_text import read
from voile.records.ledger.history import Movement, Recomputation

_PLAN: Final = "plan"
_BY_CUSTODIAN: Final = "custodian"


@dataclass(frozen=True)
class Found:
    """An outcome, and the record of the log that it follows from."""

    record: int
    outcome: Outcome


@dataclass
class _Terms:
    """What an account promised, as its opening says."""

    measure: Measure | None
    epsilon: float
    delta: float
    parent: str | None

    @property
    def budgets(self) -> Sums | None:
        return None if self.measure is None else self.measure.budgets(self.epsilon, self.delta)


@dataclass
class Replay:
    """Takes the records of a log one by one.

    Args:
        tried: rules that are tried on the history; None for those on record, whose outcomes are
            compared with what the log says.
    """

    tried: RuleSet | None = None
    found: list[Found] = field(default_factory=list)
    """All outcomes, in order."""
    problems: list[str] = field(default_factory=list)
    """Where the log does not say what follows from it."""
    standings: MemoryStandings = field(default_factory=MemoryStandings)
    rules: RuleSet = field(default_factory=RuleSet)
    without_rules: int = 0
    """Charges while rules were in force that no rule has looked at."""
    _sums: Recomputation = field(default_factory=Recomputation)
    _terms: dict[str, _Terms] = field(default_factory=dict)
    _due: deque[Found] = field(default_factory=deque)
    _texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.tried is not None:
            self.rules = self.tried

    def take(self, number: int, record: Any) -> None:
        """The next record; of a kind that has nothing to do with rules, nothing happens."""
        if isinstance(record, AlertRecord | MeasureRecord | LiftRecord):
            self._told(number, record)
            return
        fact = self._fact(record)
        if fact is not None:
            self._follow(number, fact)

    def finish(self) -> None:
        """There are no more records."""
        self._nothing_due()

    # --- records as facts -----------------------------------------------------------------------

    def _fact(self, record: Any) -> Fact | None:
        match record:
            case BudgetOpenedRecord():
                self._open(record)
            case BudgetRenewedRecord():
                self._move(Act.RENEWED, record)
                return Renewed(record.time, frozenset(self._below(record.account)))
            case ParticipationRecord():
                self._move(Act.CHARGED, record)
            case ReleaseRecord():
                return self._charge(record)
            case RefusalRecord() if record.caller is not None or self.tried is not None:
                path = tuple(name for name, _ in self._path(record.account))
                return RefusedFact(record.time, record.caller or "", record.epsilon, path)
            case ObservationRecord() if record.metric in set(Metric):
                metric = Metric(record.metric)
                return Observed(record.time, metric, record.subject, record.value)
            case RuleRecord() if self.tried is None:
                return self._rule(record)
        return None

    def _charge(self, record: ReleaseRecord) -> Charged | None:
        before = self._shares(record.account)
        self._move(Act.CHARGED, record)
        after = self._shares(record.account)
        if record.caller is None and self.tried is None:
            self.without_rules += bool(self.rules.rules)
            return None
        uses = tuple(Use(name, before[name], share) for name, share in after.items())
        return Charged(record.time, record.charge, record.caller or "", record.epsilon, uses)

    def _rule(self, record: RuleRecord) -> RulesChanged | None:
        if record.number == 0:
            self._texts = []
        self._texts += [record.rule] if record.count else []
        if len(self._texts) < record.count:
            return None
        changed = RuleSet.from_texts(self._texts)
        if changed.digest != record.rules:
            self.problems.append("a set of rules is not the one that its digest says")
        return RulesChanged(record.time, changed)

    # --- sums -----------------------------------------------------------------------------------

    def _open(self, record: BudgetOpenedRecord) -> None:
        composition = record.composition or ""
        above = self._terms.get(record.parent or "")
        measure = measure_in_words(composition) if above is None else above.measure
        plan = composition.startswith(_PLAN)
        movement = Movement(
            act=Act.OPENED,
            account=record.account,
            parent=record.parent,
            is_plan=plan,
            is_parallel=record.children == "parallel",
            cost=read(record.cost) if record.cost else (),
        )
        self._sums.apply(movement, measure)
        self._terms[record.account] = _Terms(measure, record.epsilon, record.delta, record.parent)

    def _move(self, act: Act, record: Any) -> None:
        cost = read(record.cost) if record.cost else ()
        # Which parts of a plan are used is not followed here: no rule speaks of plans.
        self._sums.apply(Movement(act=act, account=record.account, cost=cost), None)

    def _path(self, account: str) -> Iterator[tuple[str, Sums]]:
        """An account and all above it, without plans, with their budgets."""
        name: str | None = account
        while name is not None and name in self._terms:
            terms = self._terms[name]
            budgets = terms.budgets
            if budgets is not None and not self._sums.accounts[name].is_plan:
                yield name, budgets
            name = terms.parent

    def _shares(self, account: str) -> Mapping[str, float]:
        return {
            name: consumed(self._sums.accounts[name].standing.spent, budgets)
            for name, budgets in self._path(account)
        }

    def _below(self, account: str) -> Iterator[str]:
        for name in self._terms:
            step: str | None = name
            while step is not None and step != account:
                step = self._terms[step].parent
            if step == account:
                yield name

    # --- what follows, and what the log says ----------------------------------------------------

    def _follow(self, number: int, fact: Fact) -> None:
        self._nothing_due()
        found = [Found(number, each) for each in outcomes(self.rules, self.standings, fact)]
        if isinstance(fact, RulesChanged):
            self.rules = fact.rules
        self.found += found
        if self.tried is None:
            self._due.extend(found)

    def _told(self, number: int, record: AlertRecord | MeasureRecord | LiftRecord) -> None:
        if self.tried is not None:
            return
        if isinstance(record, LiftRecord) and record.cause == _BY_CUSTODIAN:
            subject = (record.subject, record.caller or "")
            self._follow(number, Lifted(record.time, record.rule, subject, record.reason or ""))
        if not self._due:
            self.problems.append(f"record {number}: nothing in the log leads to this {record.kind}")
            return
        due = self._due.popleft()
        if due.outcome.record != record:
            self.problems.append(
                f"record {number}: this {record.kind} is not what follows from record {due.record}"
            )

    def _nothing_due(self) -> None:
        while self._due:
            due = self._due.popleft()
            self.problems.append(f"record {due.record}: missing from the log: {due.outcome}")


def measure_in_words(composition: str) -> Measure | None:
    """The measure of an account, as its opening states it; None for a plan."""
    kind, _, name = composition.partition("filter: ")
    return None if kind else Measure.from_name(name or "zcdp")
