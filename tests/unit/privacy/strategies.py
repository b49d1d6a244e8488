"""Arbitrary events, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from voile.core.guarantee import Relation
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
)

multipliers = st.floats(0.5, 50)
epsilons = st.floats(0.01, 3)

gaussians = multipliers.map(Gaussian)
concentrated: st.SearchStrategy[Leaf] = st.one_of(
    gaussians,
    multipliers.map(Laplace),
    epsilons.map(PureDp),
    epsilons.map(BoundedRange),
    st.floats(1e-4, 0.5).map(Zcdp),
)
sampled = st.builds(
    PoissonSampled,
    gaussians,
    st.floats(0.001, 1),
    st.sampled_from([Relation.BLANK_ONE, Relation.ADD_OR_REMOVE_ONE]),
)
leaves: st.SearchStrategy[Leaf] = st.one_of(
    concentrated, sampled, st.builds(ApproximateDp, epsilons, st.floats(1e-12, 1e-6))
)


def nested(base: st.SearchStrategy[Leaf]) -> st.SearchStrategy[PrivacyEvent]:
    return st.recursive(
        base,
        lambda inner: st.one_of(
            st.builds(Repeated, inner, st.integers(1, 5)),
            st.builds(Composed, st.lists(inner, min_size=1, max_size=3).map(tuple)),
            st.builds(Parallel, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=5,
    )
