"""What the released item side tells about single users: membership and inversion.

Targets are in the data by independent fair coins, else their history is blank. The attacker knows
every other user and the targets' histories; what is left to guess are the coins. By the trade-off
curve of Gaussian noise nobody guesses one coin right with more than Φ(μ/2), where μ is that of both
releases together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from experiments.lib.recommenders.twins import exact_autoencoder
from voile.recommenders import Interactions, MomentsBudget, Recommender
from voile.recommenders.moments import gram, grid_bits, popularity, unit_rows

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Guesses:
    """How often coins were guessed right.

    Args:
        right: share of right guesses.
        coins: how many were guessed.
        ceiling: what nobody exceeds in expectation; 1 without privacy.
    """

    right: float
    coins: int
    ceiling: float

    @property
    def error(self) -> float:
        """Three standard errors of the share."""
        return 3 * 0.5 / math.sqrt(self.coins)


@dataclass(frozen=True, eq=False)
class CoinWorld:
    """One draw: who of the targets is in."""

    everybody: Interactions
    targets: NDArray[np.int64]
    inside: NDArray[np.bool_]

    @property
    def present(self) -> Interactions:
        """All users, of whom absent targets have a blank history."""
        gone = np.zeros(len(self.everybody), dtype=np.bool_)
        gone[self.targets[~self.inside]] = True
        return self.everybody.where(~gone[self.everybody.user])

    @property
    def others(self) -> Interactions:
        """What the attacker knows besides the targets' histories: everybody else."""
        gone = np.zeros(len(self.everybody), dtype=np.bool_)
        gone[self.targets] = True
        return self.everybody.where(~gone[self.everybody.user])


def coin_world(everybody: Interactions, targets: int, draw: np.random.Generator) -> CoinWorld:
    chosen = draw.choice(len(everybody), targets, replace=False)
    return CoinWorld(everybody, np.sort(chosen), draw.random(targets) < 0.5)


def membership_of_moments(
    world: CoinWorld, budget: MomentsBudget, draw: np.random.Generator
) -> Guesses:
    """From both noisy releases, less what everybody else adds: projected on what a target would
    add, in units of the noise. With one target this is the best test there is."""
    bits = grid_bits(len(world.everybody))
    present, others = world.present.matrix, world.others.matrix
    sigma = budget.popularity_noise.sigma
    first = popularity(unit_rows(present, bits=bits))
    noisy = first + draw.normal(0, sigma, first.shape)
    head = np.argsort(-noisy, kind="stable")[: budget.head]
    rest = noisy - popularity(unit_rows(others, bits=bits))
    tau = budget.gram_noise.sigma
    second = gram(unit_rows(present[:, head], bits=bits))
    second = second + draw.normal(0, tau, second.shape)
    rest_gram = second - gram(unit_rows(others[:, head], bits=bits))
    right = 0
    rows = unit_rows(world.everybody.matrix, bits=bits)
    on_head = unit_rows(sparse.csr_array(world.everybody.matrix[:, head]), bits=bits)
    for target, there in zip(world.targets, world.inside, strict=True):
        mine = rows[[target]].toarray()[0]
        of_gram = gram(on_head[[target]])
        evidence = (mine @ rest - mine @ mine / 2) / sigma**2
        evidence += (of_gram @ rest_gram - of_gram @ of_gram / 2) / tau**2
        right += bool(evidence > 0) == bool(there)
    ceiling = float(ndtr(budget.mu / 2))
    return Guesses(right / len(world.targets), len(world.targets), ceiling)


def membership_of_model(world: CoinWorld, ridge: float = 500.0) -> Guesses:
    """From the weights of EASE without privacy: does it predict a target's history better than a
    model of everybody else does? The median of all targets decides."""
    model, shadow = (exact_autoencoder(each, ridge=ridge) for each in (world.present, world.others))
    rows = world.everybody.matrix[world.targets].toarray()
    gains = _losses(rows, shadow.weights) - _losses(rows, model.weights)
    return _by_median(gains, world)


def membership_one_by_one(
    everybody: Interactions, budget: MomentsBudget, runs: int, draw: np.random.Generator
) -> Guesses:
    """One target a run, everybody else known: the best test there is, so close to the ceiling.

    What everybody else adds cancels out; only the head depends on it.
    """
    bits = grid_bits(len(everybody))
    rows = unit_rows(everybody.matrix, bits=bits)
    whole, matrix = popularity(rows), everybody.matrix
    sigma, tau = budget.popularity_noise.sigma, budget.gram_noise.sigma
    right = 0
    for _ in range(runs):
        target, there = int(draw.integers(len(everybody))), bool(draw.random() < 0.5)
        mine = rows[[target]].toarray()[0]
        noise = draw.normal(0, sigma, whole.shape)
        noisy = whole - (0.0 if there else 1.0) * mine + noise
        head = np.argsort(-noisy, kind="stable")[: budget.head]
        of_gram = gram(unit_rows(sparse.csr_array(matrix[[target]][:, head]), bits=bits))
        seen = there * of_gram + draw.normal(0, tau, of_gram.shape)
        evidence = (mine @ (there * mine + noise) - mine @ mine / 2) / sigma**2
        evidence += (of_gram @ seen - of_gram @ of_gram / 2) / tau**2
        right += bool(evidence > 0) == bool(there)
    return Guesses(right / runs, runs, float(ndtr(budget.mu / 2)))


def inversion(
    with_target: Recommender,
    world: CoinWorld,
    *,
    draw: np.random.Generator,
    k: int = 10,
) -> tuple[float, float]:
    """Half of a target's history is known, the rest is to be found: share found among the k best
    scores, for targets that the model was made with, and for those that it was not."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for target, there in zip(world.targets, world.inside, strict=True):
        history = world.everybody.history_at(int(target))
        if len(history) < 2:
            continue
        shuffled = draw.permutation(history)
        known, hidden = shuffled[: len(history) // 2], shuffled[len(history) // 2 :]
        row = np.zeros((1, len(world.everybody.catalogue)))
        row[0, known] = 1
        scores = with_target.scores(sparse.csr_array(row))[0]
        scores[known] = -np.inf
        best = np.argsort(-scores, kind="stable")[:k]
        found[bool(there)].append(len(set(best) & set(hidden)) / min(k, len(hidden)))
    return float(np.mean(found[True])), float(np.mean(found[False]))


def _losses(rows: Array, weights: Array) -> Array:
    return np.asarray(((rows - rows @ weights) ** 2).sum(axis=1))


def _by_median(gains: Array, world: CoinWorld) -> Guesses:
    guess = gains > np.median(gains)
    return Guesses(float((guess == world.inside).mean()), len(world.targets), 1.0)
