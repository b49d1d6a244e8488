"""When a charged answer leaves: by a time from public facts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.unit.server.examples import MORE, ROWS, House, home, serving

from voile.app.serving.delay import Delay
from voile.attribution import CONSTANT_WORK


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
