"""A federation whose parties are all in this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.party import Party
from voile.attribution.fastshap import EXPLAINER_PLAN
from voile.core.schema import Rows
from voile.pipelines.tables import TableRecords
from voile.training import TrainingPlan


@dataclass(frozen=True, eq=False)
class ServerSide:
    """What belongs to the server.

    Args:
        folder: of the run.
        held_out: rows listed as unprotected; figures are measured on them.
        reference: public rows that interventional explanations are compared with.
        distillation: how the fast explainer is trained; it touches no data.
        reference_invented: whether these were drawn from the schema, because nobody had any.
        stability_runs: how often a model is trained again on invented rows, to estimate how stable
            explanations are.
        remarks: what is odd about unprotected rows, said before anything is charged.
    """

    folder: Path
    held_out: TableRecords
    reference: Rows
    distillation: TrainingPlan = EXPLAINER_PLAN
    remarks: tuple[str, ...] = ()
    reference_invented: bool = False
    stability_runs: int = 0


@dataclass(frozen=True, eq=False)
class Job:
    """What was agreed on, the server's side, and every party's own."""

    agreement: FederationAgreement
    server: ServerSide
    parties: tuple[Party, ...]
