"""Known layers in a row: the sums of the general way, and chosen where layers are known only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from tests.unit.training.private.reference import clipped, gradients
from torch import Tensor, nn

from voile.core.errors import InvalidInput
from voile.core.randomness import Seeded
from voile.training.private import (
    LayerSum,
    ModuleSum,
    PrivateSteps,
    Sgd,
    fit_module_privately,
    modules,
)
from voile.training.private.modules import known_layers

COUNT = 11
Loss = Callable[[nn.Module, tuple[Tensor, ...]], Tensor]


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Layers are initialised by torch; parts are small, so that there are several."""
    monkeypatch.setattr(modules, "AT_ONCE", 4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def labels() -> Tensor:
    return torch.arange(COUNT) % 3


def cross_entropy(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    return nn.functional.cross_entropy(network(batch[0]), batch[1], reduction="none")


def two_images(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """A record of which the network is shown two images."""
    images = batch[0].reshape(-1, 1, 7, 7)
    answers = network(images).reshape(len(batch[0]), 2, 3).sum(1)
    return nn.functional.cross_entropy(answers, batch[1], reduction="none")


def convolution() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 4, (3, 2), stride=(1, 2), padding=(1, 2), dilation=(2, 1)),
        nn.GroupNorm(2, 4),
        nn.Tanh(),
        nn.Sequential(nn.MaxPool2d(2, 1), nn.Conv2d(4, 3, 2, bias=False), nn.ReLU()),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 5),
        nn.SiLU(),
        nn.Linear(5, 3, bias=False),
    )


def of_single_images() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ELU(), nn.Flatten(), nn.Linear(50, 3)
    )


def frozen_first() -> nn.Sequential:
    network = convolution()
    network[0].requires_grad_(False)
    return network


def of_few_dimensions(records: int) -> nn.Sequential:
    """Its last convolution is shown three dimensions, and takes the records for channels."""
    last = nn.Conv2d(records, records, (4, 23)).requires_grad_(False)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(2), last, nn.Flatten())


CASES: dict[str, tuple[Callable[[], nn.Sequential], Tensor, Loss]] = {
    "convolutions": (convolution, numbers(COUNT, 2, 7, 7), cross_entropy),
    "two images a record": (of_single_images, numbers(COUNT, 2, 7, 7), two_images),
    "filters that are fixed": (frozen_first, numbers(COUNT, 2, 7, 7), cross_entropy),
    "a layer that sees three dimensions": (
        lambda: of_few_dimensions(1),
        numbers(COUNT, 2, 7, 7),
        cross_entropy,
    ),
    "a kernel as large as the image": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 7), nn.Tanh(), nn.Flatten(), nn.Linear(4, 3)),
        numbers(COUNT, 2, 7, 7),
        cross_entropy,
    ),
    "channels that are single numbers": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.GroupNorm(2, 4), nn.ReLU(), nn.Linear(4, 3)),
        numbers(COUNT, 6),
        cross_entropy,
    ),
    "linear layers": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)),
        numbers(COUNT, 6),
        cross_entropy,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sums_equal_one_backward_pass_per_record_and_the_general_way(case: str) -> None:
    make, inputs, loss = CASES[case]
    network, batch = make(), (inputs, labels())
    exact = gradients(network, loss, batch)
    wanted = np.linalg.norm(exact, axis=1)
    norm = float(np.median(wanted))
    sums, general = LayerSum(network, loss, 3), ModuleSum(network, loss, 3)
    general.add_up(batch, norm)
    for _ in range(2):  # memory is kept from step to step
        norms = sums.add_up(batch, norm)
        np.testing.assert_allclose(norms, wanted, rtol=1e-5, atol=1e-6)
        assert np.linalg.norm(sums.total - clipped(exact, norm)) <= 1e-6 * COUNT * norm
        assert np.abs(sums.total - general.total).max() <= 1e-5 * np.abs(general.total).max()


class _OwnLayer(nn.Linear):
    """May do anything."""


def tied() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


def hooked() -> nn.Module:
    network = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    network[0].register_forward_hook(lambda _module, _inputs, outputs: outputs.cumsum(0))
    return network


def replaced() -> nn.Module:
    network = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    network[1].forward = lambda rows: rows.cumsum(0)
    return network


def half_frozen() -> nn.Module:
    network = nn.Sequential(nn.Linear(4, 4))
    network[0].bias.requires_grad_(False)
    return network


UNKNOWN: dict[str, Callable[[], nn.Module]] = {
    "somebody's own layer": lambda: nn.Sequential(_OwnLayer(4, 4)),
    "one layer used twice": tied,
    "a hook": hooked,
    "another forward": replaced,
    "frozen in part": half_frozen,
    "flattens the records": lambda: nn.Sequential(nn.Linear(4, 4), nn.Flatten(0)),
    "grouped": lambda: nn.Sequential(nn.Conv2d(2, 2, 1, groups=2)),
    "padded by reflection": lambda: nn.Sequential(nn.Conv2d(1, 1, 3, padding_mode="reflect")),
    "padded by name": lambda: nn.Sequential(nn.Conv2d(1, 1, 3, padding="same")),
    "nothing to train": lambda: nn.Sequential(nn.Tanh()),
    "overwrites": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_other_networks_take_the_general_way(case: str) -> None:
    network = UNKNOWN[case]()
    assert known_layers(network) is None
    if case != "nothing to train":
        with pytest.raises(InvalidInput, match="not known"):
            LayerSum(network, cross_entropy, 4)


def asks_twice(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    found: Tensor = cross_entropy(network, batch) + network(2 * batch[0]).square().sum(1)
    return found


def asks_otherwise(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    found: Tensor = network(batch[0][0]).square().sum().reshape(1)
    return found


@pytest.mark.parametrize(
    ("case", "loss"),
    [
        ("convolutions", asks_twice),
        ("linear layers", asks_twice),
        ("linear layers", asks_otherwise),
    ],
)
def test_a_loss_that_asks_otherwise_gets_the_general_way(case: str, loss: Loss) -> None:
    make, inputs, _ = CASES[case]
    network, batch = make(), (inputs, labels())
    sums, general = LayerSum(network, loss, 3), ModuleSum(network, loss, 3)
    np.testing.assert_allclose(sums.add_up(batch, 1.0), general.add_up(batch, 1.0), rtol=1e-5)
    np.testing.assert_allclose(sums.total, general.total, rtol=1e-4, atol=1e-6)


def test_no_layer_takes_records_for_channels() -> None:
    """A part of as many records as there are channels would be mixed, and nothing would show it."""
    sums = LayerSum(of_few_dimensions(modules.AT_ONCE), cross_entropy, 3)
    with pytest.raises(RuntimeError, match="channels"):
        sums.add_up((numbers(4, 2, 7, 7), labels()[:4]), 1.0)


def test_a_loss_sees_one_record_at_a_time() -> None:
    """One that divides by what all records say bounds nothing, if it can."""
    seen = []

    def mixing(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        seen.append(len(batch[0]))
        losses = cross_entropy(network, batch)
        return losses * losses.sum()

    network, batch = convolution(), (numbers(COUNT, 2, 7, 7), labels())
    sums = LayerSum(network, mixing, 3)
    sums.add_up(batch, 1e9)
    together = sums.total.copy()
    apart = np.zeros_like(together)
    for place in range(COUNT):
        sums.add_up(tuple(part[place : place + 1] for part in batch), 1e9)
        apart += sums.total
    np.testing.assert_allclose(together, apart, rtol=1e-4, atol=1e-5)
    assert set(seen) == {1}


@pytest.mark.parametrize("value", [np.inf, 1e38, 1e25])
@pytest.mark.parametrize("case", ["convolutions", "linear layers"])
def test_a_record_without_a_finite_gradient_adds_nothing(case: str, value: float) -> None:
    make, inputs, _ = CASES[case]
    network, spoilt = make(), inputs.clone()
    spoilt[3] = value

    def squares(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        found: Tensor = network(batch[0]).square().sum(1)
        return found

    sums = LayerSum(network, squares, 4)
    norms = sums.add_up((spoilt,), 0.5)
    total = sums.total.copy()
    others = [place for place in range(COUNT) if place != 3]
    rest = sums.add_up((inputs[others],), 0.5)
    if len(norms) == COUNT:  # a group norm makes anything finite again
        assert np.linalg.norm(total - sums.total) <= 0.5 * (1 + 1e-3)
    else:
        np.testing.assert_allclose(norms, rest, rtol=1e-6)
        np.testing.assert_allclose(total, sums.total, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "slope"), [(1e-25, 1e24), (1e28, 1e-27), (1e-40, 1e36), (1e19, 1e-12)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_no_scale_of_inputs_hides_a_gradient(inputs: float, slope: float, bias: bool) -> None:
    """Squares of small or large numbers vanish or overflow in single precision."""

    def scaled(network: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        found: Tensor = slope * network(batch[0]).sum(1)
        return found

    network, norm = nn.Sequential(nn.Linear(3, 2, bias=bias)), 1e-5
    sums = LayerSum(network, scaled, 4)
    sums.add_up((torch.full((1, 3), inputs),), norm)
    assert np.linalg.norm(sums.total.astype(np.float64)) <= norm * (1 + 1e-3)


def test_training_takes_the_quick_way_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    privacy = PrivateSteps(
        clipping_norm=0.1, noise_multiplier=1.0, sampling_rate=0.5, steps=4, rows=COUNT
    )
    batch = numbers(COUNT, 2, 7, 7), labels()

    def trained() -> Tensor:
        torch.manual_seed(0)
        network = convolution()
        fit_module_privately(
            network, batch, cross_entropy, privacy, optimiser=Sgd(0.1), source=Seeded(3)
        )
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    quick = trained()
    monkeypatch.setattr(ModuleSum, "_one", None)
    assert torch.equal(trained(), quick)
    monkeypatch.undo()
    monkeypatch.setattr("voile.training.private.modules.known_layers", lambda _network: None)
    general = trained()
    assert (general - quick).abs().max() <= 1e-5
    assert not torch.equal(general, quick)
