"""What every mechanism promises: one suite over all of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import secrets
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from voile.core import randomness
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy import events
from voile.privacy.mechanisms import (
    ChoicePreview,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    NoisePreview,
    SubsetSelection,
    WeakPrivacyWarning,
    discrete,
    selection,
)
from voile.privacy.sensitivity import Norm, Sensitivity

CHANCE = 1e-6


def of(norm: Norm, value: float = 1.0) -> Sensitivity:
    return Sensitivity(
        value=value, norm=norm, unit=ProtectedUnit.ROW, relation=Relation.REPLACE_ONE
    )


WHOM: dict[str, Any] = {
    "unit": ProtectedUnit.EXPLAINED_ROW,
    "relation": Relation.REPLACE_ONE,
}


@dataclass(frozen=True)
class Case:
    """A mechanism, what it is made from, and a value it takes."""

    kind: Callable[..., Any]
    arguments: dict[str, Any]
    value: Any

    def make(self, **changed: Any) -> Any:
        return self.kind(**{**self.arguments, **changed})

    @property
    def scale(self) -> str:
        """The argument that says how much noise there is."""
        names = ("epsilon", "sigma", "scale")
        return next(name for name in names if name in self.arguments)


NOISE = {
    "laplace": Case(
        LaplaceMechanism,
        {"scale": 2.0, "sensitivity": of(Norm.L1), "shape": (2, 3)},
        np.ones((2, 3)),
    ),
    "gaussian": Case(
        GaussianMechanism,
        {"sigma": 2.0, "sensitivity": of(Norm.L2), "shape": (2, 3)},
        np.ones((2, 3)),
    ),
}
COUNTS = {
    "discrete laplace": Case(
        DiscreteLaplace,
        {"scale": 20.0, "sensitivity": of(Norm.L1), "shape": (2, 3)},
        np.ones((2, 3), dtype=np.int64),
    ),
    "discrete gaussian": Case(
        DiscreteGaussian,
        {"sigma": 20.0, "sensitivity": of(Norm.L2), "shape": (2, 3)},
        np.ones((2, 3), dtype=np.int64),
    ),
}
CHOICES = {
    "exponential": Case(
        ExponentialMechanism,
        {"epsilon": 1.0, "sensitivity": of(Norm.LINF), "candidates": 40},
        np.zeros(40),
    ),
}
ANSWERS = {
    "subset selection": Case(
        SubsetSelection, {"epsilon": 0.5, "items": 40, "k": 3, **WHOM}, (1, 2, 3)
    ),
}
ALL = {**NOISE, **COUNTS, **CHOICES, **ANSWERS}
WITH_SENSITIVITY = {**NOISE, **COUNTS, **CHOICES}
WITH_EPSILON = {**CHOICES, **ANSWERS}


def each(cases: dict[str, Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())


@pytest.fixture
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to randomness fails; `test_the_guard...` shows that there is no other."""

    def drawn(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was drawn")

    monkeypatch.setattr(randomness, "_sampler", drawn)
    monkeypatch.setattr(discrete, "_laplace", drawn)
    monkeypatch.setattr(discrete, "_gaussian", drawn)
    monkeypatch.setattr(selection, "_selector", drawn)
    monkeypatch.setattr(secrets, "randbelow", drawn)
    monkeypatch.setattr(secrets, "SystemRandom", drawn)


@each(ALL)
@pytest.mark.usefixtures("no_drawing")
def test_the_guard_of_these_tests_stands_before_every_draw(case: Case) -> None:
    with pytest.raises(AssertionError, match="something was drawn"):
        case.make().randomise(case.value)


# --- Frozen data that carry what they rest on ----------------------------------------------------


@each(ALL)
def test_a_mechanism_is_frozen_data(case: Case) -> None:
    mechanism = case.make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, case.scale, 5.0)
    assert mechanism == case.make()
    assert hash(mechanism) == hash(case.make())
    assert dataclasses.replace(mechanism, **{case.scale: 3.0}) != mechanism


@each(WITH_SENSITIVITY)
def test_there_is_no_default_sensitivity(case: Case) -> None:
    arguments = {name: x for name, x in case.arguments.items() if name != "sensitivity"}
    with pytest.raises(TypeError, match="sensitivity"):
        case.kind(**arguments)


@each(ANSWERS)
@pytest.mark.parametrize("name", ["unit", "relation"])
def test_there_is_no_default_unit_or_relation(case: Case, name: str) -> None:
    arguments = {key: x for key, x in case.arguments.items() if key != name}
    with pytest.raises(TypeError, match=name):
        case.kind(**arguments)


@each(WITH_SENSITIVITY)
def test_a_mechanism_carries_its_sensitivity_with_unit_and_relation(case: Case) -> None:
    sensitivity = case.make().sensitivity
    assert sensitivity is case.arguments["sensitivity"]
    assert (sensitivity.unit, sensitivity.relation) == (ProtectedUnit.ROW, Relation.REPLACE_ONE)


@each(WITH_SENSITIVITY)
@pytest.mark.parametrize("wrong", [1.0, 1, None, "1", True, {"value": 1.0}])
def test_a_bare_number_is_no_sensitivity(case: Case, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="needs a Sensitivity"):
        case.make(sensitivity=wrong)


@pytest.mark.parametrize("wrong", [1.0, None, "1"])
def test_calibrating_needs_a_sensitivity_too(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="needs a Sensitivity"):
        LaplaceMechanism.calibrated(wrong, epsilon=1.0, shape=(1,))
    with pytest.raises(InvalidInput, match="needs a Sensitivity"):
        GaussianMechanism.calibrated(wrong, epsilon=1.0, delta=1e-5, shape=(1,))


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        ("laplace", Norm.L2),
        ("laplace", Norm.LINF),
        ("gaussian", Norm.LINF),
        ("discrete laplace", Norm.L2),
        ("discrete laplace", Norm.LINF),
        ("discrete gaussian", Norm.LINF),
    ],
)
def test_a_norm_that_could_be_smaller_than_the_right_one_is_refused(name: str, norm: Norm) -> None:
    with pytest.raises(InvalidInput, match="needs a sensitivity in"):
        ALL[name].make(sensitivity=of(norm))


@each(ANSWERS)
@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.ADD_OR_REMOVE_ONE])
def test_an_explained_row_stands_against_any_other(case: Case, relation: Relation) -> None:
    with pytest.raises(Refused, match="replace one"):
        case.make(relation=relation)
    assert case.make(unit=ProtectedUnit.ROW, relation=relation).relation is relation


@each(ANSWERS)
def test_unit_and_relation_may_be_given_by_name_but_not_by_any_name(case: Case) -> None:
    assert case.make(unit="row", relation="blank one").unit is ProtectedUnit.ROW
    with pytest.raises(Refused, match="replace one"):
        case.make(unit="explained row", relation="blank one")
    for wrong in ({"unit": "family"}, {"relation": "swap two"}, {"unit": None}):
        with pytest.raises(InvalidInput, match="unit and a relation"):
            case.make(**wrong)


# --- Parameters that are none --------------------------------------------------------------------

NO_AMOUNTS = [math.nan, math.inf, -math.inf, 0, 0.0, -1.0, True, "1", None, 10**400, [1.0]]


@each(ALL)
@pytest.mark.parametrize("wrong", NO_AMOUNTS, ids=repr)
def test_an_amount_that_is_none_is_refused(case: Case, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        case.make(**{case.scale: wrong})


@pytest.mark.parametrize("wrong", NO_AMOUNTS, ids=repr)
def test_calibrating_refuses_an_epsilon_that_is_none(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        LaplaceMechanism.calibrated(of(Norm.L1), epsilon=wrong, shape=(1,))
    with pytest.raises(InvalidInput):
        GaussianMechanism.calibrated(of(Norm.L2), epsilon=wrong, delta=1e-5, shape=(1,))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1e-9, 0.0, 1.0, 1.5, True, "0.1", None])
def test_calibrating_refuses_a_delta_that_is_none(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        GaussianMechanism.calibrated(of(Norm.L2), epsilon=1.0, delta=wrong, shape=(1,))


@each({**NOISE, **COUNTS})
@pytest.mark.parametrize("wrong", [1e-305, 5e-324, 1e305, 1e100, 1e-100])
def test_noise_beyond_what_can_be_sampled_or_accounted_for_is_refused(
    case: Case, wrong: float
) -> None:
    with pytest.raises(InvalidInput, match="noise"):
        case.make(**{case.scale: wrong})


@each({**NOISE, **COUNTS})
@pytest.mark.parametrize(
    "wrong", [(0,), (-1, 2), (2.0,), (True,), 3, None, "ab", (2**40,), (2**20, 2**20)], ids=repr
)
def test_a_shape_that_is_none_is_refused(case: Case, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"shape|values are released"):
        case.make(shape=wrong)


@each(NOISE)
@pytest.mark.parametrize(
    "wrong", [(1.0, 0.0), (0.0, 0.0), (math.nan, math.nan), (0.0, math.inf), (0.0,), 1.0, "01"]
)
def test_bounds_that_bound_nothing_are_refused(case: Case, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="bound"):
        case.make(bounds=wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("exponential", {"candidates": 0}),
        ("exponential", {"candidates": True}),
        ("exponential", {"candidates": 2.0}),
        ("subset selection", {"k": 40}),
        ("subset selection", {"k": 0}),
        ("subset selection", {"items": 10**12}),
        ("subset selection", {"items": 10**4, "k": 5000}),
        ("subset selection", {"epsilon": 1e-13}),
        ("discrete laplace", {"sensitivity": of(Norm.L1, 1.5)}),
        ("discrete laplace", {"sensitivity": of(Norm.L1, 1e30)}),
    ],
)
def test_counts_that_make_no_sense_are_refused(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ALL[name].make(**wrong)


# --- Values that are none: nothing is drawn ------------------------------------------------------


def _wrong_arrays(shape: tuple[int, ...]) -> dict[str, Any]:
    good = np.ones(shape)
    nan, infinite = good.copy(), good.copy()
    nan.flat[0], infinite.flat[0] = math.nan, -math.inf
    return {
        "NaN": nan,
        "infinity": infinite,
        "empty": np.ones(0),
        "flat": np.ones(math.prod(shape) + 1),
        "one axis more": good[None],
        "a number": 1.0,
        "truth values": good.astype(bool),
        "objects": good.astype(object),
        "text": good.astype(str),
        "complex": good.astype(complex),
        "none": None,
        "ragged": [[1.0], [1.0, 2.0]],
        "dates": good.astype("datetime64[s]"),
        "long doubles": good.astype(np.longdouble),
        "a mapping": {"a": 1.0},
    }


def _wrong_values() -> Iterator[Any]:
    for name, case in {**NOISE, **COUNTS, **CHOICES}.items():
        for what, value in _wrong_arrays(case.value.shape).items():
            yield pytest.param(case, value, id=f"{name}: {what}")
    for name, case in {**NOISE, **CHOICES}.items():
        huge = np.full(case.value.shape, 2**53 + 1)
        yield pytest.param(case, huge, id=f"{name}: whole numbers that are no floats")
        negative = np.full(case.value.shape, -(2**53) - 1)
        yield pytest.param(case, negative, id=f"{name}: negative ones")
    for name, case in COUNTS.items():
        yield pytest.param(case, np.ones((2, 3)), id=f"{name}: floats")
        yield pytest.param(case, np.full((2, 3), 2**62 + 1), id=f"{name}: too large")
        unsigned = np.full((2, 3), 2**63, dtype=np.uint64)
        yield pytest.param(case, unsigned, id=f"{name}: unsigned and too large")
    sets = [(), (1, 2), (1, 2, 2), (1, 2, 3, 3), (1, 2, 40), (-1, 1, 2), (1.0, 2.0, 3.0), "123", 3]
    for items in [*sets, (True, 2, 3), (1, 2, None), (1, 2, [3]), None]:
        yield pytest.param(ANSWERS["subset selection"], items, id=f"subset selection: {items!r}")


@pytest.mark.parametrize(("case", "value"), list(_wrong_values()))
@pytest.mark.usefixtures("no_drawing")
def test_a_value_that_is_none_is_refused_before_anything_is_drawn(case: Case, value: Any) -> None:
    mechanism = case.make()
    with pytest.raises(InvalidInput):
        mechanism.randomise(value)


@each(NOISE)
@pytest.mark.usefixtures("no_drawing")
def test_a_value_outside_the_declared_bounds_is_refused_before_anything_is_drawn(
    case: Case,
) -> None:
    mechanism = case.make(bounds=(0.0, 1.0))
    for outside in (1.0000001, -1e-9):
        values = np.full((2, 3), 0.5)
        values[1, 2] = outside
        with pytest.raises(InvalidInput, match="bounds"):
            mechanism.randomise(values)
    with pytest.raises(AssertionError, match="drawn"):
        mechanism.randomise(np.array([[0.0, 1.0, 0.5]] * 2))


# --- Weak promises are said to be weak -----------------------------------------------------------


@each(WITH_EPSILON)
def test_an_epsilon_above_ten_warns_and_says_why(case: Case) -> None:
    with pytest.warns(WeakPrivacyWarning, match=r"epsilon = 10\.5: .*surer of one record") as seen:
        case.make(**{case.scale: 10.5})
    assert [warning.filename for warning in seen] == [__file__]
    case.make(**{case.scale: 10.0})


@pytest.mark.parametrize("name", ["laplace", "discrete laplace"])
def test_little_pure_noise_warns_like_the_epsilon_it_means(name: str) -> None:
    with pytest.warns(WeakPrivacyWarning, match="epsilon = 20: ") as seen:
        ALL[name].make(scale=0.05)
    assert [warning.filename for warning in seen] == [__file__]
    ALL[name].make(scale=0.1)


def test_calibrating_to_a_weak_target_warns_once_and_says_why() -> None:
    with pytest.warns(WeakPrivacyWarning, match="surer of one record") as seen:
        LaplaceMechanism.calibrated(of(Norm.L1), epsilon=11.0, shape=(1,))
    assert [warning.filename for warning in seen] == [__file__]
    with pytest.warns(WeakPrivacyWarning) as seen:
        GaussianMechanism.calibrated(of(Norm.L2), epsilon=11.0, delta=0.002, shape=(1,))
    assert [warning.filename for warning in seen] == [__file__] * 2
    assert "surer of one record" in str(seen[0].message)
    assert "publishing each record with probability" in str(seen[1].message)


def test_a_target_at_the_limit_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LaplaceMechanism.calibrated(of(Norm.L1), epsilon=10.0, shape=(1,))
        GaussianMechanism.calibrated(of(Norm.L2), epsilon=10.0, delta=1e-3, shape=(1,))


# --- What comes out ------------------------------------------------------------------------------


@each(ALL)
def test_an_event_can_be_stored_and_costs_something(case: Case) -> None:
    event = case.make().event()
    assert events.from_dict(events.to_dict(event)) == event


@each(ALL)
def test_numbers_of_numpy_are_as_good_as_python_ones(case: Case) -> None:
    plain = case.arguments[case.scale]
    assert case.make(**{case.scale: np.float32(plain)}).event() == case.make().event()


@each(ALL)
def test_results_differ_between_calls(case: Case) -> None:
    mechanism = case.make()
    results = [mechanism.randomise(case.value) for _ in range(40)]
    assert len({repr(np.asarray(_plain(result)).tolist()) for result in results}) > 1


def _plain(result: Any) -> Any:
    return sorted(result) if isinstance(result, frozenset) else result


@each({**NOISE, **COUNTS, **CHOICES})
def test_the_input_is_not_changed(case: Case) -> None:
    value = case.value.copy()
    before = value.copy()
    case.make().randomise(value)
    assert np.array_equal(value, before)


@each({**NOISE, **COUNTS})
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 1, 3)])
def test_the_shape_is_kept(case: Case, shape: tuple[int, ...]) -> None:
    mechanism = case.make(shape=shape)
    noisy = mechanism.randomise(np.ones(shape, dtype=case.value.dtype))
    assert noisy.shape == shape
    assert noisy.dtype == case.value.dtype
    assert isinstance(noisy, np.ndarray)


@each(NOISE)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.uint8, list])
def test_any_kind_of_real_number_is_taken(case: Case, kind: Any) -> None:
    value = case.value.tolist() if kind is list else case.value.astype(kind)
    assert case.make().randomise(value).dtype == np.float64


def test_choices_are_plain_numbers_in_their_range() -> None:
    one = CHOICES["exponential"].make().randomise(np.zeros(40))
    assert type(one) is int
    assert 0 <= one < 40
    named = ANSWERS["subset selection"].make().randomise(np.array([1, 2, 3]))
    assert type(named) is frozenset
    assert len(named) == 3
    assert all(type(item) is int and 0 <= item < 40 for item in named)


# --- Previews, against what really happens -------------------------------------------------------

DRAWS = 20_000


def _consistent(hits: int, trials: int, share: float, *, at_least: bool = False) -> bool:
    side = "less" if at_least else "two-sided"
    return float(stats.binomtest(hits, trials, share, alternative=side).pvalue) > CHANCE


@each({**NOISE, **COUNTS})
def test_a_preview_of_noise_says_what_happens(case: Case) -> None:
    mechanism = case.make(shape=(DRAWS,), **{case.scale: 3.0})
    preview = mechanism.preview()
    assert isinstance(preview, NoisePreview)
    whole = case.value.dtype == np.int64
    noise = mechanism.randomise(np.zeros(DRAWS, dtype=case.value.dtype)).astype(float)
    within = int((np.abs(noise) <= preview.half_width).sum())
    assert _consistent(within, DRAWS, 0.95, at_least=whole)
    left, right = noise[::2], noise[1::2] + preview.gap
    kept = int((left < right).sum())
    assert _consistent(kept, DRAWS // 2, 0.95, at_least=whole)
    # How often noise stays within one standard deviation follows from its law.
    laws: dict[object, float] = {
        LaplaceMechanism: -math.expm1(-math.sqrt(2)),
        GaussianMechanism: math.erf(math.sqrt(0.5)),
    }
    inside = laws.get(case.kind)
    if inside is not None:
        within = int((np.abs(noise) <= preview.standard_deviation).sum())
        assert _consistent(within, DRAWS, inside)
    spread = (noise**2).std() / math.sqrt(DRAWS)
    assert abs((noise**2).mean() - preview.standard_deviation**2) < 6 * spread


@each({**NOISE, **COUNTS})
def test_a_smaller_gap_or_width_than_the_preview_would_be_noticed(case: Case) -> None:
    mechanism = case.make(shape=(DRAWS,), **{case.scale: 3.0})
    preview = mechanism.preview()
    noise = mechanism.randomise(np.zeros(DRAWS, dtype=case.value.dtype)).astype(float)
    within = int((np.abs(noise) <= 0.8 * preview.half_width).sum())
    assert not _consistent(within, DRAWS, 0.95, at_least=True)
    kept = int((noise[::2] < noise[1::2] + 0.75 * preview.gap).sum())
    assert not _consistent(kept, DRAWS // 2, 0.95, at_least=True)


@each(CHOICES)
def test_a_preview_of_a_choice_says_what_happens(case: Case) -> None:
    draws = 6_000
    mechanism = case.make(candidates=2)
    preview = mechanism.preview()
    assert isinstance(preview, ChoicePreview)
    assert preview.truth == 0.5
    scores = np.array([0.0, preview.gap])
    right = sum(np.ravel(mechanism.randomise(scores))[0] == 1 for _ in range(draws))
    assert _consistent(int(right), draws, 0.95)


def test_a_preview_of_an_answer_says_what_happens() -> None:
    draws = 6_000
    for epsilon, k in itertools.product((0.5, 4.0), (1, 3)):
        several = ANSWERS["subset selection"].make(items=8, k=k, epsilon=epsilon)
        assert several.preview().gap is None
        # Items of the truth are named equally often: one of them stands for the share.
        named = sum(0 in several.randomise(range(k)) for _ in range(draws))
        assert _consistent(named, draws, several.preview().truth)


@each(ALL)
def test_a_preview_reads_as_a_sentence_and_draws_nothing(
    case: Case, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("no_drawing")
    assert "%" in str(case.make().preview()) or "probability" in str(case.make().preview())
