"""What an account promises, as frozen data: fixed when it is opened, never changed afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, Relation
from voile.privacy.accounting.accountants import Plan
from voile.privacy.accounting.conversion import check_target
from voile.privacy.accounting.measures import Measure, Sums
from voile.privacy.events import Composed, Parallel, PoissonSampled, PrivacyEvent, Repeated

LONGEST_NAME: Final = 100
"""Bytes of an account's name or a data set's label: records of the audit log are short."""
_LONGEST_UNIT: Final = 200
"""Bytes of the unit as it is stored, which may name columns."""
_MOST_ORDERS: Final = 8


class Children(StrEnum):
    """How the accounts below an account concern its records."""

    SEQUENTIAL = "sequential"
    """Each may concern the same records: their charges add up."""
    PARALLEL = "parallel"
    """Each concerns records that no other one does: a record pays for one of them only. This is an
    assumption about the data, and is written into every report."""


@dataclass(frozen=True)
class AdaptiveSpending:
    """A filter: what is asked next may depend on earlier answers.

    Without orders, zero-concentrated accounting; with orders, Rényi accounting at these, which is
    what sampled Gaussian noise (DP-SGD) needs; `for_all_kinds` for a new account. All accounts of a
    tree share the root's measure.
    """

    orders: tuple[float, ...] = ()
    mixed: bool = False
    """Rényi orders beside zero-concentrated accounting, so that pure releases fit as well."""

    @classmethod
    def for_all_kinds(cls, orders: tuple[float, ...] = ()) -> AdaptiveSpending:
        """What a new account gets: the orders it asks for, or what affords most.

        >>> AdaptiveSpending.for_all_kinds().measure(1e-6).name
        'zcdp or renyi 64 1024'
        """
        return cls(orders) if orders else cls(mixed=True)

    def measure(self, delta: float) -> Measure:
        """What a root of this delta adds up."""
        if delta == 0:
            return Measure.pure()
        return Measure.mixed() if self.mixed else Measure(self.orders)

    def __post_init__(self) -> None:
        if self.mixed and self.orders:
            raise InvalidInput("a mixed measure has orders of its own")
        if len(self.orders) > _MOST_ORDERS:
            raise InvalidInput(f"expected at most {_MOST_ORDERS} orders, found {self.orders}")


@dataclass(frozen=True)
class PlannedSpending:
    """A complete list of events, composed by their privacy-loss distributions.

    A charge must be a part of the list that was not used yet. The order is free and parts may be
    left out; anything else is refused.
    """

    events: tuple[PrivacyEvent, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))


Spending: TypeAlias = AdaptiveSpending | PlannedSpending


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What is asked for when an account is opened.

    Args:
        name: unique in the ledger.
        protected: what is protected; unit and relation are the same in a whole tree.
        epsilon, delta: the promise.
        spending: a filter or a plan.
        parent: the account above; None for the root of a data set.
        children: how accounts below this one concern its records.
        shares_rows_with: other versions that have rows in common with this one. All of them belong
            to one root.
    """

    name: str
    protected: Protected
    epsilon: float
    delta: float
    spending: Spending = AdaptiveSpending()
    parent: str | None = None
    children: Children = Children.SEQUENTIAL
    shares_rows_with: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", Children(self.children))
        object.__setattr__(self, "shares_rows_with", tuple(self.shares_rows_with))
        check_name("name", self.name)
        check_name("dataset", self.protected.dataset)
        check_name("unit", self.protected.texts["unit"], longest=_LONGEST_UNIT)
        for label in self.shares_rows_with:
            check_name("shares_rows_with", label)
        pure = isinstance(self.spending, AdaptiveSpending) and not self.spending.orders
        delta = check_target(
            _number("epsilon", self.epsilon), _number("delta", self.delta), pure=pure
        )
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(delta))
        if isinstance(self.spending, PlannedSpending):
            if self.children is Children.PARALLEL:
                raise InvalidInput("a plan has no accounts below it, so --parallel does not apply")
            for event in self.spending.events:
                check_relation(event, self.protected.relation)
            Plan(self.spending.events, self.epsilon, self.delta)  # BudgetExceeded if it is too much


@dataclass(frozen=True, kw_only=True)
class Account:
    """An open account: what it promised, and where it stands in its tree."""

    name: str
    protected: Protected
    epsilon: float
    delta: float
    measure: Measure | None
    """The measure of the tree; None for a plan that is a root."""
    plan: tuple[PrivacyEvent, ...]
    """Empty for a filter."""
    parent: str | None
    root: str
    children: Children
    opened: float

    @cached_property
    def is_plan(self) -> bool:
        return bool(self.plan)

    @cached_property
    def is_parallel(self) -> bool:
        return self.children is Children.PARALLEL

    @cached_property
    def budgets(self) -> Sums:
        """The largest sums this account grants, in the measure of its tree."""
        assert self.measure is not None
        return self.measure.budgets(self.epsilon, self.delta)

    def most_rho(self, epsilon: float, delta: float) -> float:
        """The largest rho that is granted to a release of (epsilon, delta).

        Bounded where the account is mixed and promises no less: its whole promise as one Gaussian
        release takes a little more noise. What is more than the promise is refused when charged.
        """
        if self.measure is None or not self.measure.is_mixed:
            return math.inf
        within = epsilon <= self.epsilon and delta <= self.delta
        return self.budgets[0] if within else math.inf

    def child(self, name: str, opened: float | None = None) -> Account:
        """An account below this one, with the same promise; a service opens many of them.

        Args:
            opened: when; this one's time if it is not open yet.
        """
        found = object.__new__(Account)
        found.__dict__.update(self._child.__dict__, name=name)
        if opened is not None:
            found.__dict__["opened"] = opened
        return found

    @cached_property
    def _child(self) -> Account:
        """What all accounts below have in common, and what follows from that."""
        found = replace(self, parent=self.name, children=Children.SEQUENTIAL)
        _ = found.is_plan, found.is_parallel
        if self.measure is not None:
            _ = found.budgets
        return found

    def check_protects(self, protected: Protected) -> None:
        """Refuse a release that speaks about anything but what this account protects."""
        if protected is not self.protected and protected != self.protected:
            raise Refused(
                f"account {self.name!r} is for {self.protected.difference(protected)}; nothing "
                "was charged"
            )

    @property
    def composition(self) -> str:
        """How charges add up, in words."""
        if self.is_plan:
            return f"plan of {len(self.plan)} events by privacy-loss distributions"
        assert self.measure is not None
        return f"filter: {self.measure.name}"


def check_name(field: str, value: object, *, longest: int = LONGEST_NAME) -> None:
    """A short printable text."""
    sound = isinstance(value, str) and bool(value.strip()) and value.isprintable()
    if not sound or len(str(value).encode("utf-8", errors="replace")) > longest:
        raise InvalidInput(
            f"{field} must be a printable text of at most {longest} bytes, found {value!r:.80}"
        )


def check_relation(event: PrivacyEvent, relation: Relation) -> None:
    """Sampled noise is accounted under a relation of its own, which must be the account's.

    Blanking a record is, for a sampled sum, the same as removing it; nothing else is.
    """
    match event:
        case PoissonSampled():
            same = event.relation is relation
            blank = relation is Relation.BLANK_ONE and event.relation is Relation.ADD_OR_REMOVE_ONE
            if not (same or blank):
                raise InvalidInput(
                    f"the account is for {relation.word}, the event was accounted for "
                    f"{event.relation.word}; calibrate it for the account's relation"
                )
        case Repeated(inner, _):
            check_relation(inner, relation)
        case Composed(events) | Parallel(events):
            for inner in events:
                check_relation(inner, relation)
        case _:
            pass


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} must be a number, found {value!r}")
    return float(value)
