"""Traces of queries: a daily season, bursts, and questions that come again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from experiments.budget_allocation.policies import DAY
from voile.privacy.allocation import HOUR, Query, QueryType


@dataclass(frozen=True)
class Asked:
    """A query and which question it asks; some questions are asked often."""

    query: Query
    question: int


@dataclass(frozen=True)
class TraceSettings:
    """What a trace looks like.

    Args:
        days: its length.
        hourly: mean rate outside of bursts.
        season: 0 none, 1 none at night and twice the mean in the early afternoon.
        bursts: a day, on average.
        burst_minutes, burst_factor: how long and how much stronger.
        questions: how many different ones; popularity falls like a Zipf law.
    """

    days: int = 14
    hourly: float = 12.0
    season: float = 0.9
    bursts: float = 1.5
    burst_minutes: float = 30.0
    burst_factor: float = 20.0
    questions: int = 3000
    zipf: float = 1.1


def make_trace(settings: TraceSettings, seed: int) -> list[Asked]:
    """Poisson arrivals, thinned to the rate of the hour, and more of them during bursts."""
    chance = np.random.default_rng(seed)
    length = settings.days * DAY
    starts = chance.uniform(0, length, chance.poisson(settings.bursts * settings.days))
    peak = settings.hourly * (1 + settings.season) * settings.burst_factor
    times = np.sort(chance.uniform(0, length, chance.poisson(peak * length / HOUR)))
    rates = np.array([_rate(settings, starts, time) for time in times])
    times = times[chance.uniform(0, peak, len(times)) < rates]
    weights = 1 / np.arange(1, settings.questions + 1) ** settings.zipf
    questions = chance.choice(settings.questions, len(times), p=weights / weights.sum())
    # A question keeps its kind and its features, whenever it is asked.
    kinds = chance.choice(3, settings.questions, p=[0.6, 0.25, 0.15])
    features = chance.integers(5, 51, settings.questions)
    names = list(QueryType)
    return [
        Asked(Query(float(time), names[kinds[q]], int(features[q])), int(q))
        for time, q in zip(times, questions, strict=True)
    ]


def _rate(settings: TraceSettings, starts: np.ndarray, time: float) -> float:
    season = 1 - settings.season * math.cos(2 * math.pi * (time / DAY - 1 / 12))
    in_burst = np.any((starts <= time) & (time < starts + 60 * settings.burst_minutes))
    return settings.hourly * season * (settings.burst_factor if in_burst else 1.0)
