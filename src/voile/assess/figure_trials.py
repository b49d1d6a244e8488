"""Figures and sums that parties release and pay for, audited.

The contribution rate of private attributes (`ChargedRate`), importance and accuracy over a party's
own rows (`OverOwnRows`), as trust needs them, the count of members above a threshold, and private
statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from voile.assess.assessment import Arrangement, AuditTrial
from voile.assess.betting import Floats
from voile.assess.claims import charge_beside, group_size
from voile.assess.invented import InventedGame
from voile.assess.members_count import OpenThreshold, PrivateMembersCount
from voile.assess.release_canary import ReleaseCanary, Side
from voile.attribution.fastshap.encoding import Encoding
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Rows, Schema
from voile.pipelines.shapley_guided_noise import AttributeGroups, ChargedRate
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.pipelines.trusted_averaging.tasks import LABELS, ROWS, LocalTraining
from voile.privacy.events import PrivacyEvent
from voile.release import PUBLIC
from voile.training import arrays_of, perceptron

MOST_TOGETHER: Final = 8
_STEEP: Final = 1e3
"""How much faster than a coin the invented network makes up its mind."""
_BINARY: Final = Categories(("no", "yes"))
_SCHEMA: Final = Schema(
    "invented", (Feature("private", _BINARY), Feature("public", _BINARY)), Label("label", _BINARY)
)

# --- the contribution rate ------------------------------------------------------------------------

Block = tuple[tuple[float, float, float], ...]
"""Rows of one block: private, public, label."""
_NOTHING: Final = (np.nan, np.nan, np.nan)
_BLANKED: Final[tuple[Block, Block]] = (
    ((0, 0, 1), (0, 0, 0), (0, 1, 0), (1, 1, 0)),
    ((0, 0, 1), _NOTHING, (0, 1, 0), (1, 1, 0)),
)
"""Two blocks that differ in one row; the rate of one is 1, that of the other 0. In the first all
rests on the private column, without that row on the public one."""
_REPLACED: Final[tuple[Block, Block]] = (
    ((0, 0, 0), (0, 0, 0), (1, 0, 1), (0, 0, 0)),
    ((0, 0, 0), (0, 0, 0), (0, 1, 1), (0, 0, 0)),
)
_COLUMN: Final[tuple[Block, Block]] = (
    ((0, 0, 1), (0, 0, 0), (0, 1, 0), (0, 1, 0)),
    ((0, 0, 1), (0, 0, 0), (1, 1, 0), (0, 1, 0)),
)
"""They differ in the private column of one row; the first has the default there."""


def rates(release: ChargedRate, together: int) -> tuple[Arrangement, ...]:
    """Some blocks hold a canary, the others cancel out."""
    # The event does not depend on the number of blocks.
    blocks = max(min(release.blocks, MOST_TOGETHER), together)
    sides = first, second = _sides(release.protected)
    others = [sides[place % 2] for place in range(blocks - together)]
    groups = AttributeGroups.two(_SCHEMA, ("private",))

    def drawing(block: Block) -> Callable[[int], Floats]:
        records = _dealt([*[block] * together, *others])
        tried = replace(release, records=records, groups=groups, blocks=blocks)
        return lambda draws: np.array([[tried.draw()._noisy] for _ in range(draws)])

    return (ReleaseCanary("some blocks", drawing(first), drawing(second)),)


def rate_at_half_noise(release: ChargedRate) -> ChargedRate:
    return replace(release, noise_multiplier=release.noise_multiplier / 2)


def invented_rate(protected: Protected, *, noise_multiplier: float, delta: float) -> ChargedRate:
    """A rate of invented rows, at this price."""
    return ChargedRate(
        _dealt([_sides(protected)[0]] * MOST_TOGETHER),
        AttributeGroups.two(_SCHEMA, ("private",)),
        blocks=MOST_TOGETHER,
        noise_multiplier=noise_multiplier,
        protected=protected,
        delta=delta,
    )


def _sides(protected: Protected) -> tuple[Block, Block]:
    if protected.unit is ProtectedUnit.COLUMNS:
        return _COLUMN
    return _REPLACED if protected.relation is Relation.REPLACE_ONE else _BLANKED


def _dealt(blocks: Sequence[Block]) -> TableRecords:
    """Rows of all blocks, one of each block after the other."""
    lines = np.array(blocks, dtype=np.float64).swapaxes(0, 1).reshape(-1, 3)
    null = np.isnan(lines[:, 0])
    return TableRecords(_SCHEMA, np.where(null[:, None], 0.0, lines)[:, :2], lines[:, 2], null)


# --- importance and accuracy over own rows --------------------------------------------------------


def own_rows_trial(
    name: str, task: LocalTraining, charged: PrivacyEvent, *, delta: float
) -> AuditTrial:
    """What a party says of its own rows beside its update, which is another claim.

    Args:
        charged: for one participation. The bet is against what is left of it after the training.
    """
    training = task.network.cost(1)
    assert task.own_rows is not None
    assert training is not None
    event = charge_beside(charged, task.own_rows.event, training)
    together = group_size(event, MOST_TOGETHER)

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        charged = task.own_rows
        assert charged is not None
        half = replace(charged, importance=charged.importance / 2, accuracy=charged.accuracy / 2)
        tried = _OwnRows(replace(task, own_rows=half) if halved else task, together)
        return (ReleaseCanary("as many others", tried.inside, tried.outside),)

    return AuditTrial(name, event, arrangements, delta, together)


class _OwnRows:
    """Draws strengths and accuracy over invented rows, half of which are canaries.

    A canary differs from the defaults in one feature, what is put in its place ("replace one") in
    another one: the network looks at both, so their importances lie at right angles.
    """

    def __init__(self, task: LocalTraining, together: int) -> None:
        self._task, self._together = task, together
        self._filler = InventedGame(task.schema).against
        self._given = {
            ROWS: np.repeat(self._filler, 2, axis=0).astype(np.float32),
            LABELS: np.zeros(2, dtype=np.float32),
        }
        opposite, features = InventedGame(task.schema).opposite, len(task.schema.features)
        self._ends = [self._filler.copy(), self._filler.copy()]
        for place, end in zip((0, features - 1), self._ends, strict=True):
            end[0, place] = opposite[0, place]
        self._model = _looks_at(task, np.concatenate([*self._ends[: min(2, features)]]))

    def inside(self, draws: int) -> Floats:
        """The network gets canaries right."""
        return self._drawn(self._ends[0], len(self._task.output_head.names) - 1, draws)

    def outside(self, draws: int) -> Floats:
        """A null record; or one that it gets wrong."""
        is_replaced = self._task.network.relation is Relation.REPLACE_ONE
        other = self._ends[1] if is_replaced else np.full_like(self._filler, np.nan)
        return self._drawn(other, 0, draws)

    def _drawn(self, row: Rows, label: int, draws: int) -> Floats:
        schema, count = self._task.schema, self._together
        rows = np.concatenate([np.repeat(each, count, axis=0) for each in (row, self._filler)])
        labels = np.where(np.arange(2 * count) < count, float(label), 0.0)
        records = TableRecords(schema, schema.clamp(rows), labels, schema.null_records(rows))
        found = [
            self._task._looked_at(self._model, self._given, records, 2 * count)
            for _ in range(draws)
        ]
        return np.array([[*strengths, accuracy] for strengths, accuracy in found])


def _looks_at(task: LocalTraining, rows: Rows) -> NetworkModel:
    """A network that says the first class of the defaults, and the last one of these rows."""
    schema, names = task.schema, task.output_head.names
    network = perceptron(len(schema.column_names), (), len(names), np.random.default_rng(0))
    layer, encoding = network.layers[-1], Encoding.around_defaults(schema)
    layer.weight[:], layer.bias[:] = 0.0, 0.0
    default = encoding.columns(schema.null_row[np.newaxis])[0]
    layer.bias[1:] = -_STEEP
    for apart in encoding.columns(rows) - default:
        weight = 2 * _STEEP * apart / (apart @ apart)
        layer.weight[-1] += weight
        layer.bias[-1] -= weight @ default
    return NetworkModel.from_arrays(schema, task.output_head, arrays_of(network))


# --- the count of members above a threshold: invented members are above it, or not ---------------


MOST_MEMBERS: Final = 16
_EVERYBODY: Final = OpenThreshold(value=-1e9, above=1.0, rows=20)
"""Whoever can be read lies above."""


def count_trial(epsilon: float, relation: Relation, *, delta: float) -> AuditTrial:
    """The count that an agreement reserves this epsilon for."""
    event = _release(epsilon, relation, above=True, together=1).cost(1)
    together = group_size(event, MOST_MEMBERS)

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        spent = 2 * epsilon if halved else epsilon
        inside, outside = (_side(spent, relation, above, together) for above in (True, False))
        return (ReleaseCanary("some members", inside, outside),)

    return AuditTrial(PrivateMembersCount.name, event, arrangements, delta, together)


def _side(epsilon: float, relation: Relation, above: bool, together: int) -> Side:
    release = _release(epsilon, relation, above=above, together=together)

    def draws(count: int) -> Floats:
        drawn = [release.draw() for _ in range(count)]
        return np.array([[float(each.count), float(each.members), each.within] for each in drawn])

    return draws


def _release(
    epsilon: float, relation: Relation, *, above: bool, together: int
) -> PrivateMembersCount:
    """A member that is not there is a null record, or one without a label in its place."""
    rows, canaries = np.ones((1 + together, 2)), np.arange(1 + together) > 0
    labels = np.where(canaries & (not above), np.nan, 1.0)
    null = canaries & (not above and relation is Relation.BLANK_ONE)
    return PrivateMembersCount(
        protected=Protected(ProtectedUnit.ROW, relation, "invented members"),
        epsilon=epsilon,
        delta=0.0,
        origins=[PUBLIC],
        model=_model(),
        members=TableRecords(_SCHEMA, rows, labels, null),
        threshold=_EVERYBODY,
    )


def _model() -> NetworkModel:
    columns = len(_SCHEMA.column_names)
    network = perceptron(columns, (), 2, np.random.default_rng(0))
    return NetworkModel.from_arrays(_SCHEMA, OutputHead.of_label(_SCHEMA), arrays_of(network))
