"""One record for many rows: each row has a proof, and no proof fits anything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.audit_log.examples import SmallLog, policy

from voile import Explanation
from voile.records.audit_log import (
    BlockRoots,
    CheckOutcome,
    PostProcessingRecord,
    RowReceipt,
    RowTree,
    explanation_rows,
    verify_row_receipt,
)
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.merkle import grow, leaf_hash, root_of
from voile.records.audit_log.row_receipt import row_commitment, row_nonce

SEED = bytes(range(32))
HASH = bytes(32)


def rows(count: int) -> list[bytes]:
    return [f"row {number}".encode() for number in range(count)]


def record(tree: RowTree) -> PostProcessingRecord:
    return PostProcessingRecord(
        time=1,
        call="call",
        subject="explainer",
        rows=len(tree),
        promise="none",
        guarantees=HASH,
        query=HASH,
        answer=HASH,
        rows_root=tree.root,
    )


def receipt(tree: RowTree, number: int) -> RowReceipt:
    log = SmallLog.of([record(tree)])
    return tree.receipt(number, log.receipt(0, 1))


@given(st.integers(1, 70))
def test_the_tree_is_the_one_of_the_log(count: int) -> None:
    tree, edge = RowTree.from_rows(rows(count), SEED), b""
    for number, row in enumerate(rows(count)):
        edge, _ = grow(number, edge, leaf_hash(row_commitment(row_nonce(SEED, number), row)))
    assert tree.root == root_of(edge)


@given(st.integers(1, 40), st.data())
def test_every_row_has_a_proof_that_fits_no_other_row(count: int, data: st.DataObject) -> None:
    tree = RowTree.from_rows(rows(count), SEED)
    number = data.draw(st.integers(0, count - 1))
    content = bytes(receipt(tree, number))
    assert bytes(RowReceipt.parse(content)) == content
    report = verify_row_receipt(content, policy(), row=rows(count)[number])
    assert report.verified
    assert report.steps[-1].outcome is CheckOutcome.CHECKED
    assert report.steps[-1].detail.endswith(f"is row {number + 1} of {count}")
    other = verify_row_receipt(content, policy(), row=b"row 41")
    assert other.failed is not None
    assert other.failed.name == "row"


@pytest.mark.parametrize("change", ["number", "rows", "nonce", "path"])
def test_nothing_in_a_proof_can_be_changed(change: str) -> None:
    sound = receipt(RowTree.from_rows(rows(9), SEED), 4)
    changed = {
        "number": replace(sound, number=5),
        "rows": replace(sound, rows=10),
        "nonce": replace(sound, nonce=HASH),
        "path": replace(sound, path=(HASH, *sound.path[1:])),
    }[change]
    assert verify_row_receipt(bytes(sound), policy(), row=b"row 4").verified
    assert not verify_row_receipt(bytes(changed), policy(), row=b"row 4").verified


def test_without_the_row_there_is_nothing_to_open() -> None:
    report = verify_row_receipt(bytes(receipt(RowTree.from_rows(rows(2), SEED), 0)), policy())
    assert report.verified
    assert report.steps[-1].outcome is CheckOutcome.NOT_CHECKABLE
    assert report.steps[8].detail == "no answer was handed in"


def test_a_row_that_was_handed_in_is_not_said_to_be_missing() -> None:
    content = bytes(receipt(RowTree.from_rows(rows(2), SEED), 0))
    answer = verify_row_receipt(content, policy(), row=b"row 0").steps[8]
    assert (answer.name, answer.outcome) == ("answer", CheckOutcome.NOT_CHECKABLE)
    assert answer.detail == "the answer handed in is one row, which step 12 checks"


def test_anything_else_is_refused() -> None:
    content = bytes(receipt(RowTree.from_rows(rows(2), SEED), 0))
    for broken in (b"", b"\xff\n\n", content[5:], content.replace(b"row 0", b"row 00", 1)):
        with pytest.raises(Malformed):
            RowReceipt.parse(broken)
        assert not verify_row_receipt(broken, policy(), row=b"row 0").verified
    with pytest.raises(Malformed, match="below 2"):
        RowTree.from_rows(rows(2), SEED).receipt(
            2, receipt(RowTree.from_rows(rows(2), SEED), 0).record
        )


def test_a_record_without_rows_opens_no_row() -> None:
    tree = RowTree.from_rows(rows(2), SEED)
    proof = tree.receipt(0, SmallLog.of([replace(record(tree), rows=3)]).receipt(0, 1))
    report = verify_row_receipt(bytes(proof), policy(), row=b"row 0")
    assert report.failed is not None
    assert "commits to no 2 rows" in report.failed.detail


def test_nonces_differ_and_hide_equal_rows() -> None:
    equal = RowTree.from_rows([b"same", b"same"], SEED)
    assert equal.levels[0][:32] != equal.levels[0][32:]
    assert RowTree.from_rows([b"same"], SEED).root != RowTree.from_rows([b"same"], HASH).root


@given(count=st.integers(1, 70), power=st.integers(0, 6), data=st.data())
def test_blocks_make_the_same_tree_and_the_same_proofs(
    count: int, power: int, data: st.DataObject
) -> None:
    whole, block = RowTree.from_rows(rows(count), SEED), 2**power
    parts = [
        RowTree.from_rows(rows(count)[first : first + block], SEED, first)
        for first in range(0, count, block)
    ]
    roots = BlockRoots(count, block, tuple(part.root for part in parts))
    assert roots.root == whole.root
    number, proof = data.draw(st.integers(0, count - 1)), receipt(whole, 0).record
    assert roots.receipt(number, parts[number // block], proof) == whole.receipt(number, proof)


def test_rows_of_another_block_are_refused() -> None:
    parts = [RowTree.from_rows(rows(4)[first : first + 2], SEED, first) for first in (0, 2)]
    roots = BlockRoots(4, 2, tuple(part.root for part in parts))
    proof = receipt(RowTree.from_rows(rows(4), SEED), 0).record
    with pytest.raises(Malformed, match="not the rows of block 1"):
        roots.receipt(1, parts[1], proof)
    with pytest.raises(Malformed, match="below 4"):
        roots.receipt(4, parts[1], proof)


@pytest.mark.parametrize(("count", "block", "parts"), [(4, 3, 2), (4, 2, 1), (0, 2, 0), (4, 0, 1)])
def test_blocks_that_make_no_tree_are_refused(count: int, block: int, parts: int) -> None:
    with pytest.raises(Malformed):
        BlockRoots(count, block, (HASH,) * parts)


# --- canonical bytes of a row --------------------------------------------------------------------

NUMBERS = Explanation(
    values=np.arange(6.0).reshape(3, 2),
    base_values=np.array(0.5),
    feature_names=("a", "b"),
    data=np.arange(6.0).reshape(3, 2),
    standard_errors=np.ones((3, 2)),
    half_widths=np.full((3, 2), 2.0),
)
TEXTS = replace(NUMBERS, data=np.array([["x", "long text"], ["y", "z"], ["", "z"]]))


@pytest.mark.parametrize("explanation", [NUMBERS, TEXTS], ids=["numbers", "texts"])
@pytest.mark.parametrize("at_once", [1, 2, 8192])
def test_one_row_by_itself_gives_the_same_bytes(
    explanation: Explanation, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voile.records.audit_log.digests._ROWS_AT_ONCE", at_once)
    together = list(explanation_rows(explanation))
    assert len(set(together)) == 3
    for number, content in enumerate(together):
        assert next(explanation_rows(explanation[number])) == content


@pytest.mark.parametrize(
    "changed",
    [
        replace(NUMBERS, values=NUMBERS.values + 1e-9),
        replace(NUMBERS, base_values=np.array(0.25)),
        replace(NUMBERS, data=None),
        replace(NUMBERS, standard_errors=None),
        replace(NUMBERS, half_widths=np.full((3, 2), 3.0)),
        replace(NUMBERS, feature_names=("a", "c")),
        replace(NUMBERS, notes=("a note",)),
        replace(NUMBERS, output_names=("risk",)),
    ],
)
def test_every_part_of_an_explanation_is_committed_to(changed: Explanation) -> None:
    assert next(explanation_rows(changed)) != next(explanation_rows(NUMBERS))
