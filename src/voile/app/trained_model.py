"""A model that `voile train` wrote, as a folder: all of it may be shown.

    model.json              format, version, kind, rows, budget, charges, digest of every other file
    model.safetensors       the model with its schema, background, errors and guarantee
    curves.json             the same for people: each feature, bin, score, error and share of rows
    guarantees.json         what is promised about the rows it was made from
    quality.json            how good it is, beside always stating the label rate
    report.html             the report, if it was written

The manifest is written last; until then one without anything but format and version says whose
folder it is. It is not signed: before anything is said on its ground, it is compared with the
ledger that paid (`check_paid`).

Compatibility promise: a model of version n is read by every later voile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from voile.app.artefact_manifest import OwnFolder, check_files, write_json
from voile.app.assessment_file import ASSESSMENT
from voile.app.train_quality import released_quality
from voile.core.atomic_file import replace_file
from voile.core.choices import chosen
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee, Relation
from voile.core.input_file import damaged, read_json
from voile.core.schema import Schema
from voile.federation.history import event_as_text
from voile.models import Outputs, WrappedModel
from voile.models.additive import AdditiveModel
from voile.models.wrapped import Forward, InspectedForward
from voile.privacy.events import PrivacyEvent, from_dict, to_dict
from voile.records.audit_log import ReleaseRecord, decode_record
from voile.records.ledger.event_text import event_for_log, event_text
from voile.records.storage import Reader
from voile.records.vault import Vault
from voile.release import Origin, trained_privately
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

STATISTICS: Final = "statistics"
MANIFEST: Final = "model.json"
MODEL: Final = "model.safetensors"
CURVES: Final = "curves.json"
GUARANTEES: Final = "guarantees.json"
QUALITY: Final = "quality.json"
REPORT: Final = "report.html"
_DIGITS: Final = 12
"""Of a schema's digest, in what a record says about its subject."""
_ROUNDING: Final = 1e-6
_SECTIONS: Final = (each.name for each in fields(RULE) if each.name != "version")
_RULE: Final = f"{RULE.version}/{RULE.digest(*_SECTIONS)}"
_RELEASES: Final[tuple[type[Any], ...]] = (
    PrivateFineTables,
    PrivateMoments,
    PrivateCalibrationTable,
)
_FILES: Final = (MODEL, CURVES, GUARANTEES, QUALITY)
FOLDER: Final = OwnFolder(
    "trained model",
    "voile train",
    MANIFEST,
    "voile model",
    1,
    (MANIFEST, *_FILES, ASSESSMENT, REPORT),
)


@dataclass(frozen=True)
class AdditiveForward(InspectedForward):
    """What an additive model says, for `WrappedModel`: each row is looked up by itself."""

    model: AdditiveModel

    def __call__(self, rows: Any) -> Outputs:
        return self.model.predict(rows)

    def steady(self) -> Forward | None:
        return self if type(self.model) is AdditiveModel else None


def wrapped_additive(additive: AdditiveModel) -> WrappedModel:
    """The probabilities of an additive model, as every part of voile takes a model."""
    return WrappedModel(
        forward=AdditiveForward(additive),
        identity=lambda: additive.digest,
        width=len(additive.feature_names),
        feature_names=additive.feature_names,
        output_names=additive.output_names,
        outputs=additive.outputs,
        source=additive,
    )


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model that was paid for. It is explained as the artefact of a federation is, at no cost.

    Args:
        folder: where it lies.
        additive: the model itself.
        budget: what its releases may tell together; public.
        charges: the ledger's names for what paid for it.
        events: what was charged, one event for each.
        quality: the content of `quality.json`; plain values.
        rule: digest of the rule by which it follows from its releases.
    """

    view: ClassVar[str] = "trained model"

    folder: Path
    additive: AdditiveModel
    budget: StatisticsBudget = field(repr=False)
    charges: tuple[str, ...]
    events: tuple[PrivacyEvent, ...] = field(repr=False)
    quality: Mapping[str, Any] = field(repr=False)
    rule: str = field(repr=False)
    reference: ClassVar[None] = None
    """It has no rows: its background is the share of rows in each bin, inside of the model."""
    reference_invented: ClassVar = False
    surrogate_model: ClassVar[None] = None
    deviations: ClassVar[None] = None
    """Explanations state their own errors."""

    @property
    def schema(self) -> Schema:
        return self.additive.schema

    @property
    def guarantee(self) -> Guarantee:
        """Joint, of all releases."""
        return self.additive.guarantees[0]

    @property
    def origin(self) -> Origin:
        """Of the model and of its background, which were released together."""
        return trained_privately(self.guarantee)

    @property
    def charged_events(self) -> set[str]:
        """What its training charged, as texts."""
        return {event_as_text(event) for event in self.events}

    def alarms(self, *, unused: Collection[str] = ()) -> tuple[str, ...]:  # noqa: ARG002
        """Why it should not be used, if so; an artefact has more parts to ask about."""
        return tuple(f"The model: {line}." for line in self.quality["alarms"])

    @cached_property
    def model(self) -> WrappedModel:
        """Its probabilities, as every part of voile takes a model."""
        return wrapped_additive(self.additive)

    def predict(self, rows: Any) -> Outputs:
        """Probabilities of both classes, (n, 2); rows are a table, or an array in the schema's
        numbers."""
        return self.additive.predict(rows)


def save_trained_model(
    statistics: PrivateStatistics, quality: Mapping[str, Any], folder: Path
) -> TrainedModel:
    """Write it; durable when this returns."""
    parts = (statistics.tables, statistics.moments, statistics.calibration)
    model, budget = statistics.model, statistics.budget
    events = tuple(part.event for part in parts if part.event is not None)
    charges = tuple(part.charge for part in parts if part.charge is not None)
    # Findings and a report about another model say nothing about this one.
    is_same = paid_for(folder) == (statistics.guarantee.protected.dataset, charges)
    FOLDER.begin(folder, () if is_same else (ASSESSMENT, REPORT))
    model.save(folder / MODEL)
    replace_file(folder / CURVES, model.to_json().encode())
    promised = [guarantee.to_dict() for guarantee in model.guarantees]
    write_json(folder / GUARANTEES, {"guarantees": promised})
    write_json(folder / QUALITY, quality)
    content = {
        "model": STATISTICS,
        "rule": _RULE,
        "budget": {
            "rows": budget.rows,
            "relation": str(budget.relation),
            "rho": budget.rho,
            "signal": budget.signal,
        },
        "dataset": statistics.guarantee.protected.dataset,
        "charges": list(charges),
        "events": [to_dict(event) for event in events],
    }
    FOLDER.finish(folder, content, _FILES)
    return TrainedModel(folder, model, budget, charges, events, quality, _RULE)


def paid_for(folder: Path) -> tuple[str, tuple[str, ...]] | None:
    """The data set and the charges of the model that lies there; None if no finished one does."""
    found = read_json(folder / MANIFEST) if FOLDER.is_at(folder) else {}
    if "charges" not in found or "dataset" not in found:
        return None
    return str(found["dataset"]), tuple(map(str, found["charges"]))


def load_trained_model(folder: Path) -> TrainedModel:
    """Open one; `VerificationFailed` if a file is not what the manifest says.

    The manifest is not signed: it finds damage, not an adversary.
    """
    head = FOLDER.read_head(folder)
    with damaged(folder / MANIFEST):
        chosen({STATISTICS: None}, head["model"], "model")
        files = dict(head["files"])
        charges = tuple(map(str, head["charges"]))
        events = tuple(from_dict(each) for each in head["events"])
        stated, rule = dict(head["budget"]), str(head["rule"])
    check_files(folder, files, frozenset(_FILES), MANIFEST)
    model = AdditiveModel.load(folder / MODEL)
    with damaged(folder / MANIFEST):
        budget = StatisticsBudget(
            schema=model.schema,
            rows=stated["rows"],
            relation=Relation(stated["relation"]),
            rho=stated["rho"],
        )
        if len(model.guarantees) != 1 or not len(charges) == len(events) == len(budget.events):
            raise ValueError("expected one guarantee and a charge for each release")
    quality = read_json(folder / QUALITY)
    return TrainedModel(folder, model, budget, charges, events, quality, rule)


# --- compared with the ledger that paid -----------------------------------------------------------


def check_paid(vault: Vault, trained: TrainedModel) -> None:
    """`Refused` unless this ledger paid for this very model, on the terms that it states.

    A folder is not signed, so nothing in it is believed (numbers are cited in the code):

    1. its charges are on record, for the events that it states, by one account at one delta;
    2. they were about its schema;
    3. its guarantee is what follows from its budget, that account and that delta;
    4. its scores, and the charged figures of how good it is, are what follows from the stored
       answers. Figures on open rows are the statement of whoever trained it.
    """
    try:
        found = vault.storage.read_snapshot(lambda t: _follows(vault, t, trained))
    except InvalidInput:  # no such charge, or no guarantee follows from what was charged
        found = None
    if found is not None and trained.rule == _RULE and _is_same(found, trained):
        return
    why = "this ledger did not pay for this very model on the terms it states"
    if trained.rule != _RULE:
        why = "another version of voile made it, so it cannot be compared with this ledger"
    raise Refused(
        f"{trained.folder}: {why}, and its guarantee is not repeated. Name the database that "
        "`voile train` charged (--database), or train again there (what was paid for is free). If "
        "you trust whoever gave you the folder, say so: --model-origin "
        f"{trained.folder / GUARANTEES}"
    )


def _follows(vault: Vault, t: Reader, trained: TrainedModel) -> PrivateStatistics | None:
    """What the ledger keeps under these charges."""
    budget, payers, made = trained.budget, set(), []
    if trained.events != budget.events:
        return None
    kinds = _RELEASES[-len(trained.events) :]
    for charge, event, kind in zip(trained.charges, trained.events, kinds, strict=True):
        settled = vault.ledger.paid(t, charge)
        record = decode_record(vault.log.record(t, settled.record))
        charged = event_for_log(event_text(event))
        if not isinstance(record, ReleaseRecord) or record.event != charged:
            return None  # 1
        name, _, shown = record.subject.rpartition(", model ")
        if name != kind.name or len(shown) < _DIGITS or not budget.schema.digest.startswith(shown):
            return None  # 2
        payers.add((record.account, record.delta))
        made.append(kind.made(kind.stored_blocks(settled.answer), event=None))
    if len(payers) != 1:
        return None  # 1
    ((name, delta),) = payers
    protected = vault.ledger.account(t, name).protected
    promise = joint_guarantee(budget, protected=protected, delta=delta)
    if promise != trained.guarantee:
        return None  # 3
    *tables, moments, calibration = made
    first = tables[0] if tables else NO_TABLES
    return PrivateStatistics(budget, first, moments, calibration, promise)


def _is_same(found: PrivateStatistics, trained: TrainedModel) -> bool:
    """Model and charged figures (4), up to rounding."""
    charged = trained.quality.get("charged", {}).get("figures", {})
    return _is_same_model(found.model, trained.additive) and _are_same_figures(
        released_quality(found)["figures"], charged
    )


def _are_same_figures(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        return one.keys() == other.keys() and all(
            each.keys() == other[name].keys()
            and np.allclose(list(each.values()), [other[name][key] for key in each], rtol=_ROUNDING)
            for name, each in one.items()
        )
    except (AttributeError, TypeError):  # somebody else wrote them
        return False


def _is_same_model(one: AdditiveModel, other: AdditiveModel) -> bool:
    """Up to rounding: another machine may add up in another order."""
    if (one.schema, one.bins) != (other.schema, other.bins):
        return False
    return all(
        np.allclose(getattr(one, name), getattr(other, name), rtol=_ROUNDING, atol=_ROUNDING)
        for name in ("intercept", "scores", "masses", "covariance")
    )
