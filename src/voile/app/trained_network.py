"""A network from DP-SGD on one table, in the folder that `voile train` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from voile.app.model_files import (
    BLACK_BOX,
    REFERENCE,
    SCHEMA,
    network_files,
    read_network,
    table_files,
    trained_arrays,
    wrapped_network,
)
from voile.app.train_quality import CalibrationFigures, charged_quality
from voile.app.trained_folder import (
    GUARANTEES,
    MANIFEST,
    NETWORK,
    QUALITY,
    ROUNDING,
    PaidAnswers,
    TrainedFolder,
    are_same_figures,
    begin_folder,
    finish_folder,
)
from voile.core.guarantee import Guarantee, Relation
from voile.core.input_file import damaged, read_json
from voile.core.schema import Rows, Schema, is_table
from voile.datasets.tables import read_table
from voile.federation.arrays import Arrays
from voile.models import Outputs, WrappedModel
from voile.pipelines.calibration import Calibration
from voile.pipelines.score_table import (
    Counts,
    PrivateScoreTable,
    ScoreBins,
    ScoreCalibration,
    stored_counts,
)
from voile.pipelines.table_network import (
    RULE_VERSION,
    PrivateTableNetwork,
    TableNetworkPlan,
    joint_guarantee,
    stored_arrays,
)
from voile.pipelines.tables import NetworkModel
from voile.privacy.events import from_dict
from voile.training import arrays_of

_RULE: Final = f"network/{RULE_VERSION}"


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedNetwork(TrainedFolder):
    """A network that was paid for.

    Args: besides those of `TrainedFolder`:
        plan: how it was trained; public.
        network: the network, calibrated.
        trained: its parameters as they were released, before calibration.
    """

    kind: ClassVar = NETWORK
    current_rule: ClassVar = _RULE

    plan: TableNetworkPlan = field(repr=False)
    network: NetworkModel = field(repr=False)
    trained: Arrays = field(repr=False)

    @property
    def releases(self) -> tuple[str, ...]:
        return (PrivateTableNetwork.name, PrivateScoreTable.name)[: len(self.events)]

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @property
    def rows(self) -> int:
        return self.plan.rows

    @property
    def used_features(self) -> tuple[str, ...]:
        return self.schema.feature_names

    @cached_property
    def model(self) -> WrappedModel:
        """Its outputs, as every part of voile takes a model."""
        return wrapped_network(self.network)

    def predict(self, rows: Any) -> Outputs:
        schema = self.schema
        return self.model.predict(schema.rows(rows) if is_table(rows) else schema.clamp(rows))

    @property
    def expected_guarantee(self) -> Guarantee:
        return joint_guarantee(self.plan, delta=self.guarantee.delta)

    def follows_from(self, paid: PaidAnswers) -> bool:
        """Its promise, its parameters bit for bit, its calibration and the charged figures.

        A network without a charged table is calibrated on open rows: that is the statement of
        whoever trained it, and no rows of others went into it.
        """
        plan = TableNetworkPlan(self.schema, self.rows, paid.protected, self.plan.rho)
        promise = joint_guarantee(plan, delta=paid.delta)
        if self.events != plan.events or promise != self.guarantee:
            return False
        network, *tables = paid.answers
        if not _are_same_arrays(stored_arrays(network), self.trained):
            return False
        return all(self._follows_from_scores(plan, stored_counts(each)) for each in tables)

    def _follows_from_scores(self, plan: TableNetworkPlan, counts: Counts) -> bool:
        scores = ScoreCalibration(plan, ScoreBins(plan.model(self.trained)), counts)
        calibrated = scores.calibration.fold(self.trained)
        saved = arrays_of(self.network.network)
        charged = (self.quality.get("charged") or {}).get("figures", {})
        return are_same_figures(score_quality(scores)["figures"], charged) and all(
            np.allclose(calibrated[name], array, rtol=ROUNDING, atol=ROUNDING)
            for name, array in saved.items()
        )


def _are_same_arrays(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(array, other[name]) for name, array in one.items()
    )


def score_quality(scores: ScoreCalibration) -> dict[str, Any]:
    """What the charged table says about the calibrated network, as plain values."""
    figures = CalibrationFigures(
        scores.counts.astype(np.float64),
        scores.deviation,
        scores.plan.rows,
        scores.chances,
        scores.rate,
    )
    return charged_quality(figures) | {"measured_on": "the charged table of scores"}


@dataclass(frozen=True, eq=False)
class ReleasedNetwork:
    """What was paid for, with what was made of it at no cost.

    Args:
        plan: how it was trained.
        arrays: its parameters, as they were released.
        calibration: None if nothing told how to calibrate it.
        charges: the ledger's names for what paid for it.
        guarantee: joint, of all releases.
    """

    plan: TableNetworkPlan
    arrays: Arrays
    calibration: Calibration | None
    charges: tuple[str, ...]
    guarantee: Guarantee

    @cached_property
    def model(self) -> NetworkModel:
        """Calibrated."""
        trained = self.plan.model(self.arrays)
        return trained if self.calibration is None else self.calibration.apply(trained)


def save_trained_network(
    made: ReleasedNetwork,
    quality: Mapping[str, Any],
    reference: Rows,
    folder: Path,
    *,
    invented: bool,
) -> TrainedNetwork:
    """Write it; durable when this returns."""
    plan = made.plan
    trained = TrainedNetwork(
        folder=folder,
        plan=plan,
        network=made.model,
        trained=made.arrays,
        reference=reference,
        reference_invented=invented,
        guarantee=made.guarantee,
        charges=made.charges,
        events=plan.events,
        quality=quality,
        rule=_RULE,
    )
    begin_folder(folder, plan.protected.dataset, made.charges)
    network = network_files(made.model, made.arrays, made.calibration)
    for name, write in {**table_files(plan.schema, reference), **network}.items():
        write(folder / name)
    stated = {"rows": plan.rows, "relation": str(plan.protected.relation), "rho": plan.rho}
    finish_folder(trained, stated, reference_invented=invented)
    return trained


def load_trained_network(folder: Path, head: Mapping[str, Any]) -> TrainedNetwork:
    """One whose files are what the manifest says."""
    schema = Schema.load(folder / SCHEMA)
    arrays, label = read_network(folder / BLACK_BOX)
    with damaged(folder / GUARANTEES):
        (promised,) = read_json(folder / GUARANTEES)["guarantees"]
        guarantee = Guarantee.from_dict(promised)
    with damaged(folder / MANIFEST):
        plan = _plan(schema, guarantee, head["budget"])
        events = tuple(from_dict(each) for each in head["events"])
        charges = tuple(map(str, head["charges"]))
        if not len(charges) == len(events) == len(plan.events):
            raise ValueError(f"expected {len(plan.events)} charges")
        return TrainedNetwork(
            folder=folder,
            plan=plan,
            network=plan.model(arrays),
            trained=trained_arrays(arrays, label, folder / BLACK_BOX),
            reference=schema.rows(read_table(folder / REFERENCE)),
            reference_invented=bool(head["reference_invented"]),
            guarantee=guarantee,
            charges=charges,
            events=events,
            quality=read_json(folder / QUALITY),
            rule=str(head["rule"]),
        )


def _plan(schema: Schema, guarantee: Guarantee, stated: Mapping[str, Any]) -> TableNetworkPlan:
    plan = TableNetworkPlan(schema, stated["rows"], guarantee.protected, stated["rho"])
    if plan.protected.relation is not Relation(stated["relation"]):
        raise ValueError("promise and budget state different relations")
    return plan
