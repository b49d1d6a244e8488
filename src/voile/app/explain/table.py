"""Explanations of a large table that cost nothing: block by block, in this process or elsewhere.

One call, one record, however many rows and workers. A worker reads its block, explains it, writes
its file and commits to each of its rows; nonces follow from a row's number, so a block that is done
twice is the same to the bit and leaves no second record. The tree over all rows is put together
from those of the blocks. The record is written when all blocks are there, and the files get their
names after it.

Charged explanations stay with the one vault that pays for them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.app.commands.explain import ExplanationSpec
from voile.app.explain.building import build_release
from voile.app.explain.files import RECEIPT, clear_numbered
from voile.app.explain.inputs import ExplanationInputs, find_artefact, load_inputs
from voile.app.explain.questions import about_public, question
from voile.app.explain.released import settled_notes
from voile.app.explain.rows import rows_of_table
from voile.app.explain.service import ReleaseService, call_record, rows_seed
from voile.app.explain.table_parts import (
    LIST,
    PART,
    BlockList,
    answer_in_blocks,
    digest_of_block,
    read_part,
    write_part,
)
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, Refused, VerificationFailed
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.core.row_note import KnownNote
from voile.datasets.parquet_files import ParquetFiles
from voile.engines import Engine
from voile.records.audit_log import (
    BlockRoots,
    RowTree,
    common_digest,
    explanation_rows,
)
from voile.records.ledger import PublicInput
from voile.records.stored_answers import opened_by_nonces
from voile.release import Release, ReleaseIdentity

BLOCK: Final = 2**16
"""Rows in a block: a power of two, so that its root is a node of the tree over all rows."""
_UNFINISHED: Final = ".unfinished"


@dataclass(frozen=True)
class Block:
    """Some rows of a table: its place among the blocks, its first row, and how many rows."""

    number: int
    first: int
    rows: int


@dataclass(frozen=True)
class BlockResult:
    """What is known of a block once its file is written.

    Args:
        common: digest of what all rows of the call have in common.
        question: digest of what was asked, and `answer` of what was answered.
        root: of the tree over its rows.
        strength: sum over its rows of the size of each contribution, by feature.
    """

    common: bytes
    question: bytes
    answer: bytes
    root: bytes
    strength: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class TableWork:
    """Explains one block: a pure function of the table, the model and the call's seed.

    Args:
        spec: names the model and what it needs, by files that each worker can read.
        modules: where modules with a model are looked for first.
        identity: of the release, as whoever started the call has it.
        seed: of the call; the nonces are derived from it.
        folder: where the files of blocks go.
    """

    spec: ExplanationSpec
    modules: Path
    table: ParquetFiles
    identity: ReleaseIdentity
    seed: bytes = field(repr=False)
    folder: Path

    def __call__(self, block: Block) -> BlockResult:
        asked, explanation = self.explain(block)
        write_part(explanation, self.folder / f"{block.number + 1}{PART}", block.first)
        tree = RowTree.from_rows(explanation_rows(explanation), self.seed, block.first)
        return BlockResult(
            common=common_digest(explanation),
            question=asked,
            answer=digest_of_block(explanation),
            root=tree.root,
            strength=np.abs(explanation.values).mean(axis=2).sum(axis=0),
        )

    def explain(self, block: Block) -> tuple[bytes, Explanation]:
        """Digest of what is asked, and the answer."""
        inputs, release = self._loaded()
        last = block.first + block.rows
        source = f"{self.table.files[0]}, rows {block.first + 1:,} to {last:,}"
        read = self.table.read(block.first, block.rows)
        rows = rows_of_table(read, inputs.schema, None, source, protected=False)
        notes = (*inputs.notes, *rows.notes)
        explanation = settled_notes(release.draw(rows.rows), *notes, KnownNote.NOTHING_TO_CHARGE)
        return hashlib.sha256(about_public(rows.rows, notes).content).digest(), explanation

    def _loaded(self) -> tuple[ExplanationInputs, Release[Explanation]]:
        """Model and release of this process, read once and compared with those of the call."""
        if self.identity not in _LOADED:
            _LOADED.clear()
            artefact = find_artefact(self.spec.model)
            inputs = load_inputs(self.spec, artefact, modules=self.modules)
            release = build_release(inputs, None, 1)
            if release.identity != self.identity:
                raise VerificationFailed(
                    f"{self.spec.model}: a worker reads another model or other settings than "
                    "the process that started it"
                )
            _LOADED[self.identity] = inputs, release
        return _LOADED[self.identity]


_LOADED: Final[dict[ReleaseIdentity, tuple[ExplanationInputs, Release[Explanation]]]] = {}


@dataclass(frozen=True)
class TableAnswer:
    """What became of a call.

    Args:
        record: its number in the log.
        strength: mean size of the contributions of each feature, strongest first.
        receipt: None where no checkpoint was signed.
    """

    record: int
    rows: int
    blocks: int
    guarantees: tuple[Guarantee, ...]
    strength: dict[str, float]
    folder: Path
    receipt: Path | None


def absolute(spec: ExplanationSpec) -> ExplanationSpec:
    """The same with whole paths: workers may run in another folder."""
    names = ("model", "schema_file", "model_origin", "background", "background_origin")
    found = {name: getattr(spec, name) for name in (*names, "explainer", "clusters")}
    paths = {
        name: type(given)(Path(given).resolve())
        for name, given in found.items()
        if isinstance(given, str | Path) and Path(given).exists()
    }
    return spec.model_copy(update=paths)


def check_table(release: Release[Explanation], spec: ExplanationSpec) -> None:
    """Refuse what cannot be done block by block."""
    if release.cost(1) is not None:
        raise Refused(
            "a folder as --output is for explanations that cost nothing: charged ones stay with "
            "the one ledger that pays. Name a file (.voile), and explain fewer rows at once"
        )
    if spec.id_column is not None:
        raise InvalidInput("leave out --id-column: a table that is explained freely needs none")


def check_folder(folder: Path, table: ParquetFiles) -> None:
    """Refuse a folder that holds the table, or anything that a call did not write."""
    if any(Path(name).resolve().parent == folder.resolve() for name in table.files):
        raise InvalidInput(f"{folder}: holds the table itself; choose another folder")
    own = {LIST, f"receipt{RECEIPT}", _UNFINISHED}
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in own and not (path.suffix == PART and path.stem.isdigit()):
            raise InvalidInput(f"{folder}: holds {path.name}; choose an empty or a new folder")


def explain_table(
    service: ReleaseService,
    work: TableWork,
    loaded: tuple[ExplanationInputs, Release[Explanation]],
    engine: Engine,
    *,
    subject: str,
    sign: Callable[[], object],
    progress: Callable[[int, int], None] | None = None,
) -> TableAnswer:
    """Explain all blocks, write the one record, name the files.

    Args:
        work: without its seed, which belongs to the call.
        loaded: what this process has read already.
        sign: makes a checkpoint, if anybody here can.
        progress: is told how many blocks are done, and of how many.
    """
    vault, call = service.vault, secrets.token_hex(16)
    work = replace(work, seed=rows_seed(vault.key, call))
    _LOADED.clear()
    _LOADED[work.identity] = loaded
    rows, final = len(work.table), work.folder
    if rows == 0:
        raise InvalidInput(f"{work.table.files[0]}: expected at least one row, found none")
    blocks = [
        Block(number, first, min(BLOCK, rows - first))
        for number, first in enumerate(range(0, rows, BLOCK))
    ]
    with _unfinished(final) as folder:
        work = replace(work, folder=folder)
        _, example = work.explain(replace(blocks[0], rows=1))
        results = _collected(engine(work, blocks), example, len(blocks), progress)
        roots = BlockRoots(rows, BLOCK, tuple(result.root for result in results))
        asked = hashlib.sha256(b"".join(result.question for result in results)).digest()
        asked_bytes = question(work.identity, "", PublicInput(asked)).canonical_bytes
        answer = answer_in_blocks(roots, [result.answer for result in results])
        record = call_record(
            vault, call, subject, rows, example.guarantees, asked_bytes, answer, roots.root
        )
        if vault.log.kept is not None:
            vault.storage.submit(vault.log.check)
        number = vault.storage.submit(lambda t: vault.log.append(t, record).number)
        listed = BlockList(number, roots)
        _name_files(folder, final, listed)
    sign()
    receipt = _write_receipt(service, number, final, asked_bytes, answer)
    strength = np.sum([result.strength for result in results], axis=0) / rows
    named = dict(zip(example.feature_names, strength.tolist(), strict=True))
    ordered = dict(sorted(named.items(), key=lambda each: -each[1]))
    return TableAnswer(number, rows, len(blocks), example.guarantees, ordered, final, receipt)


def _collected(
    results: Iterator[BlockResult],
    example: Explanation,
    count: int,
    progress: Callable[[int, int], None] | None,
) -> list[BlockResult]:
    """Of all blocks, which must say the same of themselves as this process does."""
    common, found = common_digest(example), list[BlockResult]()
    for result in results:
        if result.common != common:
            raise VerificationFailed(
                f"block {len(found) + 1} states other guarantees or notes than the first row"
            )
        found.append(result)
        if progress is not None:
            progress(len(found), count)
    return found


@contextmanager
def _unfinished(final: Path) -> Iterator[Path]:
    """A folder for files that are not on record yet; of one call at a time."""
    folder = final / _UNFINISHED
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go when a process dies
    except BlockingIOError:
        os.close(held)
        raise InvalidInput(
            f"{final}: another call writes there now; wait for it, or choose another folder"
        ) from None
    try:
        clear_numbered(folder, (PART,))
        yield folder.resolve()
    finally:
        clear_numbered(folder, (PART,))
        with suppress(OSError):
            folder.rmdir()
        os.close(held)


def _name_files(folder: Path, final: Path, listed: BlockList) -> None:
    for stale in (final / LIST, final / f"receipt{RECEIPT}"):
        stale.unlink(missing_ok=True)
    clear_numbered(final, (PART,))
    for name in listed.files:
        (folder / name).replace(final / name)
    listed.write(final)


def _write_receipt(
    service: ReleaseService, record: int, folder: Path, asked: bytes, answer: bytes
) -> Path | None:
    if not service.vault.covers(record):
        return None
    proof = opened_by_nonces(service.receipt_of_call(record), {"query": asked, "answer": answer})
    return replace_file(folder / f"receipt{RECEIPT}", bytes(proof), mode=0o600)


def row_of_table(
    service: ReleaseService, folder: Path, record: int, number: int
) -> tuple[Explanation, bytes]:
    """One row of a table that was explained, and its own proof; it opens no other row.

    Args:
        number: of the row, counted from 1.
    """
    listed = BlockList.read(folder)
    if listed.record != record:
        raise InvalidInput(f"{folder}: is on record as {listed.record}, not as {record}")
    if not 1 <= number <= listed.roots.rows:
        raise InvalidInput(f"expected a row from 1 to {listed.roots.rows}, found {number}")
    place, inside = divmod(number - 1, listed.roots.block)
    block = read_part(folder / listed.files[place])
    call = service.free_record(record)
    seed = rows_seed(service.vault.key, call.call)
    tree = RowTree.from_rows(explanation_rows(block), seed, place * listed.roots.block)
    if call.rows_root != listed.roots.root or tree.root != listed.roots.roots[place]:
        raise VerificationFailed(f"{folder}: holds other rows than record {record} commits to")
    proof = listed.roots.receipt(number - 1, tree, service.receipt_for_rows(record))
    return block[inside], bytes(proof)
