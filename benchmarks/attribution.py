"""Attributions beside shap and captum: one thread, alternating, in CPU time.

The network has 12-64-64-2 units and is passed as a plain callable; 100 background rows. CPU time of
one thread is what both sides are measured in, because it does not depend on who else uses the
machine. Growth is measured for exact values, with the share of time spent inside the model.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are loaded

import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from experiments.lib.datasets import loaders
from experiments.lib.datasets.catalogue import SOURCES
from numpy.typing import NDArray

from benchmarks.harness import Figure, alternate, compare, write
from voile.attribution import (
    CONSTANT_WORK,
    Evaluations,
    ExactShapley,
    IntegratedGradients,
    KernelShapley,
    PermutationShapley,
    Speed,
)
from voile.core.errors import InvalidInput
from voile.models import wrap

SEED = 7
Array = NDArray[np.float64]
Callable_ = Callable[[Array], Array]


@dataclass
class Timed:
    """A model that knows how much CPU time was spent inside it."""

    model: Callable_
    seconds: float = 0.0

    def __call__(self, rows: Array) -> Array:
        start = time.process_time()
        answers = self.model(rows)
        self.seconds += time.process_time() - start
        return answers


def network(features: int, rows: Array, labels: Array) -> Any:
    """A trained network that gives probabilities."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    sizes = [(features, 64), (64, 64)]
    layers = [part for a, b in sizes for part in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(64, 2), torch.nn.Softmax(1))
    optimiser = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=1e-3)
    inputs = torch.tensor(rows, dtype=torch.float32)
    targets = torch.tensor(labels, dtype=torch.long)
    for _ in range(60):
        optimiser.zero_grad()
        loss = torch.nn.functional.nll_loss(torch.log(net(inputs) + 1e-9), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net.eval()


def plain(net: Any) -> Callable_:
    """The network as a user would write it down for any explainer."""
    import torch

    def predict(rows: Array) -> Array:
        with torch.no_grad():
            answers: Array = net(torch.from_numpy(np.asarray(rows, dtype=np.float32))).numpy()
        return answers

    return predict


def continuous(
    players: int = 12, background: int = 100, rows: int = 40
) -> tuple[Any, Array, Array]:
    draw = np.random.default_rng(SEED)
    x = draw.normal(size=(4000, players))
    risk = 1.2 * x[:, 0] + np.sin(2 * x[:, 1]) + x[:, 2] * x[:, 3] - x[:, 4] * x[:, 5]
    labels = (risk + 0.3 * draw.normal(size=len(x)) > 0).astype(float)
    net = network(players, x, labels)
    return net, draw.normal(size=(background, players)), draw.normal(size=(rows, players))


def rate(work: Callable[[], Any], rows: int, *, at_least: float = 0.3) -> float:
    """Rows per CPU second."""
    done, start = 0, time.process_time()
    while (spent := time.process_time() - start) < at_least:
        work()
        done += rows
    return done / spent


def exact_beside_shap(
    name: str,
    model: Callable_,
    background: Array,
    rows: Array,
    target: float,
    ours_rows: int,
    peer_rows: int,
) -> list[Figure]:
    import shap

    masker = shap.maskers.Independent(background, max_samples=len(background))
    theirs, ours = shap.explainers.Exact(model, masker), ExactShapley(model, background)
    agree = np.abs(ours(rows[:2]).values - theirs(rows[:2], silent=True).values).max()
    assert agree < 1e-6, agree

    def each(explain: Callable[[Array], Any], size: int) -> float:
        """Calls of `size` rows; small ones over twenty different rows, which cost differently."""
        starts = range(0, max(20, size), size)
        return rate(lambda: [explain(rows[s : s + size]) for s in starts], len(starts) * size)

    mine, peer = alternate(
        [
            lambda: each(ours, ours_rows),
            lambda: each(lambda part: theirs(part, silent=True), peer_rows),
        ],
        rounds=3,
    )
    figures = [compare(name, "rows/CPU s", mine, peer, at_least=target)]
    timed = Timed(model)
    inside = ExactShapley(timed, background)
    start = time.process_time()
    inside(rows[:ours_rows])
    share = timed.seconds / (time.process_time() - start)
    figures.append(Figure(f"{name}: share inside the model", "share", share, None, None))
    return figures


def on_continuous_data() -> list[Figure]:
    net, background, rows = continuous()
    return exact_beside_shap(
        "exact, continuous, 12 features", plain(net), background, rows, 2.0, 4, 2
    )


def dutch() -> tuple[Callable_, Array, Array] | None:
    try:
        data = loaders.dutch_census()
    except InvalidInput as error:
        print(f"left out: {error}")
        return None
    scale = data.rows.max(axis=0)
    net = network(11, data.rows[::10] / scale, data.labels[::10])
    inner = plain(net)
    order = np.random.default_rng(SEED).permutation(len(data))
    rows = data.rows[order]
    return (lambda given: inner(given / scale)), rows[:100], rows[100:2100]


def on_dutch() -> list[Figure]:
    found = dutch()
    if found is None:
        return []
    model, background, rows = found
    figures = []
    for count in (1, 10, 1000):
        figures += exact_beside_shap(
            f"exact, Dutch, 11 features, {count} rows a call",
            model,
            background,
            rows,
            5.0,
            count,
            min(count, 10),
        )
    constant = ExactShapley(model, background, speed=Speed(short_cuts=CONSTANT_WORK))
    slow = rate(lambda: constant(rows[:4]), 4)
    figures.append(Figure("exact, Dutch, constant work", "rows/CPU s", slow, None, None))
    return figures


def kernel_beside_shap() -> list[Figure]:
    """At equal error: the least effort of ours whose error is at most shap's."""
    import shap

    net, background, rows = continuous()
    inner = plain(net)

    def model(given: Array) -> Array:
        return inner(given)[:, 1].astype(np.float64)

    truth = ExactShapley(model, background)(rows).values[:, :, 0]
    figures = []
    for samples, peer_rows in ((200, 20), (500, 16), (1000, 8), ("auto", 4)):
        theirs = shap.KernelExplainer(model, background)

        def peer(theirs: Any = theirs, samples: Any = samples, count: int = peer_rows) -> Array:
            found = theirs.shap_values(
                rows[:count], nsamples=samples, silent=True, l1_reg="num_features(12)"
            )
            return np.asarray(found)

        error = root_mean_square(np.concatenate([peer(count=len(rows))]) - truth)
        for method in (KernelShapley, PermutationShapley):
            effort = least_effort(method, model, background, rows, truth, error)
            explainer = method(model, background, effort=Evaluations(effort))
            mine, other = alternate(
                [
                    lambda e=explainer: rate(lambda: e(rows[:20]), 20),  # type: ignore[misc]
                    lambda p=peer, n=peer_rows: rate(p, n),  # type: ignore[misc]
                ],
                rounds=5,
            )
            name = "kernel" if method is KernelShapley else "permutation"
            figures.append(
                compare(
                    f"{name}, {effort:,} evaluations, shap's Kernel {samples} (error {error:.2g})",
                    "rows/CPU s",
                    mine,
                    other,
                    at_least=5.0 if method is KernelShapley else None,
                )
            )
    return figures


def root_mean_square(gaps: Array) -> float:
    return float(np.sqrt(np.mean(gaps**2)))


def least_effort(
    method: Any, model: Callable_, background: Array, rows: Array, truth: Array, error: float
) -> int:
    for effort in np.unique(np.geomspace(1_000, 400_000, 40).astype(int)):
        found = method(model, background, effort=Evaluations(int(effort)))(rows)
        if root_mean_square(found.values[:, :, 0] - truth) <= error:
            return int(effort)
    raise AssertionError("no effort reaches the error")


def gradients_beside_captum() -> list[Figure]:
    import torch
    from captum.attr import IntegratedGradients as Captum  # type: ignore[import-untyped]

    net, _, _ = continuous()
    rows = np.random.default_rng(SEED).normal(size=(256, 12))
    inputs = torch.tensor(rows, dtype=torch.float32)
    model = wrap(net, output_names=("no", "yes")).only("yes")
    ours, theirs = IntegratedGradients(model), Captum(net)
    figures = []
    for batch in (1, 256):
        expected = theirs.attribute(inputs[:batch], target=1, n_steps=50).detach().numpy()
        assert np.abs(ours(rows[:batch]).values[:, :, 0] - expected).max() < 1e-6

        def peer(batch: int = batch) -> Any:
            return theirs.attribute(inputs[:batch], target=1, n_steps=50)

        mine, other = alternate(
            [
                lambda b=batch: rate(lambda: ours(rows[:b]), b),  # type: ignore[misc]
                lambda b=batch, p=peer: rate(p, b),  # type: ignore[misc]
            ],
            rounds=9,
        )
        figures.append(
            compare(
                f"integrated gradients, 50 steps, batch {batch}",
                "rows/CPU s",
                mine,
                other,
                at_least=8.0,
            )
        )
        figures.append(_share_inside(net, rows[:batch], mine))
    return figures


def _share_inside(net: Any, rows: Array, ours: float) -> Figure:
    """What forward and backward alone take, for all steps of all rows at once."""
    import torch

    path = torch.tensor(np.repeat(rows, 50, axis=0), dtype=torch.float32)

    def bare() -> None:
        for first in range(0, len(path), 4096):
            given = path[first : first + 4096].clone().requires_grad_(True)
            torch.autograd.grad(net(given)[:, 1].sum(), given)

    share = ours / rate(bare, len(rows))
    return Figure(
        f"integrated gradients, batch {len(rows)}: share inside", "share", share, None, None
    )


def growth() -> list[Figure]:
    """CPU time and peak memory of exact values; the memory of torch itself is not in it."""
    figures = []
    for players in (6, 8, 10, 12, 14, 16, 18, 20):
        net, background, rows = continuous(max(players, 6), 10, 1)
        figures += _cost(f"{players} players, 10 background rows, 1 row", net, background, rows)
    for background_rows in (10, 100, 1_000, 10_000):
        net, background, rows = continuous(8, background_rows, 1)
        name = f"8 players, {background_rows:,} background rows, 1 row"
        figures += _cost(name, net, background, rows)
    for count in (1, 100, 10_000, 100_000):
        net, background, rows = continuous(6, 10, count)
        figures += _cost(f"6 players, 10 background rows, {count:,} rows", net, background, rows)
    return figures


def _cost(name: str, net: Any, background: Array, rows: Array) -> list[Figure]:
    timed = Timed(plain(net))
    explainer = ExactShapley(timed, background)
    explainer(rows[:1])
    timed.seconds = 0.0
    start = time.process_time()
    explainer(rows)
    spent = time.process_time() - start
    share = timed.seconds / max(spent, 1e-9)
    tracemalloc.start()
    explainer(rows)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return [
        Figure(f"exact, {name}", "CPU s", spent, None, None),
        Figure(f"exact, {name}: share inside the model", "share", share, None, None),
        Figure(f"exact, {name}: peak of arrays", "MiB", peak, None, None),
    ]


def run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shap and captum warn about matplotlib and hooks
        import torch

        torch.set_num_threads(1)
        figures = [
            *on_continuous_data(),
            *gradients_beside_captum(),
            *kernel_beside_shap(),
            *on_dutch(),
            *growth(),
        ]
    write(
        "attribution",
        "shap 0.51 and captum 0.9, same model, same rows",
        figures,
        seed=SEED,
        data_checksum=SOURCES["dutch_census"].checksum,
    )
