"""An additive model from private statistics, in the folder that `voile train` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from voile.app.artefact_manifest import check_files
from voile.app.model_files import wrapped_additive
from voile.app.train_quality import released_quality
from voile.app.trained_folder import (
    CURVES,
    FILES,
    FOLDER,
    MANIFEST,
    MODEL,
    NETWORK,
    QUALITY,
    ROUNDING,
    STATISTICS,
    PaidAnswers,
    TrainedFolder,
    are_same_figures,
    begin_folder,
    finish_folder,
)
from voile.core.atomic_file import replace_file
from voile.core.choices import chosen
from voile.core.guarantee import Guarantee, Relation
from voile.core.input_file import damaged, read_json
from voile.core.schema import Schema
from voile.models import Outputs, WrappedModel
from voile.models.additive import AdditiveModel
from voile.privacy.events import from_dict
from voile.release.statistics import (
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    PrivateStatistics,
    StatisticsBudget,
    joint_guarantee,
)
from voile.release.statistics.releases import NO_TABLES
from voile.release.statistics.rule import RULE

_SECTIONS: Final = (each.name for each in fields(RULE) if each.name != "version")
_RULE: Final = f"{RULE.version}/{RULE.digest(*_SECTIONS)}"
_RELEASES: Final[tuple[type[Any], ...]] = (
    PrivateFineTables,
    PrivateMoments,
    PrivateCalibrationTable,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedModel(TrainedFolder):
    """An additive model that was paid for.

    Args: besides those of `TrainedFolder`:
        budget: what its releases may tell together; public.
    """

    kind: ClassVar = STATISTICS
    current_rule: ClassVar = _RULE

    additive: AdditiveModel
    budget: StatisticsBudget = field(repr=False)

    @property
    def schema(self) -> Schema:
        return self.additive.schema

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(self.budget.rhos)

    @property
    def rows(self) -> int:
        return self.budget.rows

    @property
    def used_features(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.additive.bins)

    @cached_property
    def model(self) -> WrappedModel:
        """Its probabilities, as every part of voile takes a model."""
        return wrapped_additive(self.additive)

    def predict(self, rows: Any) -> Outputs:
        return self.additive.predict(rows)

    @property
    def expected_guarantee(self) -> Guarantee:
        stated = self.guarantee
        return joint_guarantee(self.budget, protected=stated.protected, delta=stated.delta)

    def follows_from(self, paid: PaidAnswers) -> bool:
        """Its promise, its scores and the charged figures, up to rounding."""
        budget = self.budget
        promise = joint_guarantee(budget, protected=paid.protected, delta=paid.delta)
        if self.events != budget.events or promise != self.guarantee:
            return False
        kinds = _RELEASES[-len(paid.answers) :]
        *tables, moments, calibration = (
            kind.made(kind.stored_blocks(answer), event=None)
            for kind, answer in zip(kinds, paid.answers, strict=True)
        )
        first = tables[0] if tables else NO_TABLES
        found = PrivateStatistics(budget, first, moments, calibration, promise)
        charged = self.quality.get("charged", {}).get("figures", {})
        return _is_same_model(found.model, self.additive) and are_same_figures(
            released_quality(found)["figures"], charged
        )


def save_trained_model(
    statistics: PrivateStatistics, quality: Mapping[str, Any], folder: Path
) -> TrainedModel:
    """Write it; durable when this returns."""
    parts = (statistics.tables, statistics.moments, statistics.calibration)
    model, budget = statistics.model, statistics.budget
    trained = TrainedModel(
        folder=folder,
        additive=model,
        budget=budget,
        charges=tuple(part.charge for part in parts if part.charge is not None),
        events=tuple(part.event for part in parts if part.event is not None),
        quality=quality,
        rule=_RULE,
        guarantee=statistics.guarantee,
    )
    begin_folder(folder, statistics.guarantee.protected.dataset, trained.charges)
    model.save(folder / MODEL)
    replace_file(folder / CURVES, model.to_json().encode())
    stated = {
        "rows": budget.rows,
        "relation": str(budget.relation),
        "rho": budget.rho,
        "signal": budget.signal,
    }
    finish_folder(trained, stated)
    return trained


def load_trained_model(folder: Path) -> TrainedFolder:
    """Open whatever `voile train` wrote; `VerificationFailed` if a file is not what the manifest
    says.

    The manifest is not signed: it finds damage, not an adversary.
    """
    head = FOLDER.read_head(folder)
    with damaged(folder / MANIFEST):
        kind = head["model"]
        chosen(FILES, kind, "model")
        files = dict(head["files"])
    check_files(folder, files, frozenset(FILES[kind]), MANIFEST)
    if kind == NETWORK:
        from voile.app.trained_network import load_trained_network

        return load_trained_network(folder, head)
    return _load_additive(folder, head)


def _load_additive(folder: Path, head: Mapping[str, Any]) -> TrainedModel:
    model = AdditiveModel.load(folder / MODEL)
    with damaged(folder / MANIFEST):
        stated = dict(head["budget"])
        (guarantee,) = model.guarantees
        trained = TrainedModel(
            folder=folder,
            additive=model,
            budget=StatisticsBudget(
                schema=model.schema,
                rows=stated["rows"],
                relation=Relation(stated["relation"]),
                rho=stated["rho"],
            ),
            charges=tuple(map(str, head["charges"])),
            events=tuple(from_dict(each) for each in head["events"]),
            quality=read_json(folder / QUALITY),
            rule=str(head["rule"]),
            guarantee=guarantee,
        )
        if not len(trained.charges) == len(trained.events) == len(trained.budget.events):
            raise ValueError("expected a charge for each release")
    return trained


def _is_same_model(one: AdditiveModel, other: AdditiveModel) -> bool:
    """Up to rounding: another machine may add up in another order."""
    if (one.schema, one.bins) != (other.schema, other.bins):
        return False
    return all(
        np.allclose(getattr(one, name), getattr(other, name), rtol=ROUNDING, atol=ROUNDING)
        for name in ("intercept", "scores", "masses", "covariance")
    )
