"""What was released, as data. Accountants interpret events; events know no accountant.

Compatibility promise: events are stored for years. A stored event never loses a field, and neither
a field nor a kind ever changes its meaning; new kinds may be added.

    leaves       Gaussian, Laplace, PureDp, ApproximateDp, BoundedRange, Zcdp, PoissonSampled
    containers   Repeated, Composed, Parallel
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias, assert_never

from voile.core.choices import chosen
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation


@dataclass(frozen=True)
class _Figures:
    """Every figure of such an event is above zero."""

    def __post_init__(self) -> None:
        for each in fields(self):
            _keep(self, each.name, _above_zero(each.name, getattr(self, each.name)))


@dataclass(frozen=True)
class Gaussian(_Figures):
    """Gaussian noise; `noise_multiplier` is its standard deviation over the l2 sensitivity.

    Costs rho = 1/(2·noise_multiplier²).

    >>> Gaussian(20) == Gaussian(20.0)
    True
    """

    noise_multiplier: float


@dataclass(frozen=True)
class Laplace(_Figures):
    """Laplace noise; `noise_multiplier` is its scale over the l1 sensitivity.

    Costs the pure epsilon 1/`noise_multiplier`.

    >>> event_in_words(Laplace(4.0))
    'Laplace noise of 4 times the sensitivity'
    """

    noise_multiplier: float


@dataclass(frozen=True)
class PureDp(_Figures):
    """Anything that is (epsilon, 0)-differentially private, whatever its noise.

    >>> event_in_words(PureDp(0.5))
    'ε = 0.5'
    """

    epsilon: float


@dataclass(frozen=True)
class ApproximateDp(_Figures):
    """Anything (epsilon, delta)-differentially private, where nothing more is known.

    >>> to_dict(ApproximateDp(1.0, 1e-6))
    {'kind': 'approximate', 'epsilon': 1.0, 'delta': 1e-06}
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta >= 1:
            raise InvalidInput(f"delta must be in (0, 1), found {self.delta}")


@dataclass(frozen=True)
class BoundedRange(_Figures):
    """The exponential mechanism: the privacy loss lies in some interval of length epsilon.

    It is a pure epsilon too, with a quarter of the rho.

    >>> from voile.privacy.accounting.conversion import rho
    >>> rho(PureDp(1.0)) / rho(BoundedRange(1.0))
    4.0
    """

    epsilon: float


@dataclass(frozen=True)
class Zcdp(_Figures):
    """Anything that is rho-zero-concentrated differentially private.

    >>> event_in_words(Repeated(Zcdp(0.1), 3))
    'ρ = 0.1 (concentrated differential privacy), 3 times'
    """

    rho: float


@dataclass(frozen=True)
class PoissonSampled:
    """Gaussian noise on the sum over a Poisson sample, as in one step of DP-SGD.

    The noise multiplier is relative to the largest contribution of *one* record, under every
    relation. The relation is part of the event: zeroing out a record is the same as removing it
    (its contribution is zero), replacing it is not.

    >>> step = PoissonSampled(Gaussian(1.1), probability=0.01, relation="blank one")
    >>> event_in_words(step)
    'Gaussian noise of 1.1 times the sensitivity, on a random sample of 1 % of the records'
    """

    event: Gaussian
    probability: float
    relation: Relation

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation(self.relation))
        if not isinstance(self.event, Gaussian):
            raise InvalidInput(f"sampling is supported for Gaussian noise, found {self.event!r}")
        _keep(self, "probability", _above_zero("probability", self.probability))
        if self.probability > 1:
            raise InvalidInput(f"probability must be in (0, 1], found {self.probability}")


@dataclass(frozen=True)
class Repeated:
    """The same event several times, each possibly depending on earlier answers.

    Parallel parts inside are the same records every time; otherwise list the rounds in `Composed`.

    >>> event_in_words(Repeated(Gaussian(7.22), 3))
    'Gaussian noise of 7.22 times the sensitivity, 3 times'
    """

    event: PrivacyEvent
    times: int

    def __post_init__(self) -> None:
        _check_events((self.event,))
        if isinstance(self.times, bool) or not isinstance(self.times, int) or self.times < 1:
            raise InvalidInput(f"times must be a whole number of at least 1, found {self.times!r}")


@dataclass(frozen=True)
class _Events:
    events: tuple[PrivacyEvent, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", _check_events(self.events))
        if not self.events:
            raise InvalidInput("a composition needs at least one event")


@dataclass(frozen=True)
class Composed(_Events):
    """Several events on the same records: their costs add up.

    >>> event_in_words(Composed((PureDp(0.5), PureDp(1.0))))
    'ε = 0.5 and ε = 1'
    """


@dataclass(frozen=True)
class Parallel(_Events):
    """Events on disjoint records: one record takes part in one of them only.

    The largest cost counts, not the sum.

    >>> from voile.privacy.accounting import Basic
    >>> Basic().compose(Parallel((PureDp(0.5), PureDp(1.0)))).epsilon(0.0)
    1.0
    """


Leaf: TypeAlias = Gaussian | Laplace | PureDp | ApproximateDp | BoundedRange | Zcdp | PoissonSampled
PrivacyEvent: TypeAlias = Leaf | Repeated | Composed | Parallel

# Names in stored events. They are part of the compatibility promise.
_KINDS: Final[dict[str, type[Any]]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "pure": PureDp,
    "approximate": ApproximateDp,
    "bounded range": BoundedRange,
    "zcdp": Zcdp,
    "poisson sampled": PoissonSampled,
    "repeated": Repeated,
    "composed": Composed,
    "parallel": Parallel,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
MOST_NESTED: Final = 50
"""How deep a stored event may be; whatever reads it afterwards can go through it."""


def to_dict(event: PrivacyEvent) -> dict[str, Any]:
    """Plain values for JSON; floats keep every bit, so `from_dict` gives an equal event.

    >>> to_dict(Gaussian(2.0))
    {'kind': 'gaussian', 'noise_multiplier': 2.0}
    """
    stored: dict[str, Any] = {"kind": _NAMES[type(event)]}
    for item in fields(event):
        stored[item.name] = _plain(getattr(event, item.name))
    return stored


def from_dict(stored: Mapping[str, Any], *, nested: int = 0) -> PrivacyEvent:
    """The inverse of `to_dict`; refuses kinds and fields it does not know.

    >>> event = Repeated(Gaussian(2.0), 3)
    >>> from_dict(to_dict(event)) == event
    True
    """
    if nested > MOST_NESTED:
        raise InvalidInput(f"a stored event is nested at most {MOST_NESTED} times")
    name = stored.get("kind") if isinstance(stored, Mapping) else None
    kind = chosen(_KINDS, name, "the kind of a stored event")
    expected = {item.name for item in fields(kind)}
    if set(stored) - {"kind"} != expected:
        raise InvalidInput(f"a stored {stored['kind']!r} has the fields {sorted(expected)}")
    event: PrivacyEvent = kind(
        **{name: _event_or_value(stored[name], nested + 1) for name in expected}
    )
    return event


def for_group(event: PrivacyEvent, size: int) -> PrivacyEvent:
    """The same release seen by a unit that holds at most `size` records.

    >>> for_group(PureDp(0.5), 3), for_group(Gaussian(6.0), 3)
    (PureDp(epsilon=1.5), Gaussian(noise_multiplier=2.0))
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidInput(f"a group has at least one record, found {size!r}")
    match event:
        case Gaussian(multiplier):
            return Gaussian(multiplier / size)
        case Laplace(multiplier):
            return Laplace(multiplier / size)
        case PureDp(epsilon):
            return PureDp(epsilon * size)
        case BoundedRange(epsilon):
            return BoundedRange(epsilon * size)
        case Zcdp(rho):
            # Divergences grow with the squared distance (Bun and Steinke 2016, Proposition 1.9).
            return Zcdp(rho * size**2)
        case ApproximateDp(epsilon, delta):
            # A chain of `size` steps: delta + e^eps delta + e^(2 eps) delta + ...
            return ApproximateDp(
                epsilon * size, delta * math.expm1(size * epsilon) / math.expm1(epsilon)
            )
        case PoissonSampled():
            raise Refused("a group of records is not sampled as one: sample by unit instead")
        case Repeated(inner, times):
            return Repeated(for_group(inner, size), times)
        case Composed(events):
            return Composed(tuple(for_group(inner, size) for inner in events))
        case Parallel():
            raise Refused("records of one group may lie in several parts of a parallel composition")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [to_dict(item) for item in value]
    if isinstance(value, Relation):
        return str(value)
    return value if isinstance(value, (int, float)) else to_dict(value)


def _event_or_value(value: Any, nested: int) -> Any:
    if isinstance(value, list):
        return tuple(from_dict(item, nested=nested) for item in value)
    return from_dict(value, nested=nested) if isinstance(value, Mapping) else value


def _check_events(events: Any) -> tuple[PrivacyEvent, ...]:
    found = tuple(events) if isinstance(events, Iterable) else (events,)
    for event in found:
        if type(event) not in _NAMES:
            raise InvalidInput(f"expected a privacy event, found {event!r:.100}")
    return found


def _keep(event: object, name: str, value: float) -> None:
    object.__setattr__(event, name, value)


def _above_zero(name: str, value: object) -> float:
    """As a Python float: equal events are written alike, made from 20 or from 20.0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} must be a number, found {value!r}")
    try:
        figure = float(value)
    except OverflowError:
        figure = math.inf
    if not math.isfinite(figure) or figure <= 0:
        raise InvalidInput(f"{name} must be finite and above 0, found {figure}")
    return figure


# --- What a release costs, in words for people; stored events and JSON keep their own form -------


def event_in_words(event: PrivacyEvent) -> str:
    """What an event is, for people to read.

    >>> event_in_words(Gaussian(7.22))
    'Gaussian noise of 7.22 times the sensitivity'
    """
    match event:
        case Repeated():
            return f"{_inside(event.event)}, {_times(event.times)}"
        case Composed():
            return " and ".join(map(_inside, event.events))
        case Parallel():
            parts = "; ".join(dict.fromkeys(map(event_in_words, event.events)))
            return f"of each record one of {len(event.events):,} parts ({parts})"
        case PoissonSampled():
            sampled = f"on a random sample of {100 * event.probability:.3g} % of the records"
            return f"{event_in_words(event.event)}, {sampled}"
        case _:
            return _leaf(event)


def _leaf(event: Gaussian | Laplace | PureDp | ApproximateDp | BoundedRange | Zcdp) -> str:
    match event:
        case Gaussian():
            return f"Gaussian noise of {event.noise_multiplier:.3g} times the sensitivity"
        case Laplace():
            return f"Laplace noise of {event.noise_multiplier:.3g} times the sensitivity"
        case PureDp():
            return f"ε = {event.epsilon:.3g}"
        case ApproximateDp():
            return f"ε = {event.epsilon:.3g} with δ = {event.delta:.3g}"
        case BoundedRange():
            return f"a choice by the exponential mechanism with ε = {event.epsilon:.3g}"
        case Zcdp():
            return f"ρ = {event.rho:.3g} (concentrated differential privacy)"
        case _:
            assert_never(event)


def _inside(event: PrivacyEvent) -> str:
    """Brackets around what has several parts, so that it is clear what is repeated or added."""
    several = isinstance(event, Repeated | Composed)
    return f"({event_in_words(event)})" if several else event_in_words(event)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
