"""What events cost and how costs add up: the one arithmetic of filters and of the ledger.

A *sum* is a tuple: one rho for zero-concentrated accounting, one Rényi divergence for each order
fixed at opening, both, or one pure epsilon in billionths. Every operation rounds up, so that no
number of small charges slips below the true total.

`ZeroConcentratedFilter`: if every event is chosen after seeing earlier answers, and the sum of the
rho of all events granted never exceeds B, everything together is B-zCDP. B is the largest rho that
implies the promised (epsilon, delta). Proofs and references: docs/guarantees/accounting.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import ClassVar, Final, Self, TypeAlias

import numpy as np

from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.privacy.accounting.conversion import (
    check_target,
    renyi,
    renyi_budget,
    renyi_to_epsilon,
    rho,
    zcdp_budget,
    zcdp_to_epsilon,
)
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)

Sums: TypeAlias = tuple[float, ...]
"""One figure for each dimension of a measure."""
MIXED_ORDERS: Final = (64.0, 1024.0)
"""Rényi orders of a new account beside rho: a middle one, and one that is almost pure."""
_SHARE_OF_ORDER: Final = 0.01
"""Of delta, for each order of a mixed measure; rho has the rest. Stored accounts rest on it."""
BILLIONTH: Final = Decimal("1e-9")
"""What a pure measure counts in."""
_EXACT: Final = 2.0**53


class MeasureKind(StrEnum):
    """What an account adds up. Stored texts never change their meaning."""

    ZCDP = "zcdp"
    """rho, at the whole of delta."""
    RENYI = "renyi"
    """Rényi divergence at k orders, delta/k each."""
    MIXED = "zcdp or renyi"
    """rho, and beside it Rényi divergences, each order at a hundredth of delta."""
    PURE = "pure"
    """Pure epsilons in whole billionths, each rounded up; delta is 0."""


@dataclass(frozen=True)
class Measure:
    """What an account adds up, fixed when its tree is opened.

    With several dimensions each is a filter of its own with a share of delta, and a release is
    granted while one of them still fits.

    >>> Measure().name, Measure((8.0, 16.0)).name, Measure.mixed().name, Measure.pure().name
    ('zcdp', 'renyi 8 16', 'zcdp or renyi 64 1024', 'pure')
    """

    orders: tuple[float, ...] = ()
    kind: MeasureKind | None = None
    """By the orders, if not stated: zcdp without any, else renyi."""

    def __post_init__(self) -> None:
        orders = tuple(float(order) for order in self.orders)
        object.__setattr__(self, "orders", orders)
        sound = all(math.isfinite(order) and order > 1 for order in orders)
        if not sound or len(set(orders)) < len(orders):
            raise InvalidInput(f"orders must be different and above 1, found {self.orders}")
        usual = MeasureKind.RENYI if orders else MeasureKind.ZCDP
        kind = usual if self.kind is None else MeasureKind(self.kind)
        object.__setattr__(self, "kind", kind)
        if bool(orders) is not (kind in (MeasureKind.RENYI, MeasureKind.MIXED)):
            raise InvalidInput(f"orders belong to Rényi divergences, found {kind} and {orders}")

    @classmethod
    def mixed(cls) -> Measure:
        """What a new account adds up where delta is above 0."""
        return cls(MIXED_ORDERS, MeasureKind.MIXED)

    @classmethod
    def pure(cls) -> Measure:
        """What an account adds up where delta is 0."""
        return cls((), MeasureKind.PURE)

    @classmethod
    def from_name(cls, text: str) -> Measure:
        """The inverse of `name` and of `text`."""
        words = text.split()
        kind = " ".join(word for word in words if word[0].isalpha())
        try:
            orders = tuple(float(word) for word in words if not word[0].isalpha())
            return cls(orders, MeasureKind(kind))
        except ValueError:
            raise InvalidInput(f"expected the name of a measure, found {text!r:.80}") from None

    @property
    def name(self) -> str:
        """For people and the audit log."""
        return " ".join([str(self.kind), *(f"{order:g}" for order in self.orders)])

    @property
    def text(self) -> str:
        """As it is stored, to the last bit."""
        return " ".join([str(self.kind), *map(repr, self.orders)])

    @property
    def is_pure(self) -> bool:
        return self.kind is MeasureKind.PURE

    @property
    def is_mixed(self) -> bool:
        return self.kind is MeasureKind.MIXED

    @property
    def nothing(self) -> Sums:
        return (0.0,) * (len(self.orders) + (self.kind is not MeasureKind.RENYI))

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Of delta, for each dimension."""
        if self.is_mixed:
            count = len(self.orders)
            return (1 - count * _SHARE_OF_ORDER, *(_SHARE_OF_ORDER,) * count)
        return (1 / len(self.nothing),) * len(self.nothing)

    def divergences(self, event: PrivacyEvent) -> Sums:
        """What the event costs, which may be nothing or without a bound."""
        return _divergences(self, event)

    def cost(self, event: PrivacyEvent) -> Sums:
        """What the event costs; refuses events the measure cannot hold or cannot tell from zero."""
        return _cost(self, event)

    def budgets(self, epsilon: float, delta: float) -> Sums:
        """The largest sums that imply (epsilon, delta), each dimension at its share of delta."""
        return _budgets(self, epsilon, delta)

    def epsilon(self, total: Sums, delta: float) -> float:
        """A reading of `total` at delta (what was promised is the budget, not this reading)."""
        if not any(total):
            return 0.0
        return min(self.readings(total, delta))

    def readings(self, total: Sums, delta: float) -> Sums:
        """The same of each dimension by itself."""
        if self.is_pure:
            return (total[0] / 1e9,)
        if not self.orders:
            return (zcdp_to_epsilon(total[0], delta),)
        if self.kind is MeasureKind.RENYI:
            share = delta / len(self.orders)
            return tuple(map(renyi_to_epsilon, self.orders, total, (share,) * len(total)))
        first, *rest = (share * delta for share in self.shares)
        found = map(renyi_to_epsilon, self.orders, total[1:], rest)
        return (zcdp_to_epsilon(total[0], first), *found)

    def plus(self, first: Sums, second: Sums) -> Sums:
        """The sum, rounded up; whole billionths need no rounding."""
        if self.is_pure and first[0] + second[0] < _EXACT:
            return (first[0] + second[0],)
        return plus(first, second)

    def growth(self, before: Sums, after: Sums) -> Sums:
        """How much larger `after` is, rounded up; exactly nothing where they are equal."""
        if self.is_pure and after[0] < _EXACT:
            return (max(0.0, after[0] - before[0]),)
        return growth(before, after)


@lru_cache(maxsize=4096)
def _divergences(measure: Measure, event: PrivacyEvent) -> Sums:
    if measure.is_pure:
        exact = pure_billionths(event)
        figure = float(exact)
        return (figure if figure >= exact else math.nextafter(figure, math.inf),)
    if not measure.orders:
        return (float(rho(event)),)
    first = () if measure.kind is MeasureKind.RENYI else (float(rho(event)),)
    return (*first, *map(float, renyi(event, np.array(measure.orders, dtype=np.float64))))


def pure_billionths(event: PrivacyEvent) -> int:
    """A pure epsilon in billionths; each release is rounded up by itself, then they are added.

    A number is the decimal that people write for it: ten releases of 0.1 are 1, and not 1 + 6e-17.
    """
    match event:
        case PureDp(epsilon) | BoundedRange(epsilon):
            return _billionths(epsilon, ROUND_CEILING)
        case Laplace(multiplier):
            return _billionths(1 / multiplier, ROUND_CEILING)
        case Repeated(inner, times):
            return times * pure_billionths(inner)
        case Composed(events):
            return sum(map(pure_billionths, events))
        case Parallel(events):
            return max(map(pure_billionths, events))
        case _:
            raise Refused(
                f"{type(event).__name__} has no pure epsilon, and this account has delta = 0: it "
                "takes releases by Laplace noise, randomised response or noisy choices only. An "
                "account with a delta above 0, such as 1e-6, takes all"
            )


def _billionths(figure: float, rounding: str) -> int:
    return int((Decimal(repr(figure)) / BILLIONTH).to_integral_value(rounding=rounding))


@lru_cache(maxsize=4096)
def _cost(measure: Measure, event: PrivacyEvent) -> Sums:
    try:
        found = measure.divergences(event)
    except OverflowError:
        found = (math.inf,)
    if not all(math.isfinite(each) and each > 0 for each in found):
        raise InvalidInput(
            f"the cost of {event!r} must be finite and above 0, found {found}: it is too large or "
            "too small to be told from nothing"
        )
    return found


@lru_cache(maxsize=4096)
def _budgets(measure: Measure, epsilon: float, delta: float) -> Sums:
    check_target(epsilon, delta, pure=measure.is_pure)
    if measure.is_pure:
        whole = _billionths(epsilon, ROUND_FLOOR)
        if whole > _EXACT:
            raise InvalidInput(f"where delta is 0, epsilon is at most 9 million, found {epsilon:g}")
        return (float(whole),)
    if not measure.orders:
        return (zcdp_budget(epsilon, delta),)
    # The dimension that will hold depends on the answers, so delta is split over all of them.
    if measure.kind is MeasureKind.RENYI:
        share = delta / len(measure.orders)
        return tuple(renyi_budget(order, epsilon, share) for order in measure.orders)
    first, *rest = (share * delta for share in measure.shares)
    pairs = zip(measure.orders, rest, strict=True)
    found = (renyi_budget(order, epsilon, share) for order, share in pairs)
    return (zcdp_budget(epsilon, first), *found)


def plus(first: Sums, second: Sums) -> Sums:
    """The sum, rounded up."""
    # The next float up: a sum of many charges rounded to nearest could fall below the true total.
    if len(first) == 1 == len(second):
        return (math.nextafter(first[0] + second[0], math.inf),)
    return tuple(math.nextafter(a + b, math.inf) for a, b in zip(first, second, strict=True))


def growth(before: Sums, after: Sums) -> Sums:
    """How much larger `after` is, rounded up; exactly nothing where they are equal."""
    if before == after:
        return (0.0,) * len(before)
    return tuple(
        math.nextafter(b - a, math.inf) if b > a else 0.0
        for a, b in zip(before, after, strict=True)
    )


def larger(first: Sums, second: Sums) -> Sums:
    """The larger of two in each dimension."""
    return tuple(map(max, first, second))


def fits(total: Sums, budgets: Sums) -> bool:
    """Whether one dimension is within its budget (sums never fall: it never was beyond)."""
    if len(total) == 1:
        return total[0] <= budgets[0]
    # Each order is a filter of its own at delta/k, so one that was never exceeded is enough.
    return any(each <= budget for each, budget in zip(total, budgets, strict=True))


def consumed(total: Sums, budgets: Sums) -> float:
    """The share that is gone, between 0 and 1, in the dimension that has most left."""
    if len(total) == 1:
        return min(1.0, total[0] / budgets[0]) if budgets[0] > 0 else 1.0
    shares = [
        each / budget if budget > 0 else 1.0 for each, budget in zip(total, budgets, strict=True)
    ]
    return min(1.0, *shares)


def shortfall(before: Sums, after: Sums, budgets: Sums) -> tuple[float, float, float]:
    """What is needed, left and promised in the dimension that is closest to fitting."""
    best = _closest(after, budgets)
    return after[best] - before[best], budgets[best] - before[best], budgets[best]


def _closest(after: Sums, budgets: Sums) -> int:
    """The dimension that is least above its budget, in proportion to it."""

    def excess(place: int) -> float:
        return after[place] / budgets[place] if budgets[place] > 0 else math.inf

    return min(range(len(after)), key=excess)


def describe_shortfall(
    measure: Measure, cost: Sums, before: Sums, budgets: Sums, delta: float
) -> str:
    """What a release needs and what is left, each read as an epsilon at `delta`.

    The need is rounded up and the rest down, so the first figure is always the larger one. In a
    mixed measure both are read in the dimension that is closest to fitting: the least reading of
    what is left would often be that of the other kind of release.
    """
    left = tuple(max(0.0, all_ - used) for used, all_ in zip(before, budgets, strict=True))
    if not measure.is_pure:  # whole numbers are subtracted exactly
        left = tuple(math.nextafter(each, 0.0) for each in left)
    need, rest = measure.epsilon(cost, delta), measure.epsilon(left, delta)
    if measure.is_mixed:
        best = _closest(measure.plus(before, cost), budgets)
        need = measure.readings(cost, delta)[best]
        rest = measure.readings(left, delta)[best] if left[best] else 0.0
    return f"Budget exceeded: this release needs epsilon = {_up(need)}, and {_down(rest)} is left"


def _three_digits(figure: float, rounding: str) -> str:
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(repr(figure))):g}"


def largest_count(fits: Callable[[PrivacyEvent], bool], event: PrivacyEvent, most: int) -> int:
    """How many such events fit one after the other; counting stops at `most`."""
    low, high = 0, 1
    while fits(Repeated(event, high)):
        low, high = high, 2 * high
        if high > most:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(Repeated(event, middle)) else (low, middle)
    return low


def largest_of_its_kind(fits: Callable[[PrivacyEvent], bool], event: PrivacyEvent) -> str:
    """What would fit instead of an event, in words; empty if nothing of the kind would.

    >>> largest_of_its_kind(lambda event: event.epsilon <= 3.5, PureDp(5.0))
    'a pure release of at most epsilon = 3.5 would fit'
    """
    found = _least_factor(lambda factor: fits(_noisier(event, factor)))
    if found is None:
        return ""
    match event:
        case PureDp(epsilon) | BoundedRange(epsilon):
            largest = epsilon / found
            nearest = type(event)(float(f"{largest:.3g}"))
            figure = f"{nearest.epsilon:g}" if fits(nearest) else _down(largest)
            return f"a pure release of at most epsilon = {figure} would fit"
        case Laplace(multiplier):
            kind, figure = "Laplace", _up(multiplier * found)
        case Gaussian(multiplier):
            kind, figure = "Gaussian", _up(multiplier * found)
        case _:
            return f"with {_up(found)} times the noise it would fit"
    return f"{kind} noise of at least {figure} times the sensitivity would fit"


def _least_factor(fits_with: Callable[[float], bool]) -> float | None:
    """The least factor above 1 with which it fits, to three digits, on the side that fits."""
    low, high = 0.0, _MOST_DOUBLINGS
    if not fits_with(2.0**high):
        return None
    while high - low > _CLOSE_ENOUGH:
        middle = (low + high) / 2
        low, high = (low, middle) if fits_with(2.0**middle) else (middle, high)
    return float(2.0**high)


_MOST_DOUBLINGS: Final = 16.0
_CLOSE_ENOUGH: Final = 1e-4


def _noisier(event: PrivacyEvent, factor: float) -> PrivacyEvent:
    """The same with so many times the noise; what is stated as a cost becomes as much cheaper."""
    match event:
        case Gaussian(multiplier):
            return Gaussian(multiplier * factor)
        case Laplace(multiplier):
            return Laplace(multiplier * factor)
        case PureDp(epsilon):
            return PureDp(epsilon / factor)
        case BoundedRange(epsilon):
            return BoundedRange(epsilon / factor)
        case Zcdp(value):
            return Zcdp(value / factor**2)
        case ApproximateDp(epsilon, delta):
            return ApproximateDp(epsilon / factor, delta)
        case PoissonSampled(Gaussian(multiplier)):
            return replace(event, event=Gaussian(multiplier * factor))
        case Repeated(inner, times):
            return Repeated(_noisier(inner, factor), times)
        case Composed(events):
            return Composed(tuple(_noisier(each, factor) for each in events))
        case Parallel(events):
            return Parallel(tuple(_noisier(each, factor) for each in events))


def _up(figure: float) -> str:
    return _three_digits(figure, ROUND_CEILING)


def _down(figure: float) -> str:
    return _three_digits(figure, ROUND_FLOOR)


# --- A budget that is open: each event may depend on earlier answers ------------------------------


_MOST_COUNTED: Final = 2**60


class MeasuredFilter(ABC):
    """Sums in a measure up to the largest that imply (epsilon, delta)."""

    epsilon: float
    delta: float

    @property
    @abstractmethod
    def measure(self) -> Measure: ...

    @property
    @abstractmethod
    def total(self) -> Sums: ...

    @abstractmethod
    def _with_total(self, total: Sums) -> Self: ...

    @cached_property
    def budgets(self) -> Sums:
        return self.measure.budgets(self.epsilon, self.delta)

    def fits(self, event: PrivacyEvent) -> bool:
        return fits(self._after(event), self.budgets)

    def spend(self, event: PrivacyEvent) -> Self:
        after = self._after(event)
        if not fits(after, self.budgets):
            raise self._exceeded(after)
        return self._with_total(after)

    def remaining(self) -> float:
        return 1 - consumed(self.total, self.budgets)

    def how_many(self, event: PrivacyEvent) -> int:
        return largest_count(self.fits, event, _MOST_COUNTED)

    def _after(self, event: PrivacyEvent) -> Sums:
        return self.measure.plus(self.total, self.measure.divergences(event))

    def _exceeded(self, after: Sums) -> BudgetExceeded:
        needed, left, _ = shortfall(self.total, after, self.budgets)
        cost = self.measure.growth(self.total, after)
        said = describe_shortfall(self.measure, cost, self.total, self.budgets, self.delta)
        return BudgetExceeded(
            f"{said} of epsilon = {self.epsilon:g} (delta = {self.delta:g}); nothing was charged",
            remaining=left,
            requested=needed,
        )


@dataclass(frozen=True)
class ZeroConcentratedFilter(MeasuredFilter):
    """Adds up rho, to the largest total that implies (epsilon, delta).

    Each event may depend on earlier answers. `spend` returns the filter afterwards, or raises
    `BudgetExceeded` and changes nothing.

    >>> from voile.privacy.events import Gaussian
    >>> opened = ZeroConcentratedFilter(epsilon=1.0, delta=1e-6)
    >>> opened.spend(Gaussian(20.0)).remaining() < opened.remaining() == 1.0
    True
    >>> opened.fits(Gaussian(1.0))
    False
    """

    epsilon: float
    delta: float
    spent: float = 0.0
    measure: ClassVar[Measure] = Measure()

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_target(self.epsilon, self.delta))

    @property
    def budget(self) -> float:
        return self.budgets[0]

    @property
    def total(self) -> Sums:
        return (self.spent,)

    def _with_total(self, total: Sums) -> Self:
        return replace(self, spent=total[0])
