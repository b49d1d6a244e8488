"""The page of a trained model: what stands on it is read and compared here, and shown by a view.

Everything in it is in the model's folder. Where the ledger that paid lies beside it, the folder is
compared with that first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from voile.app.assessment_file import ASSESSMENT, find_assessment, is_on_record
from voile.app.explain_rows import tried_events
from voile.app.output_check import check_outputs, files_of
from voile.app.trained_folder import REPORT, TrainedFolder, check_paid
from voile.app.workspace.file import books_beside
from voile.core.errors import VerificationFailed
from voile.core.guarantee import Guarantee
from voile.core.rendering import write_page
from voile.records.vault import Place, Vault, open_vault_at

CONFIRMED: Final = "the ledger beside this folder confirms charges, model and promise"
CONFIRMED_OPEN: Final = "the ledger that paid confirms charges, model and promise"
NOT_COMPARED: Final = "no ledger lies beside this folder, so nothing here was compared with one"


@dataclass(frozen=True, kw_only=True)
class ModelReportContents:
    """What stands in the report of a trained model; all of it may be shown.

    Args:
        trained: the model, its quality and its charges.
        confirmed: whether a ledger says the same, in words.
        assessment: what attacks have found, if somebody tried.
        assessment_on_record: whether a log holds these findings, in words.
    """

    view: ClassVar[str] = "model report"

    trained: TrainedFolder
    confirmed: str
    assessment: Mapping[str, Any] | None
    assessment_on_record: str

    @property
    def alarms(self) -> Sequence[str]:
        return self.trained.alarms()

    @property
    def guarantees(self) -> Sequence[Guarantee]:
        return self.trained.guarantees


def write_model_report(
    trained: TrainedFolder, path: Path | None = None, vault: Vault | None = None
) -> Path:
    """Write the page, into the model's folder if no path is given.

    Args:
        vault: of the ledger that paid, if it is open; else what lies beside the folder.
    """
    own = trained.folder / REPORT
    target, books = own if path is None else path, _books(trained.folder)
    inside = (file for file in trained.folder.rglob("*") if file != own)
    check_outputs([target], [*inside, *([] if books is None else files_of(books))])
    return write_page(model_report(trained, vault), target)


def model_report(trained: TrainedFolder, vault: Vault | None = None) -> ModelReportContents:
    """Collect it; `Refused` if the ledger says otherwise."""
    books, found = _books(trained.folder), find_assessment(trained.folder)
    if found is not None and not trained.charged_events <= set(tried_events(found)):
        raise VerificationFailed(
            f"{trained.folder / ASSESSMENT}: about other events than those that were charged; "
            "`voile assess` writes it anew"
        )
    if vault is not None:
        return _compared(vault, trained, found, CONFIRMED_OPEN)
    if books is None:
        return ModelReportContents(
            trained=trained,
            confirmed=NOT_COMPARED,
            assessment=found,
            assessment_on_record="no log lies beside this folder that they could be compared with",
        )
    with open_vault_at(books, signing=None) as vault:
        return _compared(vault, trained, found, CONFIRMED)


def _compared(
    vault: Vault, trained: TrainedFolder, found: Mapping[str, Any] | None, confirmed: str
) -> ModelReportContents:
    check_paid(vault, trained)
    on_record = found is not None and is_on_record(vault, found)
    return ModelReportContents(
        trained=trained,
        confirmed=confirmed,
        assessment=found,
        assessment_on_record="the log beside this folder holds the same"
        if on_record
        else "the log beside this folder does not hold them",
    )


def _books(folder: Path) -> Place | None:
    """What a workspace beside the folder names, or the usual files."""
    beside = folder.absolute().parent
    usual = Place.within(beside)
    return books_beside(beside) or (usual if Path(usual.database).is_file() else None)
