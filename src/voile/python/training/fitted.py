"""A private model in memory: what it says, why, and the page and folder that tell others."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voile.app.calls import Context, handle
from voile.app.commands.explain import Explain
from voile.app.commands.federate import WriteReport
from voile.app.model_copy import ModelCopy
from voile.app.trained_folder import GUARANTEES, TrainedFolder
from voile.core.errors import Refused
from voile.python.protected.receipts import ReleaseReceipt
from voile.python.training.passing import passing_context
from voile.python.training.tables import Columns, asked_columns, check_kinds, display_rows
from voile.python.view import ExplanationView

if TYPE_CHECKING:
    from voile.app.explain_rows import ExplainResult
    from voile.models.additive import AdditiveModel
    from voile.python.budget import Budget


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What a fit has learned.

    Args:
        copy: of the model's folder.
        names: of the columns, in the order of the table that it was fitted on.
        budget: what paid; None if nobody kept count, or it was loaded.
    """

    copy: ModelCopy
    names: tuple[str, ...]
    budget: Budget | None = field(repr=False)

    @property
    def trained(self) -> TrainedFolder:
        return self.copy.trained

    @property
    def additive(self) -> AdditiveModel:
        """Refused where there are no curves."""
        found = self.trained.additive
        if found is None:
            raise Refused(
                "a network has no curves: see explain(X).plot(), or fit with model='statistics'"
            )
        return found

    def said(self, given: Any, estimator: str) -> NDArray[np.float64]:
        """What the model says about a table, (n, outputs), in the order of the schema."""
        found = self.trained.predict(self._columns(given, estimator))
        return np.asarray(found, dtype=np.float64)

    def explain(self, given: Any, estimator: str) -> ExplanationView:
        """Free, and with a budget on record."""
        columns = self._columns(given, estimator)
        asks: dict[str, Any] = {"model": str(self.copy.folder), "data": columns}
        additive = self.trained.additive is not None
        shown: dict[str, Any] = {
            "display": display_rows(columns),
            "method": "closed form" if additive else "exact",
        }
        if self.budget is None:
            asks["model_origin"] = str(self.copy.folder / GUARANTEES)
            found: ExplainResult = handle(Explain.read(asks), passing_context())
            return ExplanationView(found.explained.explanation, **shown)
        released = handle(Explain.read(asks), self.budget.context()).explained
        service = self.budget.service()
        return ExplanationView(
            released.explanation,
            **shown,
            released=released,
            receipt=lambda: ReleaseReceipt(service, released),
        )

    def report(self, path: Path, *, overwrite: bool) -> Path:
        """One page; compared with the ledger that paid, if it is open."""
        context = Context() if self.budget is None else self.budget.context()
        stated = {"artefact": self.copy.folder, "output": path, "overwrite": overwrite}
        written: Path = handle(WriteReport.read(stated), context).path
        return written

    def _columns(self, given: Any, estimator: str) -> Columns:
        columns = asked_columns(given, self.names, estimator)
        check_kinds(given, columns, self.trained.schema)
        return columns
