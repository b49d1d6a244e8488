"""How the last layer of a network becomes outputs, and how far those are from a target.

A head knows where outputs lie. Both losses are smallest at the conditional mean of the target given
what the network sees, so a surrogate trained with either estimates v(S) = E[f(x) | x_S]; a robust
loss (absolute, Huber) would estimate something else. They differ in how hard one record can pull:

- `divergence` (Kullback-Leibler): its derivative in each logit is p − q, at most 1 in size;
- `squared_distance`: its derivative vanishes where the network is certain; with two classes it is
  at most 16/27 in size, and with any number of classes its norm is at most that of p − q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from voile.core.optional import optional

if TYPE_CHECKING:
    from torch import Tensor


class Head(Protocol):
    """From logits (n, outputs) to outputs, and the distances of outputs from targets, (n,)."""

    def outputs(self, logits: Tensor) -> Tensor: ...

    def divergence(self, logits: Tensor, targets: Tensor) -> Tensor: ...

    def squared_distance(self, logits: Tensor, targets: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Softmax:
    """Probabilities of exclusive classes."""

    def outputs(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def divergence(self, logits: Tensor, targets: Tensor) -> Tensor:
        """KL(target ‖ outputs)."""
        torch = optional("torch", extra="torch")
        found: Tensor = torch.special.xlogy(targets, targets) - targets * logits.log_softmax(-1)
        return found.sum(-1)

    def squared_distance(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (self.outputs(logits) - targets).square().sum(-1)


@dataclass(frozen=True, eq=False)
class Sigmoid:
    """Numbers between two bounds, given for each output, shape (outputs,)."""

    lower: NDArray[np.float32]
    upper: NDArray[np.float32]

    def outputs(self, logits: Tensor) -> Tensor:
        lower, width = _tensors(self.lower, self.upper - self.lower)
        return lower + width * logits.sigmoid()

    def divergence(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The divergence of Bernoulli laws whose means are the shares of the way between bounds."""
        torch = optional("torch", extra="torch")
        share = self._share(targets)
        sure = torch.special.xlogy(share, share) + torch.special.xlogy(1 - share, 1 - share)
        log = torch.nn.functional.logsigmoid
        found: Tensor = sure - share * log(logits) - (1 - share) * log(-logits)
        return found.sum(-1)

    def squared_distance(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits.sigmoid() - self._share(targets)).square().sum(-1)

    def _share(self, targets: Tensor) -> Tensor:
        lower, width = _tensors(self.lower, self.upper - self.lower)
        return ((targets - lower) / width).clamp(0, 1)


@dataclass(frozen=True, eq=False)
class Identity:
    """Any numbers, in units of a typical spread around a typical value, shape (outputs,) each.

    The divergence is that of normal laws of unit variance, so both losses agree up to a factor.
    """

    centre: NDArray[np.float32]
    spread: NDArray[np.float32]

    def outputs(self, logits: Tensor) -> Tensor:
        centre, spread = _tensors(self.centre, self.spread)
        return centre + spread * logits

    def divergence(self, logits: Tensor, targets: Tensor) -> Tensor:
        return self.squared_distance(logits, targets) / 2

    def squared_distance(self, logits: Tensor, targets: Tensor) -> Tensor:
        centre, spread = _tensors(self.centre, self.spread)
        return (logits - (targets - centre) / spread).square().sum(-1)


def divergence(head: Head, logits: Tensor, targets: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the outputs from the targets, one figure a row."""
    return head.divergence(logits, targets)


def squared_distance(head: Head, logits: Tensor, targets: Tensor) -> Tensor:
    """Squared distance of outputs and targets, one figure a row; single records pull less."""
    return head.squared_distance(logits, targets)


def _tensors(*arrays: NDArray[np.float32]) -> tuple[Tensor, ...]:
    torch = optional("torch", extra="torch")
    return tuple(torch.from_numpy(np.asarray(array, dtype=np.float32)) for array in arrays)
