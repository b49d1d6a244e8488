"""`pipeline = "aggregate"`: what matters to a model that exists, over the rows of all parties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from voile.app.artefact import importance_files
from voile.app.artefact_manifest import MANIFEST as ARTEFACT_MANIFEST
from voile.app.artefact_manifest import file_digest
from voile.app.commands.explain import ExplanationSpec
from voile.app.explain.building import importance_release
from voile.app.explain.inputs import ExplanationInputs, find_artefact, load_inputs
from voile.app.explain.rows import check_columns
from voile.app.federate.base import FinishContext, PipelineOutput, ServerSide, TableKind
from voile.app.federate.expectation import FederationPreview, PreviewWarning
from voile.app.federate.noise import NoiseOptions, said_of_sharing
from voile.app.trained_folder import MANIFEST as MODEL_MANIFEST
from voile.core.errors import InvalidInput
from voile.core.guarantee import RowPart
from voile.core.schema import Schema
from voile.datasets.tables import read_protected_table
from voile.federation import StageResult
from voile.federation.shared_noise import shares_of
from voile.pipelines.facts import FederationFacts
from voile.pipelines.importance import STAGE, ImportancePlan
from voile.pipelines.private_explainer.plan import BudgetReadings
from voile.privacy.accounting.accountants import tightest_epsilon
from voile.release.records import Records

_LOUD: Final = 0.25
"""From this share of the outputs' width on, noise hides most of what an importance says."""


class _Options(BaseModel):
    """What `[options]` says; the model and its public background are files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    model_origin: str | None = None
    output_range: tuple[float, float] | None = None
    output_name: str | None = None
    background: str | None = None
    method: str | None = None
    noise: Literal["shared", "local"] | None = None


@dataclass(frozen=True, eq=False)
class ImportanceOptions:
    """What is explained, and how.

    Args:
        spec: as `voile explain --protect population` takes it.
        stated: for the agreement; files by their digests.
        noise: see `NoiseOptions`.
    """

    spec: ExplanationSpec = field(repr=False)
    stated: Mapping[str, Any]
    noise: NoiseOptions = field(default_factory=NoiseOptions)

    @property
    def shared(self) -> bool | None:
        return self.noise.shared

    def inputs(self, schema: Schema) -> ExplanationInputs:
        """The model and the background, read; `InvalidInput` for what does not fit the schema."""
        return load_inputs(self.spec, find_artefact(self.spec.model), schema=schema)


class AggregateKind(TableKind):
    """Each party releases its own importance, with noise; the server averages.

    In a secure sum of at least three parties they share the noise, if not told otherwise.
    """

    takes_tables: ClassVar[bool] = False
    uses_open_rows: ClassVar[bool] = False
    fixed_rounds: ClassVar[int | None] = 1

    def options(self, stated: Mapping[str, Any], folder: Path) -> ImportanceOptions:
        try:
            asked = _Options.model_validate(stated)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidInput(
                f"[options] {'.'.join(map(str, first['loc']))}: {first['msg']}. This pipeline "
                "needs `model` and takes output_range, output_name, background, method, "
                "model_origin and noise"
            ) from None
        named = asked.model_dump(exclude_none=True)
        files: dict[str, Path] = {
            key: folder / named[key] for key in ("model", "background") if key in named
        }
        origin = folder / named.get("model_origin", "")
        if "model_origin" in named and origin.is_file():
            files["model_origin"] = origin
        public = {"background_origin": "public"} if "background" in named else {}
        explained = {key: value for key, value in named.items() if key != "noise"}
        spec = ExplanationSpec.read(
            {**explained, **{k: str(path) for k, path in files.items()}, **public}
            | {"protect": RowPart.POPULATION}
        )
        digests = {key: _digest(path) for key, path in files.items()}
        plain = {key: list(v) if isinstance(v, tuple) else v for key, v in named.items()}
        return ImportanceOptions(spec, {**plain, **digests}, NoiseOptions(asked.noise))

    def schema(self, path: Path) -> Schema:
        return Schema.load(path)

    def records(self, schema: Schema, path: Path) -> Any:
        table = read_protected_table(path)
        check_columns(table, schema, path)
        return Records.read(table, schema, "a party")

    def facts(self, levels: Mapping[str, float], **common: Any) -> Any:
        options = common.pop("options")
        return super().facts(levels, **common), options

    def plan(
        self,
        facts: tuple[FederationFacts, ImportanceOptions],
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> ImportancePlan:
        if hidden is not None:
            raise InvalidInput("nothing is trained here; leave `hidden` out")
        public, options = facts
        inputs = options.inputs(public.schema)
        shares = shares_of(public.protocol, len(public.sizes), options.shared)
        for share in (1.0, 0.999, 0.99):  # numerical composition adds a little for its grid
            asked = options.spec.model_copy(update={"epsilon": share * epsilon})
            release = importance_release(
                replace(inputs, spec=asked), public.protected, min(public.sizes.values()), delta
            )
            plan = ImportancePlan(public, release, shares)
            if tightest_epsilon(plan.task.cost(1), delta) <= epsilon:
                return plan
        raise InvalidInput(f"no noise was found for epsilon = {epsilon:g} at delta = {delta:g}")

    def preview(
        self,
        agreement: Any,
        server: ServerSide,  # noqa: ARG002
    ) -> FederationPreview:
        plan = agreement.plan
        assert isinstance(plan, ImportancePlan)
        zero = plan.aggregate(tuple(plan.facts.sizes), plan.start(STAGE)).explanation()
        assert zero.standard_errors is not None
        noise = float(zero.standard_errors.max())
        width = plan.release.importance.outputs.width(len(zero.output_names))
        line = (
            f"noise of standard deviation {noise:.2g} on the mean of each feature, where outputs "
            f"are {width:.3g} apart at most"
        )
        loud = (
            "the noise hides most of what an importance can say: use a larger epsilon, or more rows"
        )
        odd = (PreviewWarning(loud, blocking=True),) if noise > _LOUD * width else ()
        sharing = said_of_sharing(len(plan.facts.sizes), plan.shares, plan.facts.protocol)
        return FederationPreview(concerns=odd, lines=(sharing, line), seconds=1.0)

    def finish(
        self,
        plan: ImportancePlan,
        results: Mapping[str, StageResult],
        context: FinishContext,  # noqa: ARG002
    ) -> PipelineOutput:
        found, promised = results[STAGE], plan.promised(results)
        parties = tuple(sorted(row.client for row in found.rows if row.outcome.counts))
        mean = promised.on(plan.aggregate(parties, found.arrays).explanation())
        readings = BudgetReadings.of_one(STAGE, plan.guarantee().epsilon, plan.guarantee().delta)
        return PipelineOutput(importance_files(plan.facts.schema, mean), promised, readings)


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the manifest of a folder, which lists what is in it."""
    for manifest in (ARTEFACT_MANIFEST, MODEL_MANIFEST):
        if (path / manifest).is_file():
            return file_digest(path / manifest)
    return file_digest(path)
