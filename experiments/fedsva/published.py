"""FedSVA and the methods it is compared with, **as published**: none of this is a guarantee.

Algorithm 1 with a linear layer: a share of the clients trains locally on batches whose mean
gradient is clipped to C, adds Gaussian noise to the weights, and the server averages. Methods
differ in the noise. [10], [13], [15] and [16] are the paper's references; it gives no formula for
them, so what is theirs is taken from their abstracts, in the simplest form that has the idea.

What the paper leaves open is decided here: the batch has 32 rows (delta is its reciprocal), a tenth
of a client's rows is its validation part, the utility of no group is that of the model before
training (so that R is a share of what training gained), R counts as 1 where nothing was gained, and
the baseline beta is 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from experiments.fedsva.data import Federation, groups_of
from experiments.fedsva.filters import Floats

BATCH, EPOCHS, ACTIVE, BETA = 32, 2, 0.1, 1.0
DELTA: Final = 1 / BATCH
PRINTED_NORM: Final = 20.0
ORDERS: Final = 5
"""Sampled orders of groups, where there are more than five groups."""
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """Everything but the method; the norm was chosen on other data, see `freezing`."""

    epsilon: float
    rounds: int
    seed: int
    norm: float
    rate: float
    groups: int = 2

    @property
    def taking_part(self) -> float:
        """Expected participations of a client."""
        return ACTIVE * self.rounds


@dataclass
class Trained:
    """One run, round by round.

    Args:
        accuracy: on rows held out.
        private_accuracy: of the last round, on rows of the private group.
        noise: length of the noise of one client, mean over those that took part.
        sigma: its standard deviation in units of 2C/rows, mean over those that took part.
        epsilon: what the method says the round costs.
        outside: share of contribution rates that are undefined or outside [0, 1].
        rate_mean: mean of those that are inside.
    """

    accuracy: list[float] = field(default_factory=list)
    private_accuracy: float = 0.0
    noise: list[float] = field(default_factory=list)
    sigma: list[float] = field(default_factory=list)
    epsilon: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)
    rate_mean: list[float] = field(default_factory=list)
    seconds: float = 0.0
    weights: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class Round:
    """What a method sees of a round: of the clients that take part."""

    setting: Setting
    number: int
    size: int
    gradient_norms: Numbers
    rates: Numbers

    @property
    def unit(self) -> float:
        """2C/rows, which is called the sensitivity."""
        return 2 * self.setting.norm / self.size


Noise = Callable[[Round], Numbers]
"""Standard deviation of the noise of each client that takes part."""
CLASSIC: Final = math.sqrt(2 * math.log(1.25 / DELTA))


def _spent(seen: Round, shares: Numbers) -> float:
    """The epsilon of a round, if shares of T·epsilon are spread over rounds."""
    total = seen.setting.epsilon * seen.setting.rounds
    return float(total * shares[seen.number] / shares.sum())


def geometric(seen: Round) -> float:
    """Time-varying [15]: amplitudes fall geometrically, to a quarter in the last round."""
    return _spent(seen, np.geomspace(1, 4, seen.setting.rounds))


def growing(seen: Round) -> float:
    """Dynamic allocation [16]: epsilon grows with the square root of the round."""
    return _spent(seen, np.sqrt(np.arange(1, seen.setting.rounds + 1)))


def constant(seen: Round) -> float:
    return seen.setting.epsilon


def _even(seen: Round, factor: float) -> Numbers:
    return np.full(len(seen.rates), seen.unit * factor)


def fedsva(seen: Round) -> Numbers:
    tolerance = np.maximum(seen.rates - math.log(DELTA**2), BETA)
    found: Numbers = seen.unit * np.sqrt(tolerance) / seen.setting.epsilon
    return found


def re_estimated(seen: Round) -> Numbers:
    """Sensitivity re-estimation [13]: the client's median gradient of the round stands for C."""
    shrunk: Numbers = seen.gradient_norms / seen.setting.norm
    return seen.unit * CLASSIC / seen.setting.epsilon * np.minimum(shrunk, 1)


@dataclass(frozen=True)
class Method:
    """A line of Table 1."""

    name: str
    noise: Noise | None
    epsilon_of: Callable[[Round], float] = constant
    rate: float | None = None
    measures: bool = False

    def rated(self, rate: float) -> Method:
        """FedSVA with a contribution rate that is set, not measured."""
        return replace(self, name=f"{self.name}, R = {rate:g}", rate=rate, measures=False)


def by_epsilon(name: str, epsilon_of: Callable[[Round], float]) -> Method:
    return Method(name, lambda seen: _even(seen, CLASSIC / epsilon_of(seen)), epsilon_of)


FEDAVG: Final = Method("FedAvg", None)
NBAFL: Final = Method(
    "NbAFL",
    lambda seen: _even(seen, CLASSIC * seen.setting.taking_part / seen.setting.epsilon),
    lambda seen: seen.setting.epsilon / seen.setting.taking_part,
)
NBAFL_ONE: Final = by_epsilon("NbAFL, L = 1", constant)
TIME_VARYING: Final = by_epsilon("time-varying DP", geometric)
RE_ESTIMATED: Final = Method("sensitivity re-estimation", re_estimated)
ALLOCATION: Final = by_epsilon("dynamic privacy allocation", growing)
FEDSVA: Final = Method("FedSVA", fedsva, measures=True)
METHODS: Final = (NBAFL, TIME_VARYING, RE_ESTIMATED, ALLOCATION, FEDSVA)


def train(
    data: Federation, method: Method, setting: Setting, *, until: float | None = None
) -> Trained:
    """Algorithm 1; with `until`, the first round with this accuracy is the last one."""
    found, start = Trained(), time.process_time()
    draw = np.random.default_rng([setting.seed, 1])
    noises = np.random.default_rng([setting.seed, 2])  # the same for all methods
    x, test = with_bias(data.x), with_bias(data.test_x)
    weights = np.zeros((x.shape[2], data.classes), dtype=np.float32)
    held = max(1, data.rows // 10)
    for number in range(setting.rounds):
        chosen = draw.choice(len(x), max(1, round(ACTIVE * len(x))), replace=False)
        own = LocalRows(data, x[chosen], data.y[chosen], held)
        batches = own.batches(draw)
        local, norms = own.fit(weights, None, batches, setting)
        rates = np.full(len(chosen), 1.0 if method.rate is None else method.rate)
        if method.measures:
            rates = own.rates(weights, local, batches, setting, np.random.default_rng(number))
            inside = (rates >= 0) & (rates <= 1)
            found.outside.append(float(1 - inside.mean()))
            found.rate_mean.append(float(rates[inside].mean()) if inside.any() else math.nan)
            rates = np.where(np.isfinite(rates), rates, 1.0)
        seen = Round(setting, number, data.rows, norms, rates)
        drawn = noises.standard_normal(local.shape, dtype=np.float32)
        if method.noise is not None:
            sigma = method.noise(seen)
            noise = drawn * sigma[:, None, None].astype(np.float32)
            local = local + noise
            found.noise.append(float(np.linalg.norm(noise, axis=(1, 2)).mean()))
            found.sigma.append(float(sigma.mean() / seen.unit))
            found.epsilon.append(method.epsilon_of(seen))
        weights = local.mean(axis=0)
        right = (test @ weights).argmax(axis=1) == data.test_y
        found.accuracy.append(float(right.mean()))
        if until is not None and found.accuracy[-1] >= until:
            break
    found.private_accuracy = float(right[data.private_test].mean())
    found.seconds, found.weights = time.process_time() - start, weights.tolist()
    return found


def with_bias(x: Floats) -> Floats:
    return np.concatenate([x, np.ones((*x.shape[:-1], 1), dtype=np.float32)], axis=-1)


class LocalRows:
    """Rows of the clients of a round; the last tenth is the validation part."""

    def __init__(self, data: Federation, x: Floats, y: NDArray[np.intp], held: int) -> None:
        self.data, self.held = data, held
        self.x, self.y = x[:, :-held], y[:, :-held]
        self.valid_x, self.valid_y = x[:, -held:], y[:, -held:]
        self.targets = np.eye(data.classes, dtype=np.float32)[self.y]

    def batches(self, draw: np.random.Generator) -> list[NDArray[np.intp]]:
        """Places of the batches of all epochs; the same for every coalition."""
        rows = self.x.shape[1]
        orders = [draw.permutation(rows) for _ in range(EPOCHS)]
        return [order[s : s + BATCH] for order in orders for s in range(0, rows, BATCH)]

    def fit(
        self,
        weights: Floats,
        groups: frozenset[int] | None,
        batches: list[NDArray[np.intp]],
        setting: Setting,
    ) -> tuple[Floats, Numbers]:
        """Weights of each client after local training on these groups (None: all), and the median
        norm of its gradients before clipping."""
        x, kept = self._of(groups, setting.groups)
        local, norms = np.repeat(weights[None], len(x), axis=0), []
        for places in batches:
            lines, wanted = x[:, places], self.targets[:, places]
            errors = softmax(lines @ local) - wanted
            share = kept[:, places] / np.maximum(kept[:, places].sum(axis=1, keepdims=True), 1)
            errors *= share[..., np.newaxis]
            gradient = lines.swapaxes(1, 2) @ errors
            norm = np.linalg.norm(gradient, axis=(1, 2))
            norms.append(norm)
            factor = setting.rate * np.minimum(1, setting.norm / np.maximum(norm, 1e-12))
            local -= gradient * factor[:, None, None].astype(np.float32)
        return local, np.median(norms, axis=0)

    def _of(self, groups: frozenset[int] | None, count: int) -> tuple[Floats, Floats]:
        """Rows of some groups: other columns are blank, or other rows weigh nothing."""
        ones = np.ones(self.x.shape[:2], dtype=np.float32)
        if groups is None:
            return self.x, ones
        if self.data.by_columns:
            shown = np.where(self.data.private, 0 in groups, 1 in groups)
            return np.where(np.append(shown, True), self.x, np.append(self.data.blank, 1)), ones
        of_rows = groups_of(self.y, self.data.classes, count)
        return self.x, np.isin(of_rows, list(groups)).astype(np.float32)

    def utility(self, local: Floats) -> Numbers:
        """Validation accuracy of each client's model, or of one model at each client."""
        found: Numbers = ((self.valid_x @ local).argmax(axis=-1) == self.valid_y).mean(axis=1)
        return found

    def rates(
        self,
        weights: Floats,
        local: Floats,
        batches: list[NDArray[np.intp]],
        setting: Setting,
        draw: np.random.Generator,
    ) -> Numbers:
        """R of each client: the private group's share of the sum of Shapley values."""
        count = setting.groups
        known = {
            frozenset[int](): self.utility(weights),
            frozenset(range(count)): self.utility(local),
        }

        def utility(groups: frozenset[int]) -> Numbers:
            if groups not in known:
                known[groups] = self.utility(self.fit(weights, groups, batches, setting)[0])
            return known[groups]

        orders = [tuple(draw.permutation(count)) for _ in range(ORDERS)]
        if count <= 5:
            orders = list(permutations(range(count)))
        gains = [
            utility(frozenset(order[: order.index(0) + 1]))
            - utility(frozenset(order[: order.index(0)]))
            for order in orders
        ]
        whole = utility(frozenset(range(count))) - utility(frozenset())  # the values add up to it
        with np.errstate(all="ignore"):
            found: Numbers = np.mean(gains, axis=0) / whole
        return found


def softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: Floats = shifted / shifted.sum(axis=-1, keepdims=True)
    return found
