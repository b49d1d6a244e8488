"""One step of DP-SGD beside the plain step of torch, and what Opacus takes for the same.

12-64-64-2, 256 records expected out of 5,000, Adam, one thread, in CPU time. Ours draws the records
and the noise from a stream cipher; Opacus draws its noise from torch's generator, and its records
are given to it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Figure, alternate, compare, write
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource, Seeded, StreamCipher
from voile.training import (
    Array,
    Batch,
    Loss,
    PlainSteps,
    Softmax,
    TargetLoss,
    divergence,
    perceptron,
)
from voile.training.private import Adam, PrivateSteps, fit_module_privately, fit_privately

SEED, ROWS, BATCH, FEATURES, LINES = 0, 5_000, 256, 12, 8
STEPS, ROUNDS = 100, 15
RATE, NORM, NOISE = 1e-3, 0.5, 1.0
PRIVACY = PrivateSteps(
    clipping_norm=NORM,
    noise_multiplier=NOISE,
    sampling_rate=BATCH / ROWS,
    steps=STEPS,
    rows=ROWS,
)


def run() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_thread():
            figures = [*one_line(), *many_lines(), *images()]
    finally:
        torch.set_num_threads(before)
    peer = "torch: one plain step (loss, backward, fused Adam)"
    write("dp_sgd", peer, figures, seed=SEED, unit="CPU time of one thread")


def one_line() -> list[Figure]:
    import torch

    def loss(network: Any, batch: Any) -> Any:
        return torch.nn.functional.cross_entropy(network(batch[0]), batch[1], reduction="none")

    rows, labels, _ = _records()
    records, tensors = (rows, np.eye(2, dtype=np.float32)[labels]), _tensors(rows, labels)
    ours = TargetLoss(Softmax())
    torch_plain, private, seeded, plain, module, ghost, hooks = alternate(
        [
            _plain_torch(tensors, loss),
            _private(records, ours, StreamCipher()),
            _private(records, ours, Seeded(SEED)),
            _plain(records, ours),
            _module(tensors, loss),
            _opacus(tensors, "ghost"),
            _opacus(tensors, "hooks"),
        ],
        rounds=ROUNDS,
    )
    return [
        compare("one line a record", _UNIT, private, torch_plain, at_most=1.0),
        compare("one line a record, noise of numpy's PCG64", _UNIT, seeded, torch_plain),
        compare("one line a record; peer: our own plain step", _UNIT, private, plain),
        compare("the same network as a torch module", _UNIT, module, torch_plain),
        compare("Opacus, ghost clipping", _UNIT, ghost, torch_plain),
        compare("Opacus, hooks", _UNIT, hooks, torch_plain),
    ]


def many_lines() -> list[Figure]:
    """A surrogate's step: eight coalitions of each record, which is one sample."""

    def loss(network: Any, batch: Any) -> Any:
        rows, labels, present = batch
        logits = network(rows[:, None] * present).log_softmax(-1)
        return -logits[..., 0].mul(labels[:, None]).mean(1)

    rows, labels, present = _records()
    records = (rows, np.eye(2, dtype=np.float32)[labels], present)
    torch_plain, private, plain = alternate(
        [
            _plain_torch(_tensors(rows, labels, present), loss),
            _private(records, _Lines(), StreamCipher()),
            _plain(records, _Lines()),
        ],
        rounds=ROUNDS,
    )
    what = f"{LINES} lines a record"
    return [
        compare(what, _UNIT, private, torch_plain, at_most=1.3),
        compare(f"{what}; peer: our own plain step", _UNIT, private, plain),
    ]


def images() -> list[Figure]:
    """Two convolutions with group norms, and a linear layer, on 128 images of 28 × 28 expected.

    The parts that differ alone: forward, backward, clipped sum. Draws, noise and optimiser take the
    same for all of them.
    """
    import torch
    from torch import nn

    from voile.training.private import LayerSum, ModuleSum

    torch.manual_seed(SEED)
    network = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1_568, 10)),
    )
    batch = torch.randn(128, 1, 28, 28), torch.randint(0, 10, (128,))

    def loss(network: Any, batch: Any) -> Any:
        return nn.functional.cross_entropy(network(batch[0]), batch[1], reduction="none")

    def plain() -> None:
        network.zero_grad(set_to_none=True)
        loss(network, batch).mean().backward()

    quick, general = LayerSum(network, loss, 64), ModuleSum(network, loss, 64)
    quick.add_up(batch, NORM)
    general.add_up(batch, NORM)
    apart = float(np.abs(quick.total - general.total).max() / np.abs(general.total).max())
    if apart > 1e-5:
        raise AssertionError(f"the two ways differ by {apart:.2g}")
    ways = (plain, lambda: quick.add_up(batch, NORM), lambda: general.add_up(batch, NORM))
    measured = [_timed(way, 1) for way in (*ways, _hooked(network, batch, loss))]
    torch_plain, mine, any_module, hooks = alternate(measured, rounds=ROUNDS)
    what = "convolutions: clipped sum"
    return [
        compare(what, _UNIT, mine, torch_plain, at_most=1.6),
        compare(f"{what}; peer: the general way", _UNIT, mine, any_module, at_most=1.0),
        compare(f"{what}; peer: Opacus, hooks", _UNIT, mine, hooks, at_most=1.0),
    ]


def _hooked(network: Any, batch: Any, loss: Any) -> Callable[[], None]:
    """Opacus' gradients for each record, and their clipped sum."""
    import copy

    import torch
    from opacus import GradSampleModule  # type: ignore[import-untyped]

    hooked = GradSampleModule(copy.deepcopy(network), loss_reduction="sum")

    def step() -> None:
        hooked.zero_grad(set_to_none=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss(hooked, batch).sum().backward()
        rows = [p.grad_sample for p in hooked.parameters()]
        squares = sum(each.flatten(1).square().sum(1) for each in rows)
        weights = (NORM / squares.sqrt()).clamp(max=1)
        for each in rows:
            torch.tensordot(weights, each, 1)

    return step


_UNIT = "µs a step"


@dataclass(frozen=True)
class _Lines:
    """The mean divergence over the lines of a record. Batch: rows, targets, who is present."""

    def inputs(self, batch: Batch) -> Array:
        found: Array = batch[0][:, np.newaxis] * batch[2]
        return found

    def values(self, logits: Array, batch: Batch) -> Array:
        found: Array = divergence.values(Softmax(), logits, batch[1][:, np.newaxis]).mean(axis=1)
        return found

    def slopes(self, logits: Array, batch: Batch) -> Array:
        found = divergence.slopes(Softmax(), logits, batch[1][:, np.newaxis])
        found /= logits.shape[1]
        return found


def _records() -> tuple[Any, ...]:
    draw = np.random.default_rng(SEED)
    rows = draw.normal(size=(ROWS, FEATURES)).astype(np.float32)
    present = (draw.random((ROWS, LINES, FEATURES)) < 0.5).astype(np.float32)
    return rows, (rows[:, 0] + rows[:, 1] * rows[:, 2] > 0).astype(np.int64), present


def _tensors(*arrays: Any) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_numpy(array) for array in arrays)


def _torch_network() -> Any:
    from torch import nn

    layers = (nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    return nn.Sequential(*layers)


def _timed(steps: Callable[[], object], count: int = STEPS) -> Callable[[], float]:
    def measure() -> float:
        start = time.process_time()
        steps()
        return (time.process_time() - start) / count * 1e6

    return measure


def _plain_torch(records: tuple[Any, ...], loss: Any) -> Callable[[], float]:
    import torch

    network, draw = _torch_network(), np.random.default_rng(SEED)
    optimiser = torch.optim.Adam(network.parameters(), RATE, fused=True)

    def steps() -> None:
        for _ in range(STEPS):
            places = torch.from_numpy(draw.integers(0, ROWS, BATCH))
            batch = tuple(tensor.index_select(0, places) for tensor in records)
            optimiser.zero_grad(set_to_none=True)
            loss(network, batch).mean().backward()
            optimiser.step()

    return _timed(steps)


def _plain(records: Batch, loss: Loss) -> Callable[[], float]:
    draw = np.random.default_rng(SEED)
    ours = PlainSteps(perceptron(FEATURES, (64, 64), 2, draw), loss, Adam(RATE))

    def steps() -> None:
        for _ in range(STEPS):
            places = draw.integers(0, ROWS, BATCH)
            ours.step(tuple(part[places] for part in records))

    return _timed(steps)


def _private(records: Batch, loss: Loss, source: GeneratorSource) -> Callable[[], float]:
    network = perceptron(FEATURES, (64, 64), 2, np.random.default_rng(SEED))
    return _timed(
        lambda: fit_privately(network, records, loss, PRIVACY, optimiser=Adam(RATE), source=source)
    )


def _module(records: tuple[Any, ...], loss: Any) -> Callable[[], float]:
    """The general way: one gradient for each record, whatever the network is."""
    network = _torch_network()
    return _timed(
        lambda: fit_module_privately(network, records, loss, PRIVACY, optimiser=Adam(RATE))
    )


def _opacus(records: tuple[Any, ...], mode: str) -> Callable[[], float]:
    import torch
    from opacus import PrivacyEngine

    draw = np.random.default_rng(SEED)
    network = _torch_network()
    given: dict[str, Any] = {
        "module": network,
        "optimizer": torch.optim.Adam(network.parameters(), RATE, fused=True),
        "data_loader": torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*records), batch_size=BATCH
        ),
        "noise_multiplier": NOISE,
        "max_grad_norm": NORM,
        "poisson_sampling": False,
        "grad_sample_mode": mode,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if mode == "ghost":
            made, optimiser, criterion, _ = PrivacyEngine().make_private(
                **given, criterion=torch.nn.CrossEntropyLoss()
            )
        else:
            made, optimiser, _ = PrivacyEngine().make_private(**given)
            criterion = torch.nn.CrossEntropyLoss()

    def steps() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(STEPS):
                places = torch.from_numpy(draw.integers(0, ROWS, BATCH))
                rows, labels = (tensor.index_select(0, places) for tensor in records)
                optimiser.zero_grad(set_to_none=True)
                criterion(made(rows), labels).backward()
                optimiser.step()

    return _timed(steps)
