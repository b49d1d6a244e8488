"""`FederatedAggregate`: who is where decides what the mean promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.releases import TRAINED
from tests.protecting import about, joined
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, ProtectedUnit, Relation
from voile.core.row_note import KnownNote
from voile.release import FederatedAggregate, Silo, trained_privately
from voile.release.federated import SecretTotals
from voile.release.refining import agreeing


def promise(dataset: str, epsilon: float = 1.0, delta: float = 1e-5, **changes: Any) -> Guarantee:
    fields: dict[str, Any] = {
        "unit": ProtectedUnit.ROW,
        "relation": Relation.BLANK_ONE,
        "against": (Adversary.PUBLIC,),
        "computational": False,
        "mechanism": "Gaussian noise",
        "composition": "one release",
    }
    fields |= {"epsilon": epsilon, "delta": delta, "dataset": dataset} | changes
    return Guarantee(**joined(fields))


def explained(*guarantees: Guarantee, value: float = 0.0, error: float = 1.0) -> Explanation:
    values = np.full((2, 3, 1), value)
    return Explanation(
        values=values,
        base_values=np.array(value / 2),
        feature_names=("a", "b", "c"),
        standard_errors=np.full(values.shape, error),
        half_widths=np.full(values.shape, 1.959964 * error),
        guarantees=guarantees,
        notes=(KnownNote.NOT_CHARGED,),
    )


def silos(*epsilons: float, size: int = 10) -> dict[str, Silo]:
    return {
        f"s{i}": Silo(explained(promise(f"d{i}", epsilon)), size)
        for i, epsilon in enumerate(epsilons)
    }


def figures(**settings: Any) -> tuple[float, float]:
    first = FederatedAggregate(dataset="all", **settings).guarantees[0]
    return first.epsilon, first.delta


def test_disjoint_silos_cost_the_largest_not_the_sum() -> None:
    assert figures(silos=silos(1.0, 2.0, 0.5)) == (2.0, 1e-5)
    only = FederatedAggregate(silos(1.0, 1.0), dataset="all").guarantees[0]
    assert "silos are disjoint: no unit is held by two of them" in only.assumptions


def test_a_unit_in_two_silos_pays_in_both() -> None:
    assert figures(silos=silos(1.0, 2.0, 0.5), overlaps=[{"s0", "s1"}]) == (3.0, 2e-5)
    assert figures(silos=silos(1.0, 2.0, 0.5), overlaps=[{"s0", "s2"}]) == (2.0, 2e-5)


def test_means_that_were_taken_in_secret_belong_to_these_silos() -> None:
    taken = SecretTotals(("s0", "s1"), np.full((2, 3, 1), 0.25), np.array(0.5), 0.5, ("a sum",))
    found = FederatedAggregate(silos(1.0, 2.0), dataset="all", totals=taken)
    shown = found.explanation()
    assert (shown.values == 0.25).all()
    assert found.guarantees[0].epsilon == 2.0
    assert "a sum" in found.guarantees[0].assumptions
    assert any("rounded by at most 5.0e-01" in str(note) for note in shown.notes)
    with pytest.raises(InvalidInput, match="other silos"):
        FederatedAggregate(silos(1.0, 2.0, 0.5), dataset="all", totals=taken)


def test_sets_that_meet_are_not_joined() -> None:
    """A unit may be in the first two or in the last two: nobody is in all three."""
    pairs = [{"s0", "s1"}, {"s1", "s2"}]
    assert figures(silos=silos(1.0, 2.0, 0.5), overlaps=pairs)[0] == 3.0
    assert figures(silos=silos(1.0, 2.0, 0.5), overlaps=[{"s0", "s1", "s2"}])[0] == 3.5


def test_two_silos_with_one_data_set_hold_the_same_units() -> None:
    same = {name: Silo(explained(promise("d")), 5) for name in ("x", "y")}
    assert figures(silos=same) == (2.0, 2e-5)


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=6), st.data())
def test_every_unit_is_covered(epsilons: list[float], data: st.DataObject) -> None:
    """Draw who is where; a unit's own sum never exceeds what is stated."""
    names = [f"s{i}" for i in range(len(epsilons))]
    sets = data.draw(st.lists(st.sets(st.sampled_from(names), min_size=1), max_size=4))
    stated, _ = figures(silos=silos(*epsilons), overlaps=sets)
    paid = dict(zip(names, epsilons, strict=True))
    for held in [*sets, *({name} for name in names)]:
        assert sum(paid[name] for name in held) <= stated * (1 + 1e-12)


def test_means_are_weighted_by_declared_sizes_and_errors_propagate() -> None:
    both = FederatedAggregate(
        {
            "x": Silo(explained(promise("x"), value=1.0, error=2.0), 30),
            "y": Silo(explained(promise("y"), value=5.0, error=1.0), 10),
        },
        dataset="all",
    ).explanation()
    error = np.hypot(0.75 * 2.0, 0.25 * 1.0)
    assert both.values == pytest.approx(2.0)
    assert both.base_values == pytest.approx(1.0)
    assert both.standard_errors == pytest.approx(error)
    assert both.half_widths == pytest.approx(1.959964 * error)
    assert KnownNote.NOT_CHARGED in both.notes


def test_errors_that_cannot_be_joined_are_not_invented() -> None:
    first = explained(promise("x"))
    second = replace(explained(promise("y")), half_widths=np.full((2, 3, 1), 5.0))
    joint = FederatedAggregate({"x": Silo(first, 1), "y": Silo(second, 1)}, dataset="all")
    assert joint.explanation().half_widths is None
    bare = Silo(replace(second, standard_errors=None, half_widths=None), 1)
    joint = FederatedAggregate({"x": Silo(first, 1), "y": bare}, dataset="all")
    assert joint.explanation().standard_errors is None


def test_standard_errors_of_real_noise_are_right() -> None:
    """The spread of 2,400 means of noise of known deviation."""
    draw = np.random.default_rng(5)
    found = []
    for _ in range(400):
        parts = {
            name: Silo(
                replace(
                    explained(promise(name), error=error),
                    values=draw.normal(0.0, error, (2, 3, 1)),
                ),
                size,
            )
            for name, error, size in (("x", 2.0, 3), ("y", 1.0, 1))
        }
        joint = FederatedAggregate(parts, dataset="all").explanation()
        assert joint.standard_errors is not None
        found.append(joint.values.ravel() / joint.standard_errors.ravel())
    assert np.std(found) == pytest.approx(1.0, abs=6.2 / np.sqrt(2 * 2400))


def test_a_shared_model_counts_once_if_said_so() -> None:
    model = TRAINED.guarantees[0]
    parts = {name: Silo(explained(promise(name), model), 5) for name in ("x", "y")}
    with pytest.raises(Refused, match="shared="):
        FederatedAggregate(parts, dataset="all")
    joint = FederatedAggregate(parts, dataset="all", shared=TRAINED)
    assert joint.guarantees[1:] == (model,)
    assert joint.explanation().guarantees == joint.guarantees


def test_what_is_not_noised_at_the_source_is_refused() -> None:
    with pytest.raises(Refused, match="at the source"):
        Silo(explained(), 5)
    with pytest.raises(Refused, match="at the source"):
        Silo(replace(explained(promise("x")), notes=(KnownNote.SEEDED_NOISE,)), 5)


def test_what_does_not_fit_together_is_refused() -> None:
    def joint(*others: Explanation, **settings: Any) -> FederatedAggregate:
        parts = {str(i): Silo(other, 5) for i, other in enumerate(others)}
        return FederatedAggregate(parts, dataset="all", **settings)

    first = explained(promise("x"))
    with pytest.raises(Refused, match="relations"):
        joint(first, explained(promise("y", relation=Relation.REPLACE_ONE)))
    with pytest.raises(Refused, match="nobody in common"):
        joint(first, explained(promise("y", against=(Adversary.OTHER_CLIENTS,))))
    with pytest.raises(InvalidInput, match="shape or names"):
        joint(first, replace(first, feature_names=("a", "b", "d")))
    with pytest.raises(InvalidInput, match="at least one silo"):
        joint()
    with pytest.raises(InvalidInput, match="overlap"):
        joint(first, overlaps=[{"nobody"}])
    with pytest.raises(InvalidInput):
        Silo(first, 0)
    with pytest.raises(Refused, match="delta"):
        _ = joint(explained(promise("x", delta=0.6)), explained(promise("x", delta=0.6))).guarantees


def test_an_overlap_with_one_of_two_silos_that_share_a_data_set_is_one_with_both() -> None:
    parts = {
        name: Silo(explained(promise(label)), 5)
        for name, label in (("a", "D"), ("b", "D"), ("c", "E"))
    }
    assert figures(silos=parts, overlaps=[{"b", "c"}]) == pytest.approx((3.0, 3e-5))


@pytest.mark.parametrize("label", ["all", "x"])
def test_a_shared_model_of_the_silos_own_rows_is_added(label: str) -> None:
    model = promise(label, 0.5)
    parts = {name: Silo(explained(promise(name), model), 5) for name in ("y", "z")}
    parts["x"] = Silo(explained(promise("x")), 5)
    joint = FederatedAggregate(parts, dataset="all", shared=trained_privately(model))
    assert [(one.protected.dataset, one.epsilon) for one in joint.guarantees] == [("all", 1.5)]
    other = about(model, relation=Relation.REPLACE_ONE)
    with pytest.raises(Refused, match="do not add up"):
        FederatedAggregate(
            {"x": Silo(explained(promise("x")), 5)},
            dataset="all",
            shared=trained_privately(other),
        )


# --- aggregates of aggregates ---------------------------------------------------------------------


def mean_of(dataset: str, *parts: Explanation, **settings: Any) -> Explanation:
    silos = {f"p{i}": Silo(part, 10) for i, part in enumerate(parts)}
    return FederatedAggregate(silos, dataset=dataset, **settings).explanation()


def test_an_aggregate_remembers_whose_data_its_parts_spoke_about() -> None:
    north, south = explained(promise("north")), explained(promise("south"))
    region = mean_of("region", north, south)
    assert region.guarantees[0].labels == {"region", "north", "south"}
    assert region.guarantees[0].epsilon == 1.0
    assert mean_of("all", north, north, south).guarantees[0].epsilon == 2.0
    nested = mean_of("all", region, north)
    assert nested.guarantees[0].epsilon == 2.0
    assert mean_of("more", mean_of("deep", nested), south).guarantees[0].epsilon == 3.0
    assert mean_of("all", region, explained(promise("west"))).guarantees[0].epsilon == 1.0


def test_an_overlap_inside_an_aggregate_still_counts_outside() -> None:
    north, south = explained(promise("north")), explained(promise("south"))
    region = mean_of("region", north, south, overlaps=[("p0", "p1")])
    assert mean_of("all", region, north, south).guarantees[0].epsilon == 4.0


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([0.5, 1.0])), min_size=2, max_size=5
    ),
    st.lists(
        st.tuples(st.integers(2, 3), st.sampled_from(["r", "s", "a"])), min_size=4, max_size=4
    ),
)
def test_nesting_never_promises_more_than_the_flat_mean(
    leaves: list[tuple[str, float]], steps: list[tuple[int, str]]
) -> None:
    parts = [explained(promise(*leaf)) for leaf in leaves]
    flat = mean_of("all", *parts).guarantees[0].epsilon
    for count, name in steps:
        parts = [*parts[count:], mean_of(name, *parts[:count])]
    assert mean_of("all", *parts).guarantees[0].epsilon >= flat


def test_a_release_of_a_part_is_added_to_the_whole_and_the_whole_to_the_part() -> None:
    region = mean_of("region", explained(promise("north")), explained(promise("south")))
    first, second = agreeing(region, explained(promise("north", 0.5)))
    assert {g.protected.dataset: g.epsilon for g in first.guarantees} == {
        "region": 1.5,
        "north": 1.5,
    }
    assert {g.protected.dataset: g.epsilon for g in second.guarantees} == {
        "region": 1.5,
        "north": 1.5,
    }


def test_a_shared_model_of_a_region_is_about_the_silos_in_it() -> None:
    model = promise("region", 3.0, parts=("d0", "elsewhere"))
    both = {
        name: replace(
            silo,
            explanation=replace(silo.explanation, guarantees=(*silo.explanation.guarantees, model)),
        )
        for name, silo in silos(1.0, 1.0).items()
    }
    joint = FederatedAggregate(both, dataset="all", shared=trained_privately(model))
    assert [(one.protected.dataset, one.epsilon) for one in joint.guarantees] == [("all", 4.0)]


def test_a_whole_that_was_added_up_still_remembers_its_parts() -> None:
    model = promise("region", 3.0)
    north, south = (explained(promise(label), model) for label in ("north", "south"))
    region = mean_of("region", north, south, shared=trained_privately(model))
    assert region.guarantees[0].epsilon == 4.0
    again = explained(promise("north"))
    assert mean_of("all", region, again).guarantees[0].epsilon == 5.0
