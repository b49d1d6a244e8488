"""Where the files of an explanation go: checked before it is charged, written after."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import ClassVar, Final

from voile.app.explain import files
from voile.app.explain.released import ReleasedExplanation
from voile.app.explain.service import ReleaseService
from voile.app.output_check import check_outputs
from voile.core.errors import InvalidInput
from voile.core.guarantee import RowPart
from voile.core.optional import optional
from voile.core.rendering import write_page
from voile.records.checkpoints import Keeper

PAGE: Final = ".html"
MOST_PAGES: Final = 1_000
"""In one folder: pages are for people, and somebody hands them out."""


@dataclass(frozen=True)
class ProofOnPage:
    """What the page can be checked with.

    Args:
        answer: the saved explanation.
        receipt: None if none was written.
        policy: whose signature counts.
    """

    answer: Path | None
    receipt: Path | None
    policy: Path

    def command(self, folder: Path) -> str:
        """The one command that checks it from there; empty where nothing can be checked."""
        if self.receipt is None or self.answer is None or self.answer.suffix != ".voile":
            return ""
        receipt, answer, policy = (
            relpath(path.absolute(), folder.absolute())
            for path in (self.receipt, self.answer, self.policy)
        )
        words = ("voile", "audit", "verify", receipt, "--answer", answer, "--policy", policy)
        return shlex.join(words)


@dataclass(frozen=True)
class PersonPage:
    """What one person is shown.

    Args:
        explained: of the one row.
        receipt: name of the file that proves it; empty if none was written.
        command: checks it, in the folder of the page; empty where nothing can be checked.
    """

    view: ClassVar[str] = "person page"

    explained: ReleasedExplanation
    receipt: str
    command: str


@dataclass(frozen=True)
class WrittenFiles:
    """What was written, by what it is, and what could not be.

    Args:
        unproved: why no receipt was written, where one belongs to what was asked for.
    """

    files: dict[str, list[str]]
    failed: tuple[str, ...] = ()
    unproved: str = ""

    @property
    def proofs(self) -> list[tuple[str, str]]:
        """Of each kind of receipt the first, with the file that it is about."""
        found = []
        for what in ("receipts", "row receipts"):
            receipts = self.files.get(what, [])
            beside = [str(Path(receipt).with_suffix(".voile")) for receipt in receipts[:1]]
            alone = what == "receipts" and len(receipts) == 1
            saved = self.files.get("saved", []) if alone else []
            found += [
                (receipts[0], answer)
                for answer in (saved or beside)[:1]
                if Path(answer).suffix == ".voile" and Path(answer).exists()
            ]
        return found


def _is_numbered(path: Path) -> bool:
    return path.stem.isdigit()


@dataclass(frozen=True)
class Outputs:
    """The files that somebody asked for.

    Args:
        saved: the explanation; its receipt goes beside it.
        receipt: where the receipt goes instead.
        row_receipts: folder for a proof of each row.
        picture: a plot.
        page: a page for the one person whom it is about. What it can be checked with goes beside
            it, unless `saved` says where else.
        pages: folder for a page of each row, and what it can be checked with.
        private: what is saved is for its owner only, whatever it holds.
    """

    saved: Path | None = None
    receipt: Path | None = None
    row_receipts: Path | None = None
    picture: Path | None = None
    page: Path | None = None
    pages: Path | None = None
    private: bool = False

    def __post_init__(self) -> None:
        if self.saved is None and self.page is not None:
            object.__setattr__(self, "saved", self.page.with_suffix(files.SAVED[0]))

    @property
    def proof(self) -> Path | None:
        """Where the receipt goes, if anywhere."""
        return self.receipt or (self.saved and self.saved.with_suffix(files.RECEIPT))

    def check(self, needed: Iterable[Path] = ()) -> None:
        """Refuse places and formats that cannot be written: what is paid for must go somewhere.

        Args:
            needed: files that must not be overwritten.
        """
        if self.saved is not None:
            files.check_suffix(self.saved, files.SAVED)
            if self.saved.suffix.lower() == ".parquet":
                optional("pyarrow.parquet", extra="explain")
        if self.picture is not None:
            files.check_suffix(self.picture, files.PICTURES)
            optional("matplotlib.figure", extra="explain")
        if self.page is not None:
            files.check_suffix(self.page, (PAGE,))
        check_outputs(self._named, needed, self._folders)

    @property
    def files(self) -> tuple[Path, ...]:
        """What is written; of folders for numbered files, those that hold some from before."""
        numbered = [path for path in self._folders if any(map(_is_numbered, path.glob("*")))]
        return (*self._named, *numbered)

    @property
    def _named(self) -> list[Path]:
        outputs = (self.saved, self.proof, self.picture, self.page)
        return [path for path in outputs if path is not None]

    @property
    def _folders(self) -> list[Path]:
        of_entries = None if self.proof is None else files.folder_of_receipts(self.proof)
        folders = (of_entries, self.row_receipts, self.pages)
        return [folder for folder in folders if folder is not None]

    def check_rows(self, rows: int, protect: RowPart) -> None:
        """Refuse a page that would be about more than one person, or about none."""
        if self.page is None and self.pages is None:
            return
        if protect is RowPart.POPULATION:
            raise InvalidInput(
                "a page is about one person; use --plot for importance over many rows"
            )
        if self.page is not None and rows != 1:
            raise InvalidInput(
                f"a page is about one person, found {rows} rows: pass one row, or a folder for a "
                "page each: --page DIR/"
            )
        if self.pages is not None and protect is not RowPart.TRAINING:
            raise InvalidInput(
                "a folder of pages needs a proof for each row, which exists only where "
                "explanations are free (--protect training). For charged rows, ask for each row "
                "separately with --page FILE.html. Each call is charged, also if the row was "
                "explained together with others before"
            )
        if self.pages is not None and rows > MOST_PAGES:
            raise InvalidInput(
                f"a folder holds at most {MOST_PAGES:,} pages, found {rows:,} rows: split the "
                "rows, and use one folder for each part"
            )

    def check_signing(self, keeper: Keeper | None) -> None:
        """Refuse proofs where nobody signs: they could never be written."""
        asked_for = (self.receipt, self.row_receipts, self.pages)
        if keeper is None and any(place is not None for place in asked_for):
            raise InvalidInput(
                "No signing policy found, so no receipt can be written. Create one with `voile "
                "audit init`, name it with --policy, or leave out --receipt, --row-receipts and "
                "folders of pages"
            )

    def write(self, service: ReleaseService, explained: ReleasedExplanation) -> WrittenFiles:
        """Write what can be written; a file that fails stops no other one.

        Receipts need a checkpoint over the record. Where no file was asked for, nothing is read:
        the answer is paid for, and leaves even if the records are closed by now.
        """
        if not self._named and not self._folders:
            return WrittenFiles({})
        signed = service.vault.covers(max(explained.records))
        done: dict[str, list[str]] = {}
        failed: list[str] = []
        for what, write in self._writers(service, explained, signed).items():
            try:
                done[what] = [str(path) for path in write()]
            except Exception as error:  # the answer is paid for: nothing may keep it from leaving
                failed.append(f"{what}: {error}")
        return WrittenFiles(done, tuple(failed), self._unwritten(explained) if not signed else "")

    def _unwritten(self, explained: ReleasedExplanation) -> str:
        """Why there is no proof, if one was to be expected."""
        if self.proof is None and self.row_receipts is None and self.pages is None:
            return ""
        later = "ask again once one is" if explained.charges else "sign first, then ask again"
        return f"none written, because no checkpoint was signed; {later}"

    def _writers(
        self, service: ReleaseService, explained: ReleasedExplanation, signed: bool
    ) -> dict[str, Callable[[], list[Path]]]:
        writers: dict[str, Callable[[], list[Path]]] = {}
        explanation, saved, proof = explained.explanation, self.saved, self.proof
        rows, picture, page, pages = self.row_receipts, self.picture, self.page, self.pages
        if saved is not None:
            writers["saved"] = lambda: [files.save(explanation, saved, private=self.private)]
        if proof is not None and signed:
            writers["receipts"] = lambda: files.write_receipts(service, explained, proof)
        if rows is not None and signed:
            writers["row receipts"] = lambda: files.write_row_receipts(service, explained, rows)
        if picture is not None:
            writers["picture"] = lambda: [files.draw(explained, picture)]
        if page is not None:
            checked = ProofOnPage(saved, proof if signed else None, service.vault.place.policy)
            writers["page"] = lambda: [_write_page(explained, page, checked)]
        if pages is not None:
            writers["pages"] = lambda: _write_pages(service, explained, pages, signed)
        return writers


def page_place(named: str | None) -> tuple[Path | None, Path | None]:
    """What `--page` names: a file or, by its last letter or because it is one, a folder."""
    if named is None:
        return None, None
    if not named:
        raise InvalidInput("expected the name of a page or of a folder for pages, found ''")
    is_folder = named.endswith("/") or Path(named).is_dir()
    return (None, Path(named)) if is_folder else (Path(named), None)


def _write_page(explained: ReleasedExplanation, path: Path, checked: ProofOnPage) -> Path:
    """Write the page of the one row; whole or not at all, for its owner only."""
    receipt = "" if checked.receipt is None else checked.receipt.name
    page = PersonPage(explained, receipt, checked.command(path.parent))
    return write_page(page, path, mode=0o600)


def _write_pages(
    service: ReleaseService, explained: ReleasedExplanation, folder: Path, signed: bool
) -> list[Path]:
    """For each row its explanation, its own proof, and the page that says how to check both."""
    folder.mkdir(parents=True, exist_ok=True)
    files.clear_numbered(folder, (PAGE,), beyond=len(explained.explanation))
    if not signed:  # proofs from before are not those of the new pages
        files.clear_numbered(folder, (files.SAVED[0], files.ROW_RECEIPT))
    proofs = files.write_row_receipts(service, explained, folder) if signed else []
    written = []
    for place in range(len(explained.explanation)):
        page, policy = folder / f"{place + 1}{PAGE}", service.vault.place.policy
        proof = proofs[place] if signed else None
        checked = ProofOnPage(page.with_suffix(files.SAVED[0]), proof, policy)
        written.append(_write_page(explained.of_row(place), page, checked))
    return written
