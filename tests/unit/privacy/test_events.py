"""Events are stored for years: what is written today must be read for ever."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.privacy.strategies import leaves, nested
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.privacy import events
from voile.privacy.accounting.conversion import gaussian_delta, rho
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)

# Written by version 0.1.0. Never edit a line of this: a new version adds lines.
STORED: dict[str, PrivacyEvent] = {
    '{"kind": "gaussian", "noise_multiplier": 1.5}': Gaussian(1.5),
    '{"kind": "laplace", "noise_multiplier": 2.0}': Laplace(2.0),
    '{"kind": "pure", "epsilon": 0.5}': PureDp(0.5),
    '{"kind": "approximate", "epsilon": 0.5, "delta": 1e-06}': ApproximateDp(0.5, 1e-6),
    '{"kind": "bounded range", "epsilon": 0.5}': BoundedRange(0.5),
    '{"kind": "zcdp", "rho": 0.1}': Zcdp(0.1),
    (
        '{"kind": "poisson sampled", "event": {"kind": "gaussian", "noise_multiplier": 1.0}, '
        '"probability": 0.01, "relation": "blank one"}'
    ): PoissonSampled(Gaussian(1.0), 0.01, Relation.BLANK_ONE),
    ('{"kind": "repeated", "event": {"kind": "pure", "epsilon": 0.5}, "times": 3}'): Repeated(
        PureDp(0.5), 3
    ),
    ('{"kind": "composed", "events": [{"kind": "pure", "epsilon": 0.5}]}'): Composed(
        (PureDp(0.5),)
    ),
    ('{"kind": "parallel", "events": [{"kind": "pure", "epsilon": 0.5}]}'): Parallel(
        (PureDp(0.5),)
    ),
}


@pytest.mark.parametrize("text", STORED)
def test_what_version_0_1_wrote_is_still_read_and_written(text: str) -> None:
    assert events.from_dict(json.loads(text)) == STORED[text]
    assert json.loads(text) == events.to_dict(STORED[text])


@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        (Gaussian(20), Gaussian(20.0)),
        (Laplace(20), Laplace(np.float64(20))),
        (PureDp(1), PureDp(1.0)),
        (ApproximateDp(1, 1e-6), ApproximateDp(1.0, np.float64(1e-6))),
        (BoundedRange(1), BoundedRange(1.0)),
        (Zcdp(1), Zcdp(1.0)),
        (
            PoissonSampled(Gaussian(1), 1, Relation.BLANK_ONE),
            PoissonSampled(Gaussian(1.0), 1.0, Relation.BLANK_ONE),
        ),
    ],
)
def test_equal_events_are_written_alike(whole: PrivacyEvent, broken: PrivacyEvent) -> None:
    """A plan is compared by text, so an account opened with 20 must grant 20.0."""
    assert whole == broken
    assert json.dumps(events.to_dict(whole)) == json.dumps(events.to_dict(broken))


def test_a_figure_beyond_every_float_is_refused() -> None:
    with pytest.raises(InvalidInput, match="finite"):
        Gaussian(10**400)


def test_every_kind_has_a_stored_example() -> None:
    assert {type(event) for event in STORED.values()} == set(events._KINDS.values())


@given(nested(leaves))
def test_every_event_comes_back_from_json(event: PrivacyEvent) -> None:
    assert events.from_dict(json.loads(json.dumps(events.to_dict(event)))) == event


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"kind": "magic"},
        {"kind": "pure"},
        {"kind": "pure", "epsilon": 1.0, "surprise": 1},
        {"kind": "pure", "epsilon": -1.0},
        {"kind": "pure", "epsilon": "1"},
        [],
    ],
)
def test_what_is_no_event_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        events.from_dict(stored)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True])
def test_parameters_must_be_finite_and_above_zero(bad: float) -> None:
    for kind in (Gaussian, Laplace, PureDp, BoundedRange, Zcdp):
        with pytest.raises(InvalidInput):
            kind(bad)


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.1, math.nan])
def test_a_sampling_probability_lies_in_0_1(probability: float) -> None:
    with pytest.raises(InvalidInput):
        PoissonSampled(Gaussian(1.0), probability, Relation.BLANK_ONE)


def test_empty_compositions_and_no_repetitions_are_refused() -> None:
    for make in (lambda: Composed(()), lambda: Parallel(()), lambda: Repeated(PureDp(1.0), 0)):
        with pytest.raises(InvalidInput):
            make()


class TestGroups:
    @given(st.integers(1, 6), st.floats(0.5, 20))
    def test_gaussian_noise_seen_by_a_group(self, size: int, multiplier: float) -> None:
        grouped = events.for_group(Gaussian(multiplier), size)
        assert rho(grouped) == pytest.approx(size**2 * rho(Gaussian(multiplier)))

    def test_approximate_privacy_of_a_group_covers_a_chain_of_gaussians(self) -> None:
        """The group's delta is above the exact one of Gaussian noise at the same epsilon."""
        z, epsilon, size = 4.0, 0.5, 3
        one = ApproximateDp(epsilon, gaussian_delta(z, epsilon))
        group = events.for_group(one, size)
        assert isinstance(group, ApproximateDp)
        assert group.epsilon == pytest.approx(size * epsilon)
        assert group.delta >= gaussian_delta(z / size, size * epsilon)

    def test_containers_pass_it_on_and_sampling_refuses(self) -> None:
        event = Repeated(Composed((PureDp(0.5), BoundedRange(0.2), Zcdp(0.1), Laplace(1.0))), 2)
        grouped = events.for_group(event, 2)
        assert grouped == Repeated(
            Composed((PureDp(1.0), BoundedRange(0.4), Zcdp(0.4), Laplace(0.5))), 2
        )
        for refused in (
            PoissonSampled(Gaussian(1.0), 0.1, Relation.BLANK_ONE),
            Parallel((PureDp(0.5),)),
        ):
            with pytest.raises(Refused):
                events.for_group(refused, 2)


def in_one_another(times: int) -> Any:
    stored: Any = {"kind": "gaussian", "noise_multiplier": 1.0}
    for _ in range(times):
        stored = {"kind": "composed", "events": [stored]}
    return stored


@pytest.mark.parametrize(
    "stored",
    [
        {"kind": ["gaussian"], "noise_multiplier": 1.0},
        {"kind": {}},
        {"kind": "composed", "events": 3},
        {"kind": "composed", "events": [3]},
        {"kind": "parallel", "events": "ab"},
        {"kind": "repeated", "event": 1.5, "times": 2},
        in_one_another(300),
    ],
)
def test_what_is_stored_in_another_form_is_refused(stored: Any) -> None:
    with pytest.raises(InvalidInput):
        events.from_dict(stored)


def test_what_can_be_stored_nested_can_be_read() -> None:
    event = events.from_dict(in_one_another(events.MOST_NESTED))
    assert events.to_dict(event) == in_one_another(events.MOST_NESTED)
