"""A server across machines whose parties are online and never answer; nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from voile.app.federate import join
from voile.app.federate.status import run_status
from voile.app.testbed import invented
from voile.core.errors import Refused
from voile.federation.flower import AnswerTimes
from voile.federation.flower.courier import CourierReply


class SilentRun:
    """Everybody is online, takes messages and never answers."""

    def __init__(self, config: Path, parties: Iterable[str]) -> None:
        self.config = config
        self.numbers = {name: number for number, name in enumerate(parties)}
        self.pushed: list[list[int]] = []
        self.waiting: set[str] = set()
        self.looks = 0

    def __enter__(self) -> SilentRun:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def renew(self) -> None:
        """It is never lost."""

    def reachable(self) -> Mapping[str, int]:
        return self.numbers

    def push(self, messages: Mapping[int, bytes], seconds: float | None) -> dict[int, str]:
        assert seconds is not None
        self.pushed.append(sorted(messages))
        return {number: f"{number}, {len(self.pushed)}" for number in messages}

    def pull(self, _ids: Iterable[str]) -> list[CourierReply]:
        self.looks += 1
        assert self.looks < 1000, "waits for ever"
        last = run_status(self.config).last
        self.waiting |= set(() if last is None else last.waiting)
        return []


def test_without_a_deadline_a_run_asks_again_says_for_whom_it_waits_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = invented(tmp_path / "bed", 2, 1)
    silent, said = SilentRun(made.federation, made.parties), list[str]()
    given: list[AnswerTimes] = []

    def soon(*stated: Any) -> AnswerTimes:
        given.append(AnswerTimes(*stated))
        return AnswerTimes(least=0.6)

    monkeypatch.setattr(join, "SuperLinkRun", lambda *_: silent)
    monkeypatch.setattr(join, "AnswerTimes", soon)
    server = join.DeployedServer.read(made.federation)
    with pytest.raises(Refused, match="not all parties take part"):
        server.federate(made.address, say=said.append)
    assert [each.deadline for each in given] == [600.0]
    assert silent.pushed == [[0, 1]] * 3
    assert silent.waiting == set(made.parties)
    listed = ", ".join(sorted(made.parties))
    assert next(line for line in said if listed in line).startswith(
        f"sending again what was not answered: {listed} (since 20"
    )
    assert said[-1].startswith(f"no answer in 2 seconds from {listed} (since 20")


def test_ten_minutes_or_three_times_the_slowest_answer() -> None:
    times = AnswerTimes()
    for seconds, deadline in ((199.0, 600.0), (300.0, 900.0), (10.0, 900.0)):
        times.add(seconds)
        assert times.deadline == deadline
