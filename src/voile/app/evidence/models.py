"""Models that evidence is about: those a workspace names, or the folders beside a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from voile.app.artefact import Artefact, is_artefact, load_artefact
from voile.app.artefact_manifest import RECOMMENDER
from voile.app.assessment_file import find_assessment, is_on_record
from voile.app.evidence.facts import LogFacts
from voile.app.trained_folder import FOLDER, TrainedFolder
from voile.app.trained_model import load_trained_model
from voile.app.workspace.file import WorkspaceFile
from voile.core.errors import InvalidInput, VoileError
from voile.core.guarantee import Guarantee
from voile.core.schema import Schema
from voile.records.vault import Vault


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What a folder of voile says about its model, for a card.

    Args:
        name: of the folder; names the card and the signature.
        made_by: the command that made it.
        records: of what was charged for it; empty where another log holds them.
        rounds: the first and the last record of the federation that trained it, if they are here.
        figures: how good it is, each with name, figure, bounds and what it was measured on.
        training: how it was made, in plain values.
        attack: record of the assessment that the log confirms.
    """

    view: ClassVar[str] = "model card"

    name: str
    folder: Path
    made_by: str
    guarantees: Sequence[Guarantee]
    records: tuple[int, ...] = ()
    rounds: tuple[int, ...] = ()
    rows: int | None = None
    schema: Schema | None = None
    figures: Sequence[Mapping[str, Any]] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    alarms: Sequence[str] = ()
    attack: int | None = None
    verdict: str = ""


def find_models(
    file: WorkspaceFile | None, folder: Path, vault: Vault, facts: LogFacts
) -> tuple[list[ModelFacts], list[str]]:
    """Models in folders of voile, and remarks on those that cannot be read."""
    found, remarks = [], []
    for place in _folders(file, folder):
        try:
            model = _facts(place, vault, facts)
        except VoileError as error:
            remarks.append(str(error))
            continue
        if model is not None:
            found.append(model)
    return found, remarks


def _folders(file: WorkspaceFile | None, folder: Path) -> Iterator[Path]:
    beside = sorted(path for path in folder.iterdir() if path.is_dir())
    named = [] if file is None else [file.folder / m.source for m in file.tables.models.values()]
    folders = [path for path in named if path.is_dir()]
    yield from {path.resolve(): path for path in (*folders, *beside)}.values()


def _facts(folder: Path, vault: Vault, facts: LogFacts) -> ModelFacts | None:
    if FOLDER.is_at(folder):
        return _of_trained(load_trained_model(folder), vault)
    if (folder / RECOMMENDER).exists() or not is_artefact(folder):
        return None
    return _of_artefact(load_artefact(folder), vault, facts)


def _of_trained(trained: TrainedFolder, vault: Vault) -> ModelFacts:
    quality = trained.quality
    judged = [quality[name] for name in ("charged", "held_out") if quality.get(name)]
    figures = [
        {"name": name, **each, "measured_on": part["measured_on"]}
        for part in judged
        for name, each in part["figures"].items()
    ]
    attack, verdict = _attack(trained.folder, vault)
    return ModelFacts(
        name=trained.folder.name,
        folder=trained.folder,
        made_by="voile train",
        guarantees=trained.guarantees,
        records=_records(vault, trained.charges),
        rows=trained.rows,
        schema=trained.schema,
        figures=figures,
        training={"model": trained.kind, "releases": ", ".join(trained.releases)},
        alarms=trained.alarms(),
        attack=attack,
        verdict=verdict,
    )


def _of_artefact(artefact: Artefact, vault: Vault, facts: LogFacts) -> ModelFacts:
    settings, figures = artefact.settings, artefact.figures
    quality = figures.get("quality", {}).get("black box", {})
    rounds = facts.rounds.get(settings.get("agreement", ""))
    attack, verdict = _attack(artefact.folder, vault)
    return ModelFacts(
        name=artefact.folder.name,
        folder=artefact.folder,
        made_by="voile federate",
        guarantees=artefact.guarantees,
        rows=sum(settings["clients"].values()),
        schema=artefact.schema if artefact.has_model else None,
        rounds=() if rounds is None else rounds.ends,
        figures=[
            {"name": name, **each, "measured_on": figures["measured_on"]}
            for name, each in quality.get("figures", {}).items()
        ],
        training={"stages": ", ".join(settings["training"]), "parties": len(settings["clients"])},
        alarms=artefact.alarms(),
        attack=attack,
        verdict=verdict,
    )


def _records(vault: Vault, charges: Sequence[str]) -> tuple[int, ...]:
    """Of charges of this ledger; none if it did not pay."""
    try:
        return vault.storage.read_snapshot(
            lambda t: tuple(vault.ledger.paid(t, charge).record for charge in charges)
        )
    except InvalidInput:
        return ()


def _attack(folder: Path, vault: Vault) -> tuple[int | None, str]:
    found = find_assessment(folder)
    if found is None or not is_on_record(vault, found):
        return None, ""
    return found["record"], found["verdict"]
