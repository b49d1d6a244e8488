"""`FastShap`: a network that gives Shapley values of a surrogate in one pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.surrogate import CHUNK, Surrogate
from voile.attribution.settings import Progress
from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.one_thread import one_thread
from voile.core.schema import Schema
from voile.models import Rows
from voile.training import Perceptron, TrainingHistory

LEARNED: Final = "learned explainer: values are approximate"


@digest_name("voile.attribution.fastshap.explainer.FastShap")
@dataclass(frozen=True, eq=False)
class FastShap:
    """A trained explainer: `explainer(X) -> Explanation`, without background and without sampling.

    Base value and efficiency are exact: attributions add up to the surrogate's output minus its
    output for the empty coalition. How they are shared out is learned; `check` measures the error.

    Args:
        surrogate: what is explained.
        network: takes encoded columns, or those and the surrogate's hidden layers for the whole row
            (which sums need anyway), as its width says; gives players × outputs.
        history: how training went; absent in an explainer that was loaded.
        threads: how many passes run side by side.
        progress: told how many rows are done.

    >>> from voile.attribution.fastshap import train_explainer, train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> found = train_explainer(surrogate, rows, source=Seeded(0), plan=plan)(rows[:2])
    >>> np.allclose(found.values.sum(axis=1), surrogate.predict(rows[:2]) - surrogate.base)
    True
    """

    surrogate: Surrogate
    network: Perceptron
    history: TrainingHistory | None = None
    threads: int = 1
    progress: Progress | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        players, outputs = self.surrogate.players.count, len(self.surrogate.output_names)
        widths = (self.surrogate.encoding.width, self.surrogate.thought_width)
        if self.network.inputs not in widths or self.network.outputs != players * outputs:
            raise InvalidInput(
                f"the explainer must take {widths[0]} columns (or {widths[1]} with the surrogate's "
                f"hidden layers) and give {players} players × {outputs} outputs, found "
                f"{self.network.inputs} and {self.network.outputs}"
            )
        if self.threads < 1:
            raise InvalidInput(f"threads must be at least 1, found {self.threads}")

    @property
    def sees_surrogate(self) -> bool:
        """Whether the network is given the surrogate's hidden layers as well."""
        return self.network.inputs != self.surrogate.encoding.width

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        rows = self.surrogate.read(X)
        return self.surrogate.explanation(self.values(rows), rows, notes=(LEARNED,))

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Attributions alone, (n, players, outputs), of rows that are known to be sound.

        The same numbers as a call, without checks of single values and without copies.
        """
        if rows.ndim != 2 or rows.shape[1] != len(self.surrogate.feature_names):
            raise InvalidInput(
                f"rows must have {len(self.surrogate.feature_names)} features, found {rows.shape}"
            )
        shape = (len(rows), self.surrogate.players.count, len(self.surrogate.output_names))
        found, starts = np.empty(shape), range(0, len(rows), CHUNK)
        with one_thread():
            if self.threads == 1 or len(starts) < 2:
                self._fill_all(rows, found, starts, map)
            else:
                with ThreadPoolExecutor(self.threads) as pool:
                    self._fill_all(rows, found, starts, pool.map)
        return found

    def values_within(self, schema: Schema) -> Callable[[Rows], NDArray[np.float64]] | None:
        """`values`, if every row inside this schema is sound for it; else None."""
        own = self.surrogate.schema
        return self.values if own is None or own.digest == schema.digest else None

    def _fill_all(
        self, rows: Rows, found: NDArray[np.float64], starts: range, ask: Callable[..., Any]
    ) -> None:
        done = ask(lambda at: self._fill(rows[at : at + CHUNK], found[at : at + CHUNK]), starts)
        for at, _ in zip(starts, done, strict=True):
            if self.progress is not None:
                self.progress(min(at + CHUNK, len(rows)), len(rows))

    def _fill(self, rows: Rows, found: NDArray[np.float64]) -> None:
        surrogate, seen = self.surrogate, self.surrogate.encoding.columns(rows)
        if self.sees_surrogate:
            whole, seen = surrogate.hidden_features(seen)
        else:
            whole = surrogate.head.outputs(surrogate.complete(seen))
        found[:] = self.network(seen).reshape(found.shape)
        # In double precision, so that sums hold to the last digits.
        gap = whole - surrogate.base
        gap -= found.sum(axis=1)
        found += (gap / found.shape[1])[:, np.newaxis]
