"""A release as it is served: loaded once, with what is public about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from voile.app.explain import ExplanationInputs, RowsToExplain
from voile.app.explain.files import as_plain
from voile.app.explain.questions import ReleaseTerms
from voile.app.explain.released import ReleasedExplanation
from voile.app.explain.service import ReleaseService
from voile.app.explain_rows import NOISE_WITHOUT_NEED, ExplanationJob
from voile.app.serving.delay import Delay
from voile.attribution import Speed
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.schema import Problem
from voile.release import Preview, Release

_MOST_TOLD: Final = 20
Columns: TypeAlias = dict[str, list[Any]]


class UnusableRows(InvalidInput):
    """Rows do not fit the schema.

    Args:
        problems: of each the column and, for public rows, the row and what is wrong; never a value.
    """

    def __init__(self, problems: Sequence[Mapping[str, Any]]) -> None:
        self.problems = tuple(problems)
        super().__init__("the rows do not fit the schema of this release")


@dataclass(frozen=True, eq=False)
class ServedRelease:
    """A release, loaded.

    Args:
        anonymous: it is answered without a key.
        delay: when a charged answer may leave; None where it leaves when it is ready.
        cost: of a request, as it is declared, for rules about load.
    """

    name: str
    job: ExplanationJob
    service: ReleaseService
    speed: Speed
    anonymous: bool = False
    delay: Delay | None = None
    cost: float = 1.0

    @cached_property
    def inputs(self) -> ExplanationInputs:
        """Model, schema and background."""
        return self.job.inputs(self.speed)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What whoever asks it should know; from the workspace's file alone."""
        instead = self.job.free_instead
        return () if instead is None else (NOISE_WITHOUT_NEED.format(release=instead),)

    def with_remarks(self, preview: Preview) -> Preview:
        """A price, with what whoever asks should know."""
        return replace(preview, remarks=(*preview.remarks, *self.remarks))

    def release(self, rows: int = 1) -> Release[Explanation]:
        """What answers for this many rows."""
        return self.job.release(self.service, rows)

    @cached_property
    def is_free(self) -> bool:
        """Whether it costs nothing."""
        return ReleaseTerms(self.release()).is_free

    @property
    def shows_rows(self) -> bool:
        """Whether the rows it explains are public."""
        return not self.job.spec.protect.is_explained

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """What is explained."""
        return tuple(self.inputs.model.output_names or ("output_1",))

    def read(self, given: Any) -> RowsToExplain:
        """Rows, checked; `UnusableRows` tells what is wrong without a value."""
        if isinstance(given, np.ndarray):
            return self._read(given, {})
        table = self._table(given)
        return self._read(table, table)

    def _read(self, given: Any, table: Columns) -> RowsToExplain:
        try:
            return self.inputs.read_rows(given)
        except InvalidInput:
            raise UnusableRows(self._problems(table)) from None

    def _problems(self, table: Columns) -> list[dict[str, Any]]:
        """By column; of protected rows nothing but which columns there have to be."""
        schema, column = self.inputs.schema, self.job.spec.id_column
        needed = [*schema.feature_names, *([] if column is None else [column])]
        missing = [name for name in needed if name not in table]
        if missing:
            return [{"column": name, "problem": "missing column"} for name in missing]
        lengths = {len(each) for each in table.values()}
        if len(lengths) != 1 or 0 in lengths:
            return [{"problem": "expected one row at least, and as many cells in each column"}]
        if not self.shows_rows:
            return []
        report = schema.check({name: table[name] for name in schema.feature_names})
        return [
            {"column": each.name, "row": example.row, "problem": str(finding.problem)}
            for each in report.features
            for finding in each.findings
            if finding.problem is not Problem.MISSING
            for example in finding.examples
        ][:_MOST_TOLD]

    def _table(self, given: Any) -> Columns:
        """Columns by name, whatever form rows were sent in."""
        if isinstance(given, Mapping):
            return {str(name): list(cells) for name, cells in given.items()}
        rows = list(given)
        if all(isinstance(row, Mapping) for row in rows):
            names = dict.fromkeys(name for row in rows for name in row)
            return {name: [row.get(name) for row in rows] for name in names}
        names = dict.fromkeys(self.inputs.schema.feature_names)
        if any(isinstance(row, Mapping) or len(row) != len(names) for row in rows):
            raise UnusableRows([{"problem": f"expected {len(names)} values in each row"}])
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    def predictions(self, rows: RowsToExplain) -> list[Any] | None:
        """What the model predicts for public rows; None for protected ones, whose predictions are
        covered by no guarantee."""
        if not self.shows_rows:
            return None
        found = self.inputs.model.predict(self.inputs.schema.numbers(rows.rows)).tolist()
        return [row[0] if len(row) == 1 else row for row in found]

    def facts(self) -> dict[str, Any]:
        """What is public about it."""
        spec, preview = self.job.spec, self.with_remarks(self.release().preview(1))
        return {
            "name": self.name,
            "protects": f"{spec.protect} rows",
            "free": self.is_free,
            "anonymous": self.anonymous,
            "level": spec.level.value,
            "columns": list(self.inputs.schema.feature_names),
            "id_column": spec.id_column,
            "outputs": list(self.output_names),
            "alarms": list(self.inputs.alarms),
            "delay": None if self.delay is None else self.delay.seconds(1),
            "price_of_one_row": preview_facts(preview),
        }


def preview_facts(preview: Preview) -> dict[str, Any]:
    """Plain values of a price."""
    return {
        "event": None if preview.event is None else str(preview.event),
        "guarantees": [each.to_dict() for each in preview.guarantees],
        "accuracy": preview.accuracy,
        "standard_error": preview.standard_error,
        "half_width": preview.half_width,
        "remarks": list(preview.remarks),
    }


def answer_facts(explained: ReleasedExplanation) -> dict[str, Any]:
    """Plain values of an answer; the same each time it is given."""
    return {
        "charges": list(explained.charges),
        "records": list(explained.records),
        "replayed": explained.replayed,
        "alarms": list(explained.alarms),
        **as_plain(explained.explanation),
    }
