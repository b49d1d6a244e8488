"""What a kind of pipeline decides, and what kinds over tables share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from voile.app.explain.rows import read_records
from voile.app.federate.expectation import FederationPreview
from voile.app.federate.tables import labelled_schema, open_tables, reference_rows
from voile.app.model_files import Files
from voile.attribution.fastshap import EXPLAINER_PLAN
from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit
from voile.core.schema import Schema
from voile.federation import Pipeline, Stage, StageResult
from voile.pipelines.calibration import Calibration
from voile.pipelines.facts import FederationFacts
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.pipelines.private_explainer.plan import BudgetReadings
from voile.pipelines.promises import PromisedGuarantees
from voile.pipelines.trusted_averaging import TrustRule
from voile.training import Progress as Steps
from voile.training import TrainingPlan

Say = Callable[[str], None]
"""Told in words what is being done."""


@dataclass(frozen=True, eq=False)
class ServerSide:
    """What belongs to the server.

    Args:
        folder: of the run.
        held_out: rows listed as unprotected; figures are measured on them. None for a kind that
            needs none.
        reference: public rows that interventional explanations are compared with, likewise.
        distillation: how the fast explainer is trained; it touches no data.
        reference_invented: whether these were drawn from the schema, because nobody had any.
        stability_runs: how often a model is trained again on invented rows, to estimate how stable
            explanations are.
        remarks: what is odd about unprotected rows, said before anything is charged.
    """

    folder: Path
    held_out: Any = None
    reference: Any = None
    distillation: TrainingPlan = EXPLAINER_PLAN
    remarks: tuple[str, ...] = ()
    reference_invented: bool = False
    stability_runs: int = 0


class ServerRows(NamedTuple):
    """The server's unprotected rows, in two parts that share none; None for a kind without.

    Args:
        fitted: the model is calibrated on these; there may be none.
        measured: figures are measured on these.
    """

    fitted: Any = None
    measured: Any = None


@dataclass(frozen=True, eq=False)
class FinishContext:
    """What belongs to the server, for whatever is made after the last round.

    Args:
        rows: unprotected ones, and what each of them is for.
        calibration: what was done to the logits of the model; None if nothing was.
    """

    server: ServerSide
    rows: ServerRows
    steps_seen: Steps | None
    say: Say
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class PipelineOutput:
    """What a finished pipeline shows.

    Args:
        files: of the artefact (`voile.app.artefact`), such as its model.
        promised: guarantees and notes of all of it.
        readings: the same noise in other readings.
        figures: exact ones, measured on unprotected rows, besides those of the rounds.
    """

    files: Files
    promised: PromisedGuarantees
    readings: BudgetReadings
    figures: Mapping[str, Any] = field(default_factory=dict)


class PipelineKind(Protocol):
    """One kind of pipeline.

    Args:
        unit: what it protects.
        fixed_rounds: of each stage, where nobody can choose them.
        takes_any_aggregator: whether a federation may choose how updates become one.
        counts_members: whether parties may release a count of members of what was trained.
    """

    unit: ClassVar[ProtectedUnit]
    fixed_rounds: ClassVar[int | None]
    takes_any_aggregator: ClassVar[bool]
    counts_members: ClassVar[bool]

    def options(self, stated: Mapping[str, Any], folder: Path) -> Any:
        """What `[options]` of `federation.toml` says; `facts` is given it, unless it is None.

        It has a field `stated` of plain values, which the agreement is about; a file in it is
        known by its digest.

        Args:
            folder: that paths are relative to.
        """

    def schema(self, path: Path) -> Any:
        """The public description of records, with a `name` and a `digest`."""

    def records(self, schema: Any, path: Path) -> Any:
        """What a party brings, with a length; nothing that stands in a record raises."""

    def open_rows(
        self, schema: Any, held_out: Sequence[Any], reference: Any
    ) -> tuple[Any, Any, tuple[str, ...]]:
        """Rows that nobody protects, public ones to compare with, and what is odd about them.

        They are files; tables where a kind takes tables. None for rows that it has no use for;
        refused where it needs some and there are none.
        """

    def facts(self, levels: Mapping[str, float], **common: Any) -> Any:
        """What is public.

        Args:
            levels: epsilon of parties that have declared one of their own.
            common: fields of `FederationFacts`.
        """

    def plan(
        self,
        facts: Any,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> Pipeline:
        """Stages and noise, from what is public.

        Args:
            hidden: widths of hidden layers; a default if None.
        """

    def preview(self, agreement: Any, server: ServerSide) -> FederationPreview:
        """What is to be expected and what is odd, besides what is said of every federation."""

    def finish(
        self, plan: Any, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        """What comes of the trained arrays; nothing here touches protected rows."""

    def prepared(self, plan: Any, held_out: Any) -> tuple[Pipeline, ServerRows]:
        """The plan as the server runs it, and what each of the unprotected rows is for."""

    def summed(self, plan: Any) -> SummedStages:
        """What a node adds up in secret, where that was agreed on."""

    def trust(self, plan: Any) -> TrustRule | None:
        """By which rule the server's log has a record of trust for each round; None if by none."""


class SummedStages(NamedTuple):
    """What a node adds up in secret, and the stages whose answers are reports, sent in clear."""

    stages: Mapping[str, Stage]
    in_clear: frozenset[str] = frozenset()


class TableKind:
    """A kind whose parties bring tables: rows are protected, and those of all parties alike.

    Each round makes one sum of what parties send.
    """

    unit: ClassVar[ProtectedUnit] = CLIPPED_UNIT
    fixed_rounds: ClassVar[int | None] = None
    takes_any_aggregator: ClassVar[bool] = False
    counts_members: ClassVar[bool] = False
    needs_held_out: ClassVar[bool] = True
    uses_open_rows: ClassVar[bool] = True
    takes_tables: ClassVar[bool] = True
    """Whether parties may hand over tables in Python; there it needs no options."""

    def options(self, stated: Mapping[str, Any], folder: Path) -> Any:  # noqa: ARG002
        if stated:
            raise InvalidInput(f"this pipeline has no options, found {sorted(stated)}")

    def schema(self, path: Path) -> Schema:
        return labelled_schema(path)

    def records(self, schema: Schema, path: Path) -> Any:
        return read_records(schema, path)

    def open_rows(
        self, schema: Schema, held_out: Sequence[Any], reference: Any
    ) -> tuple[Any, Any, tuple[str, ...]]:
        if not self.uses_open_rows:
            return None, None, ()
        if self.needs_held_out and not held_out:
            raise InvalidInput(
                "this pipeline is judged on rows that nobody protects: name at least one file of "
                "them in [[held_out]] of server.toml (in Python: held_out=)"
            )
        rows, odd = open_tables(schema, held_out)
        compared, also = reference_rows(schema, reference)
        return rows, compared, (*odd, *also)

    def facts(self, levels: Mapping[str, float], **common: Any) -> Any:
        if levels:
            raise InvalidInput(
                "parties have levels of their own with 'shapley-guided noise' only; found "
                f"{sorted(levels)}"
            )
        return FederationFacts(**common)

    def preview(self, agreement: Any, server: ServerSide) -> FederationPreview:  # noqa: ARG002
        return FederationPreview()

    def prepared(self, plan: Any, held_out: Any) -> tuple[Pipeline, ServerRows]:
        return plan, ServerRows(measured=held_out)

    def summed(self, plan: Any) -> SummedStages:
        return SummedStages({stage.name: stage for stage in plan.stages})

    def trust(self, plan: Any) -> TrustRule | None:  # noqa: ARG002
        return None
