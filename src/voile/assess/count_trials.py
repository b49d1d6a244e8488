"""The count of members above a threshold, audited: invented members are above it, or not."""

from __future__ import annotations

from typing import Final

import numpy as np

from voile.assess.betting import Floats
from voile.assess.claims import group_size
from voile.assess.members_count import OpenThreshold, PrivateMembersCount
from voile.assess.release_canary import ReleaseCanary, Side
from voile.assess.trial import Arrangement, AuditTrial
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Schema
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.release import PUBLIC
from voile.training import arrays_of, perceptron

_SCHEMA: Final = Schema(
    "invented",
    (Feature("shown", Categories(("no", "yes")), "no"),),
    label=Label("label", Categories(("no", "yes"))),
)
MOST_TOGETHER: Final = 16
_EVERYBODY: Final = OpenThreshold(value=-1e9, above=1.0, rows=20)
"""Whoever can be read lies above."""


def count_trial(epsilon: float, relation: Relation, *, delta: float) -> AuditTrial:
    """The count that an agreement reserves this epsilon for."""
    event = _release(epsilon, relation, above=True, together=1).cost(1)
    together = group_size(event, MOST_TOGETHER)

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
    rows, canaries = np.ones((1 + together, 1)), np.arange(1 + together) > 0
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
