"""Networks that are not perceptrons: same sums, refused where records would mix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tests.unit.training.private.reference import clipped, gradients
from tests.unit.training.private.stubs import Known, KnownSource, Showing
from torch import Tensor, nn

from voile.core.errors import InvalidInput, Refused
from voile.core.randomness import Seeded
from voile.training.private import (
    Adam,
    ModuleSum,
    PrivateSteps,
    Sgd,
    TrainingSpeed,
    fit_module_privately,
)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Layers here are initialised by torch."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


class Recommender(nn.Module):
    """Two embeddings, one of them used twice, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(9, 4)
        self.users = nn.Embedding(5, 4)
        self.last = nn.Linear(4, 1)

    def forward(self, ids: Tensor) -> Tensor:
        seen = self.items(ids[:, 1]) * self.users(ids[:, 0]) + self.items(ids[:, 2])
        found: Tensor = self.last(seen)
        return found


def squared(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    found: Tensor = (network(batch[0])[:, 0] - batch[1]).square()
    return found


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def ids() -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(0, top, (11,), generator=draw) for top in (5, 9, 9)], 1)


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
        nn.Conv2d(4, 2, 3, stride=2),
        nn.Flatten(),
        nn.LayerNorm(8),
        nn.Linear(8, 1),
    )


def tied() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(4, 1))


CASES = {
    "embedding": (Recommender, ids()),
    "convolution and group norm": (convolution, numbers(11, 1, 7, 7)),
    "one layer used twice": (tied, numbers(11, 4)),
    "no bias": (lambda: nn.Sequential(nn.Linear(4, 1, bias=False)), numbers(11, 4)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_any_module_equals_one_backward_pass_per_record(case: str, chunk: int) -> None:
    make, inputs = CASES[case]
    network = make()
    batch = (inputs, numbers(11))
    exact = gradients(network, squared, batch)
    wanted = np.linalg.norm(exact, axis=1)
    norm = float(np.median(wanted))
    sums = ModuleSum(network, squared, chunk)
    norms = sums.add_up(batch, norm)
    assert np.linalg.norm(sums.total - clipped(exact, norm)) <= 1e-6 * len(inputs) * norm
    np.testing.assert_allclose(norms, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm1d(4), "'1' .BatchNorm1d. mixes records"),
        (nn.SyncBatchNorm(4), "mixes records"),
        (nn.InstanceNorm1d(4, track_running_stats=True), "mixes records"),
        (nn.Dropout(0.5), "global generator"),
    ],
)
def test_layers_that_mix_records_or_draw_are_refused(layer: nn.Module, message: str) -> None:
    network = nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 1))
    with pytest.raises(Refused, match=message):
        ModuleSum(network, squared, 8)


class _KeepsAMean(nn.Module):
    """Notes in a buffer what it sees, and shows it to the next record."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(3, 1)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, rows: Tensor) -> Tensor:
        self.mean = 0.5 * self.mean + 0.5 * rows.mean(0)
        found: Tensor = self.last(rows - self.mean)
        return found


def test_what_a_network_notes_of_a_record_in_a_buffer_is_forgotten() -> None:
    network, batch = _KeepsAMean(), (numbers(11, 3), numbers(11))
    before = network.mean
    sums, alone = ModuleSum(network, squared, 4), ModuleSum(network, squared, 1)
    sums.add_up(batch, 0.1)
    total = np.zeros_like(sums.total)
    for place in range(11):
        alone.add_up((batch[0][place : place + 1], batch[1][place : place + 1]), 0.1)
        total += alone.total
    assert network.mean is before
    assert not before.any()
    np.testing.assert_allclose(sums.total, total, atol=1e-6)


def test_frozen_parameters_stay_and_the_rest_moves() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    first = next(iter(network.parameters()))
    first.requires_grad_(False)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    fit_module_privately(
        network,
        (numbers(11, 4), numbers(11)),
        squared,
        PrivateSteps(clipping_norm=1.0, noise_multiplier=1.0, sampling_rate=0.5, steps=3, rows=11),
        optimiser=Adam(0.1),
        source=Seeded(0),
        speed=TrainingSpeed(chunk=4),
    )
    moved = [bool((a != b).all()) for a, b in zip(before, network.parameters(), strict=True)]
    assert moved == [False, True, True, True]


def test_a_run_that_breaks_off_changes_nothing_and_losses_are_looked_at() -> None:
    network, batch = nn.Linear(4, 1), (numbers(11, 4), numbers(11))
    before = [parameter.detach().clone() for parameter in network.parameters()]
    privacy = PrivateSteps(
        clipping_norm=1.0, noise_multiplier=1.0, sampling_rate=1.0, steps=3, rows=11
    )

    def stop(done: int, _steps: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_module_privately(
            network,
            batch,
            squared,
            privacy,
            optimiser=Sgd(0.1),
            speed=TrainingSpeed(progress=stop),
        )
    assert all(map(torch.equal, before, network.parameters()))
    with pytest.raises(InvalidInput, match="one figure for each record"):
        fit_module_privately(
            network, batch, lambda net, part: net(part[0]), privacy, optimiser=Sgd(0.1)
        )


def test_a_blank_record_is_like_none() -> None:
    """The loop is that of perceptrons: a NaN in any tensor blanks the record."""
    batch = (numbers(11, 4), numbers(11))
    batch[1][3:] = float("nan")
    privacy = PrivateSteps(
        clipping_norm=1.0, noise_multiplier=1.0, sampling_rate=1.0, steps=1, rows=11
    )
    network, seen = nn.Linear(4, 1), Showing()
    exact = gradients(network, squared, (batch[0][:3], batch[1][:3]))
    source = KnownSource(Known(normal=0.0))
    fit_module_privately(network, batch, squared, privacy, optimiser=seen, source=source)
    np.testing.assert_allclose(seen.gradients[0], clipped(exact, 1.0) / 11, rtol=0, atol=1e-6)


def test_parameters_must_be_float32_and_exist() -> None:
    privacy = PrivateSteps(
        clipping_norm=1.0, noise_multiplier=1.0, sampling_rate=0.5, steps=3, rows=11
    )
    batch = (numbers(11, 4), numbers(11))
    with pytest.raises(InvalidInput, match="float64"):
        fit_module_privately(nn.Linear(4, 1).double(), batch, squared, privacy, optimiser=Sgd(0.1))
    with pytest.raises(InvalidInput, match="no parameters"):
        fit_module_privately(nn.Identity(), batch, squared, privacy, optimiser=Sgd(0.1))
