"""One record for many rows: a tree over hiding commitments, and a proof for each row.

A call that explains a million rows at no cost is one record, which holds the root of the tree over
one commitment for each row. Whoever gets a row gets its number, its nonce and the hashes up to that
root, in front of the receipt of the record:

    voile row receipt v1
    row <number, from 0> of <rows>
    nonce <hexadecimal>
    <base64 hash, one line each, from the commitment's neighbour up to the root's child>
    <empty line>
    <the receipt of the record, verbatim>

The tree is that of RFC 9162, as in the log itself, and a commitment hides like those of the log:
neighbouring hashes say nothing about other people's rows.

Pure: standard library and Ed25519 verification. Stands on the verifier.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from voile.records.audit_log.canonical import NONCE_SIZE, Malformed, decode_flat
from voile.records.audit_log.merkle import (
    EMPTY_ROOT,
    HASH_SIZE,
    Hash,
    is_included,
    leaf_hash,
    node_hash,
)
from voile.records.audit_log.notes import hash_from_base64, to_base64
from voile.records.audit_log.policy import Policy
from voile.records.audit_log.receipt import LARGEST_RECEIPT, LONGEST_PATH, Receipt
from voile.records.audit_log.verifier import (
    AnchorEvidence,
    CheckOutcome,
    OtherCheckpoint,
    Report,
    Step,
    verify_receipt,
)

HEADER: Final = "voile row receipt v1"
STEP: Final = 12
_ANSWER: Final = 9
_TAG: Final = b"voile audit log v1 row   \n"
_ROW = re.compile(r"row (0|[1-9][0-9]{0,15}) of ([1-9][0-9]{0,15})", re.ASCII)
_NONCE = re.compile(rf"nonce ([0-9a-f]{{{2 * NONCE_SIZE}}})", re.ASCII)


def row_nonce(seed: bytes, number: int) -> bytes:
    """The nonce of one row: whoever is given it learns nothing about those of other rows."""
    return hmac.digest(seed, number.to_bytes(8, "big"), hashlib.sha256)


def row_commitment(nonce: bytes, content: bytes) -> bytes:
    """The commitment to the canonical bytes of a row."""
    return hashlib.sha256(_TAG + nonce + content).digest()


def levels_over(nodes: Sequence[Hash]) -> tuple[bytes, ...]:
    """The hashes of each level joined, from these nodes up to the root.

    A level's last node without a neighbour stands on the next level unchanged, which gives the tree
    of the RFC.
    """
    levels = [list(nodes)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        pairs = zip(below[::2], below[1::2], strict=False)
        above = [node_hash(left, right) for left, right in pairs]
        levels.append([*above, below[-1]] if len(below) % 2 else above)
    return tuple(b"".join(level) for level in levels)


def path_to(levels: Sequence[bytes], place: int) -> tuple[Hash, ...]:
    """The neighbours from a node of the lowest level up to the root's child."""
    path = []
    for level in levels[:-1]:
        start = HASH_SIZE * (place ^ 1)
        if start < len(level):
            path.append(level[start : start + HASH_SIZE])
        place >>= 1
    return tuple(path)


@dataclass(frozen=True)
class RowTree:
    """The tree over the commitments of all rows of a call, or of a block of them.

    Args:
        seed: secret; the nonces are derived from it.
        levels: hashes of each level, joined (`levels_over`).
        first: number of its first row among those of the call.
    """

    seed: bytes = field(repr=False)
    levels: tuple[bytes, ...] = field(repr=False)
    first: int = 0

    @classmethod
    def from_rows(cls, rows: Iterable[bytes], seed: bytes, first: int = 0) -> Self:
        """Commit to the canonical bytes of each row."""
        leaves = [
            leaf_hash(row_commitment(row_nonce(seed, number), row))
            for number, row in enumerate(rows, start=first)
        ]
        return cls(seed, levels_over(leaves), first)

    def __len__(self) -> int:
        return len(self.levels[0]) // HASH_SIZE

    @property
    def root(self) -> Hash:
        return self.levels[-1] or EMPTY_ROOT

    def receipt(self, number: int, record: Receipt) -> RowReceipt:
        """The proof for one row, in front of the receipt of the call's record."""
        if not 0 <= number < len(self):
            raise Malformed(f"expected a row below {len(self)}, found {number}")
        path = path_to(self.levels, number)
        return RowReceipt(number, len(self), row_nonce(self.seed, number), path, record)


@dataclass(frozen=True)
class BlockRoots:
    """The tree over all rows of a call, from the roots of blocks that were made apart.

    It is the same tree, to the bit: with a power of two rows in each block but the last, a block's
    root is a node of it.

    Args:
        rows: of the call.
        block: rows in each block but the last.
        roots: of each block, in order.
    """

    rows: int
    block: int
    roots: tuple[Hash, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if self.block < 1 or self.block & (self.block - 1):
            raise Malformed(f"expected a power of two rows in a block, found {self.block}")
        if self.rows < 1 or len(self.roots) != -(-self.rows // self.block):
            raise Malformed(f"{len(self.roots)} blocks of {self.block} rows are not {self.rows}")

    @property
    def root(self) -> Hash:
        return levels_over(self.roots)[-1]

    def receipt(self, number: int, block: RowTree, record: Receipt) -> RowReceipt:
        """The proof for one row; `block` is the tree over the block that it stands in."""
        place, inside = divmod(number, self.block)
        if not 0 <= number < self.rows:
            raise Malformed(f"expected a row below {self.rows}, found {number}")
        if block.root != self.roots[place] or block.first != place * self.block:
            raise Malformed(f"these are not the rows of block {place + 1}")
        path = (*path_to(block.levels, inside), *path_to(levels_over(self.roots), place))
        return RowReceipt(number, self.rows, row_nonce(block.seed, number), path, record)


@dataclass(frozen=True)
class RowReceipt:
    """What somebody needs, besides a policy, to check that a row was answered like this."""

    number: int
    rows: int
    nonce: bytes = field(repr=False)
    path: tuple[bytes, ...]
    record: Receipt

    def __bytes__(self) -> bytes:
        lines = [HEADER, f"row {self.number} of {self.rows}", f"nonce {self.nonce.hex()}"]
        lines += map(to_base64, self.path)
        return "".join(f"{line}\n" for line in lines).encode() + b"\n" + bytes(self.record)

    @classmethod
    def parse(cls, content: bytes) -> Self:
        if len(content) > 2 * LARGEST_RECEIPT:
            raise Malformed(f"expected a receipt of at most {2 * LARGEST_RECEIPT} bytes")
        head, _, rest = content.partition(b"\n\n")
        lines = head.decode("ascii", errors="replace").split("\n")
        found = _ROW.fullmatch(lines[1]) if len(lines) >= 3 else None
        opened = _NONCE.fullmatch(lines[2]) if len(lines) >= 3 else None
        if lines[0] != HEADER or found is None or opened is None:
            raise Malformed(f"expected a receipt that begins with {HEADER!r}, a row and a nonce")
        if len(lines) - 3 > LONGEST_PATH:
            raise Malformed(f"expected at most {LONGEST_PATH} hashes, found {len(lines) - 3}")
        path = tuple(hash_from_base64(line, "a hash of the proof") for line in lines[3:])
        number, rows = map(int, found.groups())
        return cls(number, rows, bytes.fromhex(opened[1]), path, Receipt.parse(rest))


def verify_row_receipt(
    content: bytes,
    policy: Policy,
    *,
    row: bytes | None = None,
    elsewhere: OtherCheckpoint | None = None,
    anchored: AnchorEvidence | None = None,
) -> Report:
    """Check the receipt of a row: all steps of `verify_receipt`, and

    12. Row  the row handed in is the one that the record commits to, at the number it says
             (people are told numbers from 1).

    Args:
        row: canonical bytes of the row (`digests.explanation_rows`), if at hand.
    """
    try:
        receipt = RowReceipt.parse(content)
    except Malformed as error:
        return _and(verify_receipt(content, policy), CheckOutcome.FAILED, str(error))
    report = verify_receipt(bytes(receipt.record), policy, elsewhere=elsewhere, anchored=anchored)
    return _and(report if row is None else _answer_is_a_row(report), *_opened(receipt, row))


def _answer_is_a_row(report: Report) -> Report:
    """Step 9 is about the whole answer: it is not there, but a row of it is."""
    said = f"the answer handed in is one row, which step {STEP} checks"
    steps = (replace(s, detail=said) if s.number == _ANSWER else s for s in report.steps)
    return Report(tuple(steps), report.record)


def _opened(receipt: RowReceipt, row: bytes | None) -> tuple[CheckOutcome, str]:
    if row is None:
        return CheckOutcome.NOT_CHECKABLE, "no row was handed in"
    try:
        record = decode_flat(receipt.record.record)
        root = bytes.fromhex(str(record.get("rows_root", "")))
    except ValueError:
        return CheckOutcome.FAILED, "the record cannot be read"
    if not root or record.get("rows") != receipt.rows:
        return CheckOutcome.FAILED, f"the record commits to no {receipt.rows} rows"
    leaf, which = leaf_hash(row_commitment(receipt.nonce, row)), receipt.number + 1
    if not is_included(leaf, receipt.number, receipt.rows, receipt.path, root):
        return CheckOutcome.FAILED, f"the row handed in is not row {which} of the record"
    return CheckOutcome.CHECKED, f"the row handed in is row {which} of {receipt.rows}"


def _and(report: Report, outcome: CheckOutcome, detail: str) -> Report:
    return Report((*report.steps, Step(STEP, "row", outcome, detail)), report.record)
