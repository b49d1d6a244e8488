"""Thresholds against whom, and the probability that a sparse graph fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.federation.secure_aggregation.parties import names_of, terms_for
from voile.core.errors import InvalidInput, Refused
from voile.federation.secure_aggregation import ActiveServer, HonestButCurious, Sparse, sparse_for


@given(parties=st.integers(2, 200), colluders=st.integers(1, 199), threshold=st.integers(0, 201))
def test_two_sets_of_t_meet_in_an_honest_party(
    parties: int, colluders: int, threshold: int
) -> None:
    holds = 2 * threshold > parties + colluders and threshold > colluders
    for model in (HonestButCurious(colluders, threshold), ActiveServer(colluders, threshold)):
        if holds and threshold <= parties:
            assert model.threshold_of(parties) == threshold
        else:
            with pytest.raises(Refused, match="must survive"):
                model.threshold_of(parties)


@given(parties=st.integers(2, 200), colluders=st.integers(1, 60))
def test_left_out_it_keeps_two_honest_parties_in_every_sum(parties: int, colluders: int) -> None:
    for model in (HonestButCurious(colluders), ActiveServer(colluders)):
        if model.least(parties) <= parties:
            chosen = model.threshold_of(parties)
            assert model.least(parties) <= chosen <= parties
            assert chosen >= min(colluders + 2, parties)


@pytest.mark.parametrize("model", [HonestButCurious(), ActiveServer()])
def test_four_of_five_or_six_suffice_and_five_of_seven(model: Any) -> None:
    assert [model.threshold_of(parties) for parties in (3, 5, 6, 7)] == [3, 4, 4, 5]


@pytest.mark.parametrize("colluders", [0, -1, True, 1.0])
def test_at_least_one_party_is_assumed_to_collude(colluders: Any) -> None:
    for kind in (HonestButCurious, ActiveServer):
        with pytest.raises(InvalidInput, match="collude"):
            kind(colluders)


def test_a_sparse_graph_against_an_active_server_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        ActiveServer(graph=Sparse(4, 2, 1))  # type: ignore[call-arg]


def test_terms_that_the_model_does_not_allow_are_refused() -> None:
    with pytest.raises(Refused, match="at least 4 must survive"):
        terms_for(6, HonestButCurious(threshold=3))


def test_what_it_rests_on_is_said() -> None:
    (said,) = ActiveServer(2, 7).assumptions(10)
    assert "active server" in said
    assert "2 of 10" in said
    assert "at least 5 honest ones" in said
    model = HonestButCurious(graph=sparse_for(100, colluders=1, dropouts=5))
    assert "probability" in model.assumptions(100)[1]
    assert "anew" in model.assumptions(100)[2]


# --- sparse graphs --------------------------------------------------------------------------------


def broken(graph: Sparse, parties: int, colluders: int, draw: Any) -> tuple[bool, bool]:
    """One round: whether some party is captured or survivors fall apart; whether it completes."""
    roster, seed = names_of(parties), draw.bytes(32)
    around = {name: graph.neighbours(name, roster, seed) for name in roster}
    mixed = draw.permutation(list(roster)).tolist()
    bad, gone = set(mixed[:colluders]), set(mixed[colluders : colluders + graph.dropouts])
    captured = any(len(bad & set(found)) >= graph.shares for found in around.values())
    left = set(roster) - bad - gone
    reached, edge = set(), [min(left)]
    while edge:
        name = edge.pop()
        reached.add(name)
        edge += [other for other in around[name] if other in left and other not in reached]
    stuck = any(len(set(found) - gone) < graph.shares for found in around.values())
    return captured or reached != left, stuck


@pytest.mark.parametrize(
    ("graph", "parties", "colluders"),
    [
        (Sparse(4, 3, 3), 20, 4),
        (Sparse(6, 4, 4), 24, 6),
        (Sparse(4, 2, 6), 24, 2),
        (Sparse(8, 3, 0), 40, 3),  # colluders around one party are all that can happen
        (Sparse(12, 10, 4), 40, 1),  # and here that too many fall out
    ],
)
def test_failures_are_no_more_frequent_than_is_said(
    graph: Sparse, parties: int, colluders: int
) -> None:
    """A bound: 400 rounds may exceed it by 5 standard errors at most (below 1e-6)."""
    draw, rounds = np.random.default_rng(3), 400
    found = [broken(graph, parties, colluders, draw) for _ in range(rounds)]
    said = graph.failure(parties, colluders)
    for place, bound in enumerate((said.privacy, said.completion)):
        share = sum(each[place] for each in found) / rounds
        assert share <= bound + 5 * (min(bound, 1) * max(1 - bound, 0) / rounds + 1e-6) ** 0.5


def test_neighbours_grow_like_a_logarithm() -> None:
    degrees = [sparse_for(n, colluders=1, dropouts=n // 20).degree for n in (100, 200, 400, 800)]
    assert degrees == sorted(degrees)
    assert degrees[-1] <= degrees[0] + 12


def test_where_no_sparse_graph_is_safe_it_says_so() -> None:
    with pytest.raises(InvalidInput, match="complete graph"):
        sparse_for(6, colluders=3, dropouts=2)


@pytest.mark.parametrize("fields", [(3, 2, 0), (0, 1, 0), (4, 0, 0), (4, 5, 0), (4, 2, -1)])
def test_graphs_that_are_none_are_refused(fields: Any) -> None:
    with pytest.raises(InvalidInput):
        Sparse(*fields)
