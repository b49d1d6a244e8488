"""Where the files of an explanation go: checked before it is charged, written after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from voile.core.atomic_file import check_output, check_output_folder
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.workflows.explain import files
from voile.workflows.explain.explainer import Explained, Explainer


@dataclass(frozen=True)
class Written:
    """What was written, by what it is, and what could not be."""

    files: dict[str, list[str]]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outputs:
    """The files that somebody asked for.

    Args:
        saved: the explanation; its receipt goes beside it.
        receipt: where the receipt goes instead.
        row_receipts: folder for a proof of each row.
        picture: a plot.
    """

    saved: Path | None = None
    receipt: Path | None = None
    row_receipts: Path | None = None
    picture: Path | None = None

    @property
    def proof(self) -> Path | None:
        """Where the receipt goes, if anywhere."""
        return self.receipt or (self.saved and self.saved.with_suffix(files.RECEIPT))

    def check(self) -> None:
        """Refuse places and formats that cannot be written: what is paid for must go somewhere."""
        if self.saved is not None:
            files.check_suffix(self.saved, files.SAVED)
            if self.saved.suffix.lower() == ".parquet":
                optional("pyarrow.parquet", extra="explain")
        if self.picture is not None:
            files.check_suffix(self.picture, files.PICTURES)
            optional("matplotlib.figure", extra="explain")
        named = [path for path in (self.saved, self.proof, self.picture) if path is not None]
        for path in named:
            check_output(path)
        if len({path.resolve() for path in named}) < len(named):
            raise InvalidInput("two outputs would go to one file; give each a name of its own")
        if self.proof is not None:
            check_output_folder(files.folder_of_receipts(self.proof))
        if self.row_receipts is not None:
            check_output_folder(self.row_receipts)

    def write(self, asking: Explainer, explained: Explained, *, signed: bool) -> Written:
        """Write what can be written; a file that fails stops no other one.

        Args:
            signed: whether a checkpoint covers the record, without which there are no receipts.
        """
        done: dict[str, list[str]] = {}
        failed: list[str] = []
        for what, write in self._writers(asking, explained, signed).items():
            try:
                done[what] = [str(path) for path in write()]
            except Exception as error:  # the answer is paid for: nothing may keep it from leaving
                failed.append(f"{what}: {error}")
        return Written(done, tuple(failed))

    def _writers(
        self, asking: Explainer, explained: Explained, signed: bool
    ) -> dict[str, Callable[[], list[Path]]]:
        writers: dict[str, Callable[[], list[Path]]] = {}
        explanation, saved, proof = explained.explanation, self.saved, self.proof
        rows, picture = self.row_receipts, self.picture
        if saved is not None:
            writers["saved"] = lambda: [files.save(explanation, saved)]
        if proof is not None and signed:
            writers["receipts"] = lambda: files.write_receipts(asking, explained, proof)
        if rows is not None and signed:
            writers["row receipts"] = lambda: files.write_row_receipts(asking, explained, rows)
        if picture is not None:
            writers["picture"] = lambda: [files.draw(explanation, picture)]
        return writers
