"""Adversarial search: the worst game an enemy of a bound can think of.

A quantity that is linear in the game is a matrix M with a column per coalition. To maximise |M w|
over all games w, alternate between the direction u that M w points to and the game that goes
furthest in direction u; each step can only increase the length, and many starts find the maximum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
BestGame = Callable[[Matrix], Matrix]
"""From coefficients (coalitions, outputs) to the game (coalitions, outputs) that goes furthest."""


def members(d: int) -> NDArray[np.bool_]:
    """(coalitions, players): who is in; the empty coalition first, the full one last."""
    return np.asarray((np.arange(2**d)[:, None] >> np.arange(d)) & 1, dtype=np.bool_)


def shapley_matrix(d: int) -> Matrix:
    """(players, coalitions), from the definition over coalitions without the player."""
    inside = members(d)
    size = inside.sum(axis=1)
    joining = np.array([1 / (d * math.comb(d - 1, t - 1)) if t else 0.0 for t in range(d + 1)])
    leaving = np.array([-1 / (d * math.comb(d - 1, t)) if t < d else 0.0 for t in range(d + 1)])
    return np.asarray(np.where(inside, joining[size][:, None], leaving[size][:, None]).T)


def interaction_matrix(d: int) -> Matrix:
    """(pairs, coalitions), from the definition over coalitions without the pair."""
    inside = members(d)
    size = inside.sum(axis=1)
    rows = []
    for i, j in itertools.combinations(range(d), 2):
        both, one = inside[:, i] & inside[:, j], inside[:, i] ^ inside[:, j]
        rest = size - both * 2 - one
        weight = np.array(
            [math.factorial(s) * math.factorial(d - s - 2) / math.factorial(d - 1) for s in rest]
        )
        rows.append(np.where(one, -weight, weight))
    return np.array(rows)


def ascent(matrix: Matrix, best: BestGame, outputs: int, starts: int, seed: int = 1) -> float:
    """The longest M w found."""
    generator = np.random.default_rng(seed)
    longest = 0.0
    for _ in range(starts):
        image = generator.normal(size=(matrix.shape[0], outputs))
        length = 0.0
        while True:
            image = matrix @ best(matrix.T @ image)
            reached = float(np.linalg.norm(image))
            if reached <= length * (1 + 1e-12):
                break
            length = reached
        longest = max(longest, length)
    return longest


def enumerated(matrix: Matrix, levels: tuple[float, float], fixed_full: bool) -> float:
    """The longest M w over all vertices: every coalition at one of two levels."""
    coalitions = matrix.shape[1]
    longest = 0.0
    for levels_of in itertools.product(levels, repeat=coalitions - fixed_full):
        game = np.array([*levels_of, 0.0] if fixed_full else levels_of)
        longest = max(longest, float(np.linalg.norm(matrix @ game)))
    return longest


def sign_game(coefficients: Matrix) -> Matrix:
    """Differences of two single-baseline games of width 1: in [−1, 1], 0 at the full coalition."""
    game = np.where(coefficients >= 0, 1.0, -1.0)
    game[-1] = 0.0
    return game


def unit_game(coefficients: Matrix) -> Matrix:
    """Games with values in [0, 1]."""
    return (coefficients >= 0).astype(np.float64)


def simplex_difference(coefficients: Matrix) -> Matrix:
    """Differences of two games whose values are probabilities, 0 at the full coalition."""
    game = np.zeros_like(coefficients)
    everyone = np.arange(len(coefficients))
    game[everyone, coefficients.argmax(axis=1)] += 1
    game[everyone, coefficients.argmin(axis=1)] -= 1
    game[-1] = 0.0
    return game


def simplex_from_centre(coefficients: Matrix) -> Matrix:
    """Probabilities against the null row: the centre, except at the full coalition."""
    game = np.full_like(coefficients, -1 / coefficients.shape[1])
    game[np.arange(len(coefficients)), coefficients.argmax(axis=1)] += 1
    game[-1] = 0.0
    return game


def with_base(matrix: Matrix) -> Matrix:
    """The base value is the worth of the empty coalition."""
    base = np.zeros((1, matrix.shape[1]))
    base[0, 0] = 1.0
    return np.vstack([matrix, base])
