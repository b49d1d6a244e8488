"""Which records there are, by kind, account and date."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from tests.support.dashboards import lived_in
from tests.unit.server.examples import House, home, serving

from voile.app.dashboard.record_index import RecordIndex, RecordQuery
from voile.core.errors import InvalidInput
from voile.records.audit_log import RefusalRecord


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving(home(tmp_path_factory.mktemp("index") / "home")) as found:
        lived_in(found.workspace)
        yield found


def records(house: House) -> list[dict[str, object]]:
    vault = house.workspace.vault
    found = vault.storage.read_snapshot(lambda t: vault.log.records(t, limit=10_000))
    return [json.loads(each) for each in found]


def read(house: House, chunk: int = 7) -> RecordIndex:
    index = RecordIndex(house.workspace.vault)
    while not index.follow(most=chunk):
        pass
    return index


def test_it_counts_what_a_reading_of_the_log_counts(house: House) -> None:
    index, all_of_them = read(house), records(house)
    assert index.size == len(all_of_them)
    kinds = {str(each["kind"]) for each in all_of_them}
    assert index.kinds == sorted(kinds)
    for kind in kinds:
        wanted = [n for n, each in enumerate(all_of_them) if each["kind"] == kind]
        found, total = index.search(RecordQuery(kind), most=1000)
        assert (found, total) == (wanted[::-1], len(wanted))
        assert index.count(kind) == len(wanted)


def test_accounts_of_people_are_folded(house: House) -> None:
    index = read(house)
    found, total = index.search(RecordQuery("release", "people v1"))
    named = [str(records(house)[n]["account"]) for n in found]
    assert total == len(named) == 2
    assert all(re.fullmatch(r"people v1/[0-9a-f]{40}", name) for name in named)
    assert index.search(RecordQuery(account=named[0])) == ([], 0)


def test_a_search_goes_on_where_it_stopped(house: House) -> None:
    index, found = read(house), []
    before = None
    while page := index.search(RecordQuery(), before=before, most=9)[0]:
        found += page
        before = page[-1]
    assert found == list(range(index.size))[::-1]


def test_it_follows_what_is_new(house: House) -> None:
    index, vault = read(house), house.workspace.vault
    before = index.count("refusal")
    refusal = RefusalRecord(time=5, account="x", reason="y", epsilon=1.0, delta=0.1)
    vault.storage.submit(lambda t: vault.log.append(t, refusal))
    assert index.count("refusal") == before
    assert index.follow(most=100)
    assert index.count("refusal", accounts={"x"}) == 1
    assert index.count("refusal", since=6, accounts={"x"}) == 0
    assert index.count("refusal") == before + 1


def test_dates_include_the_last_day() -> None:
    query = RecordQuery.parse("since:1970-01-02 until:1970-01-02 kind:refusal")
    assert (query.since, query.until, query.kind) == (86_400, 2 * 86_400 - 1, "refusal")


@pytest.mark.parametrize("wrong", ["x", "kind:a kind:b", "who:me", "since:1.1.70", "until:x"])
def test_what_cannot_be_searched_for_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput):
        RecordQuery.parse(wrong)
