"""torch modules: batched predictions and input gradients in the module's own precision."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.models.digests import OwnCode, digest_of
from voile.models.inspection import LEAST_EPSILON, is_listed
from voile.models.wrapped import Forward, InspectedForward, Rows, WrappedModel

# --- `torch.nn.Sequential` of layers that treat each row of a batch by itself, and steadily -------
# Exact types, in evaluation mode, without hooks, holding what torch gave them and nothing else.
# Rows come in as (rows, features), and every listed layer keeps that form: so the last dimension
# is never the batch. Layers that take another meaning from the number of dimensions (convolutions
# read a matrix as one unbatched input) are not listed; a `Linear` whose weight is a vector is
# none.
#
# Matrix products round differently in another place of a batch. So a known network is asked in
# double precision (`doubled`), and layers that jump are not listed: `Threshold`, `Hardshrink`,
# `Softplus` where it turns into a line.


def _always(layer: Any) -> bool:  # noqa: ARG001
    return True


def _along_features(layer: Any) -> bool:
    return layer.dim in (1, -1)


def _over_features(layer: Any) -> bool:
    """Over one dimension, the last; two would take the batch in."""
    return len(layer.normalized_shape) == 1 and (layer.eps is None or layer.eps >= LEAST_EPSILON)


def _with_statistics_of_training(layer: Any) -> bool:
    """Without them it uses those of the batch, in evaluation mode as well."""
    known = layer.running_mean is not None and layer.running_var is not None
    return known and bool(layer.eps >= LEAST_EPSILON)


def _flat_already(layer: Any) -> bool:
    return bool(layer.start_dim == 1 and layer.end_dim == -1)


_ROW_BY_ROW: Final = (
    *("Linear", "Identity", "Dropout", "AlphaDropout", "CELU", "ELU", "GELU", "LeakyReLU", "Mish"),
    *("PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "LogSigmoid", "Tanh", "Tanhshrink"),
    *("Hardsigmoid", "Hardswish", "Hardtanh", "Softshrink", "Softsign"),
)
_LISTED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "BatchNorm1d": _with_statistics_of_training,
    "Flatten": _flat_already,
    "GLU": _along_features,
    "LayerNorm": _over_features,
    "LogSoftmax": _along_features,
    "RMSNorm": _over_features,
    "Softmax": _along_features,
    "Softmin": _along_features,
    **dict.fromkeys(_ROW_BY_ROW, _always),
}
_MOMENTS: Final = ("forward", "forward_pre", "backward", "backward_pre")
_PLAIN: Final = (bool, int, float, str, tuple, list, type(None))
_UNLISTED: Final = {"Conv2d": ("transposed", "_reversed_padding_repeated_twice")}
"""Settings that torch forgets to list among a layer's constants."""


def is_row_wise(network: Any) -> bool:
    """Whether a network is known to answer each row by itself, but for rounding."""
    return not _hooked_everywhere() and _is_sound(network)


def doubled(network: Any) -> Any:
    """A copy in double precision, for networks that are known."""
    return deepcopy(network).double()


def is_as_made(layer: Any) -> bool:
    """Whether nobody hung a hook on it or replaced a method, as far as the object shows."""
    return not _hooked_everywhere() and _holds_its_own(layer)


def _is_sound(layer: Any) -> bool:
    kind = type(layer)
    if layer.training or not _holds_its_own(layer):
        return False
    if is_listed(kind, {"torch.nn": ("Sequential",)}):
        return not layer._parameters and all(map(_is_sound, layer._modules.values()))
    if layer._modules or not is_listed(kind, {"torch.nn": _LISTED}):
        return False
    return _LISTED[kind.__name__](layer) and _has_its_shapes(layer)


def _hooked_everywhere() -> bool:
    """Whether somebody hooked all modules at once."""
    home: Any = sys.modules["torch.nn.modules.module"]
    return any(getattr(home, f"_global_{when}_hooks") for when in _MOMENTS)


def _holds_its_own(layer: Any) -> bool:
    """Nothing but what each module has and the settings of this kind; no hook, no replaced method.

    Torch looks for `forward`, `_call_impl` and others on the object first.
    """
    torch: Any = sys.modules["torch"]
    common, settings = vars(torch.nn.Module()), getattr(type(layer), "__constants__", ())
    own = {name: value for name, value in vars(layer).items() if name not in common}
    hooks = [value for name, value in vars(layer).items() if name.endswith("_hooks")]
    settings = {*settings, *_UNLISTED.get(type(layer).__name__, ())}
    plain = all(name in settings and isinstance(own[name], _PLAIN) for name in own)
    return plain and not any(hooks)


def _has_its_shapes(layer: Any) -> bool:
    """Tensors of torch's own kind (a subclass may compute whatever it likes), in their usual form.

    All are vectors along the features, but for the weight of a `Linear`.
    """
    torch: Any = sys.modules["torch"]
    held = {**layer._parameters, **layer._buffers}
    held.pop("num_batches_tracked", None)
    tensors = {name: tensor for name, tensor in held.items() if tensor is not None}
    if not all(type(one) in (torch.Tensor, torch.nn.Parameter) for one in tensors.values()):
        return False
    matrices = ("weight",) if type(layer) is torch.nn.Linear else ()
    return all(
        one.is_floating_point() and one.dim() == (2 if name in matrices else 1)
        for name, one in tensors.items()
    )


def is_network(source: Any) -> bool:
    """Looks at the ancestry by name, so that torch is not imported to ask."""
    return any(
        kind.__module__.startswith("torch.nn") and kind.__name__ == "Module"
        for kind in type(source).__mro__
    )


@digest_name("voile.models.networks.OfNetwork")
@dataclass(frozen=True, eq=False)
class NetworkForward(InspectedForward):
    """What a module says, given rows as a tensor of its own kind."""

    source: Any
    dtype: Any
    device: Any

    @classmethod
    def from_network(cls, source: Any) -> NetworkForward:
        first = next(iter(source.parameters()), None)
        if first is None:
            return cls(source, optional("torch", extra="torch").float32, "cpu")
        return cls(source, first.dtype, first.device)

    def __call__(self, rows: Rows) -> Any:
        _refuse_training(self.source)
        with optional("torch", extra="torch").inference_mode():
            return self.source(self.tensor(rows)).cpu().numpy()

    def tensor(self, rows: Rows) -> Any:
        torch = optional("torch", extra="torch")
        narrow = np.float32 if self.dtype == torch.float32 else np.float64
        # `astype` copies, so the module cannot write into the caller's rows.
        return torch.from_numpy(rows.astype(narrow)).to(self.device, self.dtype)

    def steady(self) -> Forward | None:
        """In double precision: in single, products differ by too much from place to place."""
        if not is_row_wise(self.source):
            return None
        double = optional("torch", extra="torch").float64
        return NetworkForward(doubled(self.source), double, self.device)


def wrap_network(source: Any) -> WrappedModel:
    """Training mode would make predictions random and change running means: it is refused.

    Switching it off here would change somebody else's object.
    """
    torch = optional("torch", extra="torch")
    forward = NetworkForward.from_network(source)

    @lru_cache(maxsize=4)
    def weights(shape: tuple[int, ...], kind: Any, output: int) -> Any:
        """One for the output asked for, zero for the others; of each row."""
        chosen = torch.zeros(shape, dtype=kind, device=forward.device)
        (chosen if len(shape) == 1 else chosen[:, output]).fill_(1.0)
        return chosen

    def backward(rows: Rows, output: int) -> Any:
        _refuse_training(source)
        inputs = forward.tensor(rows).requires_grad_(True)
        answers = source(inputs)
        # Rows do not influence each other, so one pass back holds each row's own gradient.
        chosen = weights(tuple(answers.shape), answers.dtype, output)
        (found,) = torch.autograd.grad(answers, inputs, chosen)
        return found.cpu().numpy()

    return WrappedModel(
        forward=forward,
        backward=backward,
        identity=lambda: _identity(source),
        source=source,
    )


def _refuse_training(source: Any) -> None:
    if any(part.training for part in source.modules()):
        raise InvalidInput(
            "the module, or a part of it, is in training mode; call `module.eval()` first"
        )


def _identity(source: Any) -> str:
    """The structure as torch prints it, the class, and every parameter and buffer.

    Where modules are somebody's own or hold what torch does not print, that is written as well.
    """
    state = {name: np.asarray(value.cpu()) for name, value in source.state_dict().items()}
    kinds = [f"{type(m).__module__}.{type(m).__qualname__}" for m in source.modules()]
    code = getattr(type(source).forward, "__code__", None)
    more = [[name, found] for name, part in source.named_modules() if (found := _unprinted(part))]
    return digest_of([repr(source), kinds, code, state, *more])


def _unprinted(part: Any) -> list[Any]:
    """An own class with its settings; of torch's classes hooks, what replaces a method, and the
    settings of those that print none (`torch.nn.MultiheadAttention`)."""
    torch = optional("torch", extra="torch")
    plain, kind = vars(torch.nn.Module()), type(part)
    own = OwnCode().has_class(kind)
    prints = not own and kind.extra_repr is not torch.nn.Module.extra_repr
    settings = {
        name: value
        for name, value in vars(part).items()
        if name not in {*plain, "inplace"} and (not prints or hasattr(kind, name))
    }
    hooks = [list(v.values()) for name, v in vars(part).items() if name.endswith("hooks") and v]
    buffers = {name: part._buffers[name] for name in sorted(part._non_persistent_buffers_set)}
    return [*([kind] if own else ()), *filter(None, (settings, hooks, buffers))]
