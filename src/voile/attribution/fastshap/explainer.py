"""`FastShap`: a network that gives Shapley values of a surrogate in one pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.surrogate import CHUNK, Surrogate
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.optional import optional
from voile.models import Rows
from voile.training import History

if TYPE_CHECKING:
    from torch import nn

LEARNED: Final = "learned explainer: values are approximate"


@dataclass(frozen=True, eq=False)
class FastShap:
    """A trained explainer: `explainer(X) -> Explanation`, without background and without sampling.

    Base value and efficiency are exact: attributions add up to the surrogate's output minus its
    output for the empty coalition. How they are shared out is learned; `check` measures the error.

    Args:
        surrogate: what is explained.
        network: takes encoded columns, gives players × outputs.
        history: how training went; absent in an explainer that was loaded.
        threads: how many passes run side by side.
    """

    surrogate: Surrogate
    network: nn.Sequential
    history: History | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        players, outputs = self.surrogate.players.count, len(self.surrogate.output_names)
        wanted = (self.surrogate.encoding.width, players * outputs)
        first: Any = self.network[0]
        last: Any = self.network[-1]
        found = (first.in_features, last.out_features)
        if wanted != found:
            raise InvalidInput(
                f"the explainer must take {wanted[0]} columns and give {players} players × "
                f"{outputs} outputs, found {found[0]} and {found[1]}"
            )
        if self.threads < 1:
            raise InvalidInput(f"threads must be at least 1, found {self.threads}")

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows = self.surrogate.read(X)
        return Explanation(
            values=self.values(rows),
            base_values=self.surrogate.base,
            feature_names=self.surrogate.players.names,
            output_names=self.surrogate.output_names,
            data=rows if self.surrogate.players.single else None,
            notes=(LEARNED,),
        )

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Attributions alone, (n, players, outputs), of rows that are known to be sound.

        The same numbers as a call, without checks of single values and without copies.
        """
        if rows.ndim != 2 or rows.shape[1] != len(self.surrogate.feature_names):
            raise InvalidInput(
                f"rows must have {len(self.surrogate.feature_names)} features, found {rows.shape}"
            )
        shape = (len(rows), self.surrogate.players.count, len(self.surrogate.output_names))
        found = np.empty(shape)
        fill = self._filler(rows, found)
        starts = range(0, len(rows), CHUNK)
        if self.threads == 1 or len(starts) < 2:
            for start in starts:
                fill(start)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(fill, starts))
        return found

    def _filler(self, rows: Rows, found: NDArray[np.float64]) -> Callable[[int], None]:
        torch: Any = optional("torch", extra="torch")
        surrogate, network = self.surrogate, self.network
        complete, base = surrogate.complete, surrogate.base

        def fill(start: int) -> None:
            part = slice(start, start + CHUNK)
            with torch.inference_mode():
                columns = surrogate.encoding.tensor(rows[part])
                raw = network(columns).numpy()
                outputs = surrogate.head.outputs(complete(columns)).numpy()
            into = found[part]
            into[:] = raw.reshape(into.shape)
            # In double precision, so that sums hold to the last digits.
            gap = outputs - base
            gap -= into.sum(axis=1)
            into += (gap / into.shape[1])[:, np.newaxis, :]

        return fill
