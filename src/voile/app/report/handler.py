"""The page of an artefact: what stands on it is collected and verified here, and shown by a view.

Everything in it is in the artefact: charged figures, public facts, and figures measured on rows
that are listed as unprotected.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from voile.app.alarms import alarms
from voile.app.artefact import REPORT, Artefact, is_artefact, load_artefact
from voile.app.assessment_file import ASSESSMENT, find_assessment, is_on_record
from voile.app.calls import Context
from voile.app.commands.federate import WriteReport
from voile.app.explain_rows import tried_events
from voile.app.output_check import check_outputs, files_of
from voile.app.report.figures import (
    FeatureImportance,
    compared,
    contradictory_rounds,
    curves,
    how_to_use,
    importance,
    outcomes,
    quality,
    readings,
    surrogate_says_nothing,
)
from voile.app.trained_folder import FOLDER as TRAINED_MODEL
from voile.app.trained_model import load_trained_model
from voile.app.trained_report import write_model_report
from voile.app.workspace.file import books_beside
from voile.core.errors import InvalidInput, UnreadableFile, VerificationFailed
from voile.core.guarantee import Guarantee
from voile.core.input_file import LARGEST_TEXT, read_file
from voile.core.rendering import write_page
from voile.core.schema import Schema
from voile.models.additive import AdditiveModel
from voile.pipelines.trusted_averaging import TrustedModel, trust_figures
from voile.records.audit_log import Report, record_lines, verify_export
from voile.records.audit_log.publishing import CHECKPOINT_FILE, RECORDS_FILE
from voile.records.checkpoints import read_policy
from voile.records.vault import POLICY, open_vault_at


@dataclass(frozen=True)
class ReportResult:
    """Where the page lies."""

    path: Path


@dataclass(frozen=True)
class CheckedLog:
    """A party's log as it lies in an artefact.

    Args:
        folder, policy: as commands name them in the folder that holds the artefact.
        failure: why it is not what was signed; empty if it is.
    """

    party: str
    records: int
    folder: str
    policy: str
    failure: str


@dataclass(frozen=True, kw_only=True)
class ReportContents:
    """What stands in the report of an artefact; all of it is public, and was verified.

    Args:
        folder: name of the artefact's folder.
        clients: rows of each.
        training: by stage, how it was trained.
        readings: what the same noise amounts to, by what is read.
        contradictions: what parties' logs say about rounds that differ.
        calibration, stability: as in the artefact's figures; empty where nothing was done.
        calibration_bins: how often predictions came true; empty where it was not measured.
        curves: figures of every round.
        outcomes: by stage, who took part in which round.
        spent: epsilon of each client.
        promised: epsilon and delta of the whole.
        importance: what the model looks at; None where there is no model of rows.
        use: the command that uses it.
        of_black_box: importance is that of the black box, not of a surrogate.
        additive: the model, where it is one of curves.
        trust: see `trust_figures`; empty for a federation without trust.
        assessment: what attacks have found, if somebody tried.
        assessment_on_record: whether a log holds these findings, in words.
    """

    view: ClassVar[str] = "report"

    name: str
    folder: str
    alarms: Sequence[str]
    clients: Mapping[str, int]
    training: Mapping[str, Mapping[str, Any]]
    guarantees: Sequence[Guarantee]
    readings: Sequence[tuple[str, Mapping[str, float]]]
    seen_by: Mapping[str, str]
    not_covered: Sequence[str]
    secure_sum: Mapping[str, Any] | None
    contradictions: Sequence[str]
    measured_on: str
    quality: Sequence[tuple[str, float]]
    compared: Sequence[Mapping[str, Any]]
    calibration: Mapping[str, Any]
    calibration_bins: Sequence[Mapping[str, float]]
    stability: Mapping[str, Any]
    curves: Mapping[str, Sequence[float]]
    outcomes: Mapping[str, Sequence[Mapping[str, bool]]]
    spent: Mapping[str, float]
    promised: Mapping[str, float]
    schema: Schema | None
    importance: FeatureImportance | None
    use: str
    of_black_box: bool
    invented_reference: bool
    surrogate_says_nothing: bool
    additive: AdditiveModel | None
    trust: Mapping[str, Any]
    assessment: Mapping[str, Any] | None
    assessment_on_record: str
    logs: Sequence[CheckedLog]


@dataclass(frozen=True)
class ExactTrust:
    """Trust in a federation that was trained without privacy.

    Args:
        notes: what must travel with it.
        figures: see `trust_figures`.
    """

    view: ClassVar[str] = "exact trust"

    name: str
    notes: Sequence[object]
    figures: Mapping[str, Any]


def write(command: WriteReport, context: Context) -> ReportResult:
    """Write the page of an artefact, or of a trained model."""
    if command.output is not None:
        context.check_overwriting([command.output], allowed=command.overwrite)
    if TRAINED_MODEL.is_at(command.artefact):
        trained = load_trained_model(command.artefact)
        vault = None if context.service is None else context.service.vault
        return ReportResult(write_model_report(trained, command.output, vault))
    _check_something_is_there(command.artefact)
    return ReportResult(write_report(load_artefact(command.artefact), command.output))


def _check_something_is_there(folder: Path) -> None:
    """What to do first, if nothing was trained yet; `load_artefact` says what is wrong with it."""
    if not folder.exists():
        raise UnreadableFile(f"{folder}: no such folder")
    if folder.is_dir() and not is_artefact(folder):
        raise UnreadableFile(
            f"{folder}: not a finished artefact, and no trained model; train first, with "
            "voile federate or voile train"
        )


def write_report(artefact: Artefact, path: Path | None = None) -> Path:
    """Write the page, beside the artefact's files if no path is given."""
    own = artefact.folder / REPORT
    target = own if path is None else path
    books = books_beside(artefact.folder.absolute().parent)
    kept = [] if books is None else files_of(books)
    inside = (file for file in artefact.folder.rglob("*") if file != own)
    check_outputs([target], [*kept, *inside])
    return write_page(report_contents(artefact), target)


def report_contents(artefact: Artefact) -> ReportContents:
    """Collect what an artefact holds, and verify logs and findings; nothing is shown yet."""
    settings, statement, figures = artefact.settings, artefact.statement, artefact.figures
    assessment, important = _assessment(artefact), importance(artefact)
    return ReportContents(
        name=artefact.name,
        folder=artefact.folder.name,
        alarms=alarms(figures),
        clients=settings["clients"],
        training=settings["training"],
        guarantees=artefact.guarantees,
        readings=readings(artefact),
        seen_by=statement.get("seen_by", {}),
        not_covered=statement["not_covered"],
        secure_sum=settings.get("secure_sum"),
        contradictions=contradictory_rounds(artefact),
        measured_on=figures["measured_on"],
        quality=quality(artefact),
        compared=compared(artefact),
        calibration=figures.get("calibration") or {},
        calibration_bins=figures.get("quality", {}).get("black box", {}).get("calibration") or (),
        stability=figures.get("stability") or {},
        curves=curves(artefact),
        outcomes=outcomes(artefact),
        spent={name: each["epsilon"] for name, each in statement["spent_by_client"].items()},
        promised=settings["promised"],
        schema=None if important is None else artefact.schema,
        importance=important,
        use=how_to_use(artefact),
        of_black_box=artefact.has_model,
        invented_reference=settings.get("reference_invented", False),
        surrogate_says_nothing=surrogate_says_nothing(artefact),
        additive=artefact.additive,
        trust=figures.get("trust") or {},
        assessment=assessment,
        assessment_on_record="" if assessment is None else _compared_with_log(artefact, assessment),
        logs=[_checked(artefact, party) for party in settings["logs"]],
    )


def exact_trust(trained: TrustedModel, name: str) -> ExactTrust:
    """What a page says about rounds without privacy: also what exact reports reveal.

    A federation that was trained with noise has an artefact and its report.
    """
    if trained.plan.noise_multiplier is not None:
        raise InvalidInput("this federation was trained with noise: see `voile report`")
    return ExactTrust(name, trained.promise().notes, trust_figures(trained))


def write_exact_trust(trained: TrustedModel, name: str, path: Path) -> Path:
    """Write the page of `exact_trust`."""
    return write_page(exact_trust(trained, name), path)


def check_log(artefact: Artefact, party: str) -> Report:
    """Check a party's exported log against its own policy: unchanged since it was signed."""
    folder = artefact.log_folder(party)
    records = record_lines(io.BytesIO(read_file(folder / RECORDS_FILE)))
    note = read_file(folder / CHECKPOINT_FILE, LARGEST_TEXT)
    return verify_export(records, note, read_policy(folder / POLICY))


def _checked(artefact: Artefact, party: str) -> CheckedLog:
    place = f"{artefact.folder.name}/{artefact.settings['logs'][party]}"
    records = read_file(artefact.log_folder(party) / RECORDS_FILE).count(b"\n")
    failed = check_log(artefact, party).failed
    failure = "" if failed is None else f"{failed.name}: {failed.detail}"
    return CheckedLog(party, records, place, f"{place}/{POLICY}", failure)


def _assessment(artefact: Artefact) -> dict[str, Any] | None:
    """What was found, if it is about what was charged here."""
    found = find_assessment(artefact.folder)
    if found is not None and not artefact.charged_events <= set(tried_events(found)):
        raise VerificationFailed(
            f"{artefact.folder / ASSESSMENT}: about other events than those that were charged; "
            "`voile assess` writes it anew"
        )
    return found


def _compared_with_log(artefact: Artefact, found: dict[str, Any]) -> str:
    """Whether the server's log holds the digest of the findings, in words."""
    books = books_beside(artefact.folder.absolute().parent)
    if books is None:
        return "there is no log beside this artefact that they could be compared with"
    with open_vault_at(books, signing=None) as vault:
        if is_on_record(vault, found):
            return f"record {found['record']} of the server's log holds the same"
    if found.get("record") is None:
        return "no log was told of them"
    raise VerificationFailed(
        f"{artefact.folder / ASSESSMENT}: record {found['record']} of the log beside it says "
        "otherwise: the findings were changed, or are of another place; `voile assess` writes them "
        "anew"
    )
