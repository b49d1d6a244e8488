"""`ModelFolder`: what is explained from a folder, whichever command wrote it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from voile.core.schema import Rows, Schema
from voile.models import WrappedModel
from voile.release import Origin

if TYPE_CHECKING:
    from voile.models.additive import AdditiveModel


class ModelFolder(Protocol):
    """A model that records what it was made from: of `voile federate` or `voile train`."""

    @property
    def folder(self) -> Path: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def model(self) -> WrappedModel: ...

    @property
    def surrogate_model(self) -> WrappedModel | None:
        """What imitates the model, if it has one."""

    @property
    def origin(self) -> Origin: ...

    @property
    def reference(self) -> Rows | None:
        """Public rows to compare with, if there are any."""

    @property
    def reference_invented(self) -> bool:
        """Whether they were invented from the schema."""

    @property
    def additive(self) -> AdditiveModel | None:
        """The model, where a closed formula explains it over a background of its own."""

    @property
    def deviations(self) -> Mapping[str, float] | None:
        """By feature, how far contributions may be off for the noise in training, if estimated."""

    @property
    def charged_events(self) -> set[str]:
        """What its training charged, as texts."""

    def alarms(self, *, unused: Collection[str] = ()) -> tuple[str, ...]:
        """Why it should not be used, if so."""
