"""Distillation: an explainer of a surrogate, trained without any data.

If the surrogate is public, or private by its training, everything here is post-processing: inputs
come from the public schema and from what the surrogate itself reveals, answers from the surrogate.
Only the optional look at real rows touches data, and its result is for their custodian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.checking import Quality, quality
from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.objectives import KernelRegression, Objective, ShapleyLoss, total
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.errors import InvalidInput
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource
from voile.core.schema import Categories, Feature, Numbers, Rows, Schema
from voile.core.schema.schema import draw_rows
from voile.training import Array, Batch, Progress, TrainingPlan, fit, perceptron

# --- What a surrogate reveals about how often values occur ---------------------------------------
# A surrogate estimates v(S)(x) = E[f(x) | x_S] under the law of the data it learned from. Averaging
# over one feature must therefore give the answer without it:
#
#     Σ_k p(k)·v({i} ∪ S)(k, x_S) = v(S)(x_S)      for every S without i,
#
# where p is the law of feature i given x_S, and close to its marginal law where features depend on
# each other little. These are linear equations in p. With S = ∅ and all single features S = {j}
# there are more of them than values, and non-negative least squares finds p, drawn toward the
# uniform law where the equations say nothing.
#
# This uses the surrogate and the schema, no data: if the surrogate is private, so is the result, as
# post-processing. If it is not, p tells about its training data what the surrogate tells.


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

    >>> schema = Schema("t", (Feature("colour", Categories(("red", "green"))),))
    >>> laws = Marginals(schema, (np.array([0.0, 1.0]),), (np.array([0.0, 1.0]),))
    >>> laws.draw(3, np.random.default_rng(0)).ravel().tolist()
    [1.0, 1.0, 1.0]
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
    """Solve for the laws of all features; a feature of a group keeps the uniform law.

    Reads the surrogate and the schema only, so it costs nothing beyond the surrogate.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> schema, plan = Schema("t", (Feature("on", Categories((0, 1))),)), TrainingPlan(steps=20)
    >>> rows = draw_rows(schema, 64, np.random.default_rng(0))
    >>> surrogate = train_surrogate(
    ...     lambda x: x[:, 0], rows, source=Seeded(0), schema=schema, plan=plan)
    >>> laws = inferred_marginals(surrogate, schema)
    >>> [len(chances) for chances in laws.chances], round(float(laws.chances[0].sum()), 6)
    ([2], 1.0)
    """
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


# --------------------------------------------------------------------------------------------------


# --- learning -------------------------------------------------------------------------------------

EXPLAINER_PLAN: Final = TrainingPlan(steps=3_000, batch_rows=512, hidden=(128, 128))
OBJECTIVE: Final = KernelRegression()
HELD_OUT: Final = 1_024


def train_explainer(
    surrogate: Surrogate,
    rows: Any,
    *,
    source: GeneratorSource,
    plan: TrainingPlan = EXPLAINER_PLAN,
    objective: Objective = OBJECTIVE,
    progress: Progress | None = None,
) -> FastShap:
    """Train an explainer on rows like those it will explain; labels are not needed.

    Args:
        surrogate: what is explained.
        rows: typical rows; up to a tenth, at most 1,024, is held out for the validation loss.
        source: where randomness comes from.
        plan: how long and how hard to train.
        objective: `KernelRegression`, or another `Objective`.
        progress: told how far the work is.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> train_explainer(surrogate, rows, source=Seeded(0), plan=plan)(rows[:2]).shape
    (2, 3, 1)
    """
    read = surrogate.read(rows, "rows")
    if len(read) < 20:
        raise InvalidInput(f"an explainer needs at least 20 rows to learn from, found {len(read)}")
    draw = source.generator()
    order = draw.permutation(len(read))
    held = max(1, min(len(read) // 10, HELD_OUT))
    test, train = read[order[:held]], surrogate.encoding.columns(read[order[held:]])

    def more(count: int) -> Array:
        return train[draw.integers(0, len(train), count)]

    return learn(surrogate, more, test, draw, plan=plan, objective=objective, progress=progress)


def learn(
    surrogate: Surrogate,
    more: Any,
    held_out: Rows,
    draw: np.random.Generator,
    *,
    plan: TrainingPlan,
    objective: Objective,
    progress: Progress | None,
    sees_surrogate: bool = False,
) -> FastShap:
    """Train on whatever columns `more(count)` gives, validated on rows that it does not give."""
    players, outputs = surrogate.players.count, len(surrogate.output_names)
    width = surrogate.thought_width if sees_surrogate else surrogate.encoding.width
    network = perceptron(width, plan.hidden, players * outputs, draw)
    if players == 1:  # normalisation alone is the answer
        return FastShap(surrogate, network)

    def batch_of(columns: Array) -> Batch:
        if sees_surrogate:
            outputs, seen = surrogate.hidden_features(columns)
            gap: Array = outputs - surrogate.base.astype(np.float32)
        else:
            gap, seen = total(surrogate, columns), columns
        return seen, gap, *objective.targets(surrogate, columns, gap, draw)

    history = fit(
        network,
        lambda: batch_of(more(plan.batch_rows)),
        ShapleyLoss(objective, players),
        plan,
        validation=batch_of(surrogate.encoding.columns(held_out)),
        progress=progress,
    )
    return FastShap(surrogate, network, history)


# --- rows on which a surrogate agrees with itself -------------------------------------------------

# Rows on which a surrogate agrees with itself: features that depend on each other, without data.
#
# Let features become known one after the other. Under the law of the data the surrogate learned
# from, its answers form a martingale: on average over the next feature, given those known,
#
#     E[v(S ∪ {i}) | x_S] = v(S).
#
# Rows of independent features break this badly (a child in retirement), and the surrogate then
# answers for combinations it never saw. Here each next value is drawn from the law nearest to a
# given one (in Kullback-Leibler divergence) for which the equation holds: candidates from it,
# weighed by exp(θ·v(S ∪ {i})), with θ solved for each row. One equation does not determine a law of
# many values, but what it leaves open is what the surrogate's answers do not depend on.
#
# Surrogate and schema are all that is read, so this is post-processing of the surrogate.

CANDIDATES: Final = 16
BLOCK: Final = 256
"""Rows that share one order of the players."""
RIDGE: Final = 0.01
"""How much a law may be bent: where no weights meet the equation, this ends the attempt."""


def consistent_rows(
    surrogate: Surrogate, marginals: Marginals, count: int, draw: np.random.Generator
) -> Rows:
    """Draw rows inside the schema on which the surrogate agrees with itself.

    Players are drawn one after the other, in random orders. The given law is a mixture of the
    inferred frequencies and the uniform law; each row has a share of its own, because either alone
    leaves corners unseen.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> schema, plan = Schema("t", (Feature("on", Categories((0, 1))),)), TrainingPlan(steps=20)
    >>> draw = np.random.default_rng(0)
    >>> surrogate = train_surrogate(lambda x: x[:, 0], draw_rows(schema, 64, draw),
    ...                             source=Seeded(0), schema=schema, plan=plan)
    >>> consistent_rows(surrogate, inferred_marginals(surrogate, schema), 5, draw).shape
    (5, 1)
    """
    scale = surrogate.predict(draw_rows(marginals.schema, 1_024, draw)).std(axis=0).max() or 1.0
    blocks = [
        _block(surrogate, marginals, min(BLOCK, count - done), draw, float(scale))
        for done in range(0, count, BLOCK)
    ]
    return np.concatenate(blocks) if blocks else np.empty((0, len(marginals.values)))


def _block(
    surrogate: Surrogate, marginals: Marginals, n: int, draw: np.random.Generator, scale: float
) -> Rows:
    offered = _candidates(marginals, n, draw)
    rows = np.zeros((n, offered.shape[2]))
    present = np.zeros(offered.shape, dtype=np.bool_)
    known = np.repeat(surrogate.base[np.newaxis], n, axis=0)
    everyone = np.arange(n)
    for player in draw.permutation(surrogate.players.count):
        own = surrogate.players.owner == player
        present[:, :, own] = True
        asked = np.where(own, offered, rows[:, np.newaxis])
        width = asked.shape[2]
        worths = surrogate.predict_present(asked.reshape(-1, width), present.reshape(-1, width))
        worths = worths.reshape(n, CANDIDATES, -1)
        chances = _tilted((worths - known[:, np.newaxis]) / scale)
        chosen = (chances.cumsum(1) < draw.random((n, 1))).sum(1).clip(max=CANDIDATES - 1)
        rows, known = asked[everyone, chosen], worths[everyone, chosen]
    return rows


def _candidates(marginals: Marginals, n: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Shape (n, candidates, features): independent features, a share of them uniform."""
    total = n * CANDIDATES
    uniform = draw_rows(marginals.schema, total, draw).reshape(n, CANDIDATES, -1)
    likely = marginals.draw(total, draw).reshape(uniform.shape)
    return np.where(draw.random(uniform.shape) < draw.random((n, 1, 1)), uniform, likely)


def _tilted(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances (n, k) ∝ exp(θ·gap) under which the mean gap is as near to 0 as the ridge allows.

    θ minimises log Σ exp(θ·gap) + ridge·|θ|²/2, which is convex: Newton's steps, none too long.
    """
    n, _, outputs = gaps.shape
    theta = np.zeros((n, outputs, 1))
    chances = np.empty((*gaps.shape[:2], 1))
    for _ in range(12):
        marks = gaps @ theta
        chances = np.exp(marks - marks.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        mean = gaps.swapaxes(1, 2) @ chances
        centred = gaps - mean.swapaxes(1, 2)
        curvature = (chances * centred).swapaxes(1, 2) @ centred
        curvature += RIDGE * np.eye(outputs)
        step = np.linalg.solve(curvature, mean + RIDGE * theta)
        length = np.linalg.norm(step, axis=1, keepdims=True)
        theta -= step * np.minimum(1.0, 5.0 / np.maximum(length, 1e-12))
    return chances[..., 0]


# --- distillation ---------------------------------------------------------------------------------

JUDGED: Final = 200
VALIDATED: Final = 1_024
MOST_CONSISTENT: Final = 30_000
USES: Final = 10
"""Drawing a consistent row costs as much as learning from it this many times, so short plans draw
fewer; its coalitions are fresh at every use."""


@dataclass(frozen=True, eq=False)
class DistilledExplainer:
    """A distilled explainer and how good it is.

    Args:
        explainer: the explainer.
        on_schema: its quality on rows drawn from the schema, not used in training.
        on_rows: its quality on real rows, where some were allowed; computed from exact data, so on
            protected rows it is for their custodian only.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> rows, plan = draw_rows(schema, 64, np.random.default_rng(0)), TrainingPlan(steps=20)
    >>> surrogate = train_surrogate(
    ...     lambda x: x.sum(axis=1), rows, source=Seeded(0), schema=schema, plan=plan)
    >>> distil(surrogate, schema, source=Seeded(0), plan=plan).explainer(rows[:1]).notes
    ('learned explainer: values are approximate',)
    """

    explainer: FastShap
    on_schema: Quality
    on_rows: Quality | None = None


@one_thread()
def distil(
    surrogate: Surrogate,
    schema: Schema,
    *,
    source: GeneratorSource,
    plan: TrainingPlan = EXPLAINER_PLAN,
    objective: Objective = OBJECTIVE,
    inferred_share: float = 0.75,
    unprotected_rows: Any = None,
    progress: Progress | None = None,
) -> DistilledExplainer:
    """Train an explainer on rows drawn from a schema alone.

    Sees no data unless `unprotected_rows` are given, and training never sees those. If the
    surrogate is private, so is the explainer, at no further cost.

    Args:
        surrogate: what is explained; its features must be those of the schema.
        schema: what rows may look like: public.
        source, plan, objective, progress: as for `train_explainer`.
        inferred_share: the share of training rows that look as the surrogate itself suggests
            (`consistent_rows`); the others are uniform.
        unprotected_rows: real rows that quality may be reported on.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> rows, plan = draw_rows(schema, 64, np.random.default_rng(0)), TrainingPlan(steps=20)
    >>> surrogate = train_surrogate(
    ...     lambda x: x.sum(axis=1), rows, source=Seeded(0), schema=schema, plan=plan)
    >>> found = distil(surrogate, schema, source=Seeded(0), plan=plan)
    >>> found.on_schema.rows, found.on_rows
    (200, None)
    """
    _check_schema(surrogate, schema)
    if not 0 <= inferred_share <= 1:
        raise InvalidInput(f"inferred_share must lie between 0 and 1, found {inferred_share}")
    draw = source.generator()
    marginals = inferred_marginals(surrogate, schema)

    def likely(count: int) -> Rows:
        return consistent_rows(surrogate, marginals, count, draw)

    def beside(found: Rows, count: int) -> Rows:
        return np.concatenate([draw_rows(schema, count - len(found), draw), found])

    in_batch = int(inferred_share * plan.batch_rows)
    kept = likely(min(MOST_CONSISTENT, max(in_batch, plan.steps * in_batch // USES)))

    def more(count: int) -> Array:
        found = kept[draw.integers(0, len(kept), in_batch)] if in_batch else kept
        return surrogate.encoding.columns(beside(found, count))

    held_out = beside(likely(int(inferred_share * VALIDATED)), VALIDATED)
    explainer = learn(
        surrogate,
        more,
        held_out,
        draw,
        plan=plan,
        objective=objective,
        progress=progress,
        sees_surrogate=True,  # uniform rows leave a network of columns alone far behind
    )
    return DistilledExplainer(
        explainer,
        quality(explainer, draw_rows(schema, JUDGED, draw)),
        None if unprotected_rows is None else quality(explainer, unprotected_rows),
    )


def _check_schema(surrogate: Surrogate, schema: Schema) -> None:
    if schema.feature_names != surrogate.feature_names:
        raise InvalidInput(
            f"the surrogate has the features {list(surrogate.feature_names)[:5]}…, the schema "
            f"{list(schema.feature_names)[:5]}…; they must be the same, in the same order"
        )
    if surrogate.schema is not None and surrogate.schema.digest != schema.digest:
        raise InvalidInput(
            f"the surrogate was trained with another schema than {schema.name!r}; "
            "pass `surrogate.schema`"
        )
