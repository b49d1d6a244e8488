"""The surrogate: a network that answers for rows of which only some players are present."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.inputs import Columns
from voile.attribution.players import Players
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Schema
from voile.models import Outputs, Presence, Rows, digest_of
from voile.training import Head, TrainingHistory, arrays_of

if TYPE_CHECKING:
    from torch import Tensor, nn

CHUNK = 1024
"""Rows a pass: their activations stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Fidelity:
    """How well a surrogate imitates its model on rows it was not trained on, all players present.

    Args:
        rows: how many rows were looked at.
        same_class: the share that both give the same class; None with a single output.
        gap: the mean absolute difference of outputs.
        r_squared: the share of the variance of the model's outputs that is met.
        coalition_loss: the loss on random coalitions, in the loss it was trained with.
    """

    rows: int
    same_class: float | None
    gap: float
    r_squared: float
    coalition_loss: float


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A trained surrogate; a `voile.models.CoalitionModel`, so `SurrogateShapley` explains it.

    The network sees x⊙m and m: the inputs with those of absent players set to 0, and who is
    present. Columns that encode one feature, and features of one group, share their player's entry
    of m.

    Args:
        encoding: how rows become network inputs.
        players: who plays, and which features belong to whom.
        head: how the last layer becomes outputs.
        network: takes (n, columns + players), gives (n, outputs).
        feature_names: one per feature.
        output_names: one per output.
        schema: reads raw values and refuses rows outside of it, where there is one.
        history: how training went; absent in a surrogate that was loaded or put together.
        fidelity: how well it imitates its model; absent likewise.
    """

    encoding: Encoding
    players: Players
    head: Head
    network: nn.Sequential
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    schema: Schema | None = None
    history: TrainingHistory | None = None
    fidelity: Fidelity | None = None

    def __post_init__(self) -> None:
        first: Any = self.network[0]
        last: Any = self.network[-1]
        wanted = (self.encoding.width + self.players.count, len(self.output_names))
        found = (first.in_features, last.out_features)
        if wanted != found:
            raise InvalidInput(
                f"the network must take {wanted[0]} inputs (columns and players) and give "
                f"{wanted[1]} outputs, found {found[0]} and {found[1]}"
            )

    # --- as a model ---------------------------------------------------------------------------

    def predict_present(self, rows: Rows, present: Presence) -> Outputs:
        """Outputs (n, outputs) of rows of which only some features are present, (n, features)."""
        if present.shape != rows.shape or rows.shape[1] != len(self.feature_names):
            raise InvalidInput(
                f"rows and presence must both have {len(self.feature_names)} features, found "
                f"shapes {rows.shape} and {present.shape}"
            )
        who = self._present_players(present)
        torch: Any = optional("torch", extra="torch")
        parts = []
        with torch.inference_mode():
            for start in range(0, len(rows), CHUNK):
                part = slice(start, start + CHUNK)
                coalitions = torch.from_numpy(who[part, np.newaxis].astype(np.float32))
                worths = self.worths(self.encoding.tensor(rows[part]), coalitions)
                parts.append(worths[:, 0].numpy().astype(np.float64))
        return np.concatenate(parts)

    def predict(self, rows: Rows) -> Outputs:
        """Outputs of whole rows, shape (n, outputs)."""
        return self.predict_present(rows, np.ones(rows.shape, dtype=np.bool_))

    def _present_players(self, present: Presence) -> Presence:
        if self.players.single:
            return present
        who = self.players.any_feature(present)
        if (self.players.features_of(who) != present).any():
            raise InvalidInput(
                "this surrogate was trained on groups: the features of a group are present or "
                "absent together; `exact_values` explains it group by group"
            )
        return who

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that determines the answers."""
        code = self.encoding
        arrays = [code.feature, code.category, code.shift, code.scale, self.players.owner]
        names = [self.players.names, self.feature_names, self.output_names]
        # Copies, because the walk tells one object met twice from two that are equal.
        parts = [np.array(array) for array in arrays], [list(each) for each in names]
        return digest_of([*parts, self.head, arrays_of(self.network)])

    # --- as a game ----------------------------------------------------------------------------

    @cached_property
    def column_player(self) -> NDArray[np.intp]:
        """For each input column the place of its player."""
        return self.players.owner[self.encoding.feature]

    def logits(self, columns: Tensor, coalitions: Tensor, network: nn.Module) -> Tensor:
        """The last layer for columns (n, c) and coalitions (n, k, players): (n, k, outputs)."""
        return network(masked(columns, coalitions, self.column_player))  # type: ignore[no-any-return]

    def worths(self, columns: Tensor, coalitions: Tensor) -> Tensor:
        """v(S) for columns (n, c) and coalitions (n, k, players), shape (n, k, outputs)."""
        return self.head.outputs(self.logits(columns, coalitions, self.network))

    @cached_property
    def base(self) -> NDArray[np.float64]:
        """The worth of the empty coalition, the same for every row, shape (outputs,)."""
        torch: Any = optional("torch", extra="torch")
        with torch.inference_mode():
            nothing = torch.zeros(1, self.encoding.width)
            found = self.worths(nothing, torch.zeros(1, 1, self.players.count))
        base: NDArray[np.float64] = found[0, 0].numpy().astype(np.float64)
        return base

    @cached_property
    def complete(self) -> nn.Sequential:
        """The network for whole rows: everybody is present, so m is a constant of the first layer.

        Takes columns alone, (n, c), and costs less than `worths` with full coalitions.
        """
        torch: Any = optional("torch", extra="torch")
        layers: list[Any] = list(self.network)
        first, width = layers[0], self.encoding.width
        with torch.no_grad():
            layer = torch.nn.utils.skip_init(torch.nn.Linear, width, first.out_features)
            layer.weight.copy_(first.weight[:, :width])
            layer.bias.copy_(first.bias + first.weight[:, width:].sum(1))
        network: nn.Sequential = torch.nn.Sequential(layer, *layers[1:])
        return network.eval()

    @cached_property
    def thought_width(self) -> int:
        """How many numbers `hidden_features` gives a row."""
        layers: list[Any] = list(self.network)[0:-1:2]
        return self.encoding.width + sum(int(layer.out_features) for layer in layers)

    def hidden_features(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs of whole rows, and (columns, all hidden layers) on the way to them.

        The hidden layers are features that the surrogate found useful and has computed anyway.
        """
        torch: Any = optional("torch", extra="torch")
        found, kept = columns, [columns]
        for place, layer in enumerate(self.complete):
            found = layer(found)
            kept += [found] if place % 2 else []
        joined: Tensor = torch.cat(kept, -1)
        return self.head.outputs(found), joined

    def read(self, given: Any, what: str = "X") -> Rows:
        """Rows from an array, a DataFrame or a dict of columns, checked."""
        columns = Columns(self.feature_names, len(self.feature_names), self.schema)
        return columns.read(given, what)


def masked(columns: Tensor, coalitions: Tensor, column_player: NDArray[np.intp]) -> Tensor:
    """The coalition layer: (x⊙m, m), shape (n, k, columns + players)."""
    torch: Any = optional("torch", extra="torch")
    if coalitions.shape[-1] == len(column_player):
        spread = coalitions
    else:
        spread = coalitions[..., torch.from_numpy(column_player)]
    found: Tensor = torch.cat([columns[:, None, :] * spread, coalitions], -1)
    return found
