"""Clipped sums for any network: one gradient per record, by vectorised differentiation.

Every record goes through the network alone (a batch of one, however many lines it has), so nothing
can mix records. That also makes it several times slower than the way for perceptrons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from voile.core.errors import Refused
from voile.core.optional import optional
from voile.training.loop import Batch, Loss
from voile.training.private.clipping import FlatParameters, check_losses

if TYPE_CHECKING:
    from torch import Tensor, nn

LARGEST: Final = 1e30
"""A record with a longer gradient adds nothing: its weight would no longer be a normal float32."""


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


class ModuleSum:
    """A `ClippedSum` for any network that handles a batch of one."""

    def __init__(self, network: nn.Module, flat: FlatParameters, chunk: int) -> None:
        self._torch: Any = optional("torch", extra="torch")
        check_records_stay_apart(network)
        self._network = network
        self._parameters = flat.named
        self._chunk = chunk
        self.total: Tensor = self._torch.zeros_like(flat.values)

    def add_up(self, loss: Loss, batch: Batch, norm: float) -> Tensor:
        """See `ClippedSum`."""
        self.total.zero_()
        gradients = self._torch.func.vmap(self._gradient_of(loss), in_dims=(None, 0))
        norms = []
        for part in zip(*(self._torch.split(each, self._chunk) for each in batch), strict=True):
            found = gradients(self._parameters, part)
            norms.append(self._add([found[name] for name in self._parameters], norm))
        joined: Tensor = self._torch.cat(norms)
        return joined

    def _gradient_of(self, loss: Loss) -> Callable[[dict[str, Tensor], Batch], dict[str, Tensor]]:
        func = self._torch.func

        def one(parameters: dict[str, Tensor], record: Batch) -> Tensor:
            def network(*inputs: Any) -> Any:
                return func.functional_call(self._network, parameters, inputs)

            losses = loss(network, tuple(part.unsqueeze(0) for part in record))  # type: ignore[arg-type]
            check_losses(losses, 1)
            return losses[0]

        found: Any = func.grad(one)
        return found  # type: ignore[no-any-return]

    def _add(self, gradients: list[Tensor], norm: float) -> Tensor:
        """Add the clipped gradients of some records to the total."""
        with self._torch.no_grad():
            flat = self._torch.cat([gradient.flatten(1) for gradient in gradients], 1)
            norms: Tensor = self._torch.linalg.vector_norm(flat, dim=1, dtype=self._torch.float64)
            kept = norms <= LARGEST  # not so if it is NaN
            if not kept.all():
                flat, norms = flat[kept], norms[kept]
            weights = (norm / norms).clamp_(max=1).float()
            self.total.addmv_(flat.t(), weights)
            return norms
