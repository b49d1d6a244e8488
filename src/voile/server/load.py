"""The load of the service: requests in flight times the declared cost of their release.

It is looked at in windows of one second, the most in each. A charged request holds its place until
its slot ends, so the load shows nothing of how long protected rows took.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from voile.app.compliance.enforcement import observe, rules_in_force
from voile.compliance import MemoryStandings, Metric, Observed, RuleSet, outcomes
from voile.compliance.evaluation import acting
from voile.core.errors import Refused
from voile.records.vault import Vault


class LoadShed(Refused):
    """The service has too much to do."""


class Load:
    """What is in flight, and whether there is room for more.

    Args:
        clock: in seconds.
    """

    def __init__(self, vault: Vault, clock: Callable[[], float] = time.time) -> None:
        self._vault, self._clock = vault, clock
        self._subject = f"service {secrets.token_hex(4)}"  # several processes are several loads
        self._rules, self._standings = RuleSet(), MemoryStandings()
        self._second, self._closing = int(clock()), False
        self.now = self.peak = 0.0
        self.shed = 0

    @asynccontextmanager
    async def place(self, cost: float) -> AsyncIterator[None]:
        """Room for a request; `LoadShed` if there is none."""
        await self._look()
        if self.is_shedding:
            self.shed += 1
            raise LoadShed("too many requests are in flight")
        self.now += cost
        self.peak = max(self.peak, self.now)
        try:
            yield
        finally:
            self.now -= cost

    @property
    def is_shedding(self) -> bool:
        """Whether a measure refuses requests."""
        return any(
            rule.metric is Metric.LOAD
            for rule, _, _ in acting(self._rules, self._standings, self._second)
        )

    async def _look(self) -> None:
        """Once a second, when somebody comes: the most of the last window that had requests."""
        second = int(self._clock())
        if second == self._second or self._closing:
            return
        # Nobody came in the seconds between: what is still in flight is the load of the last one.
        most = self.peak if second == self._second + 1 else self.now
        self._second, self.peak, self._closing = second, self.now, True
        try:
            await asyncio.to_thread(self._close, most)
        finally:
            self._closing = False

    def _close(self, most: float) -> None:
        rules = self._vault.storage.read_snapshot(rules_in_force)
        own = RuleSet(rules.of_metric(Metric.LOAD))
        if own != self._rules:
            self._rules, self._standings = own, MemoryStandings()
        if not own.rules:
            return
        fact = Observed(self._second, Metric.LOAD, self._subject, most)
        before = dict(self._standings.kept)
        outcomes(own, self._standings, fact)
        if self._standings.kept != before:  # on record only where something follows from it
            observe(self._vault, Metric.LOAD, self._subject, most)
