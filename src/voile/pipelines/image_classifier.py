"""A classifier of images, trained across parties: one layer over fixed filters, with DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core import array_file
from voile.core.errors import InvalidInput
from voile.core.input_file import damaged
from voile.federation.stored_text import write_arrays
from voile.pipelines.facts import FederationFacts
from voile.pipelines.images import EdgeFilters, ImageSchema, LearnImages
from voile.pipelines.logistic_regression import LogisticPlan, plan_logistic_regression
from voile.pipelines.network_task import NetworkTask
from voile.training import Perceptron, Softmax, arrays_of, with_arrays

STAGE: Final = "image classifier"
_MODEL_FILE: Final = "voile image model"


@dataclass(frozen=True, eq=False)
class ImagePlan(LogisticPlan):
    """One layer over fixed filters, trained with DP-SGD; a `voile.federation.Pipeline`."""

    stage_name: ClassVar[str] = STAGE

    def __post_init__(self) -> None:
        """The schema of images has classes always."""

    @property
    def schema(self) -> ImageSchema:
        found: Any = self.facts.schema
        assert isinstance(found, ImageSchema)
        return found

    @cached_property
    def task(self) -> NetworkTask:
        objective, relation = LearnImages(self.schema), self.protected.relation
        return NetworkTask(objective, self.training, self.noise_multiplier, relation)


def plan_images(facts: FederationFacts, *, epsilon: float, delta: float) -> ImagePlan:
    """The plan that spends one total on all participations of a client together."""
    flat = plan_logistic_regression(facts, epsilon=epsilon, delta=delta, kind=ImagePlan)
    assert isinstance(flat, ImagePlan)
    return flat


@dataclass(frozen=True, eq=False)
class ImageModel:
    """From images to the probabilities of their classes.

    Args:
        schema: what images look like.
        network: over the filters' vectors.
    """

    schema: ImageSchema
    network: Perceptron
    filters: ClassVar[EdgeFilters] = EdgeFilters()

    def predict(self, images: Any) -> NDArray[np.float64]:
        """Shape (n, classes); each image by itself."""
        shown = np.asarray(images, np.float32)
        if shown.shape[1:] != self.schema.shape:
            raise InvalidInput(
                f"expected images of the shape {self.schema.shape}, found {shown.shape[1:]}"
            )
        logits = self.network(np.nan_to_num(self.filters(shown)))
        return np.asarray(Softmax().means(logits), np.float64)

    def save(self, path: Path) -> None:
        """In voile's one format; `load` gives the same model."""
        facts = {"schema": self.schema.dumps()}
        write_arrays(path, _MODEL_FILE, arrays_of(self.network), facts)

    @classmethod
    def load(cls, path: Path, schema: ImageSchema) -> ImageModel:
        """`UnreadableFile` for anything else, or for a model of other images."""
        arrays, label = array_file.read(path, _MODEL_FILE)
        with damaged(path):
            if label["schema"] != schema.dumps():
                raise ValueError("a model of other images")
            return cls(schema, with_arrays(arrays))
