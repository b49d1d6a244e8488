"""`Workspace`: explanations by name, from a notebook or a program."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from voile.app.calls import Context, handle
from voile.app.commands.explain import Explain
from voile.app.commands.fields import warn_renamed
from voile.app.commands.train import Train
from voile.app.explain import ReleasedExplanation, ReleaseService
from voile.app.explain_rows import ExplainResult, ExplanationJob, PreviewResult, explain
from voile.app.workspace.file import WorkspaceFile
from voile.app.workspace.ledger_comparison import check_ledger
from voile.app.workspace.rules import apply_rules
from voile.core.explanation import Explanation
from voile.records.audit_log import Receipt
from voile.records.vault import WORKSPACE, open_vault_at
from voile.release import Preview, Release

if TYPE_CHECKING:
    from voile.app.train import TrainedModelResult


def open_workspace(path: str | PathLike[str] = WORKSPACE) -> Workspace:
    r"""Open a workspace, a file or its folder; close it, or use it in a `with` statement.

    Models and backgrounds are read when a release is first asked for, and kept. Promises that every
    explanation is charged and on record before it is returned.

    >>> from voile.app.explain import ExplanationSpec
    >>> from voile.app.workspace import start_workspace
    >>> files = {"scoring.py": "risk = lambda rows: rows[:, 0]",
    ...          "patients.csv": "age\n" + "0.5\n" * 200,
    ...          "clinic.toml": 'name = "c"\nfeatures.age = {kind = "continuous", bounds = [0, 1]}'}
    >>> sizes = [Path(name).write_text(text) for name, text in files.items()]
    >>> spec = ExplanationSpec(model="scoring:risk", schema="clinic.toml", model_origin="public",
    ...                        output_range=(0, 1), protect="background", background="patients.csv")
    >>> started = start_workspace(spec, {"dataset": "patients", "epsilon": 3, "delta": 1e-5})
    >>> with open_workspace(started.file) as workspace:
    ...     answer = workspace.explain("risk", {"age": [0.9]})
    >>> answer.explanation.shape, len(answer.charges)
    ((1, 1, 1), 1)
    """
    file = WorkspaceFile.read(Path(path).absolute())
    file.check_files()
    with ExitStack() as stack:
        vault = stack.enter_context(open_vault_at(file.place))
        check_ledger(file, vault)
        apply_rules(file, vault)
        return Workspace(file, ReleaseService(vault), stack.pop_all())


@dataclass(frozen=True, eq=False, repr=False)
class Workspace:
    """A workspace, opened.

    Args:
        file: what `voile.toml` says.
        service: what answers; for whatever has no short way here.
    """

    file: WorkspaceFile
    service: ReleaseService
    _open: ExitStack
    _known: dict[str, ExplanationJob] = field(init=False, default_factory=dict)

    @property
    def releases(self) -> tuple[str, ...]:
        """The names that can be asked for."""
        return self.file.releases

    def explain(
        self,
        name: str,
        rows: Any,
        *,
        caller: str = "analyst",
        purpose: str = "explanation",
        redraw: bool = False,
        **former: Any,
    ) -> ReleasedExplanation:
        """Explain rows with the release of this name: charged, on record.

        Args:
            rows: the name of a file, a table (a DataFrame, a dict of columns), an array in the
                schema's numbers, or `RowsToExplain`.
            caller: who asks.
            purpose: what for.
            redraw: pay again for new noise, even if the question was answered before.
            former: `by` and `fresh`, which are called `caller` and `redraw` now.
        """
        caller, redraw = _former_names(caller, redraw, **former)
        asked = self._command(name, rows, caller=caller, purpose=purpose, redraw=redraw)
        result = explain(asked, self._context)
        assert isinstance(result, ExplainResult)
        return result.explained

    def preview(
        self,
        name: str,
        rows: Any = 1,
        *,
        caller: str = "analyst",
        redraw: bool = False,
        **former: Any,
    ) -> Preview:
        """What an answer for these rows, or this many, would cost and be like; charges nothing.

        Of rows it also says, among its remarks, if the account could not pay for them.

        Args:
            rows, caller, redraw, former: see `explain`.
        """
        caller, redraw = _former_names(caller, redraw, **former)
        job = ExplanationJob.from_command(self._command(name), self._context)
        given = rows if isinstance(rows, int) else job.inputs(None).read_rows(rows)
        return job.preview(self.service, given, caller=caller, fresh=redraw)

    def train(
        self,
        rows: Any,
        *,
        schema: Any,
        account: str,
        epsilon: float,
        delta: float,
        output: str | PathLike[str],
        **more: Any,
    ) -> TrainedModelResult | PreviewResult:
        """Train a private model on protected rows: charged to an account of this workspace.

        Args:
            rows: the name of a file, or a table with features and label.
            schema: the name of a schema file, or a `Schema`.
            account, epsilon, delta: who pays how much, for all releases together.
            output: folder for the model.
            more: other fields of `voile.app.commands.train.Train`, such as `held_out`. With
                `preview=True` nothing is charged, and what it would cost is returned.
        """
        stated = {"account": account, "epsilon": epsilon, "delta": delta, "folder": output}
        command = Train.read({"rows": rows, "schema": schema, **stated, **more})
        result: TrainedModelResult | PreviewResult = handle(command, self._context)
        return result

    def receipt(self, charge: str) -> Receipt:
        """A proof for one charge (`ReleasedExplanation.charges`), at any later time."""
        return self.service.receipt(charge)

    def close(self) -> None:
        """Sign what the log holds, and let go of the database."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        lines = (
            f"{name}: protects {spec.protect} rows"
            + (f", paid by {spec.account!r}" if spec.account else ", free")
            for name, spec in ((name, self.file.spec(name)) for name in self.releases)
        )
        return "\n  ".join([f"Workspace {self.file.path}", *lines])

    def release(self, name: str, rows: int) -> Release[Explanation]:
        """What answers for this many rows; built once."""
        return ExplanationJob.from_command(self._command(name), self._context).release(
            self.service, rows
        )

    def _command(self, name: str, rows: Any = None, **stated: Any) -> Explain:
        return Explain(model=name, data=rows, workspace=self.file.path, **stated)

    @property
    def _context(self) -> Context:
        return Context(service=self.service, known=self._known)


def _former_names(
    caller: str, redraw: bool, *, by: str | None = None, fresh: bool | None = None
) -> tuple[str, bool]:
    if by is not None:
        warn_renamed("by", "caller")
    if fresh is not None:
        warn_renamed("fresh", "redraw")
    return caller if by is None else by, redraw if fresh is None else fresh
