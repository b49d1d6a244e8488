"""What `voile train` writes, whichever way a model was learned: one folder, all of it may be shown.

    model.json              format, version, kind, rows, budget, charges, digest of every other file
    guarantees.json         what is promised about the rows it was made from
    quality.json            how good it is, beside always stating the label rate
    report.html             the report, if it was written

    of an additive model (`voile.app.trained_model`)
    model.safetensors       the model with its schema, background, errors and guarantee
    curves.json             the same for people: each feature, bin, score, error and share of rows

    of a network (`voile.app.trained_network`)
    schema.toml             what rows look like
    black_box.safetensors   the network, calibrated; inside, its last layer as it was trained
    reference.parquet       public rows that explanations are compared with

The manifest is written last; until then one without anything but format and version says whose
folder it is. It is not signed: before anything is said on its ground, it is compared with the
ledger that paid (`check_paid`).

Compatibility promise: a model of version n is read by every later voile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from voile.app.artefact_manifest import OwnFolder, write_json
from voile.app.assessment_file import ASSESSMENT
from voile.app.model_files import BLACK_BOX, REFERENCE, SCHEMA
from voile.core.errors import InvalidInput, Refused, VerificationFailed
from voile.core.guarantee import Guarantee, Protected
from voile.core.input_file import read_json
from voile.core.schema import Rows, Schema
from voile.federation.history import event_as_text
from voile.models import Outputs, WrappedModel
from voile.privacy.events import PrivacyEvent, to_dict
from voile.records.audit_log import ReleaseRecord, decode_record
from voile.records.ledger.event_text import event_for_log, event_text
from voile.records.storage import Reader
from voile.records.vault import Vault
from voile.release import Origin, trained_privately

if TYPE_CHECKING:
    from voile.models.additive import AdditiveModel

STATISTICS: Final = "statistics"
NETWORK: Final = "network"
MANIFEST: Final = "model.json"
MODEL: Final = "model.safetensors"
CURVES: Final = "curves.json"
GUARANTEES: Final = "guarantees.json"
QUALITY: Final = "quality.json"
REPORT: Final = "report.html"
_ALWAYS: Final = (GUARANTEES, QUALITY)
FILES: Final = {
    STATISTICS: (*_ALWAYS, MODEL, CURVES),
    NETWORK: (*_ALWAYS, SCHEMA, BLACK_BOX, REFERENCE),
}
"""By the way a model was learned, what the manifest lists."""
ROUNDING: Final = 1e-6
"""Another machine may add up in another order."""
_EVERY_FILE: Final = frozenset[str]().union(*FILES.values())
_DIGITS: Final = 12
"""Of a schema's digest, in what a record says about its subject."""
FOLDER: Final = OwnFolder(
    "trained model",
    "voile train",
    MANIFEST,
    "voile model",
    1,
    (MANIFEST, *sorted(_EVERY_FILE), ASSESSMENT, REPORT),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedFolder(ABC):
    """A model that was paid for. It is explained as the artefact of a federation is, at no cost.

    Args:
        folder: where it lies.
        charges: the ledger's names for what paid for it.
        events: what was charged, one event for each.
        quality: the content of `quality.json`; plain values.
        rule: digest of the rule by which it follows from its releases.
        guarantee: joint, of all releases.
        additive: the model, where a closed formula explains it over a background of its own.
        reference: public rows to compare with; None where it has a background of its own.
        reference_invented: whether they were invented from the schema.
    """

    view: ClassVar[str] = "trained model"
    kind: ClassVar[str]
    """The way it was learned."""
    current_rule: ClassVar[str]
    surrogate_model: ClassVar[None] = None
    deviations: ClassVar[None] = None
    """Explanations state their own errors, or none are known."""

    folder: Path
    charges: tuple[str, ...]
    events: tuple[PrivacyEvent, ...] = field(repr=False)
    quality: Mapping[str, Any] = field(repr=False)
    rule: str = field(repr=False)
    guarantee: Guarantee
    additive: AdditiveModel | None = None
    reference: Rows | None = field(default=None, repr=False)
    reference_invented: bool = False

    # --- what each of them is -------------------------------------------------------------------

    @property
    @abstractmethod
    def releases(self) -> tuple[str, ...]:
        """What was charged for it, in words, in order."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Of the rows that it was made from, and takes."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many it was made from; public."""

    @property
    @abstractmethod
    def model(self) -> WrappedModel:
        """What it says, as every part of voile takes a model."""

    @abstractmethod
    def predict(self, rows: Any) -> Outputs:
        """What it says, (n, outputs); rows are a table, or an array in the schema's numbers."""

    @property
    @abstractmethod
    def used_features(self) -> tuple[str, ...]:
        """Those that have an influence."""

    @property
    @abstractmethod
    def expected_guarantee(self) -> Guarantee:
        """What follows from its budget, for the data set and the delta that it states."""

    @abstractmethod
    def follows_from(self, paid: PaidAnswers) -> bool:
        """Whether it is what follows from what a ledger keeps under its charges."""

    # --- what follows ---------------------------------------------------------------------------

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return (self.guarantee,)

    @property
    def origin(self) -> Origin:
        """Of the model and of its background, which were released together or are public."""
        return trained_privately(self.guarantee)

    @property
    def charged_events(self) -> set[str]:
        """What its training charged, as texts."""
        return {event_as_text(event) for event in self.events}

    def alarms(self, *, unused: Collection[str] = ()) -> tuple[str, ...]:  # noqa: ARG002
        """Why it should not be used, if so; an artefact has more parts to ask about."""
        return tuple(f"The model: {line}." for line in self.quality["alarms"])


class PaidAnswers(NamedTuple):
    """What a ledger keeps under the charges of a model.

    Args:
        answers: as bytes, one for each release.
        protected: what the account that paid protects.
        delta: at which it was charged.
    """

    answers: tuple[bytes, ...]
    protected: Protected
    delta: float


# --- writing and finding --------------------------------------------------------------------------


def begin_folder(folder: Path, dataset: str, charges: tuple[str, ...]) -> None:
    """Findings and a report about another model say nothing about this one."""
    is_same = paid_for(folder) == (dataset, charges)
    FOLDER.begin(folder, () if is_same else (ASSESSMENT, REPORT, *_EVERY_FILE))


def finish_folder(trained: TrainedFolder, budget: Mapping[str, Any], **more: Any) -> None:
    """Promise, quality and manifest; durable when this returns."""
    folder = trained.folder
    promised = [guarantee.to_dict() for guarantee in trained.guarantees]
    write_json(folder / GUARANTEES, {"guarantees": promised})
    write_json(folder / QUALITY, trained.quality)
    content = {
        "model": trained.kind,
        "rule": trained.rule,
        "budget": budget,
        "dataset": trained.guarantee.protected.dataset,
        "charges": list(trained.charges),
        "events": [to_dict(event) for event in trained.events],
        **more,
    }
    FOLDER.finish(folder, content, FILES[trained.kind])


def paid_for(folder: Path) -> tuple[str, tuple[str, ...]] | None:
    """The data set and the charges of the model that lies there; None if no finished one does."""
    found = read_json(folder / MANIFEST) if FOLDER.is_at(folder) else {}
    if "charges" not in found or "dataset" not in found:
        return None
    return str(found["dataset"]), tuple(map(str, found["charges"]))


def check_guarantee(trained: TrainedFolder) -> None:
    """Refuse a folder that contradicts itself: nobody compares it with a ledger.

    A forger who changes all of it is not found out; `check_paid` does that, where the ledger is.
    """
    stated = read_json(trained.folder / GUARANTEES).get("guarantees")
    is_one = stated == [each.to_dict() for each in trained.guarantees]
    # What an earlier version promised may be worded in another way.
    is_current = trained.rule == trained.current_rule
    if is_one and (not is_current or trained.expected_guarantee == trained.guarantee):
        return
    raise VerificationFailed(
        f"{trained.folder / GUARANTEES}: states another guarantee than what the model was paid "
        "for. Somebody has changed it: ask for the folder again, or train again (what was paid "
        "for is free)"
    )


# --- compared with the ledger that paid -----------------------------------------------------------


def check_paid(vault: Vault, trained: TrainedFolder) -> None:
    """`Refused` unless this ledger paid for this very model, on the terms that it states.

    A folder is not signed, so nothing in it is believed (numbers are cited in the code):

    1. its charges are on record, for the events that it states, by one account at one delta;
    2. they were about its schema;
    3. its guarantee is what follows from its budget, that account and that delta;
    4. its scores, and the charged figures of how good it is, are what follows from the stored
       answers. Figures on open rows are the statement of whoever trained it.
    """
    is_current = trained.rule == trained.current_rule
    if is_current and _is_paid(vault, trained):
        return
    why = "this ledger did not pay for this very model on the terms it states"
    if not is_current:
        why = "another version of voile made it, so it cannot be compared with this ledger"
    raise Refused(
        f"{trained.folder}: {why}, and its guarantee is not repeated. Name the database that "
        "`voile train` charged (--database), or train again there (what was paid for is free). If "
        "you trust whoever gave you the folder, say so: --model-origin "
        f"{trained.folder / GUARANTEES}"
    )


def _is_paid(vault: Vault, trained: TrainedFolder) -> bool:
    try:
        found = vault.storage.read_snapshot(lambda t: _paid_answers(vault, t, trained))
        return found is not None and trained.follows_from(found)  # 3, 4
    except InvalidInput:  # no such charge, or no guarantee follows from what was charged
        return False


def _paid_answers(vault: Vault, t: Reader, trained: TrainedFolder) -> PaidAnswers | None:
    """What the ledger keeps under these charges."""
    payers, answers = set(), []
    named = zip(trained.charges, trained.events, trained.releases, strict=True)
    for charge, event, name in named:
        settled = vault.ledger.paid(t, charge)
        record = decode_record(vault.log.record(t, settled.record))
        charged = event_for_log(event_text(event))
        if not isinstance(record, ReleaseRecord) or record.event != charged:
            return None  # 1
        what, _, shown = record.subject.rpartition(", model ")
        if what != name or len(shown) < _DIGITS or not trained.schema.digest.startswith(shown):
            return None  # 2
        payers.add((record.account, record.delta))
        answers.append(settled.answer)
    if len(payers) != 1:
        return None  # 1
    ((account, delta),) = payers
    return PaidAnswers(tuple(answers), vault.ledger.account(t, account).protected, delta)


def are_same_figures(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether figures by name are the same, up to rounding."""
    try:
        return one.keys() == other.keys() and all(
            each.keys() == other[name].keys()
            and np.allclose(list(each.values()), [other[name][key] for key in each], rtol=ROUNDING)
            for name, each in one.items()
        )
    except (AttributeError, TypeError):  # somebody else wrote them
        return False
