"""Answers that an earlier version stored are given again, free and provable."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.budget_examples import RULES, House
from tests.unit.app.explain.examples import (
    ROWS,
    SCHEMA,
    asking,
    balances,
    clipped,
    house_in,
    people,
    records,
)

from voile.app.explain import paid_synthetic_background
from voile.core.guarantee import Relation
from voile.records.audit_log import verify_receipt
from voile.release import PrivateHistograms, ReleaseIdentity
from voile.release.clipped import ClippedRelease


@pytest.fixture
def house(tmp_path: Path) -> House:
    return house_in(tmp_path)


@dataclass(frozen=True, eq=False)
class _FirstVersion(ClippedRelease):
    """The release as it was when identities held words."""

    @property
    def identity(self) -> ReleaseIdentity:
        (first,) = super().identity.earlier
        return first


def as_before() -> Any:
    release = clipped()
    given = {name: getattr(release, name) for name in _GIVEN}
    return _FirstVersion(release.explainer, **given)


_GIVEN = ("schema", "bound", "epsilon", "delta", "protected", "origins", "model", "name")


def test_a_row_that_was_answered_before_is_free_and_proved(house: House) -> None:
    account = people(house)
    names: dict[str, Any] = {"identifiers": ["ada", "bob"]}
    before = asking(house, as_before(), account)(ROWS[:2], **names)
    spent, size = balances(house), len(records(house))
    ask = asking(house, clipped(), account)
    again = ask(ROWS[:2], **names)
    assert again.replayed
    assert np.array_equal(again.explanation.values, before.explanation.values)
    assert (balances(house), len(records(house))) == (spent, size)
    house.keep()
    for entry, receipt in zip(again.entries, ask.receipts(again), strict=True):
        report = verify_receipt(bytes(receipt), RULES, query=entry.question, answer=entry.answer)
        assert report.verified
    assert [entry.question for entry in again.entries] == [e.question for e in before.entries]


def test_what_is_asked_first_now_is_stored_under_tags(house: House) -> None:
    account = people(house)
    ask = asking(house, clipped(), account)
    first = ask(ROWS[:1], identifiers=["ada"])
    assert b'"explainer":"clipped-values/2"' in first.entries[0].question
    assert ask(ROWS[:1], identifiers=["ada"]).replayed
    assert not asking(house, as_before(), account)(ROWS[:1], identifiers=["ada"]).replayed


def test_an_artefact_that_was_made_before_is_free(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE, epsilon=2.0)
    table = {"income": [1.0, 9.0], "debt": [1, 2], "employed": ["yes", "no"]}
    wanted: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
    now = PrivateHistograms.identity
    with monkeypatch.context() as earlier:
        first = property(lambda self: now.fget(self).earlier[0])  # type: ignore[attr-defined]
        earlier.setattr(PrivateHistograms, "identity", first)
        before = paid_synthetic_background(house.service, "clinic", table, SCHEMA, **wanted)
    spent = balances(house)
    again = paid_synthetic_background(house.service, "clinic", table, SCHEMA, **wanted)
    assert np.array_equal(again.rows, before.rows)
    assert again.charge == before.charge
    assert balances(house) == spent
