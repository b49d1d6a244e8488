"""`torch.nn.Sequential` of layers that treat each row of a batch by itself, and steadily.

Exact types, in evaluation mode, without hooks, holding what torch gave them and nothing else. Rows
come in as (rows, features), and every listed layer keeps that form: so the last dimension is never
the batch. Layers that take another meaning from the number of dimensions (convolutions read a
matrix as one unbatched input) are not listed; a `Linear` whose weight is a vector is none.

Matrix products round differently in another place of a batch. So a known network is asked in double
precision (`doubled`), and layers that jump are not listed: `Threshold`, `Hardshrink`, `Softplus`
where it turns into a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from voile.models.inspection.operators import is_listed

LEAST_EPSILON: Final = 1e-12
"""Added to a variance before it is divided by; with less of it, normalising can be a jump."""


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
