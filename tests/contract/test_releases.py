"""What every release promises: one suite over all of them (`tests.contract.releases`)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.lib.accounting.accountants import Accountant

from tests.contract.releases import ABOUT_USERS, ARTEFACTS, CASES, COUNTS, ITEM_SIDE, Case
from tests.paying import as_if_paid
from voile.core.errors import Refused, UnreadableFile, VoileError
from voile.core.explanation import Explanation
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart
from voile.core.row_note import KnownNote
from voile.privacy import events
from voile.privacy.accounting import Basic, PrivacyLoss, ZeroConcentrated
from voile.release import Release
from voile.release.charged import OneTimeArtefact
from voile.release.contract import parameters

EXPLANATIONS, MADE = CASES | ABOUT_USERS, ARTEFACTS | COUNTS | ITEM_SIDE
ALL = EXPLANATIONS | MADE
each = pytest.mark.parametrize("case", ALL.values(), ids=ALL.keys())
each_explanation = pytest.mark.parametrize("case", EXPLANATIONS.values(), ids=EXPLANATIONS.keys())
each_artefact = pytest.mark.parametrize("case", MADE.values(), ids=MADE.keys())
each_with_an_origin = pytest.mark.parametrize("case", ARTEFACTS.values(), ids=ARTEFACTS.keys())


@each
def test_it_is_a_release(case: Case) -> None:
    release = case.build()
    assert isinstance(release, Release)
    assert isinstance(release.part, RowPart)


@each
def test_equal_releases_have_equal_identities_of_plain_text(case: Case) -> None:
    one, two = case.build().identity, case.build().identity
    assert one == two
    assert all((one.model, one.explainer, one.level))
    assert parameters(json.loads(one.parameters)) == one.parameters


@each
def test_the_cost_is_known_before_anything_is_drawn_and_is_not_changed_by_it(case: Case) -> None:
    release = case.build()
    before = release.cost(case.count)
    release.draw(case.rows)
    assert release.cost(case.count) == before == case.build().cost(case.count)
    if before is not None:
        assert events.from_dict(json.loads(json.dumps(events.to_dict(before)))) == before


@each
@pytest.mark.parametrize("wrong", [0, -1, True, 1.0])
def test_a_number_of_rows_that_is_none_has_no_cost(case: Case, wrong: Any) -> None:
    release = case.build()
    if release.cost(case.count) is not None:
        with pytest.raises(VoileError):
            release.cost(wrong)


@each_explanation
def test_a_draw_carries_exactly_the_guarantees_it_was_announced_with(case: Case) -> None:
    release = case.build()
    announced = release.guarantees(case.count)
    drawn = release.draw(case.rows)
    assert isinstance(drawn, Explanation)
    assert drawn.guarantees == announced
    assert drawn.notes.count(KnownNote.NOT_CHARGED) == 1


@each
def test_the_first_guarantee_is_what_the_cost_amounts_to(case: Case) -> None:
    release = case.build()
    cost = release.cost(case.count)
    if cost is not None:
        charged = release.guarantees(case.count)[0]
        accountant: Accountant = (
            ZeroConcentrated() if isinstance(cost, events.Zcdp) else PrivacyLoss()
        )
        accountant = accountant if charged.delta else Basic()
        read = accountant.compose(cost).epsilon(charged.delta)
        assert charged.epsilon >= read * (1 - 1e-3)


@each
def test_it_speaks_about_what_it_was_built_for(case: Case) -> None:
    """And about nothing that its bound was not derived for, whatever an account promises."""
    release = case.build()
    if release.cost(case.count) is None:
        return
    protected = release.guarantees(case.count)[0].protected
    assert release.protected == protected  # type: ignore[attr-defined]
    for other in others(protected):
        with pytest.raises(Refused):
            replace(release, protected=other)  # type: ignore[type-var]


def others(protected: Protected) -> list[Protected]:
    unlike = [unit for unit in ProtectedUnit if unit is not protected.unit]
    return [
        Protected(unit, relation, protected.dataset, columns)
        for unit in unlike
        for relation in {protected.relation, Relation.REPLACE_ONE}
        for columns in [("age",) if unit is ProtectedUnit.COLUMNS else ()]
        if unit is not ProtectedUnit.EXPLAINED_ROW or relation is Relation.REPLACE_ONE
    ]


@each
def test_a_guarantee_states_what_it_rests_on(case: Case) -> None:
    release = case.build()
    for guarantee in release.guarantees(case.count):
        assert guarantee.mechanism
        assert guarantee.composition
    if release.cost(case.count) is not None:
        charged = release.guarantees(case.count)[0]
        assert charged.public_facts
        assert charged.assumptions


@each
def test_the_preview_says_what_the_release_says(case: Case) -> None:
    release = case.build()
    preview = release.preview(case.count)
    assert preview.event == release.cost(case.count)
    assert preview.guarantees == release.guarantees(case.count)
    assert preview.accuracy in str(preview)
    assert all(remark in str(preview) for remark in preview.remarks)
    assert str(preview) == str(case.build().preview(case.count))


@each_explanation
def test_noise_is_drawn_anew(case: Case) -> None:
    release = case.build()
    first, second = release.draw(case.rows), release.draw(case.rows)
    if not case.is_choice:
        assert np.array_equal(first.values, second.values) is not case.values_vary
    assert first.shape == second.shape


@each_explanation
def test_everything_beside_the_noise_is_the_same_every_time(case: Case) -> None:
    release = case.build()
    first, second = release.draw(case.rows), release.draw(case.rows)
    assert first.notes == second.notes or case.is_choice
    assert first.feature_names == second.feature_names
    assert first.output_names == second.output_names
    for name in ("standard_errors", "half_widths", "data"):
        one, two = getattr(first, name), getattr(second, name)
        assert (one is None and two is None) or np.array_equal(one, two)


@each
def test_nothing_that_is_handed_in_is_changed(case: Case) -> None:
    if isinstance(case.rows, np.ndarray):
        before = case.rows.copy()
        case.build().draw(case.rows)
        assert np.array_equal(case.rows, before)


@each_explanation
def test_a_draw_can_be_kept(case: Case, tmp_path: Path) -> None:
    release = case.build()
    drawn = release.draw(case.rows)
    assert Explanation.load(drawn.save(tmp_path / "drawn.voile")) == drawn
    assert release.codec.unpack(release.codec.pack(drawn)) == drawn


@each_artefact
def test_an_artefact_states_what_it_costs_and_promises_and_is_not_taken_unpaid(case: Case) -> None:
    release = case.build()
    made = release.draw(case.rows)
    assert isinstance(made, OneTimeArtefact)
    assert case.rows is None
    assert made.event == release.cost(1)
    assert made.charge is None
    with pytest.raises(Refused, match="nobody was charged"):
        made.check_paid()
    paid = as_if_paid(release, case.rows)
    assert paid.charge == "charge 1"
    paid.check_paid()
    # Moments of recommenders state a charge in their files, and it is looked up before any answer.
    if case not in ITEM_SIDE.values():
        with pytest.raises(ValueError, match="charge"):
            replace(made, charge="anything")
        assert replace(paid).charge is None


@each_with_an_origin
def test_an_artefact_that_was_paid_for_says_what_was_promised(case: Case) -> None:
    release = case.build()
    assert as_if_paid(release, case.rows).origin.guarantees == release.guarantees(1)
    with pytest.raises(Refused, match="nobody was charged"):
        _ = release.draw(case.rows).origin


@each_artefact
def test_an_artefact_can_be_kept_and_is_refused_if_damaged(case: Case) -> None:
    """Also by another release of the same settings, as after a restart."""
    release, again = case.build(), case.build()
    kept = release.codec.pack(release.draw(case.rows))
    restored = again.codec.unpack(kept)
    assert again.codec.pack(restored) == kept
    assert restored.event == release.cost(1)
    for damaged in (b"", kept[:-3], b"[]"):
        with pytest.raises(UnreadableFile, match="stored answer"):
            again.codec.unpack(damaged)


@each_artefact
def test_an_artefact_is_drawn_with_new_noise_each_time(case: Case) -> None:
    release = case.build()
    seen = {release.codec.pack(release.draw(case.rows)) for _ in range(60)}
    assert len(seen) > 1
