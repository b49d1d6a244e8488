"""One step of DP-SGD beside the plain step of torch, and what Opacus takes for the same.

12-64-64-2, 256 records expected out of 5,000, Adam, one thread, in CPU time. Ours draws the records
and the noise from a stream cipher; Opacus draws its noise from torch's generator, and its records
are given to it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Figure, alternate, compare, write
from voile.core.randomness import GeneratorSource, Seeded, StreamCipher
from voile.training import perceptron
from voile.training.private import Adam, PrivateSteps, fit_privately

SEED, ROWS, BATCH, FEATURES, LINES = 0, 5_000, 256, 12, 8
STEPS, ROUNDS = 100, 15
RATE, NORM, NOISE = 1e-3, 0.5, 1.0


def run() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        figures = [*one_line(), *many_lines()]
    finally:
        torch.set_num_threads(before)
    peer = "torch: one plain step (loss, backward, fused Adam)"
    write("dp_sgd", peer, figures, seed=SEED, unit="CPU time of one thread")


def one_line() -> list[Figure]:
    import torch

    def loss(network: Any, batch: Any) -> Any:
        return torch.nn.functional.cross_entropy(network(batch[0]), batch[1], reduction="none")

    records = _records()[:2]
    plain, ours, seeded, ghost, hooks = alternate(
        [
            _plain(records, loss),
            _ours(records, loss, StreamCipher()),
            _ours(records, loss, Seeded(SEED)),
            _opacus(records, "ghost"),
            _opacus(records, "hooks"),
        ],
        rounds=ROUNDS,
    )
    return [
        compare("one line a record", _UNIT, ours, plain, at_most=1.25),
        compare("one line a record, noise of numpy's PCG64", _UNIT, seeded, plain),
        compare("Opacus, ghost clipping", _UNIT, ghost, plain),
        compare("Opacus, hooks", _UNIT, hooks, plain),
    ]


def many_lines() -> list[Figure]:
    """A surrogate's step: eight coalitions of each record, which is one sample."""

    def loss(network: Any, batch: Any) -> Any:
        rows, labels, present = batch
        logits = network(rows[:, None] * present).log_softmax(-1)
        return -logits[..., 0].mul(labels[:, None]).mean(1)

    records = _records()
    plain, ours = alternate(
        [_plain(records, loss), _ours(records, loss, StreamCipher())], rounds=ROUNDS
    )
    return [compare(f"{LINES} lines a record", _UNIT, ours, plain)]


_UNIT = "µs a step"


def _records() -> tuple[Any, ...]:
    import torch

    draw = np.random.default_rng(SEED)
    rows = torch.from_numpy(draw.normal(size=(ROWS, FEATURES)).astype(np.float32))
    present = torch.from_numpy((draw.random((ROWS, LINES, FEATURES)) < 0.5).astype(np.float32))
    return rows, (rows[:, 0] + rows[:, 1] * rows[:, 2] > 0).long(), present


def _network() -> Any:
    return perceptron(FEATURES, (64, 64), 2, np.random.default_rng(SEED))


def _timed(steps: Callable[[], None]) -> Callable[[], float]:
    def measure() -> float:
        start = time.process_time()
        steps()
        return (time.process_time() - start) / STEPS * 1e6

    return measure


def _plain(records: tuple[Any, ...], loss: Any) -> Callable[[], float]:
    import torch

    network, draw = _network(), np.random.default_rng(SEED)
    optimiser = torch.optim.Adam(network.parameters(), RATE, fused=True)

    def steps() -> None:
        for _ in range(STEPS):
            places = torch.from_numpy(draw.integers(0, ROWS, BATCH))
            batch = tuple(tensor.index_select(0, places) for tensor in records)
            optimiser.zero_grad(set_to_none=True)
            loss(network, batch).mean().backward()
            optimiser.step()

    return _timed(steps)


def _ours(records: tuple[Any, ...], loss: Any, source: GeneratorSource) -> Callable[[], float]:
    network = _network()
    privacy = PrivateSteps(
        clipping_norm=NORM,
        noise_multiplier=NOISE,
        sampling_rate=BATCH / ROWS,
        steps=STEPS,
        rows=ROWS,
    )

    def steps() -> None:
        fit_privately(network, records, loss, privacy, optimiser=Adam(RATE), source=source)

    return _timed(steps)


def _opacus(records: tuple[Any, ...], mode: str) -> Callable[[], float]:
    import torch
    from opacus import PrivacyEngine  # type: ignore[import-untyped]

    draw = np.random.default_rng(SEED)
    network = _network()
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
