"""Gradient inversion: which picture has this gradient?

A server that sees the gradient of one record looks for a picture whose gradient points the same
way: cosine distance, plus total variation because pictures are smooth (Geiping, Bauermeister,
Dröge and Moeller 2020). Labels are given: they can be read off the last layer's gradient.

What it finds without noise is what a plain federation reveals. That it finds nothing with noise
proves no guarantee; a guarantee is proved elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.optional import optional

if TYPE_CHECKING:
    from torch import Tensor, nn

Pictures = NDArray[np.float32]
"""Values between 0 and 1, (n, channels, height, width)."""


@dataclass(frozen=True)
class InversionSearch:
    """How long and how the attacker searches.

    Args:
        steps: of Adam along the sign of the derivative, with a rate that falls in two stages.
        rate: of the first steps, in units of the pixels' range.
        smoothness: weight of the total variation beside the cosine distance.
    """

    steps: int = 300
    rate: float = 0.1
    smoothness: float = 0.01


class GradientView:
    """Gradients of single records with respect to all parameters of a network, flat."""

    def __init__(self, network: nn.Module) -> None:
        self._torch: Any = optional("torch", extra="torch")
        self._network = network
        self._parameters = {n: p.detach() for n, p in network.named_parameters()}
        if not self._parameters:
            raise InvalidInput("the network has no parameters, so there is no gradient to invert")

    def of(self, pictures: Pictures, labels: NDArray[np.intp]) -> NDArray[np.float32]:
        """What a server sees of each record, (n, parameters), if there is no noise."""
        tensors = (
            self._torch.from_numpy(np.ascontiguousarray(part)) for part in (pictures, labels)
        )
        found: NDArray[np.float32] = self._torch.func.vmap(self.of_one)(*tensors).numpy()
        return found

    def of_one(self, picture: Tensor, label: Tensor) -> Tensor:
        def loss(parameters: dict[str, Tensor]) -> Any:
            said = self._torch.func.functional_call(self._network, parameters, (picture[None],))
            return self._torch.nn.functional.cross_entropy(said, label[None])

        gradients = self._torch.func.grad(loss)(self._parameters)
        flat: Tensor = self._torch.cat([part.flatten() for part in gradients.values()])
        return flat


def invert_gradients(
    network: nn.Module,
    gradients: NDArray[np.float32],
    labels: NDArray[np.intp],
    shape: tuple[int, int, int],
    *,
    search: InversionSearch,
    draw: np.random.Generator,
) -> Pictures:
    """The pictures that the search ends with, one for each gradient.

    Args:
        network: as it was when the gradients were taken.
        gradients: (n, parameters), as `GradientView.of` gives them, perhaps with noise.
        labels: of the records.
        shape: of a picture: channels, height, width.
        draw: where the search begins.
    """
    view = GradientView(network)
    torch: Any = optional("torch", extra="torch")
    if gradients.ndim != 2 or len(gradients) != len(labels):
        raise InvalidInput(
            f"expected one flat gradient for each of {len(labels)} labels, found an array of the "
            f"shape {gradients.shape}"
        )

    def distance(picture: Tensor, seen: Tensor, label: Tensor) -> Any:
        cosine = torch.nn.functional.cosine_similarity(view.of_one(picture, label), seen, dim=0)
        across = (picture[..., 1:] - picture[..., :-1]).abs().mean()
        down = (picture[..., 1:, :] - picture[..., :-1, :]).abs().mean()
        return 1 - cosine + search.smoothness * (across + down)

    slopes = torch.func.vmap(torch.func.grad(distance))
    seen = torch.from_numpy(np.ascontiguousarray(gradients, dtype=np.float32))
    wanted = torch.from_numpy(np.ascontiguousarray(labels))
    start = draw.random((len(labels), *shape), dtype=np.float32)
    found = torch.from_numpy(start).requires_grad_()
    optimiser = torch.optim.Adam([found], lr=search.rate)
    milestones = [search.steps // 2, search.steps * 4 // 5]
    rates = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones, gamma=0.2)
    for _ in range(search.steps):
        found.grad = slopes(found.detach(), seen, wanted).sign()
        optimiser.step()
        rates.step()
        with torch.no_grad():
            found.clamp_(0, 1)
    pictures: Pictures = found.detach().numpy()
    return pictures


def peak_signal_to_noise(pictures: Pictures, found: Pictures) -> NDArray[np.float64]:
    """In decibels, one figure for each picture; a copy has infinitely many."""
    squares = np.square(pictures.astype(np.float64) - found).reshape(len(pictures), -1)
    with np.errstate(divide="ignore"):
        figures: NDArray[np.float64] = -10 * np.log10(squares.mean(axis=1))
    return figures
