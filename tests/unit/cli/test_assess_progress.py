"""Who is tried, and how long it still takes, while `voile assess` runs."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from voile.assess.assessment import TrialOutcome
from voile.cli import assess
from voile.cli.assess import end_line, progress_line

TRIED = TrialOutcome("approval\x1b[2J", 12_000, 3.0, found_out=3, claims=10, seconds_left=80.4)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_who_is_tried_and_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress_line()(TRIED)
    shown = sys.stderr.getvalue()  # type: ignore[union-attr]
    assert shown.startswith("\r\x1b[K")
    assert "12,000 runs" in shown
    assert "detected for 3 of 10 claims; 1:20 left" in shown
    assert "\x1b[2J" not in shown
    end_line()
    assert sys.stderr.getvalue().endswith("\r\x1b[K")  # type: ignore[union-attr]


def test_nothing_else_is_told_but_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    show = progress_line()
    with caplog.at_level(logging.INFO, logger=assess.__name__):
        show(TRIED)
        show(TRIED)  # too soon
    end_line()
    assert sys.stderr.getvalue() == ""  # type: ignore[union-attr]
    assert len(caplog.records) == 1
