"""How much of every account is used, told as the budget report tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.dashboards import HTML_NAME, lived_in
from tests.unit.server.examples import BUDGET, PEOPLES_BUDGET, House, home, serving

from voile.app.explain.per_record import parent_of_record
from voile.records.ledger import (
    AccountShares,
    RecentUse,
    Subtree,
    budget_report,
    latest_acts,
    latest_charges,
    recent_use,
    share_of,
)
from voile.records.ledger.history import entries_of
from voile.records.storage import Reader


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving(home(tmp_path_factory.mktemp("shares") / "home")) as found:
        lived_in(found.workspace)
        yield found


def used(house: House, name: str, most: int = 1000) -> RecentUse:
    vault = house.workspace.vault
    shares = AccountShares(parent_of_record)

    def read(t: Reader) -> RecentUse:
        tree = Subtree(name, shares.look(t), parent_of_record)
        return recent_use(vault.ledger, t, tree, most=most)

    return vault.storage.read_snapshot(read)


def test_shares_are_those_of_the_ledger_and_people_are_counted(house: House) -> None:
    vault, shares = house.workspace.vault, AccountShares(parent_of_record)
    for _ in range(2):  # what is remembered is the same
        lines = vault.storage.read_snapshot(shares.look)
        nodes = vault.storage.read_snapshot(
            lambda t: {n.account.name: share_of(t, n) for n in vault.ledger.nodes(t)}
        )
        listed = {line.account.name: line.share for line in lines}
        people = [name for name in nodes if parent_of_record(name) is not None]
        assert listed == {name: nodes[name] for name in nodes if name not in people}
        assert {line.account.name: line.below for line in lines if line.below} == {
            PEOPLES_BUDGET: len(people)
        }
        assert len(people) == 2
    names = [line.account.name for line in lines]
    assert names.index(BUDGET) < names.index(HTML_NAME), "parents before children"


def test_a_share_follows_a_charge(house: House) -> None:
    vault, shares = house.workspace.vault, AccountShares(parent_of_record)

    def now() -> float:
        lines = vault.storage.read_snapshot(shares.look)
        return next(line.share for line in lines if line.account.name == BUDGET)

    before = now()
    key = house.key()
    answer = house.explain(key, redraw=True, headers={"Idempotency-Key": "one more"})
    assert answer.status_code == 200
    assert now() > before


def test_earlier_shares_are_those_of_the_report(house: House) -> None:
    """Walked back from now, they are what the whole journal adds up to."""
    vault = house.workspace.vault
    report = vault.storage.read_snapshot(lambda t: budget_report(vault.ledger, t, BUDGET))
    found = used(house, BUDGET)
    assert found.whole
    assert found.exact
    assert found.charges == len(found.steps) == report.charges
    after = [point.share for point in report.curve][1:]
    walked = sorted({round(point.share, 9) for point in found.points})
    assert walked == pytest.approx([0.0, *after], abs=1e-6)
    assert [point.time for point in found.points] == sorted(p.time for p in found.points)
    assert sum(found.steps) == pytest.approx(report.consumed)


def test_no_more_lines_are_read_than_asked_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voile.records.ledger.shares._PAGE", 5)
    found = used(house, BUDGET, most=10)
    assert not found.whole
    assert found.charges == 10
    assert found.points[0].share > 0


def test_of_a_parallel_account_only_thresholds_are_known(house: House) -> None:
    found = used(house, PEOPLES_BUDGET)
    assert not found.exact
    assert found.charges == 0
    assert found.points[0].share == 0.0


def test_the_latest_acts_of_an_account_and_of_those_below(house: House) -> None:
    vault = house.workspace.vault

    def read(t: Reader) -> None:
        lines = AccountShares(parent_of_record).look(t)
        for name, root in ((BUDGET, BUDGET), (HTML_NAME, BUDGET), (PEOPLES_BUDGET, PEOPLES_BUDGET)):
            tree = Subtree(name, lines, parent_of_record)
            found = latest_acts(vault.ledger, t, tree, most=10_000, fewest=10_000)
            whole = [
                entry for entry in entries_of(t, root) if name == root or entry.account == name
            ]
            assert found == whole[::-1]
        newest = latest_charges(t, BUDGET, most=3)
        assert [entry.number for entry in newest] == sorted(
            (entry.number for entry in newest), reverse=True
        )

    vault.storage.read_snapshot(read)


def test_names_of_accounts_of_people() -> None:
    assert parent_of_record("people v1/" + 40 * "0") == "people v1"
    assert parent_of_record("people v1/carried " + 24 * "0") == "people v1"
    assert parent_of_record("people v1/" + 39 * "0") is None
    assert parent_of_record("clinic/2026") is None
