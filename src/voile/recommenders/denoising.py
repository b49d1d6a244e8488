"""What can be got out of noisy moments. All of it is post-processing and costs nothing.

The noise on an unfolded Gram matrix is a Gaussian orthogonal ensemble of a *known* size: its
eigenvalues lie within ±2τ√H. So eigenvalues outside tell of users, those inside of nothing, and how
much one outside is to be shrunk is known as well. Then the same once more within few directions,
those of popularity times public features, in which noise is smaller: 2τ√r for r of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def denoised(
    noisy: Matrix, *, deviation: float, popularity: NDArray[np.float64], features: Matrix
) -> Matrix:
    """The Gram matrix as far as it stands out of the noise: symmetric, positive semidefinite.

    Args:
        noisy: unfolded, shape (H, H).
        deviation: standard deviation τ of the noise above the diagonal.
        popularity: of the H items, with its noise.
        features: public, shape (H, r).
    """
    first = shrunk(noisy, deviation)
    basis = _directions(popularity, features)
    rest = basis.T @ (noisy - first) @ basis
    second = basis @ shrunk(rest, deviation) @ basis.T
    return positive_semidefinite(first + second)


def shrunk(noisy: Matrix, deviation: float) -> Matrix:
    """Eigenvalues λ beyond the edge e = 2τ√n become √(λ² − e²), the others 0.

    That is the best function of the eigenvalues in the Frobenius norm, for few directions in much
    noise (Donoho and Gavish, and Shabalin and Nobel, for the symmetric case). The true matrix has
    no negative eigenvalues, so those are noise, however large.
    """
    values, vectors = np.linalg.eigh(noisy)
    edge = 2 * deviation * math.sqrt(len(noisy))
    kept = np.sqrt(np.maximum(values**2 - edge**2, 0.0)) * (values > 0)
    return np.asarray((vectors * kept) @ vectors.T)


def positive_semidefinite(matrix: Matrix) -> Matrix:
    """The nearest one in the Frobenius norm."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def ease(gram: Matrix, ridge: float) -> Matrix:
    """The linear autoencoder without a diagonal, in closed form (Steck 2019).

    B = I − P·diag(P)⁻¹ with P = (G + ridge)⁻¹: the weights with which the rows best predict
    themselves, if no item may be predicted from itself.
    """
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)


def _directions(popularity: NDArray[np.float64], features: Matrix) -> Matrix:
    """An orthonormal basis of popularity times features; of all zeros, nothing."""
    scaled = np.maximum(popularity, 0.0)[:, np.newaxis] * features
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-8 * max(float(sizes.max()), 1e-300)])
