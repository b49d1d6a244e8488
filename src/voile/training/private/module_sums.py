"""Clipped sums for torch modules of any kind: one gradient per record, by vectorised derivatives.

Every record goes through the network alone (a batch of one, however many lines it has), so nothing
can mix records. That also makes it slower than the ways for perceptrons and for known layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.optional import optional
from voile.training.perceptron import Array

if TYPE_CHECKING:
    from torch import Tensor, nn

Tensors: TypeAlias = "tuple[Tensor, ...]"
"""Everything a loss needs about some records; the first axis of each tensor is the record."""
ModuleLoss: TypeAlias = "Callable[[nn.Module, Tensors], Tensor]"
"""The loss of each record, shape (n,), given the network and a batch."""

LARGEST: Final = 1e30
"""A record with a longer gradient adds nothing: its weight would no longer be a normal float32."""


class ModuleSum:
    """A `ClippedSum` for any network that handles a batch of one.

    Parameters and sum are numpy vectors, of which torch sees the memory.
    """

    def __init__(self, network: nn.Module, loss: ModuleLoss, chunk: int) -> None:
        self._torch: Any = optional("torch", extra="torch")
        check_records_stay_apart(network)
        self._network, self._loss, self._chunk = network, loss, chunk
        self._trained = {n: p for n, p in network.named_parameters() if p.requires_grad}
        if not self._trained:
            raise InvalidInput("the network has no parameters that can be trained")
        kinds = {p.dtype for p in self._trained.values()} - {self._torch.float32}
        if kinds:
            found = ", ".join(sorted(map(str, kinds)))
            raise InvalidInput(f"parameters must be float32, found {found}")
        parts = [p.detach().cpu().numpy().ravel() for p in self._trained.values()]
        self.values: Array = np.concatenate(parts)
        self.total: Array = np.zeros_like(self.values)
        self._sum: Tensor = self._torch.from_numpy(self.total)
        self._parameters = self._views(self.values)

    def _views(self, flat: Array) -> dict[str, Tensor]:
        """Parts of a flat vector, by name and in shape."""
        sizes = [p.numel() for p in self._trained.values()]
        parts = self._torch.split(self._torch.from_numpy(flat), sizes)
        named = zip(self._trained.items(), parts, strict=True)
        return {name: part.view(p.shape) for (name, p), part in named}

    def write_back(self) -> None:
        """Give the network these values; it is left alone until then."""
        with self._torch.no_grad():
            for name, parameter in self._trained.items():
                parameter.copy_(self._parameters[name])

    def add_up(self, batch: Tensors, norm: float) -> NDArray[Any]:
        """See `ClippedSum`."""
        self.total[:] = 0
        return np.concatenate([self._add_part(part, norm) for part in self._parts(batch)])

    def _parts(self, batch: Tensors) -> Iterator[Tensors]:
        """Of so many records that their gradients fit into memory."""
        return zip(*(self._torch.split(each, self._chunk) for each in batch), strict=True)

    def _add_part(self, part: Tensors, norm: float) -> NDArray[Any]:
        """Add what some records give to the total; their norms."""
        func = self._torch.func
        found = func.vmap(func.grad(self._one), in_dims=(None, 0))(self._parameters, part)
        return self._add([found[name] for name in self._parameters], norm)

    def _one(self, parameters: dict[str, Tensor], record: Tensors) -> Tensor:
        """The loss of one record."""

        def network(*inputs: Any) -> Any:
            # With buffers of this call alone: what a network notes there of a record is forgotten,
            # so neither the next record nor whoever gets the network sees it.
            held = {**dict(self._network.named_buffers()), **parameters}
            return self._torch.func.functional_call(self._network, held, inputs)

        return self._figure(network, record)

    def _figure(self, network: Callable[..., Any], record: Tensors) -> Tensor:
        """What the loss says of one record, given what answers in the place of the network."""
        losses = self._loss(network, tuple(part.unsqueeze(0) for part in record))  # type: ignore[arg-type]
        if tuple(losses.shape) != (1,):
            raise InvalidInput(
                "the loss must give one figure for each record, found for one record the shape "
                f"{tuple(losses.shape)}"
            )
        return losses[0]

    def _add(self, gradients: list[Tensor], norm: float) -> NDArray[Any]:
        """Add the clipped gradients of some records to the total."""
        with self._torch.no_grad():
            flat = self._torch.cat([gradient.flatten(1) for gradient in gradients], 1)
            norms: Any = self._torch.linalg.vector_norm(flat, dim=1, dtype=self._torch.float64)
            kept = norms <= LARGEST  # not so if it is NaN
            if not kept.all():
                flat, norms = flat[kept], norms[kept]
            weights = (norm / norms).clamp_(max=1).float()
            self._sum.addmv_(flat.t(), weights)
            found: NDArray[Any] = norms.numpy()
            return found


def check_records_stay_apart(network: nn.Module) -> None:
    """Refuse layers that mix records or draw from torch's global generator."""
    torch: Any = optional("torch", extra="torch")
    norms = torch.nn.modules.batchnorm._NormBase
    for name, module in network.named_modules():
        kind = type(module).__name__
        if isinstance(module, norms) and (module.track_running_stats or "Batch" in kind):
            raise Refused(
                f"layer {name!r} ({kind}) mixes records, so no bound on one record's gradient "
                "holds; use GroupNorm or LayerNorm"
            )
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            raise Refused(
                f"layer {name!r} ({kind}) draws from torch's global generator, which private "
                "training does not use; leave it out, the noise regularises enough"
            )
