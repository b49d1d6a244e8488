"""The receipt's form: a C2SP tlog-proof, read strictly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.records.audit_log.examples import NONCES, SmallLog, release

from voile.records.audit_log import Receipt
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.receipt import LARGEST_RECEIPT

RECEIPT = SmallLog.of([release(n) for n in range(9)]).receipt(4, 9)
CONTENT = bytes(RECEIPT)


def test_it_comes_back_and_follows_the_specification() -> None:
    assert Receipt.parse(CONTENT) == RECEIPT
    head, _, checkpoint = CONTENT.partition(b"\n\n")
    lines = head.split(b"\n")
    assert lines[0] == b"c2sp.org/tlog-proof@v1"
    assert lines[1].startswith(b"extra ")
    assert lines[2] == b"index 4"
    assert len(lines) == 3 + len(RECEIPT.path)
    assert checkpoint == RECEIPT.checkpoint


def test_a_tree_of_one_has_an_empty_proof() -> None:
    lone = SmallLog.of([release()]).receipt(0, 1)
    assert lone.path == ()
    assert Receipt.parse(bytes(lone)) == lone


def test_printing_a_receipt_does_not_show_the_nonces() -> None:
    assert NONCES["query"].hex() not in repr(RECEIPT)
    assert repr(NONCES["query"]) not in repr(RECEIPT)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\n\n",
        CONTENT.replace(b"@v1", b"@v2"),
        CONTENT.replace(b"extra ", b"Extra "),
        CONTENT.replace(b"extra ", b"extra  "),
        CONTENT.replace(b"index 4", b"index 04"),
        CONTENT.replace(b"index 4", b"index -4"),
        CONTENT.replace(b"index 4", b"index"),
        CONTENT.replace(b"index 4\n", b""),
        CONTENT.replace(b"\nindex 4", b"\n\nindex 4"),
        CONTENT.replace(b"index 4\n", b"index 4\r\n"),
        CONTENT.replace(b"index 4\n", b"index 4\n" + (b"A" * 43 + b"=\n") * 64),
        CONTENT.partition(b"\n\n")[0],
        CONTENT + b"x" * LARGEST_RECEIPT,
        bytes(replace(RECEIPT, nonces={"other": bytes(32)})),
        bytes(replace(RECEIPT, nonces={"query": bytes(31)})),
        bytes(replace(RECEIPT, nonces={"query": b""})),
        bytes(replace(RECEIPT, path=(b"short",))),
    ],
)
def test_what_is_not_a_receipt_is_refused(broken: bytes) -> None:
    with pytest.raises(Malformed):
        Receipt.parse(broken)
