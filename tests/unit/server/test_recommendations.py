"""What to recommend, from a history that comes with the request: free, on record, and told to
whoever sent it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.recommenders.examples import shop
from tests.unit.server.examples import CANARY, House, home, serving, shop_beside

from voile.app.recommend import RecommendationSpec, answer
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.transparency import Level
from voile.records.access import Duty
from voile.records.audit_log import Policy, explanation_bytes, verify_receipt

HISTORY: list[Any] = ["1", 3, "5"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with serving(shop_beside(home(tmp_path / "home"))) as found:
        yield found


def recommend(house: House, key: str, **more: Any) -> Any:
    body = {"recommender": "films", "history": HISTORY, "count": 3, **more}
    return house.ask("POST", "/api/v1/recommendations", key, json=body)


def test_it_is_what_the_command_line_says(house: House) -> None:
    """Of a user whose history is the same."""
    found = recommend(house, house.key(Duty.EXPLAIN)).json()
    known = shop(800)
    user = next(str(n) for n in range(800) if len(known.history_at(n)))
    history = [known.catalogue.items[place] for place in known.history(user)]
    served = house.workspace.recommenders["films"]
    spec = RecommendationSpec(caller="user", user=user, count=3)
    expected = answer(house.workspace.service, served.trained, known, spec).explanation
    same = recommend(house, house.key(Duty.EXPLAIN), history=history).json()
    assert np.array_equal(same["values"], expected.values)
    assert same["output_names"] == list(expected.output_names)
    assert found["feature_names"] == ["film 1", "film 3", "film 5"]
    assert len(found["output_names"]) == 3
    assert not {"film 1", "film 3", "film 5"} & set(found["output_names"])
    assert found["charges"] == []
    assert found["guarantees"][0]["against"] == ["the public", "other users"]


def test_reasons_are_by_items_by_labels_or_none(house: House) -> None:
    key = house.key(Duty.EXPLAIN)
    genres = recommend(house, key, group_by="genre").json()
    assert set(genres["feature_names"]) >= {"Comedy", "Drama"}
    scores = recommend(house, key, group_by="scores").json()
    assert np.allclose(np.sum(genres["values"], axis=1), np.ravel(scores["values"]))
    wrong = recommend(house, key, group_by=CANARY)
    assert (wrong.status_code, wrong.json()["type"]) == (422, "urn:voile:problem:unknown-reasons")
    assert CANARY not in wrong.text
    told = house.ask("GET", "/api/v1/releases", key).json()["recommenders"]
    assert told[0]["group_by"] == ["items", "scores", "genre", "period"]


def test_what_is_not_in_the_catalogue_adds_nothing_and_is_no_error(house: House) -> None:
    key = house.key(Duty.EXPLAIN)
    odd = [*HISTORY, CANARY, None, True, 1.5, "", "\x00", 1e300]
    plain = recommend(house, key).json()
    assert recommend(house, key, history=odd).json()["values"] == plain["values"]
    for nothing in ([], [CANARY]):
        found = recommend(house, key, history=nothing)
        assert CANARY not in found.text
        assert any("popular with everybody" in note for note in found.json()["notes"])
    assert len(recommend(house, key, count=1000).json()["output_names"]) <= 24


def test_who_asked_gets_the_receipt_and_nobody_else(house: House) -> None:
    key = house.key(Duty.EXPLAIN)
    found = recommend(house, key, saved=True).json()
    house.workspace.vault.publish()
    path = f"/api/v1/receipts/{found['records'][0]}"
    assert house.ask("GET", path, house.key(Duty.EXPLAIN, caller="ward 4")).status_code == 404
    receipt = house.ask("GET", path, key).content
    entry = Explanation.from_bytes(base64.b64decode(found["entries"][0]["explanation"]))
    policy = Policy.parse(house.workspace.vault.place.policy.read_text())
    assert verify_receipt(receipt, policy, answer=explanation_bytes(entry)).verified


def test_it_takes_the_duty_and_the_level(house: House) -> None:
    assert recommend(house, house.key(Duty.EXPLAIN, level=Level.SUMMARY)).status_code == 403
    assert recommend(house, house.key(Duty.OBSERVE)).status_code == 403
    unknown = recommend(house, house.key(Duty.EXPLAIN), recommender="songs")
    assert unknown.status_code == 404
    assert recommend(house, house.key(Duty.OBSERVE), recommender="songs").status_code == 403


def test_one_that_this_ledger_did_not_pay_for_is_not_served(tmp_path: Path) -> None:
    paid = shop_beside(home(tmp_path / "paid"))
    other = home(tmp_path / "other")
    file, text = other / "voile.toml", (other / "voile.toml").read_text()
    file.write_text(f'{text}[recommenders.films]\nsource = "{paid / "films"}"\n')
    with pytest.raises(Refused, match="did not pay"), serving(other):
        pass
    file.write_text(f'{text}[recommenders.films]\nsource = "no such folder"\n')
    with pytest.raises(InvalidInput, match="no such file"), serving(other):
        pass


def test_a_small_budget_recommends_what_is_popular_without_reasons(tmp_path: Path) -> None:
    with serving(shop_beside(home(tmp_path / "home"), epsilon=0.05)) as house:
        key = house.key(Duty.EXPLAIN)
        assert recommend(house, key).status_code == 422
        assert recommend(house, key, group_by="scores").status_code == 200
