"""When a charged answer leaves: by a time from public facts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.unit.server.examples import MORE, ROWS, House, home, serving

from voile.app.serving.delay import Delay
from voile.attribution import CONSTANT_WORK
from voile.server.answering import LoopClock


def with_delay(folder: Path, setting: str) -> Path:
    return home(folder, MORE.replace("delay = false", f"delay = {setting}"))


def test_a_charged_answer_waits_for_its_slot_and_a_free_one_does_not(tmp_path: Path) -> None:
    with serving(with_delay(tmp_path / "home", "0.2")) as house:
        key = house.key()
        started = time.perf_counter()
        found = house.explain(key)
        assert time.perf_counter() - started >= 0.2
        assert found.headers["voile-timing"].endswith("seconds=0.2000")
        assert "voile-timing" not in house.explain(key, "open").headers
        assert house.explain(key).json()["replayed"]
        assert "voile-timing" in house.explain(key).headers


def test_a_missed_slot_is_stated_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(with_delay(tmp_path / "home", "0.05")) as house:
        slow(house, monkeypatch, 0.06)
        found = house.explain(house.key())
        slot = int(found.headers["voile-timing"].partition(";")[0].removeprefix("slot="))
        assert slot >= 2
        told = house.ask("GET", "/metrics", house.key()).text
        assert 'voile_missed_slots_total{release="approval"} 1.0' in told


def slow(house: House, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Answering takes longer, for whatever reason."""
    kind = type(house.workspace)
    plain = kind.answer

    def late(*given: object) -> object:
        time.sleep(seconds)
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "answer", late)


class Clock(LoopClock):
    """Goes on only where somebody works or waits."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    async def wait_until(self, moment: float) -> None:
        self.time = max(self.time, moment)


def taken(folder: Path, setting: str, work: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds from arrival to departure of an answer that takes so much work."""
    with serving(with_delay(folder, setting)) as house, monkeypatch.context() as patched:
        clock = house.app.state.service.clock = Clock()
        plain = type(house.workspace).answer

        def answer(*given: Any) -> Any:
            clock.time += work
            return plain(*given)

        patched.setattr(type(house.workspace), "answer", answer)
        started = clock.time
        assert house.explain(house.key()).status_code == 200
        return clock.time - started


@pytest.mark.parametrize("works", [(0.0001, 0.0499), (0.0313, 0.0318), (0.0501, 0.0999)])
def test_two_backgrounds_that_take_different_times_are_answered_after_the_same_time(
    tmp_path: Path, works: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbouring backgrounds, of which one takes longer: within a slot, nobody can tell."""
    one, other = (taken(tmp_path / f"{work}", "0.05", work, monkeypatch) for work in works)
    assert one == other


def test_without_a_delay_they_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (
        taken(tmp_path / f"{work}", "false", work, monkeypatch) for work in (0.0001, 0.0499)
    )
    assert one != other


def test_it_is_woken_at_that_moment_and_not_after_some_time_from_now() -> None:
    """A loop counts in milliseconds. What a wait from now is rounded by shows what work took."""

    class Noting(asyncio.SelectorEventLoop):
        moments: ClassVar[list[float]] = []

        def call_at(self, when: float, *given: Any, **more: Any) -> Any:  # type: ignore[override]
            self.moments.append(when)
            return super().call_at(when, *given, **more)

    async def leave() -> float:
        clock = LoopClock()
        moment = clock.now() + 0.01
        time.sleep(0.0013)
        await clock.wait_until(moment)
        assert clock.now() >= moment - time.get_clock_info("monotonic").resolution
        return moment

    with asyncio.Runner(loop_factory=Noting) as runner:
        moment = runner.run(leave())
    assert moment in Noting.moments


@pytest.mark.parametrize(("rows", "seconds"), [(1, 0.051), (2, 0.051), (3, 0.052)])
def test_a_slot_is_a_whole_number_of_milliseconds(rows: int, seconds: float) -> None:
    assert Delay(0.0501, 0.0009).seconds(rows) == seconds


@pytest.mark.parametrize(("passed", "slot"), [(0.0, 1), (0.049, 1), (0.051, 2), (0.19, 4)])
def test_what_missed_its_slot_leaves_in_a_later_one(passed: float, slot: int) -> None:
    assert Delay(0.05).slot(1, passed) == slot


def test_the_delay_follows_from_public_facts_and_work_is_constant(tmp_path: Path) -> None:
    """No protected row is read to find it: it is measured on invented ones of the same number."""
    with serving(with_delay(tmp_path / "home", "true")) as house:
        served = house.workspace.releases["approval"]
        assert served.delay is not None
        assert served.delay.seconds(1) >= 0.05
        assert served.inputs.speed.short_cuts == CONSTANT_WORK
        assert house.workspace.releases["open"].delay is None
        facts = house.ask("GET", "/api/v1/releases", house.key()).json()["releases"]
        assert {each["name"]: each["delay"] is None for each in facts} == {
            "approval": False,
            "open": True,
            "people": False,
        }


def test_it_can_be_switched_off(house: House) -> None:
    assert house.workspace.releases["approval"].delay is None
    assert "voile-timing" not in house.explain(house.key(), rows=ROWS).headers
