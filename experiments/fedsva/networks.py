"""Small convolutional networks on MNIST by writer: for the attacks, and ours with convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from experiments.fedsva.accounted import DELTA
from experiments.fedsva.data import client_places
from experiments.fedsva.published import DELTA as PRINTED_DELTA
from experiments.lib.datasets import loaders
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.training.private import PrivateSteps, Sgd, fit_module_privately

NORM, RATE = 2.0, 0.3
"""Of federated averaging as published; gradients of convolutions are longer than a layer's."""


@dataclass(frozen=True)
class ConvolutionPlan:
    """Ours with convolutions; chosen on the digits of scikit-learn (`frozen`)."""

    rounds: int = 60
    sampling_rate: float = 0.1
    norm: float = 1.0
    rate: float = 2.0
    momentum: float = 0.8


@dataclass(frozen=True, eq=False)
class Pictures:
    """Of all clients, (clients, rows, 1, side, side), and of people who are at none."""

    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor


def mnist() -> Pictures:
    images = loaders.mnist_by_writer()
    places = client_places(images)
    tests = np.random.default_rng(7).permutation(len(images.test["y"]))[:3000]
    return pictures_of(
        (images.train["x"][places], images.train["y"][places]),
        (images.test["x"][tests], images.test["y"][tests]),
    )


def pictures_of(train: tuple[Any, Any], test: tuple[Any, Any]) -> Pictures:
    arrays = [
        made
        for x, y in (train, test)
        for made in (
            torch.from_numpy(np.asarray(x, dtype=np.float32)[..., None, :, :] / 255),
            torch.from_numpy(np.asarray(y, dtype=np.int64)),
        )
    ]
    return Pictures(*arrays)


def network(side: int, seed: int) -> nn.Sequential:
    """Two convolutions and a linear layer, 2,654 parameters for digits of 28 × 28."""
    last = ((side - 5) // 2 + 1 - 5) // 2 + 1
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, stride=2),
            nn.Tanh(),
            nn.Conv2d(6, 8, 5, stride=2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(8 * last * last, 10),
        )


def accuracy(model: nn.Module, pictures: Pictures) -> float:
    with torch.no_grad():
        return float((model(pictures.test_x).argmax(dim=1) == pictures.test_y).float().mean())


def published_sigma(epsilon: float, rows: int, norm: float) -> float:
    """FedSVA's noise at R = 1, where all of a client's data are private."""
    return 2 * norm * math.sqrt(1 - math.log(PRINTED_DELTA**2)) / (epsilon * rows)


def average_rounds(
    pictures: Pictures,
    *,
    sigma: float,
    rounds: int,
    seed: int,
    until: float | None = None,
) -> tuple[nn.Sequential, float]:
    """Federated averaging with noise on what clients send; stops at the accuracy `until`."""
    draw = np.random.default_rng(seed)
    model = network(pictures.x.shape[-1], seed)
    reached = 0.0
    for _ in range(rounds):
        chosen = draw.choice(len(pictures.x), 10, replace=False)
        total = torch.zeros_like(nn.utils.parameters_to_vector(model.parameters()))
        for client in chosen:
            sent = _one_epoch(model, pictures.x[client], pictures.y[client], draw)
            noise = draw.standard_normal(len(sent), dtype=np.float32)
            total += (sent + sigma * torch.from_numpy(noise)) / len(chosen)
        nn.utils.vector_to_parameters(total, model.parameters())
        reached = accuracy(model, pictures)
        if until is not None and reached >= until:
            break
    return model, reached


def _one_epoch(
    model: nn.Sequential, x: torch.Tensor, y: torch.Tensor, draw: np.random.Generator
) -> torch.Tensor:
    local = network(x.shape[-1], 0)
    local.load_state_dict(model.state_dict())
    order = torch.from_numpy(draw.permutation(len(x)))
    for places in torch.split(order, 64):
        loss = nn.functional.cross_entropy(local(x[places]), y[places])
        gradients = torch.autograd.grad(loss, list(local.parameters()))
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))  # type: ignore[arg-type]
        factor = RATE * torch.clamp(NORM / norm, max=1)
        with torch.no_grad():
            for parameter, gradient in zip(local.parameters(), gradients, strict=True):
                parameter.sub_(factor * gradient)
    return nn.utils.parameters_to_vector(local.parameters()).detach()


def private_rounds(
    pictures: Pictures, plan: ConvolutionPlan, noise: float, seed: int
) -> tuple[nn.Sequential, float]:
    """One step of DP-SGD at every client in each round; the server adds momentum, which is free."""
    model, source = network(pictures.x.shape[-1], seed), Seeded(seed)
    steps = PrivateSteps(
        clipping_norm=plan.norm,
        noise_multiplier=noise,
        sampling_rate=plan.sampling_rate,
        steps=1,
        rows=pictures.x.shape[1],
    )
    values = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    speed, later = torch.zeros_like(values), torch.zeros_like(values)
    for number in range(plan.rounds):
        moved = torch.zeros_like(values)
        for x, y in zip(pictures.x, pictures.y, strict=True):
            nn.utils.vector_to_parameters(values.clone(), model.parameters())
            fit_module_privately(
                model, (x, y), _loss, steps, optimiser=Sgd(plan.rate), source=source
            )
            found = nn.utils.parameters_to_vector(model.parameters()).detach()
            moved += (found - values) / len(pictures.x)
        speed = plan.momentum * speed + moved
        values = values + speed
        if number >= plan.rounds * 3 // 4:
            later += values / (plan.rounds - plan.rounds * 3 // 4)
    nn.utils.vector_to_parameters(later, model.parameters())
    return model, accuracy(model, pictures)


def _loss(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def noise_for(epsilon: float, plan: ConvolutionPlan) -> float:
    stages = [NoisyStage(plan.sampling_rate, plan.rounds)]
    return dp_sgd_noise(stages, epsilon=epsilon, delta=DELTA, relation=Relation.BLANK_ONE)


def flat(model: nn.Module) -> NDArray[np.float32]:
    found: NDArray[np.float32] = (
        nn.utils.parameters_to_vector(model.parameters()).detach().numpy().copy()
    )
    return found


def with_values(values: list[float], side: int = 28) -> nn.Sequential:
    model = network(side, 0)
    nn.utils.vector_to_parameters(torch.tensor(values), model.parameters())
    return model


CONVOLUTIONS: Final = ConvolutionPlan()
