"""DP-SGD for torch modules: the quick way for known layers in a row, the general way for any other.

Only what one record adds is computed in torch; draw, noise, optimiser and promise are those of
`fit_privately`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.optional import optional
from voile.core.randomness import GeneratorSource
from voile.models.inspection import is_listed
from voile.models.networks import is_as_made
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


# --- any module: one gradient per record, by vectorised derivatives -------------------------------
# Every record goes through the network alone (a batch of one, however many lines it has), so
# nothing can mix records. That also makes it slower than the ways for perceptrons and for known
# layers.


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


if TYPE_CHECKING:
    from torch import Tensor, nn


# --- torch's own layers in a row: clipped sums, records side by side ------------------------------
# The gradient of a linear layer is a sum of outer products, one for each line that it sees of a
# record: its input a and the error b that comes back. A convolution is a linear layer that sees one
# line for each place of its output, the patch below it. So:
#
# - one line a record: the norm is ‖a‖·‖b‖, and the clipped sum one product of matrices; no record
#   has a gradient of its own anywhere;
# - many lines: a batched product adds up each record's lines. That is as much work as the plain
#   sum, and what it gives is small: a layer that sees many lines shares its weights among them.
#
# Records go through the network together, so only layers are taken that are known to treat them
# one by one. The loss is somebody's own and sees one record at a time, as on the general way: it is
# asked what it would show the network, and for the derivative of its figure in what that answers.


_TRAINED: Final = ("Conv2d", "Linear", "GroupNorm")
_OTHERS: Final = (
    *("AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "AvgPool2d", "MaxPool2d", "Flatten", "Identity"),
    *("CELU", "ELU", "GELU", "Hardtanh", "LeakyReLU", "Mish", "ReLU", "ReLU6", "SELU", "SiLU"),
    *("Sigmoid", "Softplus", "Softsign", "Tanh"),
)

AT_ONCE: Final = 128
"""Records that go through the network together: what its layers say stays near the processor."""


class NamedLayer(NamedTuple):
    """A layer, and the names of its parameters in the network; none for those of `_OTHERS`."""

    module: Any
    names: Mapping[str, str]


def known_layers(network: nn.Module) -> tuple[NamedLayer, ...] | None:
    """The layers of a network that can take the quick way; None if it has any that cannot.

    All are torch's own, as torch made them, treat records one by one, and are used once. Layers
    whose parameters are frozen in part are left to the general way.
    """
    layers = _flat(network, "")
    if layers is None or not any(layer.names for layer in layers):
        return None
    modules = [layer.module for layer in layers if layer.names]
    parameters = [id(p) for module in modules for p in module.parameters()]
    return layers if len(set(parameters)) == len(parameters) else None


def _flat(module: Any, name: str) -> tuple[NamedLayer, ...] | None:
    kind, start = type(module), f"{name}." if name else ""
    if not is_as_made(module):
        return None
    if is_listed(kind, {"torch.nn": ("Sequential",)}):
        # Not `named_children`, which passes over a layer that comes again.
        parts = [_flat(part, f"{start}{place}") for place, part in module._modules.items()]
        found = [part for part in parts if part is not None]
        return sum(found, ()) if len(found) == len(parts) else None
    if is_listed(kind, {"torch.nn": _OTHERS}):
        return (NamedLayer(module, {}),) if _keeps_records(module) else None
    if not is_listed(kind, {"torch.nn": _TRAINED}) or not _is_plain(module):
        return None
    trained = {n: p.requires_grad for n, p in module.named_parameters()}
    if len(set(trained.values())) > 1:
        return None
    return (NamedLayer(module, {n: start + n for n, wanted in trained.items() if wanted}),)


def _keeps_records(module: Any) -> bool:
    """Of the layers without parameters only `Flatten` could swallow the first axis."""
    flattens = type(module).__name__ == "Flatten"
    inplace, indices = getattr(module, "inplace", False), getattr(module, "return_indices", False)
    return not inplace and not indices and (not flattens or module.start_dim >= 1)


def _is_plain(module: Any) -> bool:
    """A convolution whose padding is zeros, said in numbers, and which mixes all channels."""
    if type(module).__name__ != "Conv2d":
        return True
    plain = module.groups == 1 and module.padding_mode == "zeros"
    return plain and not isinstance(module.padding, str)


class LayerSum(ModuleSum):
    """A `ClippedSum` for networks of `known_layers`.

    Where a loss asks the network anything but one question a record, or a layer for images is shown
    anything but a batch of them, records are taken on the general way.
    """

    def __init__(self, network: nn.Module, loss: ModuleLoss, chunk: int) -> None:
        super().__init__(network, loss, chunk)
        layers = known_layers(network)
        if layers is None:
            raise InvalidInput("the network has layers that are not known; use ModuleSum")
        self._layers = layers
        self._sums = self._views(self.total)
        self._patches = Patches()

    def add_up(self, batch: Tensors, norm: float) -> NDArray[Any]:
        """See `ClippedSum`."""
        self.total[:] = 0
        parts = zip(*(self._torch.split(each, AT_ONCE) for each in batch), strict=True)
        return np.concatenate([self._add_part(part, norm) for part in parts])

    def _add_part(self, part: Tensors, norm: float) -> NDArray[Any]:
        try:
            gradients = self._gradients(self._asked(part), part)
        except _AsksOtherwise:
            add = super()._add_part
            return np.concatenate([add(few, norm) for few in self._parts(part)])
        with self._torch.no_grad():
            norms: Any = sum(each.squares for each in gradients).sqrt()
            kept = norms <= LARGEST  # not so if it is NaN
            weights = (norm / norms).clamp_(max=1).float()
            if not kept.all():
                gradients, weights = [each.only(kept) for each in gradients], weights[kept]
            for each in gradients:
                each.add(weights)
            found: NDArray[Any] = norms[kept].numpy()
            return found

    def _asked(self, part: Tensors) -> Tensor:
        """What the loss shows the network of each record, alone: (records, images, ...)."""

        def ask(record: Tensors) -> Tensor:
            def network(*inputs: Tensor) -> Tensor:
                raise _Shown(inputs)

            try:
                self._figure(network, record)
            except _Shown as asked:
                if len(asked.inputs) == 1:
                    (shown,) = asked.inputs
                    return shown  # type: ignore[no-any-return]
            raise _AsksOtherwise

        found: Tensor = self._torch.func.vmap(ask)(part)
        if found.dim() < 3:
            raise _AsksOtherwise
        return found

    def _gradients(self, asked: Tensor, part: Tensors) -> list[Gradients]:
        torch = self._torch
        seen, answers = self._forward(asked.detach().flatten(0, 1))
        shape = (len(asked), -1, *answers.shape[1:])
        slopes = self._slopes(answers.detach().reshape(shape), part).reshape(answers.shape)
        errors = torch.autograd.grad(answers, [each.outputs for each in seen], slopes)
        with torch.no_grad():
            return [
                _gradients_of(each, error, len(asked), self._sums, self._patches)
                for each, error in zip(seen, errors, strict=True)
            ]

    def _forward(self, inputs: Tensor) -> tuple[list[LayerPass], Tensor]:
        """What every layer with parameters saw and said; parameters need no gradients here."""
        seen: list[LayerPass] = []
        with self._torch.enable_grad():
            for layer in self._layers:
                # Layers for images read what has three dimensions as one image, and its first axis,
                # the records, as channels.
                if type(layer.module).__name__.endswith("2d") and inputs.dim() != 4:
                    raise _AsksOtherwise
                if not layer.names:
                    inputs = layer.module(inputs)
                    continue
                values = {n: self._parameters[name] for n, name in layer.names.items()}
                seen.append(_said(layer, inputs, values))
                inputs = seen[-1].outputs
                if not inputs.requires_grad:  # before it nothing is trained
                    inputs.requires_grad_(True)
        return seen, inputs

    def _slopes(self, answers: Tensor, part: Tensors) -> Tensor:
        """The derivative of each record's figure in its own answers."""

        def figure(own: Tensor, record: Tensors) -> Tensor:
            answers = [own]

            def network(*_: Tensor) -> Tensor:
                if not answers:
                    raise _AsksOtherwise
                return answers.pop()

            return self._figure(network, record)

        func = self._torch.func
        found: Tensor = func.vmap(func.grad(figure))(answers, part)
        return found


class _Shown(Exception):
    """Carries what a loss asks the network out of it."""

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.inputs = inputs


class _AsksOtherwise(Exception):
    """A loss does not ask one question about each record, or a layer would mix what it asks."""


@dataclass(frozen=True, eq=False)
class LayerPass:
    """What a layer with parameters made of its inputs; the errors come back to `outputs`.

    Args:
        moments: mean and 1/deviation of each group of channels, for a group norm.
    """

    layer: NamedLayer
    inputs: Tensor
    outputs: Tensor
    moments: Tensors = ()


class Patches:
    """What lies below each place of a convolution's output, in memory that is kept."""

    def __init__(self) -> None:
        self._kept: dict[int, Tensor] = {}

    def gather(self, module: Any, inputs: Tensor, places: Sequence[int]) -> Tensor:
        """Shape (images, numbers of a patch, places); overwritten by the next call for a layer."""
        torch: Any = optional("torch", extra="torch")
        (up, left), (tall, wide) = module.padding, module.kernel_size
        padded = torch.nn.functional.pad(inputs, (left, left, up, up)).contiguous()
        images, channels, down, right = padded.stride()
        strides = (
            *(images, channels, module.dilation[0] * down, module.dilation[1] * right),
            *(module.stride[0] * down, module.stride[1] * right),
        )
        shape = (*padded.shape[:2], tall, wide, *places)
        kept = self._kept.get(id(module))
        if kept is None or kept.shape[1:] != shape[1:] or len(kept) < len(inputs):
            kept = self._kept[id(module)] = torch.empty(shape)
        found: Tensor = kept[: len(inputs)].copy_(padded.as_strided(shape, strides))
        return found.view(len(inputs), -1, places[0] * places[1])


def _said(layer: NamedLayer, inputs: Tensor, values: Mapping[str, Tensor]) -> LayerPass:
    """What a layer says with these parameters in the place of its own."""
    torch: Any = optional("torch", extra="torch")
    module, weight, bias = layer.module, values.get("weight"), values.get("bias")
    match type(module).__name__:
        case "Conv2d":
            settings = module.stride, module.padding, module.dilation
            outputs = torch.nn.functional.conv2d(inputs, weight, bias, *settings)
            return LayerPass(layer, inputs, outputs)
        case "Linear":
            return LayerPass(layer, inputs, torch.nn.functional.linear(inputs, weight, bias))
        case _:
            inputs = inputs.contiguous()
            shape = (*inputs.shape[:2], inputs[0, 0].numel(), module.num_groups, module.eps)
            outputs, *moments = torch.native_group_norm(inputs, weight, bias, *shape)
            return LayerPass(layer, inputs, outputs, tuple(moments))


def _gradients_of(
    seen: LayerPass, errors: Tensor, records: int, sums: Mapping[str, Tensor], patches: Patches
) -> Gradients:
    """What each record gives for the parameters of one layer."""
    module, inputs = seen.layer.module, seen.inputs
    into = {own: sums[name] for own, name in seen.layer.names.items()}
    match type(module).__name__:
        case "Conv2d":
            lines = patches.gather(module, inputs, errors.shape[2:]).transpose(1, 2)
            errors = errors.flatten(2)
        case "Linear":
            lines = inputs.reshape(records, -1, inputs.shape[-1])
            errors = errors.reshape(records, -1, errors.shape[-1]).transpose(1, 2)
        case _:
            return _of_group_norm(seen, errors, records, into)
    if len(lines) == records and lines.shape[1] == 1:
        return OuterProducts(lines[:, 0], errors[:, :, 0], into)
    found = {"weight": errors @ lines, "bias": errors.sum(2)}
    return SingleGradients({n: _added_up(found[n], records) for n in into}, into)


def _of_group_norm(
    seen: LayerPass, errors: Tensor, records: int, into: Mapping[str, Tensor]
) -> Gradients:
    """For a scale the sum of (x − mean)·error/deviation over a channel, for a shift of errors."""
    images, channels = seen.inputs.shape[:2]
    # A channel may be a single number: there is no place to flatten then.
    lines, errors = (each.reshape(images * channels, -1) for each in (seen.inputs, errors))
    products = (lines[:, None] @ errors[:, :, None]).view(-1, channels)
    sums = errors.sum(1).view(-1, channels)
    width = channels // seen.layer.module.num_groups
    mean, inverse = (each.repeat_interleave(width, dim=1) for each in seen.moments)
    both = {"weight": inverse * (products - mean * sums), "bias": sums}
    return SingleGradients({n: _added_up(both[n], records) for n in into}, into)


def _added_up(images: Tensor, records: int) -> Tensor:
    """Over all images that the network was shown of one record."""
    if len(images) == records:
        return images
    return images.reshape(records, -1, *images.shape[1:]).sum(1)


@dataclass(frozen=True, eq=False)
class OuterProducts:
    """One line a record: gradients are outer products, which nobody writes down."""

    inputs: Tensor
    errors: Tensor
    into: Mapping[str, Tensor]

    @property
    def squares(self) -> Any:
        """Of the norms, in double precision: there no square of a float32 vanishes or overflows."""
        double: Any = optional("torch", extra="torch").float64
        inputs, errors = _square(self.inputs, double), _square(self.errors, double)
        # A weight is C/(‖a‖·‖b‖), and weight·b would lose digits beside inputs as long as that.
        inputs = inputs.masked_fill(inputs > LARGEST**2, float("inf"))
        return (inputs + ("bias" in self.into)) * errors

    def only(self, kept: Tensor) -> OuterProducts:
        return OuterProducts(self.inputs[kept], self.errors[kept], self.into)

    def add(self, weights: Tensor) -> None:
        scaled = self.errors * weights[:, None]
        self.into["weight"].view(scaled.shape[1], -1).addmm_(scaled.t(), self.inputs)
        if "bias" in self.into:
            self.into["bias"].add_(scaled.sum(0))


@dataclass(frozen=True, eq=False)
class SingleGradients:
    """A gradient for each record, by parameter: (records, ...)."""

    gradients: Mapping[str, Tensor]
    into: Mapping[str, Tensor]

    @property
    def squares(self) -> Any:
        """Of the norms. In single precision: what vanishes when squared is below 1e-19."""
        return sum(_square(each.flatten(1), None) for each in self.gradients.values())

    def only(self, kept: Tensor) -> SingleGradients:
        return SingleGradients({n: each[kept] for n, each in self.gradients.items()}, self.into)

    def add(self, weights: Tensor) -> None:
        for name, each in self.gradients.items():
            self.into[name].view(-1).addmv_(each.flatten(1).t(), weights)


Gradients = OuterProducts | SingleGradients


def _square(rows: Tensor, precision: Any) -> Any:
    torch: Any = optional("torch", extra="torch")
    return torch.linalg.vector_norm(rows, dim=1, dtype=precision).double().square()


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

    A `torch.nn.Sequential` of torch's own convolutions, linear layers, group norms, poolings and
    activations takes the quick way (`LayerSum`), any other network the general one (`ModuleSum`).

    Args:
        network: its float32 parameters that require gradients are changed when the run is complete.
        records: tensors whose first axis is the record.
        loss: one figure for each record; of the network it may only use the answers.
        privacy, optimiser, source, prepare, speed: as there.
    """
    way = ModuleSum if known_layers(network) is None else LayerSum
    sums = way(network, loss, speed.chunk)
    run = private_steps(sums, records, privacy, optimiser, source, prepare, speed)
    sums.write_back()
    return run
