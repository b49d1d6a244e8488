"""Lower bounds on the hockey-stick divergence of two samples, true at a stated confidence.

For every event E, P(E) − e^ε·Q(E) is at most delta(ε). The event is chosen on one half of the
samples, where choosing may overfit as it likes, and bounded on the other half, which is independent
of the choice: P(E) from below, e^ε·Q(E) from above, both by Clopper and Pearson at half the risk.
The two samples may share their noise: a union bound needs no independence between them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

RISK = 1e-6
"""How often a bound may be wrong."""


def at_least(hits: int, trials: int, risk: float) -> float:
    """A probability is not below this (Clopper and Pearson, one side)."""
    return 0.0 if hits == 0 else float(beta.ppf(risk, hits, trials - hits + 1))


def at_most(hits: int, trials: int, risk: float) -> float:
    """A probability is not above this (Clopper and Pearson, one side)."""
    return 1.0 if hits == trials else float(beta.ppf(1 - risk, hits + 1, trials - hits))


def delta_at_least(
    first: NDArray[np.float64], second: NDArray[np.float64], epsilon: float, risk: float = RISK
) -> float:
    """Numbers in which large speaks for `first`: the event is "above a threshold"."""
    threshold = _best_threshold(first[::2], second[::2], epsilon)
    p, q = first[1::2] > threshold, second[1::2] > threshold
    return _bound(int(p.sum()), p.size, int(q.sum()), q.size, epsilon, risk)


def delta_of_outcomes_at_least(
    first: NDArray[np.int64], second: NDArray[np.int64], epsilon: float, risk: float = RISK
) -> float:
    """Outcomes numbered 0, 1, 2, ...: the event is the set of those that speak for `first`."""
    outcomes = int(max(first.max(), second.max())) + 1
    p_hat = np.bincount(first[::2], minlength=outcomes) / first[::2].size
    q_hat = np.bincount(second[::2], minlength=outcomes) / second[::2].size
    event = p_hat > math.exp(epsilon) * q_hat
    p, q = event[first[1::2]], event[second[1::2]]
    return _bound(int(p.sum()), p.size, int(q.sum()), q.size, epsilon, risk)


def _best_threshold(
    first: NDArray[np.float64], second: NDArray[np.float64], epsilon: float
) -> float:
    candidates = np.quantile(np.concatenate([first, second]), np.linspace(0.001, 0.999, 999))
    above_first = 1 - np.searchsorted(np.sort(first), candidates, side="right") / first.size
    above_second = 1 - np.searchsorted(np.sort(second), candidates, side="right") / second.size
    return float(candidates[np.argmax(above_first - math.exp(epsilon) * above_second)])


def _bound(
    p_hits: int, p_trials: int, q_hits: int, q_trials: int, epsilon: float, risk: float
) -> float:
    p = at_least(p_hits, p_trials, risk / 2)
    q = at_most(q_hits, q_trials, risk / 2)
    return p - math.exp(epsilon) * q
