"""Explanations from a service in Python, as from a workspace, with proofs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.unit.server.examples import (
    BUDGET,
    OTHER_ROWS,
    PEOPLE,
    PEOPLES_BUDGET,
    ROWS,
    House,
    Through,
    home,
    serving,
    shop_beside,
)

import voile
from voile.core.errors import (
    BudgetExceeded,
    InvalidInput,
    OutcomeUnknown,
    Refused,
    StorageFault,
    VerificationFailed,
)
from voile.records.access import Duty


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voile.python.client._PAUSE", 0.0)


@pytest.fixture
def client(house: House) -> Iterator[voile.Client]:
    with made(house) as found:
        yield found


def made(house: House, breaks: int = 0, **more: Any) -> voile.Client:
    policy = house.workspace.vault.place.policy
    told = {"account": BUDGET, "policy": policy, "transport": Through(house, breaks), **more}
    return voile.Client("http://service", house.key(), **told)


def test_it_is_the_explanation_that_a_workspace_gives(house: House, client: voile.Client) -> None:
    found = client.explain("approval", ROWS)
    served = house.workspace.releases["approval"]
    again = house.workspace.service.answer(
        served.release(), served.read(ROWS), payer=BUDGET, caller="ward 3"
    )
    assert again.replayed
    assert found.explanation == again.explanation
    assert found.charges == again.charges
    assert found.entries[0].answer == again.entries[0].answer


def test_it_verifies_what_it_got_and_notices_what_was_changed(
    house: House, client: voile.Client
) -> None:
    found = client.explain("people", {**PEOPLE, "id": ["bob"]}, account=PEOPLES_BUDGET)
    with pytest.raises(StorageFault, match="No checkpoint"):
        client.verify(found, wait=0)
    house.workspace.vault.publish()
    assert all(report.verified for report in client.verify(found))
    from dataclasses import replace

    (entry,) = found.entries
    other = client.explain("approval", OTHER_ROWS).explanation
    changed = replace(found, entries=(replace(entry, explanation=other),))
    with pytest.raises(VerificationFailed):
        client.verify(changed)


def test_whom_to_trust_does_not_come_from_the_service(house: House) -> None:
    with made(house, policy=None) as client, pytest.raises(InvalidInput, match="whom to trust"):
        client.verify(client.explain("open", ROWS))


def test_a_connection_that_breaks_costs_nothing(house: House) -> None:
    with made(house, breaks=2) as client:
        found = client.explain("approval", ROWS, redraw=True)
        assert found.charges == (f"{BUDGET}#1",)
        assert client._http._transport.sent == 3  # type: ignore[attr-defined]
    with made(house, breaks=9) as client, pytest.raises(OutcomeUnknown, match="may have been"):
        client.explain("approval", ROWS, redraw=True, repeat="order 17")
    with made(house) as client:
        again = client.explain("approval", ROWS, redraw=True, repeat="order 17")
        assert again.charges == (f"{BUDGET}#2",)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda: pytest.importorskip("pandas").DataFrame(ROWS), id="pandas"),
        pytest.param(lambda: pytest.importorskip("polars").DataFrame(ROWS), id="polars"),
        pytest.param(lambda: {**ROWS, "income": np.array([3])}, id="arrays"),
        pytest.param(lambda: [[3, 6, "no"]], id="list"),
        pytest.param(lambda: np.array([[3, 6, "no"]], dtype=object), id="matrix"),
    ],
)
def test_tables_come_in_any_form(client: voile.Client, rows: Any) -> None:
    client.explain("approval", ROWS)
    assert client.explain("approval", rows()).replayed


def test_missing_cells_are_sent_as_such(client: voile.Client) -> None:
    assert client.explain("approval", {**ROWS, "debt": [float("nan")]}).explanation.notes


def test_problems_are_errors_of_voile(house: House, client: voile.Client) -> None:
    with pytest.raises(InvalidInput, match="column debt row 1 problem above"):
        client.explain("approval", {**ROWS, "debt": [99]})
    with pytest.raises(Refused, match="costs privacy budget"), made(house, account=None) as other:
        other.explain("approval", ROWS)
    with pytest.raises(Refused, match="key"):
        voile.Client("http://s", "voile_x", transport=Through(house)).releases()

    def until_it_is_refused() -> None:
        for number in range(200):
            client.explain("approval", {**ROWS, "income": [number / 100]})

    with pytest.raises(BudgetExceeded) as refused:
        until_it_is_refused()
    assert refused.value.remaining < refused.value.requested


def test_previews_and_releases(client: voile.Client) -> None:
    assert client.preview("approval", ROWS)["rows"] == 1
    assert client.preview("approval", 3)["guarantees"]
    assert [each["name"] for each in client.releases()] == ["approval", "open", "people"]
    assert repr(client) == "Client('http://service')"


def test_the_same_without_waiting(house: House) -> None:
    async def ask() -> None:
        transport = httpx.ASGITransport(house.app)
        policy: Path = house.workspace.vault.place.policy
        told = {"account": BUDGET, "policy": policy, "transport": transport}
        key = house.key(Duty.EXPLAIN)
        async with voile.AsyncClient("http://service", key, **told) as client:
            both = await asyncio.gather(
                client.explain("approval", ROWS), client.explain("approval", OTHER_ROWS)
            )
            assert sorted(each.charges[0] for each in both) == [f"{BUDGET}#1", f"{BUDGET}#2"]
            await asyncio.to_thread(house.workspace.vault.publish)
            assert (await client.verify(both[0]))[0].verified
            assert (await client.preview("approval"))["rows"] == 1
            assert len(await client.releases()) == 3

    house.runner.run(ask())


def test_receipts_are_kept_beside_an_explanation(
    house: House, client: voile.Client, tmp_path: Path
) -> None:
    found = client.explain("approval", ROWS)
    house.workspace.vault.publish()
    (receipt,) = client.receipts(found)
    found.explanation.save(tmp_path / "why.voile")
    (tmp_path / "why.tlog-proof").write_bytes(receipt)
    files = tmp_path / "why.voile", tmp_path / "why.tlog-proof"
    assert voile.verify(*files, policy=house.workspace.vault.place.policy)


def test_recommendations(tmp_path: Path) -> None:
    with serving(shop_beside(home(tmp_path / "home"))) as house, made(house) as client:
        found = client.recommend("films", ["1", np.int64(3)], group_by="genre", count=2)
        assert len(found.explanation.output_names) == 2
        house.workspace.vault.publish()
        assert client.verify(found)[0].verified

        async def ask() -> None:
            transport, policy = httpx.ASGITransport(house.app), house.workspace.vault.place.policy
            told: dict[str, Any] = {"transport": transport, "policy": policy}
            key = house.key(Duty.EXPLAIN)
            async with voile.AsyncClient("http://service", key, **told) as other:
                again = await other.recommend("films", ["1", "3"], group_by="genre", count=2)
                assert again.explanation == found.explanation
                await asyncio.to_thread(house.workspace.vault.publish)
                assert len(await other.receipts(again)) == 1

        house.runner.run(ask())
