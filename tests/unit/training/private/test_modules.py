"""Networks that are not perceptrons: same sums, refused where records would mix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.unit.training.private.reference import clipped, gradients
from torch import Tensor, nn

from voile.core.errors import InvalidInput, Refused
from voile.core.randomness import Seeded
from voile.training import Batch
from voile.training.private import (
    Adam,
    FlatParameters,
    ModuleSum,
    PrivateSteps,
    Sgd,
    TrainingSpeed,
    fit_privately,
)
from voile.training.private.perceptrons import is_perceptron


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


def squared(network: nn.Module, batch: Batch) -> Tensor:
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
    assert not is_perceptron(network)
    batch = (inputs, numbers(11))
    exact = gradients(network, squared, batch)
    norm = float(exact.norm(dim=1).median())
    sums = ModuleSum(network, FlatParameters(network), chunk)
    norms = sums.add_up(squared, batch, norm)
    assert float((sums.total - clipped(exact, norm)).norm()) <= 1e-6 * len(inputs) * norm
    torch.testing.assert_close(norms, exact.norm(dim=1), rtol=1e-5, atol=1e-6)


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
        ModuleSum(network, FlatParameters(network), 8)


def test_frozen_parameters_stay_and_the_rest_moves() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    first = next(iter(network.parameters()))
    first.requires_grad_(False)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    fit_privately(
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


def test_a_shared_activation_is_still_a_perceptron() -> None:
    bend = nn.ReLU()
    assert is_perceptron(nn.Sequential(nn.Linear(2, 3), bend, nn.Linear(3, 3), bend))
    assert not is_perceptron(nn.Sequential(nn.ReLU(), nn.Linear(2, 3)))
    assert not is_perceptron(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Tanh()))
    assert not is_perceptron(nn.Sequential(nn.Linear(2, 3), nn.GELU()))
    assert not is_perceptron(nn.Sequential())
    assert not is_perceptron(nn.Linear(2, 3))


def test_parameters_must_be_float32_and_exist() -> None:
    privacy = PrivateSteps(
        clipping_norm=1.0, noise_multiplier=1.0, sampling_rate=0.5, steps=3, rows=11
    )
    batch = (numbers(11, 4), numbers(11))
    with pytest.raises(InvalidInput, match="float64"):
        fit_privately(nn.Linear(4, 1).double(), batch, squared, privacy, optimiser=Sgd(0.1))
    with pytest.raises(InvalidInput, match="no parameters"):
        fit_privately(nn.Identity(), batch, squared, privacy, optimiser=Sgd(0.1))
