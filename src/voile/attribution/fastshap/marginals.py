"""What a surrogate reveals about how often values occur.

A surrogate estimates v(S)(x) = E[f(x) | x_S] under the law of the data it learned from. Averaging
over one feature must therefore give the answer without it:

    Σ_k p(k)·v({i} ∪ S)(k, x_S) = v(S)(x_S)      for every S without i,

where p is the law of feature i given x_S, and close to its marginal law where features depend on
each other little. These are linear equations in p. With S = ∅ and all single features S = {j} there
are more of them than values, and non-negative least squares finds p, drawn toward the uniform law
where the equations say nothing.

This uses the surrogate and the schema, no data: if the surrogate is private, so is the result, as
post-processing. If it is not, p tells about its training data what the surrogate tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.schema import Categories, Feature, Numbers, Rows, Schema

CELLS: Final = 32
"""Numbers are told apart up to this many equal cells between their bounds."""
TOWARD_UNIFORM: Final = 0.02
# Many neighbouring cells have nearly the same equations: without more pull a few would get it all.
CELLS_TOWARD_UNIFORM: Final = 0.3


@dataclass(frozen=True, eq=False)
class Marginals:
    """Estimated laws of single features, taken for independent.

    Args:
        values: for each feature the values, or the middles of the cells.
        chances: for each feature their probabilities.
    """

    schema: Schema
    values: tuple[NDArray[np.float64], ...]
    chances: tuple[NDArray[np.float64], ...]

    def draw(self, count: int, draw: np.random.Generator) -> Rows:
        """Rows inside the schema."""
        columns = []
        for feature, values, chances in zip(
            self.schema.features, self.values, self.chances, strict=True
        ):
            found = draw.choice(values, count, p=chances)
            width = _cell_width(feature, len(values))
            columns.append(found + width * (draw.random(count) - 0.5) if width else found)
        return self.schema.clamp(np.column_stack(columns))


def inferred_marginals(surrogate: Surrogate, schema: Schema) -> Marginals:
    """Solve for the laws of all features; a feature of a group keeps the uniform law."""
    values = tuple(_support(feature) for feature in schema.features)
    alone = [
        surrogate.players.owner.tolist().count(owner) == 1 for owner in surrogate.players.owner
    ]
    chances = tuple(
        _solved(_equations(surrogate, values, place, alone), _pull(schema.features[place]))
        if alone[place]
        else np.full(len(values[place]), 1 / len(values[place]))
        for place in range(len(values))
    )
    return Marginals(schema, values, chances)


def _support(feature: Feature) -> NDArray[np.float64]:
    domain = feature.domain
    if isinstance(domain, Categories):
        return np.arange(len(domain.values), dtype=np.float64)
    assert isinstance(domain, Numbers)
    if domain.whole and domain.upper - domain.lower < CELLS:
        return np.arange(domain.lower, domain.upper + 1, dtype=np.float64)
    edges = np.linspace(domain.lower, domain.upper, CELLS + 1)
    return (edges[1:] + edges[:-1]) / 2


def _cell_width(feature: Feature, cells: int) -> float:
    domain = feature.domain
    if isinstance(domain, Categories):
        return 0.0
    assert isinstance(domain, Numbers)
    listed = domain.whole and domain.upper - domain.lower + 1 == cells
    return 0.0 if listed else (domain.upper - domain.lower) / cells


def _equations(
    surrogate: Surrogate, values: tuple[NDArray[np.float64], ...], place: int, alone: list[bool]
) -> NDArray[np.float64]:
    """v({i} ∪ S) − v(S) for all values of feature i (columns) and all S, x_S, outputs (rows)."""
    own = values[place]
    contexts = [(-1, 0.0)] + [
        (other, value)
        for other, support in enumerate(values)
        if other != place and alone[other]
        for value in support
    ]
    rows = np.zeros((len(contexts), len(own) + 1, len(values)))
    present = np.zeros(rows.shape, dtype=np.bool_)
    rows[:, :-1, place] = own
    present[:, :-1, place] = True
    for number, (other, value) in enumerate(contexts):
        if other >= 0:
            rows[number, :, other] = value
            present[number, :, other] = True
    width = len(values)
    worths = surrogate.predict_present(rows.reshape(-1, width), present.reshape(-1, width))
    worths = worths.reshape(len(contexts), len(own) + 1, -1)
    gaps = worths[:, :-1] - worths[:, -1:]
    # Pairs tell about the law given the other's value, so that without context counts as much as
    # all of them together; each other feature counts the same, however many values it has.
    sizes = np.array([len(values[other]) if other >= 0 else 1 for other, _ in contexts])
    features = max(sum(alone) - 1, 1)
    weights = np.sqrt(np.where(sizes > 0, 1 / (sizes * features), 0.0))
    weights[0] = 1.0
    weighted: NDArray[np.float64] = gaps * weights[:, np.newaxis, np.newaxis]
    return weighted.swapaxes(1, 2).reshape(-1, len(own))


def _pull(feature: Feature) -> float:
    return TOWARD_UNIFORM if isinstance(feature.domain, Categories) else CELLS_TOWARD_UNIFORM


def _solved(equations: NDArray[np.float64], toward_uniform: float) -> NDArray[np.float64]:
    from scipy.optimize import nnls

    count = equations.shape[1]
    scale = float(np.linalg.norm(equations)) or 1.0
    pull = toward_uniform * np.eye(count)
    sums = np.full((1, count), 10.0)
    matrix = np.concatenate([equations / scale * np.sqrt(count), pull, sums])
    wanted = np.concatenate([np.zeros(len(equations)), pull.sum(1) / count, [10.0]])
    found = np.maximum(nnls(matrix, wanted)[0], 0.0)
    chances: NDArray[np.float64] = found / found.sum()
    return chances
