"""`Workspace`: explanations by name, from a notebook or a program."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self

from voile.app.custody import WORKSPACE, open_custody_at
from voile.app.explain import (
    Explained,
    ExplanationInputs,
    ReleaseService,
    RowsToExplain,
    build_release,
    load_inputs,
)
from voile.app.explain.fitting import Affordability
from voile.app.explain.inputs import find_artefact
from voile.app.explain.specification import Protect
from voile.app.workspace.file import WorkspaceFile
from voile.app.workspace.ledger_comparison import check_ledger
from voile.audit_log import Receipt
from voile.core.explanation import Explanation
from voile.ledger import Account
from voile.release import Preview, Release


def open_workspace(path: str | PathLike[str] = WORKSPACE) -> Workspace:
    """Open a workspace, a file or its folder; close it, or use it in a `with` statement.

    Models and backgrounds are read when a release is first asked for, and kept.
    """
    file = WorkspaceFile.read(Path(path).absolute())
    file.check_files()
    with ExitStack() as stack:
        custody = stack.enter_context(open_custody_at(file.place))
        check_ledger(file, custody)
        return Workspace(file, ReleaseService(custody), stack.pop_all())


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
    _inputs: dict[str, ExplanationInputs] = field(init=False, default_factory=dict)
    _built: dict[tuple[str, int], Release[Explanation]] = field(init=False, default_factory=dict)

    @property
    def releases(self) -> tuple[str, ...]:
        """The names that can be asked for."""
        return self.file.releases

    def explain(
        self,
        name: str,
        rows: Any,
        *,
        by: str = "analyst",
        purpose: str = "explanation",
        fresh: bool = False,
    ) -> Explained:
        """Explain rows with the release of this name: charged, on record.

        Args:
            rows: the name of a file, a table (a DataFrame, a dict of columns), an array in the
                schema's numbers, or `RowsToExplain`.
            by: who asks.
            purpose: what for.
            fresh: pay again for new noise, even if the question was answered before.
        """
        inputs = self._inputs_of(name)
        given = inputs.read_rows(rows)
        release = self.release(name, given.count)
        payer = inputs.spec.account
        with self._affordability(name, given.count).named():
            explained = self.service.answer(
                release, given, payer=payer, caller=by, purpose=purpose, fresh=fresh
            )
        return inputs.told(explained)

    def preview(
        self, name: str, rows: Any = 1, *, by: str = "analyst", fresh: bool = False
    ) -> Preview:
        """What an answer for these rows, or this many, would cost and be like; charges nothing.

        Of rows it also says, among its remarks, if the account could not pay for them.

        Args:
            rows, by, fresh: see `explain`.
        """
        inputs = self._inputs_of(name)
        given = rows if isinstance(rows, int) else inputs.read_rows(rows)
        count = given.count if isinstance(given, RowsToExplain) else given
        release, payer = self.release(name, count), inputs.spec.account
        found = self.service.preview(release, given, payer=payer, caller=by, fresh=fresh)
        return self._affordability(name, count).told(found)

    def receipt(self, charge: str) -> Receipt:
        """A proof for one charge (`Explained.charges`), at any later time."""
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

    def _inputs_of(self, name: str) -> ExplanationInputs:
        if name not in self._inputs:
            spec = self.file.spec(name)
            artefact = find_artefact(spec.model)
            self._inputs[name] = load_inputs(spec, artefact, modules=self.file.folder)
        return self._inputs[name]

    def release(self, name: str, rows: int) -> Release[Explanation]:
        """What answers for this many rows.

        Built once; of a population it depends on the number of rows, which is public.
        """
        inputs = self._inputs_of(name)
        key = (name, rows if inputs.spec.protect is Protect.POPULATION else 0)
        if key not in self._built:
            self._built[key] = build_release(inputs, self._account(inputs), rows)
        return self._built[key]

    def _affordability(self, name: str, rows: int) -> Affordability:
        inputs = self._inputs_of(name)
        return Affordability(inputs, self._account(inputs), self.release(name, rows), rows)

    def _account(self, inputs: ExplanationInputs) -> Account | None:
        payer = inputs.spec.account
        return None if payer is None else self.service.custody.account(payer)
