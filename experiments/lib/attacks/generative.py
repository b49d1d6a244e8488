"""Pictures from a shared model, by a curious client: a generative network with a classifier.

The client has pictures of its own and the global model. It trains a generator whose pictures look
like its own (a discriminator says) and belong to a wanted class (the global model says): an
auxiliary-classifier network (Odena, Olah and Shlens 2017) whose classifier is the model under
attack (Hitaj, Ateniese and Perez-Cruz 2017).

How close the pictures come to real ones is a Fréchet distance over features of a network that was
trained locally. It measures the *quality of pictures*, not privacy: a model that was stopped early
is as useless to the generator as one with noise. Read it beside that control only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.lib.attacks.gradient_inversion import Pictures
from voile.core.errors import InvalidInput
from voile.core.optional import optional

if TYPE_CHECKING:
    from torch import nn

Features = NDArray[np.float64]
"""One row for each picture."""


@dataclass(frozen=True)
class GenerativeSearch:
    """How the curious client trains.

    Args:
        steps: of both networks in turn.
        batch: pictures of a step.
        latent: numbers that the generator starts from, besides the class.
        class_weight: of "belongs to the class" beside "looks real".
    """

    steps: int = 400
    batch: int = 64
    latent: int = 16
    rate: float = 2e-3
    class_weight: float = 1.0


def generate_classes(
    classifier: nn.Module,
    own: Pictures,
    *,
    classes: int,
    each: int,
    search: GenerativeSearch,
    draw: np.random.Generator,
) -> Pictures:
    """Pictures of every class, `each` of them, class after class.

    Args:
        classifier: the global model; it is asked, never changed.
        own: the client's pictures.
    """
    torch: Any = optional("torch", extra="torch")
    shape = own.shape[1:]
    if own.ndim != 4 or any(side % 4 for side in shape[1:]):
        raise InvalidInput(
            f"expected pictures (n, channels, height, width) with sides that 4 divides, found "
            f"{own.shape}"
        )
    # torch draws first weights from its own generator: here it follows ours and is put back.
    with torch.random.fork_rng():
        torch.manual_seed(int(draw.integers(2**31)))
        generator, critic = _generator(search.latent + classes, shape), _critic(shape)
    frozen = [parameter.requires_grad for parameter in classifier.parameters()]
    classifier.requires_grad_(False)
    try:
        _compete(generator, critic, classifier, torch.from_numpy(own), classes, search, draw)
    finally:
        for parameter, before in zip(classifier.parameters(), frozen, strict=True):
            parameter.requires_grad_(before)
    with torch.no_grad():
        wanted = np.repeat(np.arange(classes), each)
        made: Pictures = generator(_codes(wanted, classes, search.latent, draw)).numpy()
    return made


def _compete(
    generator: nn.Module,
    critic: nn.Module,
    classifier: nn.Module,
    own: Any,
    classes: int,
    search: GenerativeSearch,
    draw: np.random.Generator,
) -> None:
    torch: Any = optional("torch", extra="torch")
    functional = torch.nn.functional
    moves = [
        torch.optim.Adam(network.parameters(), lr=search.rate, betas=(0.5, 0.999))
        for network in (generator, critic)
    ]
    for _ in range(search.steps):
        labels = draw.integers(0, classes, search.batch)
        made = generator(_codes(labels, classes, search.latent, draw))
        real = own[torch.from_numpy(draw.integers(0, len(own), search.batch))]
        doubt = functional.softplus(-critic(real)) + functional.softplus(critic(made.detach()))
        _step(moves[1], doubt.mean())
        as_class = functional.cross_entropy(classifier(made), torch.from_numpy(labels))
        as_real = functional.softplus(-critic(made)).mean()
        _step(moves[0], as_real + search.class_weight * as_class)


def _step(move: Any, loss: Any) -> None:
    move.zero_grad()
    loss.backward()
    move.step()


def _codes(labels: NDArray[np.intp], classes: int, latent: int, draw: np.random.Generator) -> Any:
    random = draw.standard_normal((len(labels), latent), dtype=np.float32)
    wanted = np.eye(classes, dtype=np.float32)[labels]
    return optional("torch", extra="torch").from_numpy(np.concatenate([random, wanted], axis=1))


def _generator(inputs: int, shape: tuple[int, ...]) -> nn.Module:
    layers: Any = optional("torch.nn", extra="torch")
    channels, height, width = shape
    network: nn.Module = layers.Sequential(
        layers.Linear(inputs, 16 * (height // 4) * (width // 4)),
        layers.ReLU(),
        layers.Unflatten(1, (16, height // 4, width // 4)),
        layers.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
        layers.ReLU(),
        layers.ConvTranspose2d(8, channels, 4, stride=2, padding=1),
        layers.Sigmoid(),
    )
    return network


def _critic(shape: tuple[int, ...]) -> nn.Module:
    layers: Any = optional("torch.nn", extra="torch")
    channels, height, width = shape
    network: nn.Module = layers.Sequential(
        layers.Conv2d(channels, 8, 4, stride=2, padding=1),
        layers.LeakyReLU(0.2),
        layers.Conv2d(8, 16, 4, stride=2, padding=1),
        layers.LeakyReLU(0.2),
        layers.Flatten(),
        layers.Linear(16 * (height // 4) * (width // 4), 1),
    )
    return network


def frechet_distance(first: Features, second: Features) -> float:
    """Between two sets of features, each taken as a normal law (Dowson and Landau 1982)."""
    if min(len(first), len(second)) < 2 or first.shape[1] != second.shape[1]:
        raise InvalidInput(
            f"expected two rows of features at least, alike in width, found shapes {first.shape} "
            f"and {second.shape}"
        )
    apart = first.mean(axis=0) - second.mean(axis=0)
    one, two = (np.atleast_2d(np.cov(each, rowvar=False)) for each in (first, second))
    # tr √(AB) = Σ √λ(√A·B·√A), whose argument is symmetric: no complex roots from rounding.
    values, vectors = np.linalg.eigh(one)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    common = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ two @ root), 0)).sum()
    return float(max(apart @ apart + np.trace(one) + np.trace(two) - 2 * common, 0.0))
