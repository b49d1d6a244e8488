"""Rules over HTTP: what a measure answers, an offer of a coarser level, and load that is shed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.server.examples import (
    BUDGET,
    MORE,
    OTHER_ROWS,
    House,
    Through,
    home,
    serving,
)

import voile
from voile.app.compliance.enforcement import MeasureInForce
from voile.app.rules import measures_and_waiting
from voile.compliance import Forbidden, Replay, Rule
from voile.core.errors import InvalidInput, Refused
from voile.records.access import Duty
from voile.records.audit_log import AlertRecord, LiftRecord, MeasureRecord, decode_record
from voile.server import answering
from voile.server.load import Load, LoadShed
from voile.server.problems import problem_of

STOP = f"""
[[rules]]
metric = "budget.used"
account = "{BUDGET}"
action = "stop"
alert = 0.001
act = 0.002
"""
QUALITY = """
[[rules]]
metric = "explanation.quality"
alert = 0.0001
act = 0.0002
"""
THIRD_ROWS: dict[str, list[Any]] = {"income": [5], "debt": [5], "employed": ["yes"]}
LOAD = """
[[rules]]
metric = "service.load"
alert = 4
act = 6
"""


@contextmanager
def house_with(folder: Path, rules: str, more: str = MORE) -> Iterator[House]:
    with serving(home(folder / "home", more + rules)) as found:
        yield found


def records(house: House, *kinds: type) -> list[Any]:
    vault = house.workspace.vault
    found = vault.storage.read_snapshot(lambda t: vault.log.records(t))
    return [each for each in map(decode_record, found) if isinstance(each, kinds)]


def test_a_measure_refuses_charges_and_repeats_stay_free(tmp_path: Path) -> None:
    with house_with(tmp_path, STOP) as house:
        key = house.key(Duty.EXPLAIN)
        assert house.explain(key).status_code == 200
        refused = house.explain(key, rows=OTHER_ROWS)
        assert (refused.status_code, refused.json()["measure"]) == (403, "stop")
        assert refused.json()["type"] == "urn:voile:problem:measure-in-force"
        assert house.explain(key).json()["replayed"]
        assert measures_and_waiting(house.workspace) == (1, 0)


def test_a_limit_says_when_to_come_again() -> None:
    rule = Rule.model_validate({"metric": "budget.used", "account": "clinic", "rate": "2/minute"})
    found = problem_of(MeasureInForce(Forbidden(rule, ("clinic", ""), 0.5, 12)))
    assert (found.status, found.headers) == (429, {"Retry-After": "12"})


@contextmanager
def house_with_an_offer(folder: Path) -> Iterator[tuple[House, str]]:
    """The hour before was too noisy: a charge of new rows gets the offer of a coarser level."""
    with house_with(folder, QUALITY) as house:
        ledger, key = house.workspace.vault.ledger, house.key(Duty.EXPLAIN)
        now = ledger.now()
        object.__setattr__(ledger, "_clock", lambda: now)
        assert house.explain(key).status_code == 200
        object.__setattr__(ledger, "_clock", lambda: now + 3600)
        assert house.explain(key, rows=OTHER_ROWS).status_code == 200
        yield house, key


def test_a_coarser_level_is_offered_and_taken_only_if_the_request_says_so(tmp_path: Path) -> None:
    with house_with_an_offer(tmp_path) as (house, key):
        offered = house.explain(key, rows=THIRD_ROWS)
        assert offered.status_code == 409
        assert offered.json()["offer"] == {"level": "summary"}
        taken = house.explain(key, rows=THIRD_ROWS, coarser=True)
        assert taken.status_code == 200
        assert taken.json()["feature_names"] == ["money", "work"]
        assert house.explain(key).json()["feature_names"] == ["income", "debt", "employed"]


TENSOR = {"name": "rows", "shape": [1, 3], "datatype": "FP64", "data": [5, 5, 1]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models/approval:explain", {"instances": [[5, 5, "yes"]]}),
        ("/v2/models/approval/infer", {"inputs": [TENSOR]}),
    ],
)
def test_a_header_takes_the_offer_where_a_protocol_has_no_field(
    path: str, body: Any, tmp_path: Path
) -> None:
    with house_with_an_offer(tmp_path) as (house, key):

        def asked(**more: str) -> httpx.Response:
            return house.ask("POST", path, key, json=body, headers={"Voile-Account": BUDGET} | more)

        for refused in (asked(), asked(**{"Voile-Coarser": "false"})):
            assert refused.status_code == 409
            assert refused.json()["offer"] == {"level": "summary"}
            assert "`Voile-Coarser: true`" in refused.json()["detail"]
        taken = asked(**{"Voile-Coarser": "true"})
        assert taken.status_code == 200
        told = taken.json()
        if "explanations" in told:
            assert told["explanations"][0]["feature_names"] == ["money", "work"]
        else:
            assert told["outputs"][0]["shape"] == [1, 2, 1]


def test_a_key_against_repetition_lowers_no_level_without_that_word(tmp_path: Path) -> None:
    with house_with_an_offer(tmp_path) as (house, key):
        once: dict[str, Any] = {"headers": {"Idempotency-Key": "17"}, "rows": THIRD_ROWS}
        assert house.explain(key, **once).status_code == 409
        taken = house.explain(key, **once, coarser=True)
        assert taken.status_code == 200
        assert house.explain(key, **once, coarser=True).content == taken.content
        other = house.explain(key, **once)
        assert (other.status_code, other.json()["type"]) == (
            422,
            "urn:voile:problem:idempotency-key-reused",
        )


def test_a_client_takes_the_offer_only_if_told(tmp_path: Path) -> None:
    with house_with_an_offer(tmp_path) as (house, key):
        told: dict[str, Any] = {"account": BUDGET, "transport": Through(house)}
        with voile.Client("http://service", key, **told) as client:
            with pytest.raises(Refused, match=r"409, .*\(summary\)"):
                client.explain("approval", THIRD_ROWS)
            taken = client.explain("approval", THIRD_ROWS, coarser=True)
            assert taken.explanation.feature_names == ("money", "work")

        async def ask() -> None:
            through = httpx.ASGITransport(house.app)
            async with voile.AsyncClient(
                "http://service", key, **told | {"transport": through}
            ) as c:
                rows = {"income": [6], "debt": [6], "employed": ["no"]}
                with pytest.raises(Refused, match="coarser level"):
                    await c.explain("approval", rows)
                taken = await c.explain("approval", rows, coarser=True)
                assert taken.explanation.feature_names == ("money", "work")

        house.runner.run(ask())


def test_the_cost_of_a_release_is_declared(tmp_path: Path) -> None:
    more = MORE.replace("anonymous = true", "anonymous = true\ncost = 2.5")
    with house_with(tmp_path, "", more) as house:
        assert house.workspace.releases["open"].cost == 2.5
        assert house.workspace.releases["approval"].cost == 1
    (tmp_path / "other").mkdir()
    wrong = house_with(tmp_path / "other", "", more.replace("2.5", "-1"))
    with pytest.raises(InvalidInput, match="positive number"):
        wrong.__enter__()


def test_load_is_shed_while_it_lasts_and_on_record(tmp_path: Path) -> None:
    with house_with(tmp_path, LOAD) as house:
        vault, now = house.workspace.vault, [1000.0]
        load = Load(vault, lambda: now[0])

        async def walk() -> None:
            async with load.place(5.9):
                pass
            now[0] += 1
            async with load.place(1):  # 5.9 within a second: told, and no more
                assert not load.is_shedding
            now[0] += 1
            async with load.place(3), load.place(3):
                now[0] += 1
                with pytest.raises(LoadShed):
                    async with load.place(1):
                        pass
            now[0] += 1  # both held their place until now: the window before this one is full
            with pytest.raises(LoadShed):
                async with load.place(1):
                    pass
            now[0] += 1
            async with load.place(1):
                assert load.now == 1
            assert (load.now, load.shed) == (0, 2)

        house.runner.run(walk())
        assert len(records(house, MeasureRecord)) == len(records(house, LiftRecord)) == 1
        assert [each.value for each in records(house, AlertRecord)] == [5.9, 6.0]
        replay = Replay()
        for number, each in enumerate(records(house, object)):
            replay.take(number, each)
        replay.finish()
        assert replay.problems == []


def test_a_request_for_which_there_is_no_room_is_told_to_come_again(tmp_path: Path) -> None:
    with house_with(tmp_path, LOAD) as house:
        key, load = house.key(Duty.EXPLAIN), house.app.state.service.load
        assert house.explain(key).status_code == 200

        now = [float(load._second)]
        load._clock = lambda: now[0]  # this second does not end by itself
        load.peak = 6.0
        now[0] += 1
        house.runner.run(load._look())
        found = house.explain(key)
        assert (found.status_code, found.headers["retry-after"]) == (503, "1")
        assert "voile_shed_requests_total 1.0" in house.ask("GET", "/metrics", house.key()).text


def test_a_charged_request_holds_its_place_until_its_slot_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = MORE.replace("delay = false", "delay = 0.05")
    with house_with(tmp_path, LOAD, more) as house:
        load, seen = house.app.state.service.load, list[float]()
        hold = answering._hold

        async def watched(*given: Any) -> tuple[int, float]:
            seen.append(load.now)
            slot = await hold(*given)
            seen.append(load.now)
            return slot

        monkeypatch.setattr(answering, "_hold", watched)
        assert house.explain(house.key(Duty.EXPLAIN)).headers["voile-timing"].startswith("slot=")
        assert (seen, load.now) == ([1.0, 1.0], 0.0)


FIGURE = re.compile(r"voile_\w+")


def test_the_alerts_for_prometheus_speak_of_figures_that_there_are(house: House) -> None:
    house.explain(house.key())
    told = house.ask("GET", "/metrics", house.key()).text
    file = Path(__file__).parents[3] / "docs" / "deployment" / "prometheus-alerts.yaml"
    yaml = pytest.importorskip("yaml")
    rules = yaml.safe_load(file.read_text())["groups"][0]["rules"]
    wanted = {name for rule in rules for name in FIGURE.findall(rule["expr"])}
    assert len(wanted) >= 6
    for name in wanted:
        assert name in told, name
    assert len(json.dumps(rules)) > 100
