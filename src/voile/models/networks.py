"""torch modules: batched predictions and input gradients in the module's own precision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.models.digests import digest_of
from voile.models.inspection import layers
from voile.models.own_code import OwnCode
from voile.models.protocol import Rows
from voile.models.wrapped import Forward, InspectedForward, WrappedModel


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
        if not layers.is_row_wise(self.source):
            return None
        double = optional("torch", extra="torch").float64
        return NetworkForward(layers.doubled(self.source), double, self.device)


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
