"""Spellings that are alike under Unicode NFKC share one budget, and what was stored before counts.

Earlier versions normalised identifiers by NFC, under which a full-width 7 is no 7. Only keyed
digests of identifiers are stored.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.app.budget_examples import RULES, House
from tests.unit.app.explain.examples import (
    ROWS,
    Costly,
    asking,
    balances,
    house_in,
    people,
    records,
)
from tests.unit.app.explain.test_per_record import of_two, top_one
from tests.unit.records.ledger.examples import DATASET, KEY

from voile.app.explain import ExplanationRequest, ReleasedExplanation, RowsToExplain, per_record
from voile.core.errors import BudgetExceeded, InvalidInput
from voile.core.identifiers import canonical_identifier, canonical_name
from voile.records.audit_log import BudgetOpenedRecord, ReleaseRecord, verify_receipt
from voile.records.ledger import NamedRecord, replay
from voile.records.ledger.tree import RunningTotals

WIDE, PLAIN = "\uff17", "7"
"""A full-width 7, and the one on most keyboards."""
EPSILON = 0.5


def _variants() -> dict[str, list[str]]:
    """For each printable character of ASCII all single characters that NFKC makes of it."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for code in range(sys.maxunicode + 1):
        plain = unicodedata.normalize("NFKC", chr(code))
        if len(plain) == 1 and " " < plain < "\x7f":
            found[plain].append(chr(code))
    return dict(found)


VARIANTS = _variants()


@st.composite
def spelled_twice(draw: st.DrawFn) -> tuple[str, str]:
    """A text in ASCII, and one in which some characters are spelled otherwise."""
    plain = draw(st.text(st.sampled_from(sorted(VARIANTS)), min_size=1, max_size=8))
    return plain, "".join(draw(st.sampled_from(VARIANTS[each])) for each in plain)


def named(text: str) -> NamedRecord | None:
    try:
        return NamedRecord(text, DATASET)
    except InvalidInput:
        return None


@given(spelled_twice())
def test_spellings_that_are_alike_are_one_record(spelled: tuple[str, str]) -> None:
    one, other = map(named, spelled)
    assert one == other
    assert one is None or other is None or KEY.record(one) == KEY.record(other)


@given(st.text(max_size=8))
def test_a_text_and_its_normal_form_are_one_record(text: str) -> None:
    assert named(text) == named(unicodedata.normalize("NFKC", text))


@given(st.text(max_size=8))
def test_an_earlier_name_is_the_one_that_was_stored(text: str) -> None:
    record = named(text)
    if record is None:
        return
    before = record.identifier if record.earlier is None else record.earlier.identifier
    try:
        stored = canonical_name(text)
    except InvalidInput:
        stored = None
    assert stored is None or stored == before


# --- what an earlier version stored ---------------------------------------------------------------


@pytest.fixture
def house(tmp_path: Path) -> House:
    return house_in(tmp_path)


def ask(house: House, epsilon: float, *names: object, fresh: bool = False) -> bool:
    """Whether all was answered before; every epsilon is another question."""
    explain = asking(house, top_one(epsilon), "people")
    return bool(explain(ROWS[: len(names)], identifiers=list(names), fresh=fresh).replayed)


def ask_as_before(house: House, epsilon: float, *names: object, release: Any = None) -> None:
    """As the code before NFKC did."""
    before = asking(house, release or top_one(epsilon), "people")
    with pytest.MonkeyPatch.context() as old:
        old.setattr(replay, "canonical_identifier", canonical_name)
        old.setattr(per_record, "canonical_identifier", canonical_name)
        before(ROWS[: len(names)], identifiers=list(names))


def spent(house: House, name: str) -> tuple[float, ...]:
    account = house.vault.account("people")
    child = per_record.account_of_record(house.vault.key, account, NamedRecord(name, DATASET))
    return RunningTotals.unpack(balances(house)[child]).spent


def times_until_refused(house: House, *names: str) -> int:
    """How many further questions are answered, under these spellings in turn."""
    for number in range(1, 1000):
        try:
            ask(house, EPSILON + number / 1e6, names[number % len(names)])
        except BudgetExceeded:
            return number - 1
    raise AssertionError("there is no end of it")


def test_the_store_of_an_earlier_version_has_another_account(house: House) -> None:
    """Else the tests below would show nothing."""
    people(house)
    ask_as_before(house, EPSILON, WIDE)
    ask(house, EPSILON, PLAIN)
    assert sum(isinstance(each, ReleaseRecord) for each in records(house)) == 2
    assert sum("/" in name for name in balances(house)) == 2


def test_a_stored_answer_is_given_again_at_no_cost(house: House) -> None:
    people(house)
    ask_as_before(house, EPSILON, WIDE)
    before = balances(house)
    assert ask(house, EPSILON, WIDE)
    assert ask(house, EPSILON, PLAIN, WIDE)
    assert balances(house) == before
    assert house.verify().verified


@pytest.mark.parametrize("explain_as", [top_one, lambda epsilon: _first_version(epsilon)])
def test_an_answer_under_the_old_spelling_is_still_proved(house: House, explain_as: Any) -> None:
    """Also one that was stored when identities held words: both spellings are older."""
    people(house)
    ask_as_before(house, EPSILON, WIDE, release=explain_as(EPSILON))
    ask = asking(house, top_one(EPSILON), "people")
    again = ask(ROWS[:1], identifiers=[WIDE])
    assert again.replayed
    house.keep()
    (entry,), (receipt,) = again.entries, ask.receipts(again)
    report = verify_receipt(bytes(receipt), RULES, query=entry.question, answer=entry.answer)
    assert report.verified
    assert json.loads(entry.question)["about"][1] == WIDE


def _first_version(epsilon: float) -> Costly:
    """A release by the identity that version 1 had."""
    release = top_one(epsilon)
    (first,) = release.identity.earlier
    return Costly(release._inner, identity=first)


def test_callers_who_share_a_transaction_carry_over_once(house: House) -> None:
    people(house, epsilon=30.0)
    ask_as_before(house, EPSILON, WIDE)
    rows = RowsToExplain(ROWS[:1], identifiers=[WIDE])
    requests = [
        ExplanationRequest(rows=rows, caller=name, payer="people") for name in ("eve", "bob")
    ]
    outcomes = house.service.answer_many(top_one(0.1), requests)
    assert all(isinstance(each, ReleasedExplanation) for each in outcomes)
    for epsilon in (EPSILON, 0.1, 0.1):
        ask(house, epsilon, "somebody else", fresh=True)
    assert spent(house, PLAIN) == pytest.approx(spent(house, "somebody else"), rel=1e-12)
    assert house.verify().verified


def test_what_was_spent_under_the_old_spelling_is_spent(house: House) -> None:
    of_two(house)
    ask_as_before(house, 1.4, WIDE)
    before, release = balances(house), top_one(1.39)
    for fresh in (False, True):
        with pytest.raises(BudgetExceeded):
            asking(house, release, "people")(ROWS[:1], identifiers=[WIDE], fresh=fresh)
    assert release.drawn == 0
    assert balances(house) == before


@pytest.mark.parametrize("names", [(WIDE,), (WIDE, PLAIN), (WIDE, "\u2077", "\u2466")])
def test_no_spelling_gives_a_fresh_budget(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Old and new spellings together are granted what one spelling alone is granted."""
    for name in ("mixed", "alone"):
        (tmp_path / name).mkdir()
    mixed, alone = (house_in(tmp_path / name) for name in ("mixed", "alone"))
    for each in (mixed, alone):
        people(each, epsilon=20.0)
    for number in range(3):
        ask_as_before(mixed, EPSILON - number / 1e6, WIDE)
        ask(alone, EPSILON - number / 1e6, PLAIN)
    # The first is the full-width one: it carries over what it has spent.
    assert ask(mixed, EPSILON + 1, WIDE) == ask(alone, EPSILON + 1, PLAIN) is False
    assert spent(mixed, PLAIN) == pytest.approx(spent(alone, PLAIN), rel=1e-12)
    assert times_until_refused(mixed, *names) == times_until_refused(alone, PLAIN) > 0
    assert mixed.verify().verified


def test_spending_is_carried_over_once(house: House) -> None:
    people(house, epsilon=30.0)
    ask_as_before(house, EPSILON, WIDE)
    ask(house, 0.1, PLAIN)
    one = spent(house, PLAIN)
    ask(house, 0.2, WIDE, WIDE, fresh=True)
    both = spent(house, PLAIN)
    ask(house, 0.3, WIDE)
    ask(house, 0.4, PLAIN)
    carried = both[0] - one[0]
    other = house_of_one(house)
    assert spent(house, PLAIN) == pytest.approx(other, rel=1e-9)
    assert carried > 0
    marks = [each for each in records(house) if isinstance(each, BudgetOpenedRecord)]
    assert sum("carried" in each.account for each in marks) == 1
    assert house.verify().verified


def house_of_one(house: House) -> tuple[float, ...]:
    """The same questions, all by one person in one spelling."""
    for epsilon, times in ((EPSILON, 1), (0.1, 1), (0.2, 2), (0.3, 1), (0.4, 1)):
        for _ in range(times):
            ask(house, epsilon, "somebody else", fresh=True)
    return spent(house, "somebody else")


def test_what_was_renewed_is_not_carried_over(house: House) -> None:
    of_two(house)
    ask_as_before(house, 1.4, WIDE)
    house.storage.submit(
        lambda t: house.vault.ledger.renew(t, "people", reason="a year later", caller="officer")
    )
    assert not ask(house, 1.39, WIDE)


def test_others_are_not_concerned(house: House) -> None:
    of_two(house)
    ask_as_before(house, 1.4, WIDE, "ada")
    assert not ask(house, 1.39, "\uff18")
    assert ask(house, 1.4, "ada")


def test_a_record_that_is_alike_in_all_versions_has_one_account(house: House) -> None:
    people(house)
    for name in ("ada", "Zo\u00e9", 7):
        ask_as_before(house, EPSILON, name)
        assert ask(house, EPSILON, name)
    assert sum("/" in name for name in balances(house)) == 3


def test_full_width_words_for_nothing_name_nobody() -> None:
    assert canonical_identifier("\uff2e\uff21") is None
    assert canonical_name("\uff2e\uff21") == "\uff2e\uff21"
    with pytest.raises(InvalidInput, match="written as a float"):
        canonical_identifier("\uff11\uff45\uff15")


def test_a_refusal_computes_nothing(house: House) -> None:
    of_two(house)
    ask_as_before(house, 1.4, WIDE)
    release: Costly = top_one(1.38)
    with pytest.raises(BudgetExceeded):
        asking(house, release, "people")(ROWS[:2], identifiers=["ada", WIDE])
    assert release.drawn == 0
