"""DP-SGD for torch modules of any kind: one gradient per record, by vectorised differentiation.

Every record goes through the network alone (a batch of one, however many lines it has), so nothing
can mix records. That also makes it many times slower than the way for perceptrons. Only what one
record adds is computed here; draw, noise, optimiser and promise are those of `fit_privately`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.optional import optional
from voile.core.randomness import GeneratorSource
from voile.training.optimisers import Optimiser
from voile.training.perceptron import Array
from voile.training.private.loop import SPEED, private_steps
from voile.training.private.settings import PrivateRun, PrivateSteps, TrainingSpeed

if TYPE_CHECKING:
    from torch import Tensor, nn

Tensors: TypeAlias = "tuple[Tensor, ...]"
"""Everything a loss needs about some records; the first axis of each tensor is the record."""
ModuleLoss: TypeAlias = "Callable[[nn.Module, Tensors], Tensor]"
"""The loss of each record, shape (n,), given the network and a batch."""

LARGEST: Final = 1e30
"""A record with a longer gradient adds nothing: its weight would no longer be a normal float32."""


def fit_module_privately(
    network: nn.Module,
    records: Tensors,
    loss: ModuleLoss,
    privacy: PrivateSteps,
    *,
    optimiser: Optimiser,
    source: GeneratorSource | None = None,
    prepare: Callable[[Tensors], Tensors] | None = None,
    speed: TrainingSpeed = SPEED,
) -> PrivateRun:
    """`fit_privately` for a torch module, unless its layers mix records.

    Args:
        network: its float32 parameters that require gradients are changed when the run is complete.
        records: tensors whose first axis is the record.
        loss: one figure for each record; of the network it may only use the answers.
        privacy, optimiser, source, prepare, speed: as there.
    """
    sums = ModuleSum(network, loss, speed.chunk)
    run = private_steps(sums, records, privacy, optimiser, source, prepare, speed)
    sums.write_back()
    return run


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
        sizes = [p.numel() for p in self._trained.values()]
        views = self._torch.split(self._torch.from_numpy(self.values), sizes)
        named = zip(self._trained.items(), views, strict=True)
        self._parameters = {name: view.view(p.shape) for (name, p), view in named}

    def write_back(self) -> None:
        """Give the network these values; it is left alone until then."""
        with self._torch.no_grad():
            for name, parameter in self._trained.items():
                parameter.copy_(self._parameters[name])

    def add_up(self, batch: Tensors, norm: float) -> NDArray[Any]:
        """See `ClippedSum`."""
        self.total[:] = 0
        gradients = self._torch.func.vmap(self._torch.func.grad(self._one), in_dims=(None, 0))
        norms = []
        for part in zip(*(self._torch.split(each, self._chunk) for each in batch), strict=True):
            found = gradients(self._parameters, part)
            norms.append(self._add([found[name] for name in self._parameters], norm))
        return np.concatenate(norms)

    def _one(self, parameters: dict[str, Tensor], record: Tensors) -> Tensor:
        """The loss of one record."""

        def network(*inputs: Any) -> Any:
            return self._torch.func.functional_call(self._network, parameters, inputs)

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
