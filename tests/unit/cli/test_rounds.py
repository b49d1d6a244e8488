"""What a federation says of itself on a terminal."""

from __future__ import annotations

import pytest

from voile.cli.progress import rounds_line, steps_line
from voile.federation import HistoryRow, Outcome, ProgressEvent


def test_who_has_not_answered_is_not_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        HistoryRow("pull", 1, "elm", Outcome.VANISHED, "", 0.0),
        HistoryRow("pull", 2, "ash", Outcome.ANSWERED, "", 0.0),
        HistoryRow("pull", 2, "elm", Outcome.VANISHED, "", 0.0),
        HistoryRow("pull", 2, "fir", Outcome.REFUSED, "", 0.0),
    ]
    rounds_line(1e-5)(ProgressEvent("pull", 2, 4, asked=3, answered=3, done=True, rows=rows))
    assert capsys.readouterr().err == (
        f"pull: round 2 of 4, 1 of 3 clients (elm: {Outcome.VANISHED}; fir: {Outcome.REFUSED})\n"
    )


def test_a_round_in_which_all_have_answered(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [HistoryRow("pull", 1, "ash", Outcome.RESENT, "", 0.0)]
    rounds_line(1e-5)(ProgressEvent("pull", 1, 4, asked=1, answered=1, done=True, rows=rows))
    assert capsys.readouterr().err == "pull: round 1 of 4, 1 of 1 clients\n"


def test_the_time_that_is_left_is_updated_round_by_round(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = iter([100.0, 110.0, 150.0, 160.0])
    show = rounds_line(1e-5, clock=lambda: next(times))
    rows = [HistoryRow("pull", 1, "ash", Outcome.ANSWERED, "", 0.0)]
    for number in (1, 2, 3, 4):
        show(ProgressEvent("pull", number, 4, asked=1, answered=1, done=True, rows=rows[:0]))
    one, two, three, four = capsys.readouterr().err.splitlines()
    assert "left" not in one
    assert two.endswith("about 20 seconds left in this stage")
    assert three.endswith("about 25 seconds left in this stage")
    assert "left" not in four


def test_the_time_that_is_left_is_updated_step_by_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    times = iter([100.0, 110.0, 111.0, 130.0, 500.0])
    show = steps_line(clock=lambda: next(times))
    for done in (10, 20, 30, 40):
        show(done, 40)
    one, two, three, four = capsys.readouterr().err.split("\r\x1b[K")[1:]
    assert one == "10 of 40 steps"
    assert two == "20 of 40 steps; about 20 seconds left"
    assert three == "30 of 40 steps; about 6 seconds left"
    assert four == "40 of 40 steps\n"
    show(10, 40)  # of the next computation
    assert capsys.readouterr().err.endswith("10 of 40 steps")
