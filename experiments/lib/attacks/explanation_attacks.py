"""What explanations give away about background rows and about the explained row.

The attacker knows the model, so he can compute what any row would look like; `vectors` hold that.
Interventional Shapley values are a mean over background rows, each with a vector of its own: two
explanations before and after one row was replaced differ by a difference of two vectors.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def name_newcomer(before: Floats, after: Floats, known: Floats, candidates: Floats) -> int:
    """The day after: which candidate took the place of one of the rows that are known?

    Args:
        before, after: what was released about one explained row, (k,).
        known: vectors of the background rows of the day before, (m, k).
        candidates: vectors of whoever may be new, (n, k).
    """
    arrived = (
        len(known) * (after - before) + known
    )  # for each who may have left, who must have come
    return int(_distances(arrived, candidates).min(axis=0).argmin())


def name_row(released: Floats, candidates: Floats) -> int:
    """Whose explanation is it? The one whose vector lies nearest."""
    return int(_distances(released[np.newaxis], candidates)[0].argmin())


def background_scores(
    released: Floats, candidates: Floats, reference: Floats, *, rows: int, noise: float
) -> Floats:
    """How much several explanations speak for each candidate being a background row, (n,).

    The best linear test of "in the mean" against "not in it", where of the other background rows
    nothing is known but that they are like the reference rows.

    Args:
        released: (e, k), one line for each explained row.
        candidates: vectors for each explained row, (n, e, k).
        reference: those of rows that are known not to be in it, (r, e, k).
        rows: how many background rows there are.
        noise: standard deviation of the noise on each value; 0 without.
    """
    middle = reference.mean(axis=0)
    centred, seen = (candidates - middle).reshape(len(candidates), -1), (released - middle).ravel()
    spread = np.linalg.svd((reference - middle).reshape(len(reference), -1), full_matrices=False)
    # What the other rows do along a direction hides the candidate there, and so does noise.
    sizes = spread.S**2 / len(reference)
    weights = 1 / (sizes / rows + noise**2 + 1e-9 * sizes.max())
    found: Floats = (centred @ spread.Vh.T * weights) @ (seen @ spread.Vh.T)
    return found


def _distances(first: Floats, second: Floats) -> Floats:
    """Squared, of all pairs."""
    squares = (first**2).sum(axis=1)[:, np.newaxis] + (second**2).sum(axis=1)
    return np.asarray(squares - 2 * first @ second.T)
