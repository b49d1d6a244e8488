"""How long a call takes: the estimate, by a clock of its own."""

from __future__ import annotations

import time

import pytest

from voile.python import progress


class Clock:
    """A model that takes a microsecond a row, on a machine that stops once for a moment."""

    def __init__(self, hiccup_at: int | None) -> None:
        self.now, self.asked, self.hiccup_at = 0.0, 0, hiccup_at

    def ask(self, rows: int) -> None:
        self.now += 1e-6 * rows + (0.03 if self.asked == self.hiccup_at else 0.0)
        self.asked += 1


@pytest.mark.parametrize("hiccup_at", [None, *range(9)])
def test_a_moment_in_which_the_machine_was_busy_does_not_count(
    hiccup_at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(hiccup_at)
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    found = progress.seconds_to_ask(clock.ask, 1_000_000, 4096)
    assert found == pytest.approx(1.0, rel=0.01)
