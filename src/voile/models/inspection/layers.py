"""`torch.nn.Sequential` of layers that treat each row of a batch by itself.

Exact types, in evaluation mode, without hooks, with their parameters as torch made them. Rows come
in as (rows, features), and every listed layer keeps that form: so the last dimension is never the
batch. Layers that take another meaning from the number of dimensions (convolutions read a matrix as
one unbatched input) are not listed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from voile.models.inspection.genuine import is_listed


def _always(layer: Any) -> bool:  # noqa: ARG001
    return True


def _along_features(layer: Any) -> bool:
    return layer.dim in (1, -1)


def _over_features(layer: Any) -> bool:
    """Over one dimension, the last; two would take the batch in."""
    return len(layer.normalized_shape) == 1


def _with_statistics_of_training(layer: Any) -> bool:
    """Without them it uses those of the batch, in evaluation mode as well."""
    return layer.running_mean is not None and layer.running_var is not None


def _flat_already(layer: Any) -> bool:
    return bool(layer.start_dim == 1 and layer.end_dim == -1)


_ROW_BY_ROW: Final = (
    *("Linear", "Identity", "Dropout", "AlphaDropout", "CELU", "ELU", "GELU", "LeakyReLU", "Mish"),
    *("PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "LogSigmoid", "Tanh", "Tanhshrink"),
    *("Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Softplus", "Softshrink", "Softsign"),
    "Threshold",
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
_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks")


def is_row_wise(network: Any) -> bool:
    """Whether a network is known to answer each row by itself."""
    kind = type(network)
    if network.training or any(getattr(network, hooks, None) for hooks in _HOOKS):
        return False
    if "forward" in vars(network) or "__call__" in vars(network) or not _own_tensors(network):
        return False
    if is_listed(kind, {"torch.nn": ("Sequential",)}):
        return all(map(is_row_wise, network))
    return is_listed(kind, {"torch.nn": _LISTED}) and _LISTED[kind.__name__](network)


def _own_tensors(layer: Any) -> bool:
    """A subclass of tensors may compute whatever it likes."""
    torch: Any = sys.modules["torch"]
    kinds = (torch.Tensor, torch.nn.Parameter)
    held = [*layer._parameters.values(), *layer._buffers.values()]
    return all(tensor is None or type(tensor) in kinds for tensor in held)
