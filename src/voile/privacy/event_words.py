"""What a release costs, in words for people; stored events and JSON keep their own form."""

from __future__ import annotations

from typing import assert_never

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


def event_in_words(event: PrivacyEvent) -> str:
    """Of any event: "Gaussian noise of 7.22 times the sensitivity, 3 times"."""
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
