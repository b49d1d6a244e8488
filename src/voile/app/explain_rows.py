"""Explaining rows, from the command to what leaves: the same for every door."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.app.assessment_file import ASSESSMENT, find_assessment, is_on_record
from voile.app.calls import Context
from voile.app.commands.explain import BESIDE_A_NAME, Explain, ExplanationSpec
from voile.app.commands.fields import InMemory
from voile.app.compliance.enforcement import CoarserOffered, rules_in_force
from voile.app.explain.building import Affordability, build_release
from voile.app.explain.files import as_plain
from voile.app.explain.inputs import ExplanationInputs, ModelFolder, find_artefact, load_inputs
from voile.app.explain.outputs import Outputs, WrittenFiles, page_place
from voile.app.explain.per_record import named_records
from voile.app.explain.questions import ExplanationRequest
from voile.app.explain.released import AssessedClaims, ReleasedExplanation
from voile.app.explain.rows import RowsToExplain
from voile.app.explain.service import ReleaseService
from voile.app.explain.table import (
    TableAnswer,
    TableWork,
    absolute,
    check_folder,
    check_table,
    explain_table,
)
from voile.app.explain.table_parts import LIST
from voile.app.explain.walk import BudgetUse, budget_use
from voile.app.output_check import files_of
from voile.app.workspace.file import WorkspaceFile
from voile.app.workspace.ledger_comparison import check_ledger
from voile.app.workspace.rules import apply_rules
from voile.attribution import Speed
from voile.compliance import Metric
from voile.core.atomic_file import check_output_folder
from voile.core.choices import chosen
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import RowPart
from voile.core.transparency import Level, Method
from voile.datasets.parquet_files import ParquetFiles
from voile.engines import ENGINES
from voile.federation.history import event_as_text
from voile.models import DeclaredOutputs
from voile.privacy.events import Gaussian, PrivacyEvent, from_dict
from voile.records.checkpoints import Kept
from voile.records.ledger import Account
from voile.records.vault import WORKSPACE, Place, Vault, check_named, usual_place
from voile.release import Preview, Release

_log = logging.getLogger(__name__)
_NOISED_PERSON: Final = (RowPart.BACKGROUND, RowPart.EXPLAINED)
NOISE_WITHOUT_NEED: Final = (
    "this answer holds noise, although the release {release!r} explains the same model exactly and "
    "at no cost: use that one for people who ask about their own case"
)


@dataclass(frozen=True)
class ExplainResult:
    """An explanation that was paid for, and what became of its files.

    Args:
        written: what was written, and what could not be.
        kept: the checkpoint over its record; None where a schedule signs it.
        policy: whom to trust when checking its receipt.
        top: how many features of each row are shown; None for all.
    """

    explained: ReleasedExplanation
    written: WrittenFiles
    kept: Kept | None
    policy: Path
    top: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the explanation itself."""
        explained, written, kept = self.explained, self.written, self.kept
        told = {
            "charges": list(explained.charges),
            "records": list(explained.records),
            "replayed": explained.replayed,
            "alarms": list(explained.alarms),
            "assessed": None if explained.assessed is None else asdict(explained.assessed),
            "checkpoint": None if kept is None else str(kept),
            "missing_cosignatures": 0 if kept is None else kept.missing,
            "written": written.files,
            "failed": list(written.failed),
            "unproved": written.unproved,
        }
        if self.top is not None:
            told["top"] = named_features(explained.explanation, self.top)
        return told | as_plain(explained.explanation)


@dataclass(frozen=True)
class PreviewResult:
    """What an answer would cost and be like; nothing was charged.

    Args:
        count, of: how many of what it would be about.
        outputs: where the outputs of the model lie.
        use: of the account that would pay; None if it is free, or was answered before.
    """

    preview: Preview
    count: int
    of: str = "rows"
    outputs: DeclaredOutputs | None = None
    use: BudgetUse | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        preview = self.preview
        return {
            self.of: self.count,
            "event": None if preview.event is None else str(preview.event),
            "guarantees": [guarantee.to_dict() for guarantee in preview.guarantees],
            "accuracy": preview.accuracy,
            "standard_error": preview.standard_error,
            "half_width": preview.half_width,
            "remarks": list(preview.remarks),
        }


def named_features(explanation: Explanation, top: int | None) -> list[list[str]]:
    """The features of each row that are named, strongest first; one without a share is not."""
    strength, names = np.abs(explanation.values).mean(axis=2), explanation.feature_names
    order = np.argsort(-strength, axis=1, kind="stable")[:, :top]
    return [
        [names[n] for n in row if top is None or strength[at, n] > 0]
        for at, row in enumerate(order)
    ]


@dataclass(frozen=True, eq=False)
class ExplanationJob:
    """What a command asks for, resolved: a release of a workspace, or what the command states.

    Args:
        spec: what is explained, and what is protected.
        place: where ledger, log and keys lie.
        artefact: what `spec.model` names, if it is one.
        workspace: the file that names the release, if one does.
    """

    spec: ExplanationSpec
    place: Place
    artefact: ModelFolder | None
    workspace: WorkspaceFile | None = None
    _built: dict[int, Release[Explanation]] = field(init=False, repr=False, default_factory=dict)
    _loaded: list[ExplanationInputs] = field(init=False, repr=False, default_factory=list)
    _assessed: dict[object, AssessedClaims | None] = field(
        init=False, repr=False, default_factory=dict
    )
    _coarser: list[ExplanationJob | None] = field(init=False, repr=False, default_factory=list)

    @classmethod
    def from_command(cls, command: Explain, context: Context) -> ExplanationJob:
        """Of a release that was asked for before, what is known of it."""
        if context.known is not None and command.model in context.known:
            known: ExplanationJob = context.known[command.model]
            if known.workspace is not None:
                check_stated(command, known.workspace)
            return known
        workspace = find_workspace(command)
        if workspace is None:
            job = cls._without_workspace(command, context)
        else:
            spec = workspace.spec(str(command.model))
            job = cls(spec, workspace.place, find_artefact(spec.model), workspace)
        if context.known is not None:
            context.known[command.model] = job
        return job

    @classmethod
    def _without_workspace(cls, command: Explain, context: Context) -> ExplanationJob:
        spec, artefact = command.spec, find_artefact(command.model)
        if context.service is not None:  # the records that the door has open
            return cls(spec, context.service.vault.place, artefact)
        place = usual_place(
            None if artefact is None else artefact.folder,
            database=command.database,
            signing_key=command.signing_key,
            policy=command.policy,
            replay_key=command.replay_key,
        )
        check_named(command.signing_key, command.policy)
        return cls(spec, place, artefact)

    @property
    def modules(self) -> Path | None:
        """Where modules with a model are looked for first."""
        return None if self.workspace is None else self.workspace.folder

    @property
    def free_instead(self) -> str | None:
        """A release of the workspace that explains the same model exactly and at no cost, where
        this one adds noise to what is said about a single person; None if there is none."""
        if self.workspace is None or self.spec.protect not in _NOISED_PERSON:
            return None
        specs = {name: self.workspace.spec(name) for name in self.workspace.releases}
        return next(
            (
                name
                for name, spec in specs.items()
                if spec.protect is RowPart.TRAINING
                and (spec.model, spec.output_name) == (self.spec.model, self.spec.output_name)
                and spec.method in (None, Method.EXACT, Method.TREES)
                and spec.explainer is None
            ),
            None,
        )

    def files(self, data: Any) -> list[Path]:
        """What it reads and keeps, which no output may overwrite."""
        kept = [] if self.workspace is None else [self.workspace.path]
        rows = [Path(data)] if isinstance(data, str | PathLike) else []
        return [*self.spec.files, *rows, *files_of(self.place), *kept]

    def inputs(self, speed: Speed | None) -> ExplanationInputs:
        """Model, schema and background; read once."""
        if not self._loaded:
            loaded = load_inputs(self.spec, self.artefact, speed, modules=self.modules)
            self._loaded.append(loaded)
        return self._loaded[0]

    def release(self, service: ReleaseService, rows: int) -> Release[Explanation]:
        """What answers for this many rows.

        Built once, or for each number of rows that it depends on, which is public.
        """
        spec = self.spec
        by_rows = spec.protect is RowPart.POPULATION or spec.total_epsilon is not None
        key = rows if by_rows else 0
        if key not in self._built:
            self._check_paid(service)
            self._built[key] = build_release(self.inputs(None), self._account(service), rows)
        return self._built[key]

    def _check_paid(self, service: ReleaseService) -> None:
        """A trained model's word is compared with the ledger that paid, unless somebody else says
        where it comes from."""
        from voile.app.trained_folder import TrainedFolder, check_paid

        if isinstance(self.artefact, TrainedFolder) and self.spec.model_origin is None:
            check_paid(service.vault, self.artefact)

    def preview(
        self, service: ReleaseService, rows: RowsToExplain | int, *, caller: str, fresh: bool
    ) -> Preview:
        """What an answer for these rows, or this many, would cost and be like."""
        count = rows if isinstance(rows, int) else rows.count
        release, payer = self.release(service, count), self.spec.account
        found = service.preview(release, rows, payer=payer, caller=caller, fresh=fresh)
        return self.affordability(service, count).add_advice(found)

    def quality(self, service: ReleaseService, rows: int) -> float | None:
        """Half-width of a released value over the width of the output, where a rule asks for it
        and there is a coarser level to offer. Follows from public facts."""
        asked = service.vault.storage.read_snapshot(rules_in_force).of_metric(Metric.QUALITY)
        if not asked or self.coarser(service) is None:
            return None
        half = self.release(service, rows).preview(rows).half_width
        model = self.inputs(None).model
        width = model.outputs.width(len(model.output_names or ("output",)))
        return None if half is None else half / width

    def coarser(self, service: ReleaseService) -> ExplanationJob | None:
        """The same at the next coarser level that can be released; None if there is none."""
        if not self._coarser:
            ladder = list(Level)
            below = ladder[: ladder.index(self.spec.level)][::-1]
            jobs = (
                replace(self, spec=self.spec.model_copy(update={"level": level})) for level in below
            )
            self._coarser.append(next((job for job in jobs if job._is_possible(service)), None))
        return self._coarser[0]

    def _is_possible(self, service: ReleaseService) -> bool:
        try:
            self.release(service, 1)
        except (Refused, InvalidInput):
            return False
        return True

    def affordability(self, service: ReleaseService, rows: int) -> Affordability:
        """Whether the account could ever pay for this many rows."""
        release = self.release(service, rows)
        return Affordability(self.inputs(None), self._account(service), release, rows)

    def _account(self, service: ReleaseService) -> Account | None:
        payer = self.spec.account
        return None if payer is None else service.vault.account(payer)

    def assessed(self, vault: Vault, release: Release[Any]) -> AssessedClaims | None:
        """What the last assessment found about the claims behind it; looked up once for a file."""
        folders = (self.modules, None if self.artefact is None else self.artefact.folder)
        found = [_version(folder / ASSESSMENT) for folder in folders if folder is not None]
        if not any(found):
            return None
        key = (id(release), *found)
        if key not in self._assessed:
            self._assessed[key] = claims_behind(vault, release, self.artefact, self.modules)
        return self._assessed[key]


def _use(
    vault: Vault, payer: str, found: Preview, rows: RowsToExplain, protect: RowPart
) -> BudgetUse | None:
    if not protect.is_explained:
        return budget_use(vault, payer, found.event)
    account = vault.account(payer)
    names = named_records(rows.identifiers, rows.count, account.protected.dataset)
    unnamed = names.count(None) if account.is_parallel else len(names)
    return budget_use(vault, payer, found.event, unnamed=unnamed, named=unnamed < len(names))


def _answered(
    command: Explain,
    job: ExplanationJob,
    service: ReleaseService,
    release: Release[Explanation],
    rows: RowsToExplain,
) -> ReleasedExplanation:
    """The answer; at a coarser level only where a rule offers one and the command accepts it."""
    quality = None if job.spec.account is None else job.quality(service, rows.count)
    request = ExplanationRequest(
        rows=rows,
        payer=job.spec.account,
        caller=command.caller,
        purpose=command.purpose,
        fresh=command.redraw,
        quality=quality,
    )
    (outcome,) = service.answer_many(release, [request])
    coarser = job.coarser(service) if isinstance(outcome, CoarserOffered) else None
    if isinstance(outcome, CoarserOffered) and coarser is not None:
        if not command.coarser:
            raise outcome.at(coarser.spec.level.value)
        offered = replace(request, offered=True)
        (outcome,) = service.answer_many(coarser.release(service, rows.count), [offered])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@dataclass(frozen=True)
class TableResult:
    """A table of any size, explained block by block.

    Args:
        alarms: why it is of no use, where it is.
        kept: the checkpoint that covers its record; None where a schedule signs.
    """

    answer: TableAnswer
    alarms: tuple[str, ...]
    kept: Kept | None
    policy: Path

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the explanation itself is in the files."""
        answer, kept = self.answer, self.kept
        return {
            "alarms": list(self.alarms),
            "guarantees": [guarantee.to_dict() for guarantee in answer.guarantees],
            "rows": answer.rows,
            "blocks": answer.blocks,
            "record": answer.record,
            "mean_strength": answer.strength,
            "folder": str(answer.folder),
            "receipt": None if answer.receipt is None else str(answer.receipt),
            "checkpoint": None if kept is None else str(kept),
        }


def _explain_table(command: Explain, context: Context, folder: Path) -> TableResult:
    """Check, explain block by block, record; then the files get their names."""
    job = ExplanationJob.from_command(command, context)
    others = (command.receipt, command.row_receipts, command.plot, command.page)
    if command.preview or any(other is not None for other in others):
        raise InvalidInput(
            "a folder as --output goes with no --preview, --plot, --page or receipts: its record "
            "has a receipt in that folder, and `voile audit receipt --row` proves single rows"
        )
    if not isinstance(command.data, str | PathLike) or isinstance(job.spec.model, InMemory):
        raise InvalidInput("a folder as --output needs names of files: of the model and the table")
    engine = chosen(ENGINES, command.engine, "--engine")
    table = _table_for(folder, str(command.data))
    check_folder(folder, table)
    check_output_folder(folder)
    context.check_overwriting([folder / LIST], allowed=command.overwrite)
    inputs = job.inputs(context.speed())
    with context.records(job.place) as service:
        if job.workspace is not None and context.service is None:
            check_ledger(job.workspace, service.vault)
            apply_rules(job.workspace, service.vault)
        release = job.release(service, 1)
        check_table(release, job.spec)
        modules = (job.modules or Path()).resolve()
        work = TableWork(absolute(job.spec), modules, table, release.identity, b"", folder)
        kept: list[Kept | None] = []
        with context.charging(service.vault, lambda: [folder / LIST]):
            answer = explain_table(
                service,
                work,
                (inputs, release),
                engine,
                subject=f"{release.title}, model {release.identity.model[:12]}",
                sign=lambda: kept.append(context.sign(service.vault)),
                progress=context.steps,
            )
    return TableResult(answer, inputs.alarms, kept[0], job.place.policy)


def _table_for(folder: Path, data: str) -> ParquetFiles:
    try:
        return ParquetFiles.find(data)
    except InvalidInput as error:
        raise InvalidInput(
            f"{error}. To save the explanation in one file, use a name that ends in "
            f".voile, .json or .parquet instead of {folder}"
        ) from error


def explain(command: Explain, context: Context) -> ExplainResult | PreviewResult | TableResult:
    """Check, compute, charge and record; then write."""
    if command.folder is not None:
        return _explain_table(command, context, command.folder)
    if command.engine != "local":
        raise InvalidInput("--engine needs a folder as --output, such as --output explained/")
    job = ExplanationJob.from_command(command, context)
    outputs = Outputs(
        command.save_as,
        command.receipt,
        command.row_receipts,
        command.plot,
        *page_place(command.page),
    )
    outputs.check(job.files(command.data))
    if not command.preview:
        context.check_overwriting(outputs.files, allowed=command.overwrite)
    inputs = job.inputs(context.speed())
    rows = inputs.read_rows(command.data)
    outputs.check_rows(rows.count, job.spec.protect)
    _log.info("%d rows were read", rows.count)
    with context.records(job.place) as service:
        vault, payer = service.vault, job.spec.account
        if job.workspace is not None and context.service is None:
            check_ledger(job.workspace, vault)
            apply_rules(job.workspace, vault)
        outputs.check_signing(vault.keeper)
        release = job.release(service, rows.count)
        if job.free_instead is not None:
            said = NOISE_WITHOUT_NEED.format(release=job.free_instead)
            context.say(f"voile: warning: {said}")
        if command.preview:
            found = job.preview(service, rows, caller=command.caller, fresh=command.redraw)
            use = None if payer is None else _use(vault, payer, found, rows, job.spec.protect)
            return PreviewResult(found, rows.count, outputs=inputs.model.outputs, use=use)
        assessed = job.assessed(vault, release)
        with context.charging(vault, lambda: outputs.files):
            with job.affordability(service, rows.count).refuse_with_advice():
                explained = _answered(command, job, service, release, rows)
            _log.info("answered, with %d charge(s)", len(explained.charges))
            explained = replace(inputs.add_context(explained), assessed=assessed)
            kept = context.sign(vault)
            written = outputs.write(service, explained)
    return ExplainResult(explained, written, kept, job.place.policy, job.spec.top)


def find_workspace(command: Explain) -> WorkspaceFile | None:
    """The workspace with a release of this name; None if the name is that of a model.

    A name in a workspace precedes a path. What a release states is refused beside it: two truths
    about one promise are one too many.
    """
    name = command.model
    if isinstance(name, InMemory):
        return None
    if command.workspace is None and not os.path.lexists(WORKSPACE):
        return None
    found = WorkspaceFile.read(command.workspace or Path(WORKSPACE))
    is_model = ":" in name or Path(name).exists()
    if command.workspace is None and is_model and name not in found.releases:
        return None
    found.spec(name)  # refuses a name that is not there
    check_stated(command, found)
    found.check_files()
    return found


def check_stated(command: Explain, workspace: WorkspaceFile) -> None:
    """Refuse beside a name what its release states."""
    for stated, typed in command.stated_options().items():
        if stated not in BESIDE_A_NAME:
            raise InvalidInput(
                f"{typed}: {command.model!r} takes this from {workspace.path}; change it there, "
                "or add a release with another name"
            )


def _version(path: Path) -> tuple[int, int] | None:
    """Tells a file from one that took its place; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


# --- What an attack on the claims behind an explanation has found, as the log confirms it ---------


_WORST = ("refuted", "blind", "not refuted")


def tried_events(found: Mapping[str, Any]) -> dict[str, str]:
    """The verdict on each event, the worst where one was tried under several names."""
    verdicts: dict[str, str] = {}
    for each in sorted(found["events"], key=lambda each: -_WORST.index(each["verdict"])):
        verdicts[event_as_text(from_dict(each["event"]))] = each["verdict"]
    return verdicts


def claims_behind(
    vault: Vault, release: Release[Any], artefact: ModelFolder | None, workspace: Path | None
) -> AssessedClaims | None:
    """About what a release charges, or, where it is free, about what the training of its artefact
    has charged.

    Args:
        artefact: what is explained, if it is one.
        workspace: folder of the workspace that names the release, if one does.
    """
    event = release.cost(1)
    if event is None:
        if artefact is None:
            return None
        return assessed_claims(vault, artefact.folder, artefact.charged_events)
    if workspace is None:
        return None
    return assessed_claims(vault, workspace, {event_as_text(event)})


def assessed_claims(vault: Vault, folder: Path, events: Collection[str]) -> AssessedClaims | None:
    """What was found about all of these events; None where nothing was, or the log says otherwise.

    Args:
        vault: whose log has to confirm the findings: a file alone is believed by nobody.
        folder: where findings lie.
    """
    found = find_assessment(folder)
    if found is None or not is_on_record(vault, found):
        return None
    tried = tried_events(found)
    verdicts = [_verdict(each, tried) for each in events]
    known = [each for each in verdicts if each is not None]
    if not known or len(known) < len(verdicts):
        return None
    worst = min(known, key=_WORST.index)
    return AssessedClaims(worst, found["software"], found["record"])


def _verdict(event: str, tried: Mapping[str, str]) -> str | None:
    """On an event as it was tried; noise of another shape is rounded otherwise."""
    if event in tried:
        return tried[event]
    own = from_dict(json.loads(event))
    alike = [v for text, v in tried.items() if same_price(own, from_dict(json.loads(text)))]
    return min(alike, key=_WORST.index, default=None)


def same_price(one: PrivacyEvent, other: PrivacyEvent) -> bool:
    """Whether two events differ in rounding at most."""
    if isinstance(one, Gaussian) and isinstance(other, Gaussian):
        return math.isclose(one.noise_multiplier, other.noise_multiplier, rel_tol=1e-6)
    return one == other
