"""Users as unit vectors, on a grid on which sums are exact.

Every user is a vector without negative entries and at most 1 long: whoever touched much counts no
more than whoever touched little. Entries are rounded toward zero to multiples of 2^-b, with b so
that a sum over all users of products of two entries is a whole number of at most 2^52 steps: each
partial sum is a floating-point number, nothing is lost, and the order does not matter. So two data
sets that differ in one user differ by what that user adds, exactly, and parties that add up their
parts get what one party would.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from voile.privacy.sensitivity.bound import positive


def grid_bits(users: int) -> int:
    """Binary digits of an entry: users · 2^(2b) stays within 2^52."""
    return (52 - math.ceil(math.log2(positive("users", users)))) // 2


def unit_rows(matrix: sparse.csr_array, *, bits: int) -> sparse.csr_array:
    """Every row scaled to length 1 at most, on the grid; an empty row stays empty.

    Entries below 0 and entries that are no numbers count as 0: a record never raises.
    """
    rows = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    largest = np.finfo(np.float64).max
    rows.data = np.clip(np.nan_to_num(rows.data, nan=0.0, posinf=largest, neginf=0.0), 0.0, None)
    counts = np.diff(rows.indptr)
    peaks = np.repeat(_largest_of_rows(rows), counts)
    # First by the largest entry, which is harmless, so that squares neither vanish nor overflow.
    rows.data = np.divide(rows.data, peaks, out=np.zeros_like(rows.data), where=peaks > 0)
    owner = np.repeat(np.arange(rows.shape[0]), counts)
    squares = np.bincount(owner, weights=rows.data**2, minlength=rows.shape[0])
    lengths = np.repeat(np.sqrt(squares), counts)
    rows.data = np.divide(rows.data, lengths, out=np.zeros_like(rows.data), where=lengths > 0)
    rows.data = np.floor(rows.data * 2.0**bits) / 2.0**bits
    return rows


def _largest_of_rows(rows: sparse.csr_array) -> NDArray[np.float64]:
    peaks = np.zeros(rows.shape[0])
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    np.maximum.at(peaks, owner, rows.data)
    return peaks


def popularity(rows: sparse.csr_array) -> NDArray[np.float64]:
    """The sum of all rows."""
    return np.asarray(rows.sum(axis=0)).reshape(-1)


def gram(rows: sparse.csr_array) -> NDArray[np.float64]:
    """The sum of all products of a row with itself, as what is released: `folded`."""
    return folded((rows.T @ rows).toarray())


def folded(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A symmetric matrix as a vector: entries above the diagonal, then the diagonal over √2.

    Equal noise on all entries of the vector is, unfolded, noise that looks alike from every
    direction (the Gaussian orthogonal ensemble): what shrinking eigenvalues needs.
    """
    above = np.triu_indices(len(matrix), 1)
    return np.concatenate([matrix[above], np.diag(matrix) / math.sqrt(2)])


def unfolded(vector: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The inverse of `folded`."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[: size * (size - 1) // 2]
    matrix += matrix.T
    matrix[np.diag_indices(size)] = vector[size * (size - 1) // 2 :] * math.sqrt(2)
    return matrix
