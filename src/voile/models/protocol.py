"""What the rest of voile knows about a model, whatever made it."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from voile.models.outputs import DeclaredOutputs, Outputs

Rows: TypeAlias = NDArray[np.float64]
"""Shape (n, d): n inputs of d features."""

Presence: TypeAlias = NDArray[np.bool_]
"""Shape (n, d): which features of each row are in the coalition."""


@runtime_checkable
class Model(Protocol):
    """Batched predictions with a declared output set and an identity."""

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """One name per output; None where the model has none (then they are numbered)."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The columns the model was fitted on, in order, where it knows them."""

    @property
    def outputs(self) -> DeclaredOutputs:
        """Where outputs lie."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that determines the predictions."""

    def predict(self, rows: Rows) -> Outputs:
        """Outputs of shape (n, outputs): finite, and inside the declared set."""


@runtime_checkable
class DifferentiableModel(Model, Protocol):
    """A model that can also say how its outputs change with its inputs."""

    @property
    def has_gradient(self) -> bool:
        """Whether `gradient` can be called."""

    def gradient(self, rows: Rows, output: int) -> Rows:
        """The derivative of one output with respect to each feature, shape (n, d)."""


@runtime_checkable
class CoalitionModel(Protocol):
    """A surrogate that answers for rows of which only some features are present."""

    @property
    def output_names(self) -> tuple[str, ...] | None: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    def predict_present(self, rows: Rows, present: Presence) -> Outputs:
        """Outputs of shape (n, outputs) that do not depend on the features that are absent."""
