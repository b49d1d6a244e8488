"""The log itself: records in order, a Merkle tree over them, both in the caller's transaction.

A tree grows at its right edge only, and whatever a leaf completes is known when it is appended. So
the hashes of all subtrees that end with a leaf are kept in that leaf's row, and the right edge in
one small row: an append is one read, one insert and one replace, and any subtree is one row away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

from voile.core.errors import DuplicateRecord, InvalidInput, VerificationFailed
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.kept import PinnedCheckpoint
from voile.records.audit_log.merkle import HASH_SIZE, Hash, grow, is_consistent, leaf_hash, root_of
from voile.records.audit_log.notes import Checkpoint, check_name
from voile.records.audit_log.records import Encoded, Record, canonical_bytes
from voile.records.storage import Part, Reader, Table, Transaction
from voile.records.storage.tables import Key

# --- Which subtrees a proof consists of (RFC 9162, 2.1.3.1 and 2.1.4.1), as ranges of leaves -----
# Writing side only: the verifier checks proofs without knowing how they were made.


Range: TypeAlias = tuple[int, int]
"""Leaves from the first number up to, not including, the second."""


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The neighbours on the way from a leaf to the root, from the bottom."""
    ranges: list[Range] = []
    start, end = 0, size
    while end - start > 1:
        middle = _split(start, end)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def consistency_ranges(old_size: int, new_size: int) -> list[Range]:
    """What shows that the first `old_size` leaves of the new tree are the old tree."""
    ranges: list[Range] = []
    if not 0 < old_size < new_size:
        return ranges
    start, end = 0, new_size
    while end != old_size:
        middle = _split(start, end)
        if old_size <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start > 0:  # the old tree is not a subtree by itself: its last piece must be shown
        ranges.append((start, end))
    return ranges[::-1]


def complete_subtrees(start: int, end: int) -> Iterator[tuple[int, int]]:
    """A range as complete subtrees, from the left: (level, position)."""
    while start < end:
        level = (end - start).bit_length() - 1
        yield level, start >> level
        start += 1 << level


def _split(start: int, end: int) -> int:
    """Where a range parts: the left side gets the largest power of two below its length."""
    return start + (1 << ((end - start - 1).bit_length() - 1))


# --------------------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """One record. `hashes` joins the subtrees that end here, from the leaf's own hash upward."""

    number: int
    record: bytes
    hashes: bytes


class TreeEdge(NamedTuple):
    """Size and right edge of the tree: one row."""

    name: str
    origin: str
    size: int
    edge: bytes


class PublishedRow(NamedTuple):
    """A checkpoint that has left the house, with its signatures."""

    size: int
    note: bytes


LEAVES: Final = Table("audit_leaves", Leaf, key=("number",))
HEADS: Final = Table("audit_heads", TreeEdge, key=("name",))
CHECKPOINTS: Final = Table("audit_checkpoints", PublishedRow, key=("size",))
PART: Final = Part("audit log", (LEAVES, HEADS, CHECKPOINTS))
"""Open the storage with this part to keep a log in it."""

_HEAD: Final = "log"
_KNOWN: Final = CHECKPOINTS.name
"""What a session remembers: the kept checkpoint that the log was last found to extend."""


class AppendedRecord(NamedTuple):
    """Where a record went."""

    number: int
    leaf_hash: Hash


@dataclass(frozen=True)
class TreeHead:
    """How many records there are, and the hash over all of them."""

    size: int
    root: Hash


@dataclass(frozen=True)
class AuditLog:
    """An append-only log, named by its origin. Every method works inside a transaction.

    Guarantees
        1. A record is in the log exactly if the transaction it was appended in was committed.
        2. Appending writes two rows, whatever the size; a proof reads O(log n) rows.
        3. Nothing here changes or removes a record.
        4. With a checkpoint kept outside the database, nothing is appended to a log that does not
           extend it: neither a charge nor an answer comes from a database that was set back. A log
           that was signed and whose copy is missing is refused as well.

    Args:
        kept: what is kept of it outside the database.
        grew: is told the size with each record that is appended, before the commit.
    """

    origin: str
    kept: PinnedCheckpoint | None = None
    grew: Callable[[int], object] | None = field(default=None, repr=False, compare=False)
    _last: dict[Checkpoint, Leaf] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The last record when the log was found to extend this checkpoint."""

    @classmethod
    def create(cls, transaction: Transaction, origin: str) -> Self:
        """Start an empty log. A database holds one."""
        try:
            check_name(origin)
        except Malformed as error:
            raise InvalidInput(f"origin: {error}") from None
        try:
            transaction.insert(HEADS, TreeEdge(_HEAD, origin, 0, b""))
        except DuplicateRecord:
            raise InvalidInput("this database holds an audit log already") from None
        return cls(origin)

    @classmethod
    def open(cls, transaction: Reader) -> Self:
        """The log that this database holds."""
        return cls(_head(transaction).origin)

    def known_by(self, kept: PinnedCheckpoint | None) -> Self:
        """The same log, compared with what is kept of it."""
        if kept is not None and kept.policy.origin != self.origin:
            raise InvalidInput(
                f"the policy is for {kept.policy.origin!r}, the log is {self.origin!r}"
            )
        return replace(self, kept=kept)

    def check(self, transaction: Reader) -> None:
        """`VerificationFailed` unless this is the log we know: it extends what was kept of it.

        The copy is read inside the transaction, which is the only one that writes: whatever was
        published before is in the database by now. While nobody else writes, appending cannot
        make a log shorter, so one that extends its copy is compared with a new copy only.
        """
        if self.kept is None:
            return
        known = self.kept.read()
        if known is None and self.is_signed(transaction):
            known = self.kept.read()  # again: others keep their first one before it is published
            if known is None:
                raise self._nothing_kept(transaction, self.kept.path)
        if known is None or transaction.memory.get(_KNOWN) == known:
            return
        if not self._still_extends(transaction, known):
            raise VerificationFailed(
                f"{self.kept.path} covers {known.size} records, and the log in the database, of "
                f"{self.head(transaction).size}, does not extend them: it was set back (restored "
                "from an old backup?) or changed. Nothing was done; charges since then are "
                "missing, do not answer from it"
            )
        transaction.memory[_KNOWN] = known

    def rows(self, transaction: Reader, *, append: bool) -> list[tuple[Table[Any], Key]]:
        """Which records will be read to check it, and to append to it, as far as is known."""
        wanted: list[tuple[Table[Any], Key]] = []
        if append and HEADS.name not in transaction.memory:
            wanted.append((HEADS, (_HEAD,)))
        if self.kept is not None and _KNOWN not in transaction.memory:
            wanted += [(LEAVES, (last.number,)) for last in self._last.values()]
        return wanted

    def _nothing_kept(self, transaction: Reader, copy: Path) -> VerificationFailed:
        return VerificationFailed(
            f"{copy}: the pinned checkpoint of this log is missing, and the log has signed "
            f"checkpoints (the last covers {self.signed_size(transaction)} records). Without it, a "
            "database restored from an old backup looks like the current one. Nothing was done. "
            "Put the file back, or name with --key the signing key that it lies beside. If it is "
            "lost and this database is the current one: `voile audit accept-checkpoint "
            "DATABASE --reason TEXT`"
        )

    def _still_extends(self, transaction: Reader, known: Checkpoint) -> bool:
        """One proof for each copy. After others wrote, it is enough that the last record of then is
        there: a database that was set back and goes on has another one in its place, or none."""
        last = self._last.get(known)
        if last is not None and transaction.get(LEAVES, last.number) == last:
            return True
        if not self.extends(transaction, known):
            return False
        self._last.clear()
        if size := self.head(transaction).size:
            self._last[known] = _leaf(transaction, size - 1)
        return True

    def extends(self, transaction: Reader, old: Checkpoint) -> bool:
        """Whether the first records are those of the checkpoint."""
        head = self.head(transaction)
        if not old.size < head.size:
            return (old.size, old.root) == (head.size, head.root)
        proof = self.consistency_proof(transaction, old.size, head.size)
        return is_consistent(old.size, head.size, proof, old.root, head.root)

    def append(self, transaction: Transaction, record: Record) -> AppendedRecord:
        """Add one record; it is in the log once the transaction is committed."""
        return self.append_encoded(transaction, canonical_bytes(record))

    def append_encoded(self, transaction: Transaction, content: Encoded) -> AppendedRecord:
        """The same for a record whose bytes were made already."""
        if _KNOWN not in transaction.memory:
            self.check(transaction)
        head = _head(transaction)
        if head.origin != self.origin:
            raise InvalidInput(f"this database holds the log {head.origin!r}, not {self.origin!r}")
        leaf = leaf_hash(content)
        edge, completed = grow(head.size, head.edge, leaf)
        transaction.insert(LEAVES, Leaf(head.size, content, b"".join(completed)))
        grown = TreeEdge(_HEAD, self.origin, head.size + 1, edge)
        transaction.replace(HEADS, grown)
        transaction.memory[HEADS.name] = grown
        if self.grew is not None:
            self.grew(grown.size)
        return AppendedRecord(head.size, leaf)

    def is_signed(self, transaction: Reader) -> bool:
        """Whether a checkpoint was published."""
        return latest_published(transaction) is not None

    def signed_size(self, transaction: Reader) -> int:
        """How many records the latest published checkpoint covers."""
        latest = latest_published(transaction)
        return 0 if latest is None else latest.size

    def head(self, transaction: Reader) -> TreeHead:
        """Size and root as they are now."""
        head = _head(transaction)
        return TreeHead(head.size, root_of(head.edge))

    def record(self, transaction: Reader, index: int) -> bytes:
        """The canonical bytes of one record."""
        return _leaf(transaction, index).record

    def records(self, transaction: Reader, *, first: int = 0, limit: int = 1000) -> Sequence[bytes]:
        """Canonical bytes of records in order; page with `first`."""
        leaves = transaction.scan(LEAVES, after=first - 1, limit=limit)
        return [leaf.record for leaf in leaves]

    def root_at(self, transaction: Reader, size: int) -> Hash:
        """The root when there were `size` records."""
        _check_size(size, _head(transaction).size)
        return _range_hash(transaction, (0, size))

    def inclusion_proof(self, transaction: Reader, index: int, size: int) -> tuple[Hash, ...]:
        """That record `index` is among the first `size`."""
        _check_size(size, _head(transaction).size)
        if not 0 <= index < size:
            raise InvalidInput(f"expected a record below {size}, found {index}")
        return tuple(_range_hash(transaction, part) for part in inclusion_ranges(index, size))

    def consistency_proof(
        self, transaction: Reader, old_size: int, new_size: int
    ) -> tuple[Hash, ...]:
        """That the tree of `new_size` records begins with the tree of `old_size`."""
        _check_size(new_size, _head(transaction).size)
        _check_size(old_size, new_size)
        ranges = consistency_ranges(old_size, new_size)
        return tuple(_range_hash(transaction, part) for part in ranges)


def latest_published(transaction: Reader) -> PublishedRow | None:
    """The published checkpoint with the most records."""
    found = transaction.scan(CHECKPOINTS, limit=1, descending=True)
    return found[0] if found else None


def _head(transaction: Reader) -> TreeEdge:
    head: TreeEdge | None = transaction.memory.get(HEADS.name)
    if head is None:
        head = transaction.get(HEADS, _HEAD)
        if head is None:
            raise InvalidInput(
                "this database holds no audit log yet; make one with `voile audit init`"
            )
        transaction.memory[HEADS.name] = head
    return head


def _check_size(size: int, largest: int) -> None:
    if not 0 <= size <= largest:
        raise InvalidInput(f"expected a tree size of 0 to {largest}, found {size}")


def _leaf(transaction: Reader, number: int) -> Leaf:
    leaf = transaction.get(LEAVES, number)
    if leaf is None:
        raise InvalidInput(f"there is no record {number}")
    return leaf


def _range_hash(transaction: Reader, part: Range) -> Hash:
    nodes = complete_subtrees(*part)
    return root_of(b"".join(_node(transaction, level, place) for level, place in nodes))


def _node(transaction: Reader, level: int, position: int) -> Hash:
    last_leaf = ((position + 1) << level) - 1
    start = HASH_SIZE * level
    return _leaf(transaction, last_leaf).hashes[start : start + HASH_SIZE]
