"""The clipped sum of a step: what one record can add to it, and by whom it is computed.

Guarantee: the sum moves by at most the norm, in the l2 norm over all parameters together, if one
record is added, taken away or blanked, up to `ROUNDING_MARGIN`. A record is everything at one place
of the first axis, however many lines (coalitions) the network sees of it. A record whose gradient
is not finite adds nothing, and never raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.training.loop import Batch, Loss

if TYPE_CHECKING:
    from torch import Tensor, nn


class ClippedSum(Protocol):
    """Sums clipped gradients of records over one network, whose parameters lie in a flat tensor."""

    @property
    def total(self) -> Tensor:
        """The last sum, flat."""

    def add_up(self, loss: Loss, batch: Batch, norm: float) -> Tensor:
        """Overwrite `total`; the gradient norms of the records that are part of it, protected."""


class FlatParameters:
    """The trainable parameters of a network, copied into one flat float32 tensor.

    The network is left alone until `write_back`, so a run that breaks off changes nothing.
    """

    def __init__(self, network: nn.Module) -> None:
        torch = optional("torch", extra="torch")
        self._trained = {n: p for n, p in network.named_parameters() if p.requires_grad}
        if not self._trained:
            raise InvalidInput("the network has no parameters that can be trained")
        wrong = sorted({str(p.dtype) for p in self._trained.values() if p.dtype != torch.float32})
        if wrong:
            raise InvalidInput(f"parameters must be float32, found {', '.join(wrong)}")
        self.values: Tensor = torch.cat([p.detach().reshape(-1) for p in self._trained.values()])
        self.named = self.views(self.values)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parts of another flat tensor, shaped and named like the parameters."""
        torch: Any = optional("torch", extra="torch")
        parts = torch.split(flat, [p.numel() for p in self._trained.values()])
        return {
            name: part.view(p.shape)
            for (name, p), part in zip(self._trained.items(), parts, strict=True)
        }

    def write_back(self) -> None:
        """Give the network these values."""
        torch = optional("torch", extra="torch")
        with torch.no_grad():
            for name, parameter in self._trained.items():
                parameter.copy_(self.named[name])


def centred_count(norms: Tensor, norm: float) -> float:
    """Over records: +½ for one within the norm, −½ for one beyond, 0 for one that adds nothing."""
    return int((norms <= norm).sum()) - len(norms) / 2


def check_losses(losses: Tensor, records: int) -> None:
    """A loss must give one figure for each record; shapes are public."""
    if tuple(losses.shape) != (records,):
        raise InvalidInput(
            f"the loss must give one figure for each of {records} records, found shape "
            f"{tuple(losses.shape)}"
        )
