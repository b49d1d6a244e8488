"""A charged count of members: one record moves it by one, and nothing else shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.releases import LABELLED, PEOPLE, members_count
from tests.protecting import row_of
from tests.unit.release.test_federated import promise
from voile.assess.members_count import (
    OpenThreshold,
    PrivateMembersCount,
    _on_grid,
    count_event,
    losses,
)
from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.pipelines.tables import TableRecords
from voile.privacy.mechanisms import DiscreteLaplace
from voile.release import trained_on, trained_privately

BLANK = Relation.BLANK_ONE


@pytest.fixture(autouse=True)
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted, exactly."""
    monkeypatch.setattr(DiscreteLaplace, "randomise", lambda _, values: values)


def counted(release: PrivateMembersCount) -> int:
    return release.draw().count


def with_members(release: PrivateMembersCount, **changes: Any) -> PrivateMembersCount:
    return replace(release, members=replace(release.members, **changes))


def test_members_whom_the_model_knows_are_counted() -> None:
    release = members_count(BLANK)
    assert counted(release) == np.count_nonzero(PEOPLE[:, 1] == 1)


@pytest.mark.parametrize("place", range(0, 40, 7))
def test_one_record_moves_the_count_by_at_most_one(place: int) -> None:
    """Blanked, without a label, with the other one, and whatever stands in it."""
    release = members_count(BLANK)
    base, members = counted(release), release.members
    null, labels, rows = members.null.copy(), members.labels.copy(), members.rows.copy()
    null[place] = True
    assert 0 <= base - counted(with_members(release, null=null)) <= 1
    for label in (np.nan, 0.0, 1.0):
        labels[place] = label
        assert abs(base - counted(with_members(release, labels=labels))) <= 1
    rows[place] = LABELLED.null_row
    assert abs(base - counted(with_members(release, rows=rows))) <= 1


def test_a_record_in_which_nothing_can_be_read_is_not_counted(
    recwarn: pytest.WarningsRecorder,
) -> None:
    release = members_count(BLANK)
    assert counted(with_members(release, null=np.ones(40, dtype=bool))) == 0
    assert counted(members_count(BLANK, np.full(40, np.nan))) == 0
    assert not recwarn.list


def test_each_record_is_scored_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch, its place would decide how its score is rounded."""
    sizes = []

    def seen(model: Any, records: TableRecords) -> Any:
        sizes.append(len(records))
        return losses(model, records)

    monkeypatch.setattr("voile.assess.members_count.losses", seen)
    counted(members_count(BLANK))
    assert sizes == [1] * 40


def test_the_threshold_leaves_a_share_of_unprotected_rows_above() -> None:
    release = members_count(BLANK)
    found = OpenThreshold.on(release.model, release.members, share=0.5)
    scores = release._scores()
    assert found.rows == 40
    share = np.mean(scores > found.value)
    assert share <= 0.5
    assert 0 <= found.above - share < 0.01
    assert found.exact is not None
    assert found.exact.value <= found.value
    few = release.members.only(np.arange(5))
    with pytest.raises(Refused, match="at least 20 of them with labels, found 5"):
        OpenThreshold.on(release.model, few)


@given(st.floats(-1e6, 0.0) | st.just(-np.inf))
def test_a_threshold_lies_on_a_grid_of_few_values(score: float) -> None:
    """The exact score of a row is never published, and no more rows lie above."""
    value = _on_grid(score)
    assert value >= score
    assert value in GRID
    assert _on_grid(value) == value


GRID = {0.0, *(-(2.0 ** (half / 2)) for half in range(-40, 13))}


def test_a_count_over_an_exact_threshold_is_the_same_question() -> None:
    """Earlier versions asked with the exact threshold; a plan has one count."""
    rounded = OpenThreshold(-0.5, 0.04, 100, OpenThreshold(-0.61, 0.05, 100))
    release = replace(members_count(BLANK), threshold=rounded)
    before = replace(release, threshold=OpenThreshold(-0.61, 0.05, 100)).identity
    assert {before.parameters, before.earlier[0].parameters} <= {
        each.parameters for each in release.identity.earlier
    }
    assert release.identity.parameters != before.parameters


def test_its_price_is_what_an_agreement_reserves() -> None:
    for relation in (BLANK, Relation.REPLACE_ONE):
        release = members_count(relation)
        assert release.cost(1) == count_event(release.epsilon, relation)
        assert 0.999 < release.cost(1).epsilon <= release.epsilon


def test_a_private_number_of_members_is_refused() -> None:
    with pytest.raises(Refused, match="number of members is private"):
        members_count(Relation.ADD_OR_REMOVE_ONE)


def test_a_model_that_was_trained_without_privacy_is_refused() -> None:
    with pytest.raises(Refused, match="without differential privacy"):
        members_count(BLANK, origin=trained_on("people"))


def test_what_was_promised_for_the_model_is_added() -> None:
    earlier = replace(promise("people", 2.0), protected=row_of("people", BLANK))
    joint = members_count(BLANK, origin=trained_privately(earlier)).guarantees(1)
    assert [each.epsilon for each in joint] == pytest.approx([3.0])
    assert joint[0].delta == earlier.delta
    assert "nobody's protected rows" in " ".join(joint[0].assumptions)


def test_what_it_says_names_the_noise_and_what_to_compare_with() -> None:
    told = str(members_count(BLANK).draw())
    assert "± 3 of 40" in told
    assert "of 100 rows that nobody protects: 5.0%" in told
