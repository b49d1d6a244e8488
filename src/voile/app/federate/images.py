"""`pipeline = "images"`: a classifier of images, from files of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from voile.app.artefact import image_files
from voile.app.federate.base import FinishContext, PipelineOutput, ServerSide, TableKind
from voile.app.federate.expectation import FederationPreview, noise_to_signal
from voile.app.federate.quality import judged_classes
from voile.core.errors import InvalidInput
from voile.federation import StageResult
from voile.pipelines.facts import FederationFacts
from voile.pipelines.image_classifier import STAGE, ImageModel, ImagePlan, plan_images
from voile.pipelines.images import ImageRecords, ImageSchema
from voile.pipelines.objectives import BLACK_BOX
from voile.pipelines.private_explainer.plan import BudgetReadings
from voile.pipelines.promises import promise
from voile.training import with_arrays


class ImageKind(TableKind):
    """One layer over fixed filters, trained with DP-SGD: an image is a record."""

    takes_tables: ClassVar[bool] = False
    takes_any_aggregator: ClassVar[bool] = True

    def schema(self, path: Path) -> Any:
        return ImageSchema.load(path)

    def records(self, schema: Any, path: Path) -> ImageRecords:
        return ImageRecords.read(schema, path)

    def open_rows(
        self, schema: Any, held_out: Sequence[Path], reference: Path | None
    ) -> tuple[Any, Any, tuple[str, ...]]:
        if not held_out or reference is not None:
            raise InvalidInput(
                "a classifier of images is judged on images that nobody protects: name at least "
                "one file in [[held_out]] of server.toml, and no `reference`"
            )
        parts = [ImageRecords.read(schema, path) for path in held_out]
        images = np.concatenate([part.images for part in parts])
        joined = ImageRecords(schema, images, np.concatenate([part.labels for part in parts]))
        return joined.readable(), None, ()

    def plan(
        self,
        facts: FederationFacts,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> ImagePlan:
        if hidden is not None:
            raise InvalidInput("one layer is learned over fixed filters; leave `hidden` out")
        return plan_images(facts, epsilon=epsilon, delta=delta)

    def preview(
        self,
        agreement: Any,
        server: ServerSide,
    ) -> FederationPreview:
        (stage,) = agreement.plan.stages
        noise = noise_to_signal(stage, agreement.sizes) or 0.0
        line = (
            f"noise of {noise:.2g} for each unit of signal, in one layer over fixed filters; it is "
            f"measured on {len(server.held_out)} images that nobody protects"
        )
        return FederationPreview(lines=(line,), seconds=stage.rounds * stage.clients_per_round)

    def finish(
        self, plan: ImagePlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        model = ImageModel(plan.schema, with_arrays(results[STAGE].arrays))
        shown: ImageRecords = context.rows.measured
        said = model.predict(shown.images)
        return PipelineOutput(
            files=image_files(model),
            promised=promise(plan, results, STAGE),
            readings=BudgetReadings.of_one(STAGE, plan.epsilon(plan.delta), plan.delta),
            figures={
                "quality": {
                    BLACK_BOX: judged_classes(
                        said, np.asarray(shown.labels, float), plan.schema.classes
                    )
                }
                if len(shown)
                else {}
            },
        )
