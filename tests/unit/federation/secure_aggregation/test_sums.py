"""The right sum of the survivors or a safe failure, whoever falls out when; never a wrong sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.federation.secure_aggregation.parties import (
    Run,
    names_of,
    sum_of,
    terms_for,
    vectors_for,
)
from voile.core.errors import Refused
from voile.federation.secure_aggregation import (
    ActiveServer,
    AttemptStep,
    Complete,
    HonestButCurious,
    Sparse,
    ThreatModel,
)

STEPS = (
    AttemptStep.ADVERTISE,
    AttemptStep.SHARE,
    AttemptStep.MASK,
    AttemptStep.CONSENT,
    AttemptStep.UNMASK,
)


@st.composite
def models(draw: Any, count: int) -> ThreatModel:
    colluders = draw(st.integers(1, max(1, count // 3)))
    kind = draw(st.sampled_from(["complete", "sparse", "active"]))
    graph: Any = Complete()
    if kind == "sparse":
        degree = 2 * draw(st.integers(1, 4))
        graph = Sparse(degree, draw(st.integers(1, degree)), 1)
    model: Any = ActiveServer(colluders) if kind == "active" else HonestButCurious(colluders)
    threshold = draw(st.none() | st.integers(min(model.least(count), count), count))
    if kind == "active":
        return ActiveServer(colluders, threshold)
    return HonestButCurious(colluders, threshold, graph)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_right_sum_or_a_safe_failure(data: Any) -> None:
    count = data.draw(st.integers(3, 12))
    terms = terms_for(
        count, data.draw(models(count)), dtype=data.draw(st.sampled_from([np.uint32, np.uint64]))
    )
    vectors = vectors_for(terms, data.draw(st.integers(0, 9)))
    some = st.sets(st.sampled_from(terms.asked), max_size=2)
    lost = {step: data.draw(some) for step in STEPS}
    deaf = {step: data.draw(some) for step in STEPS}
    run = Run(terms, vectors, lost=lost, deaf=deaf)
    try:
        total = run.all_steps()
    except Refused:
        return
    assert len(run.server.survivors) >= terms.threshold
    assert np.array_equal(total, sum_of(vectors, run.server.survivors))


@pytest.mark.parametrize(
    ("model", "step"),
    [(ActiveServer(), step) for step in STEPS]
    + [(HonestButCurious(), step) for step in STEPS if step is not AttemptStep.CONSENT],
)
def test_one_may_fall_out_at_any_step(model: ThreatModel, step: AttemptStep) -> None:
    terms = terms_for(6, model)
    vectors = vectors_for(terms)
    run = Run(terms, vectors, lost={step: [terms.asked[2]]})
    total = run.all_steps()
    late = step in (AttemptStep.CONSENT, AttemptStep.UNMASK)
    expected = [name for name in terms.asked if late or name != terms.asked[2]]
    assert list(run.server.survivors) == expected
    assert np.array_equal(total, sum_of(vectors, expected))


@pytest.mark.parametrize("step", STEPS)
def test_below_the_threshold_nothing_is_unmasked(step: AttemptStep) -> None:
    terms = terms_for(6, ActiveServer(1, threshold=5))
    run = Run(terms, vectors_for(terms), lost={step: terms.asked[:2]})
    with pytest.raises(Refused):
        run.all_steps()


def test_who_falls_out_late_is_in_the_sum_and_who_falls_out_early_is_not() -> None:
    terms = terms_for(8)
    vectors = vectors_for(terms)
    early, sharing, masking, late = terms.asked[:4]
    lost = {
        AttemptStep.ADVERTISE: [early],
        AttemptStep.MASK: [sharing],
        AttemptStep.UNMASK: [late],
    }
    run = Run(terms, vectors, lost=lost, deaf={AttemptStep.SHARE: []})
    assert np.array_equal(run.all_steps(), sum_of(vectors, [masking, late, *terms.asked[4:]]))


def test_in_a_sparse_graph_everybody_has_the_same_number_of_neighbours() -> None:
    graph, roster = Sparse(6, 4, 2), names_of(30)
    seen = {name: graph.neighbours(name, roster, b"seed") for name in roster}
    assert {len(found) for found in seen.values()} == {6}
    assert all(name in seen[other] for name, found in seen.items() for other in found)
    assert seen != {name: graph.neighbours(name, roster, b"other") for name in roster}
    few = roster[:5]
    assert graph.neighbours(few[0], few, b"seed") == few[1:]


def test_a_sparse_sum_of_many() -> None:
    terms = terms_for(40, HonestButCurious(graph=Sparse(10, 5, 4)))
    vectors = vectors_for(terms)
    run = Run(
        terms,
        vectors,
        lost={AttemptStep.MASK: terms.asked[3:6], AttemptStep.UNMASK: [terms.asked[9]]},
    )
    total = run.all_steps()
    assert len(run.server.survivors) == 37
    assert np.array_equal(total, sum_of(vectors, run.server.survivors))
