"""Both ways of clipping equal one backward pass per record, and Opacus."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.unit.training.private.reference import clipped, gradients
from torch import Tensor, nn

from voile.training import Batch, perceptron
from voile.training.private import FlatParameters, ModuleSum, PerceptronSum

Make = Callable[[nn.Module, FlatParameters], PerceptronSum | ModuleSum]
WAYS: dict[str, Make] = {
    "perceptron": lambda network, flat: PerceptronSum(network, flat),  # type: ignore[arg-type]
    "any module": lambda network, flat: ModuleSum(network, flat, chunk=7),
}


def network_of(activation: type[nn.Module], seed: int, *, last: bool = False) -> nn.Sequential:
    draw = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = [nn.Linear(5, 8), activation(), nn.Linear(8, 6), activation()]
    layers += [nn.Linear(6, 3), activation()] if last else [nn.Linear(6, 3)]
    network = nn.Sequential(*layers)
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=draw) * 0.5
    return network


def cross_entropy(network: nn.Module, batch: Batch) -> Tensor:
    return nn.functional.cross_entropy(network(batch[0]), batch[1], reduction="none")


def mean_of_lines(network: nn.Module, batch: Batch) -> Tensor:
    """A record's loss over all its lines, each against its own target."""
    found: Tensor = (network(batch[0]).log_softmax(-1) * batch[1]).sum(-1).mean(-1)
    return found


def several_calls(network: nn.Module, batch: Batch) -> Tensor:
    """The network sees whole records and lines of them, in two calls."""
    whole = network(batch[0][:, 0])
    apart: Tensor = network(batch[0][:, 1:]) - whole[:, None]
    found: Tensor = apart.square().sum((1, 2)) + whole.sum(-1)
    return found


def batch_of(seed: int, lines: int | None, count: int = 23) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    if lines is None:
        labels = torch.randint(0, 3, (count,), generator=draw)
        return torch.randn(count, 5, generator=draw) * 2, labels
    shape = (count, lines)
    return (
        torch.randn(*shape, 5, generator=draw) * 2,
        torch.randn(*shape, 3, generator=draw).softmax(-1),
    )


CASES = [
    pytest.param(cross_entropy, None, id="one line"),
    pytest.param(mean_of_lines, 1, id="one of one"),
    pytest.param(mean_of_lines, 6, id="six lines"),
    pytest.param(several_calls, 4, id="two calls"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid])
@pytest.mark.parametrize(("loss", "lines"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_sums_equal_one_backward_pass_per_record(
    way: str, activation: type[nn.Module], loss: Callable[..., Tensor], lines: int, seed: int
) -> None:
    network = network_of(activation, seed, last=seed == 2)
    batch = batch_of(seed, lines)
    exact = gradients(network, loss, batch)
    sums = WAYS[way](network, FlatParameters(network))
    for share in (0.2, 0.8):
        norm = float(exact.norm(dim=1).quantile(share))
        norms = sums.add_up(loss, batch, norm)
        wanted = clipped(exact, norm)
        assert float((sums.total - wanted).norm()) <= 1e-6 * len(batch[0]) * norm
        torch.testing.assert_close(norms.double(), exact.norm(dim=1), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_opacus_agrees() -> None:
    opacus = pytest.importorskip("opacus")
    network = perceptron(12, (64, 64), 2, np.random.default_rng(0))
    nn.init.normal_(list(network.parameters())[-2], generator=torch.Generator().manual_seed(0))
    batch = (torch.randn(64, 12, generator=torch.Generator().manual_seed(1)), torch.arange(64) % 2)
    sums = PerceptronSum(network, FlatParameters(network))
    sums.add_up(cross_entropy, batch, 1.0)
    wrapped = opacus.GradSampleModule(network, loss_reduction="sum")
    torch.autograd.backward(cross_entropy(wrapped, batch).sum())
    rows = torch.cat([vars(p)["grad_sample"].flatten(1) for p in network.parameters()], 1)
    torch.testing.assert_close(sums.total, clipped(rows, 1.0), rtol=0, atol=1e-5)
