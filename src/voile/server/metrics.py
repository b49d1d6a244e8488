"""Figures for Prometheus: counts and times by route and release, never a value of anybody's."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_WORKING: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.12, 0.15, 0.25, 0.5, 1.0)
_TOGETHER: Final = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """All figures of one application; each application has its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "voile_requests", "Requests", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "voile_request_seconds",
            "Seconds from arrival to answer",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.answers = Counter(
            "voile_answers",
            "Explanations by outcome",
            ("release", "outcome"),
            registry=self.registry,
        )
        self.missed = Counter(
            "voile_missed_slots",
            "Charged answers that left later than their delay",
            ("release",),
            registry=self.registry,
        )
        self.together = Histogram(
            "voile_answered_together",
            "Requests in one transaction",
            buckets=_TOGETHER,
            registry=self.registry,
        )
        self.working = Histogram(
            "voile_working_seconds",
            "Seconds of work before the delay; depends on protected rows: for the operator alone",
            ("release",),
            buckets=_WORKING,
            registry=self.registry,
        )
        self.load = Gauge(
            "voile_load", "Requests in flight times their declared cost", registry=self.registry
        )
        self.shed = Gauge(
            "voile_shed_requests_total", "Requests refused for the load", registry=self.registry
        )
        self.measures = Gauge(
            "voile_measures_in_force", "Measures of rules in force", registry=self.registry
        )
        self.undelivered = Gauge(
            "voile_undelivered_alerts",
            "Alerts that a channel was not sent yet",
            registry=self.registry,
        )
        self.unsigned = Gauge(
            "voile_unsigned_records",
            "Records newer than the last checkpoint",
            registry=self.registry,
        )

    def quantile(self, share: float, route: str) -> tuple[float, int] | None:
        """Seconds that this share of the answers of a route took at most, and how many answers
        there were; None if there was none. As exact as the buckets are."""
        samples = [s for family in self.seconds.collect() for s in family.samples]
        own = [s for s in samples if s.labels.get("route") == route]
        buckets = [s for s in own if s.name.endswith("_bucket")]
        total = max((s.value for s in buckets), default=0.0)
        if not total:
            return None
        within = next(s for s in buckets if s.value >= share * total)
        return min(float(within.labels["le"]), 2 * _SECONDS[-1]), int(total)

    def exposition(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)
