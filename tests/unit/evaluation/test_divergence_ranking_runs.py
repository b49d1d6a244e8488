"""Divergence, ranking and repeated runs: by hand, and against scipy and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiments.lib.evaluation.ranking import ndcg, recall
from experiments.lib.evaluation.runs import cohens_d, compare_to, summarise
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import jensenshannon
from sklearn.metrics import ndcg_score

from voile.core.errors import InvalidInput
from voile.evaluation import divergence_score, importance_shares, jensen_shannon

shares = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(
    lambda values: np.array(values) / sum(values)
)


class TestDivergence:
    @given(shares, shares)
    def test_against_scipy(self, p: NDArray[np.float64], q: NDArray[np.float64]) -> None:
        assert divergence_score(p, q) == pytest.approx(stats.entropy(p, q), abs=1e-7)
        assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-7)

    def test_a_feature_that_only_one_side_uses_is_smoothed(self) -> None:
        assert divergence_score([1.0, 0.0], [0.0, 1.0]) == pytest.approx(math.log(1e10), rel=1e-6)
        assert jensen_shannon([1.0, 0.0], [0.0, 1.0]) == pytest.approx(math.log(2), rel=1e-6)

    def test_shares_of_mean_absolute_values(self) -> None:
        assert importance_shares([[1.0, -3.0], [-1.0, 3.0]]) == pytest.approx([0.25, 0.75])
        assert importance_shares([0.0, 0.0]) == pytest.approx([0.5, 0.5])

    def test_what_are_no_shares_is_refused(self) -> None:
        for bad in ([0.5, 0.6], [-0.1, 1.1], []):
            with pytest.raises(InvalidInput):
                divergence_score(bad, [0.5, 0.5])
        with pytest.raises(InvalidInput, match="same features"):
            divergence_score([1.0], [0.5, 0.5])


class TestRanking:
    @given(st.integers(0, 10_000), st.integers(1, 8))
    def test_against_scikit_learn(self, seed: int, k: int) -> None:
        generator = np.random.default_rng(seed)
        gains = generator.integers(0, 3, size=(3, 8)).astype(float)
        scores = generator.permuted(np.tile(np.arange(8.0), (3, 1)), axis=1)
        expected = [ndcg_score(gains[i : i + 1], scores[i : i + 1], k=k) for i in range(3)]
        assert ndcg(gains, scores, k=k) == pytest.approx(expected)

    def test_recall_by_hand(self) -> None:
        gains, scores = [[1, 0, 1, 0]], [[0.9, 0.8, 0.1, 0.0]]
        assert recall(gains, scores, k=2) == [0.5]
        assert recall(gains, scores, k=3) == [1.0]

    def test_lists_without_anything_relevant_score_zero(self) -> None:
        assert ndcg([[0, 0]], [[1, 2]], k=1) == [0.0]
        assert recall([[0, 0]], [[1, 2]], k=1) == [0.0]

    @pytest.mark.parametrize("k", [0, 3])
    def test_k_beyond_the_list_is_refused(self, k: int) -> None:
        with pytest.raises(InvalidInput):
            ndcg([[0, 1]], [[1, 2]], k=k)


class TestRepeated:
    RUNS = (0.82, 0.80, 0.85, 0.79, 0.83)

    def test_against_scipy(self) -> None:
        found = summarise(self.RUNS, generator=np.random.default_rng(0))
        interval = stats.t.interval(0.95, 4, np.mean(self.RUNS), stats.sem(self.RUNS))
        assert found.t_interval == pytest.approx(interval)
        assert found.variation == pytest.approx(stats.variation(self.RUNS, ddof=1))
        boot = stats.bootstrap(
            (self.RUNS,), np.mean, method="percentile", rng=np.random.default_rng(1)
        ).confidence_interval
        assert found.bootstrap_interval == pytest.approx((boot.low, boot.high), abs=2e-3)
        assert "n = 5" in str(found)

    def test_paired_tests_are_corrected_for_their_number(self) -> None:
        generator = np.random.default_rng(2)
        base = generator.normal(size=12)
        others = {"a": base + 1 + 0.1 * generator.normal(size=12), "b": base.copy()}
        found = compare_to(base, others)
        expected = stats.wilcoxon(others["a"], base).pvalue
        assert found["a"].p_value == pytest.approx(expected)
        assert found["a"].corrected == pytest.approx(2 * expected)
        assert found["a"].effect > 3
        assert found["b"].corrected == 1.0

    def test_cohens_d_by_hand(self) -> None:
        assert cohens_d([1.0, 3.0], [0.0, 2.0]) == pytest.approx(1 / math.sqrt(2))
        assert cohens_d([1.0, 1.0], [1.0, 1.0]) == 0.0
        assert cohens_d([2.0, 2.0], [1.0, 1.0]) == math.inf

    def test_one_run_says_nothing(self) -> None:
        with pytest.raises(InvalidInput):
            summarise([1.0], generator=np.random.default_rng(0))
        with pytest.raises(InvalidInput, match="paired"):
            compare_to([1.0, 2.0], {"a": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("k", [1, 3, 10, 40])
def test_the_best_are_those_of_a_stable_sort_ties_included(k: int) -> None:
    draw = np.random.default_rng(k)
    for scores in (draw.normal(size=(50, 40)), draw.integers(0, 4, (50, 40)), np.zeros((3, 40))):
        given = np.asarray(scores, dtype=np.float64)
        gains = draw.integers(0, 3, given.shape).astype(float)
        order = np.argsort(-given, axis=1, kind="stable")[:, :k]
        discounts = 1 / np.log2(np.arange(2, k + 2))
        ideal = -np.sort(-gains, axis=1)[:, :k] @ discounts
        expected = np.take_along_axis(gains, order, axis=1) @ discounts / ideal
        assert np.allclose(ndcg(gains, given, k=k), expected)
