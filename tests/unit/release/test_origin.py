"""Where artefacts come from, and what can be promised about what is computed from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.releases import CASES, TRAINED
from tests.protecting import about
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Guarantee, ProtectedUnit, Relation
from voile.release import PUBLIC, Origin, trained_on, trained_privately
from voile.release.origin import joint_guarantees, origins_identity, refuse_unprotected

(PROMISE,) = TRAINED.guarantees


def test_public_artefacts_depend_on_nothing_private() -> None:
    assert PUBLIC.unprotected == frozenset()
    assert joint_guarantees([PUBLIC, PUBLIC]) == ()


@pytest.mark.parametrize("name", CASES)
def test_saying_nothing_is_not_saying_public(name: str) -> None:
    release: Any = CASES[name].build()
    if not hasattr(release, "origins"):
        return
    for nothing in ([], ["public"]):
        with pytest.raises(InvalidInput, match="at least one"):
            replace(release, origins=nothing)


def test_what_was_trained_without_privacy_is_unprotected() -> None:
    assert trained_on("a", "b").unprotected == {"a", "b"}
    assert TRAINED.unprotected == frozenset()


def test_an_origin_may_be_protected_in_part() -> None:
    both = Origin(frozenset({"training rows", "other rows"}), (PROMISE,))
    assert both.unprotected == {"other rows"}
    with pytest.raises(Refused, match="'other rows'"):
        joint_guarantees([both])


def test_origins_that_contradict_themselves_are_said() -> None:
    with pytest.raises(InvalidInput, match="one joint guarantee"):
        trained_privately(PROMISE, PROMISE)
    with pytest.raises(InvalidInput, match="depends on"):
        Origin(frozenset({"another"}), (PROMISE,))
    with pytest.raises(InvalidInput, match="found one text"):
        Origin("training rows")  # type: ignore[arg-type]


def test_separate_origins_add_up_and_other_data_sets_stay_apart() -> None:
    elsewhere = replace(about(PROMISE, dataset="elsewhere"), epsilon=0.25)
    added, alone = joint_guarantees([TRAINED, PUBLIC, trained_privately(elsewhere), TRAINED])
    assert (added.protected.dataset, added.epsilon, added.delta) == ("training rows", 2.0, 2e-6)
    assert "basic composition" in added.composition
    assert alone == elsewhere


def test_adding_up_keeps_the_weaker_statement() -> None:
    weak = replace(
        PROMISE,
        computational=True,
        against=(Adversary.OTHER_CLIENTS, Adversary.PUBLIC),
        assumptions=("noise from a stream cipher",),
    )
    (added,) = joint_guarantees([TRAINED, trained_privately(weak)])
    assert added.computational
    assert added.against == (Adversary.PUBLIC,)
    assert added.assumptions == ("noise from a stream cipher",)


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (about(PROMISE, relation=Relation.REPLACE_ONE), "do not add up"),
        (about(PROMISE, unit=ProtectedUnit.USER), "do not add up"),
        (replace(PROMISE, against=(Adversary.OTHER_CLIENTS,)), "nobody in common"),
        (replace(PROMISE, delta=0.9999999), "nothing"),
    ],
)
def test_what_does_not_add_up_is_refused(other: object, match: str) -> None:
    with pytest.raises(Refused, match=match):
        joint_guarantees([TRAINED, trained_privately(other)])  # type: ignore[arg-type]


def test_guarantees_about_different_columns_do_not_add_up() -> None:
    unit = ProtectedUnit.COLUMNS
    age, income = (about(PROMISE, unit=unit, columns=(name,)) for name in ("age", "income"))
    (twice,) = joint_guarantees([trained_privately(age), trained_privately(age)])
    assert (twice.epsilon, twice.protected) == (2 * age.epsilon, age.protected)
    for other in (income, about(age, columns=("age", "income")), PROMISE):
        with pytest.raises(Refused, match="do not add up: the columns 'age' of each row"):
            joint_guarantees([trained_privately(age), trained_privately(other)])


def test_rows_that_trained_an_artefact_cannot_be_protected_by_noise() -> None:
    with pytest.raises(Refused, match=r"the background is 'a'.*surrogate"):
        refuse_unprotected("a", [PUBLIC, trained_on("a")], role="background")
    refuse_unprotected("a", [PUBLIC, trained_on("b"), TRAINED], role="background")
    refuse_unprotected("training rows", [TRAINED], role="background")


def test_a_digest_tells_apart_what_is_known_about_artefacts() -> None:
    stronger = trained_privately(replace(PROMISE, epsilon=0.5))
    several = [[], [TRAINED], [TRAINED, TRAINED], [stronger], [trained_on("training rows")]]
    assert len({origins_identity(origins) for origins in several}) == len(several)
    assert origins_identity([PUBLIC, TRAINED, stronger]) == origins_identity([stronger, TRAINED])


def test_every_release_names_its_origins_in_its_identity() -> None:
    for name, case in CASES.items():
        release = case.build()
        if hasattr(release, "origins"):
            assert origins_identity(release.origins) in release.identity.parameters, name


def test_private_training_without_a_guarantee_is_not_public() -> None:
    nothing: tuple[Guarantee, ...] = ()  # such as those of what was made with seeded noise
    with pytest.raises(InvalidInput, match="found none"):
        trained_privately(*nothing)


def test_a_declared_number_of_records_is_kept_where_all_declare_it() -> None:
    two = replace(PROMISE, records_per_person=2)
    other = replace(two, composition="another run")
    (kept,) = joint_guarantees([trained_privately(two), trained_privately(other)])
    assert kept.records_per_person == 2
    silent = replace(other, records_per_person=None)
    (lost,) = joint_guarantees([trained_privately(two), trained_privately(silent)])
    assert lost.records_per_person is None
