"""Random damage: none of more than ten thousand changes to what an auditor gets goes unnoticed.

Harmless by design, and tried at the end, because the formats say so:

- a further signature line of a key that the policy does not know (C2SP: ignore unknown keys)
- the order of signature lines, and one line given twice
- a witness more or less, as long as the threshold is met
- other nonces, where the query or the answer is not handed in: they open nothing then, and the
  report says that it did not check them
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.records.audit_log.examples import (
    ANSWER,
    QUERY,
    WITNESS_KEYS,
    SmallLog,
    policy,
    release,
    signing_key,
)

from voile.records.audit_log import (
    CheckOutcome,
    OtherCheckpoint,
    Receipt,
    verify_export,
    verify_receipt,
)
from voile.records.audit_log.notes import Note

POLICY = policy(3)
EACH = 3000
SIZE, LATER = 37, 52


@pytest.fixture(scope="module")
def small() -> SmallLog:
    return SmallLog.of([release(n) for n in range(LATER)])


def flip_a_bit(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def set_a_byte(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] = chance.choice(b'\n "+=/0aA9:,{}\x00\xff')
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + content[start + chance.randrange(1, 60) :]


def insert(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + bytes(chance.choices(b"\n 0aA=+\xe2\x80\x94", k=3)) + content[place:]


def swap(content: bytes, chance: random.Random) -> bytes:
    one, two = sorted(chance.sample(range(len(content)), 2))
    return content[:one] + content[two:] + content[one:two]


def repeat_a_line(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"\n".join(lines)


DAMAGE = (flip_a_bit, flip_a_bit, flip_a_bit, set_a_byte, cut, insert, swap, repeat_a_line)


def damaged(content: bytes, chance: random.Random, times: int) -> list[bytes]:
    """Different from the original, every one."""
    found: list[bytes] = []
    while len(found) < times:
        changed = chance.choice(DAMAGE)(content, chance)
        if changed != content and not _only_repeats_a_signature(changed, content):
            found.append(changed)
    return found


def _only_repeats_a_signature(changed: bytes, content: bytes) -> bool:
    """Harmless by design: one signature line twice, or the lines in another order."""
    dash = "— ".encode()
    head, gap, tail = content.rpartition(b"\n\n")
    if not changed.startswith(head + gap):
        return False
    lines, before = set(changed[len(head + gap) :].split(b"\n")), set(tail.split(b"\n"))
    return lines == before and all(line.startswith(dash) or not line for line in lines)


def assert_all_noticed(
    verify: Callable[[bytes], bool], content: bytes, seed: int, times: int = EACH
) -> None:
    assert verify(content)  # the original is sound: the test can fail
    for changed in damaged(content, random.Random(seed), times):
        assert not verify(changed), changed


def test_damaged_receipts(small: SmallLog) -> None:
    def verify(content: bytes) -> bool:
        return verify_receipt(content, POLICY, query=QUERY, answer=ANSWER).verified

    for number, index in enumerate((0, 17, SIZE - 1)):
        assert_all_noticed(verify, bytes(small.receipt(index, SIZE)), number, EACH // 2)


def test_damaged_records(small: SmallLog) -> None:
    receipt = small.receipt(17, SIZE)

    def verify(record: bytes) -> bool:
        changed = replace(receipt, record=record)
        return verify_receipt(bytes(changed), POLICY, query=QUERY, answer=ANSWER).verified

    assert_all_noticed(verify, receipt.record, 10)


def test_damaged_proofs(small: SmallLog) -> None:
    receipt = small.receipt(17, SIZE)

    def verify(path: bytes) -> bool:
        steps = tuple(path[i : i + 32] for i in range(0, len(path), 32))
        changed = replace(receipt, path=steps)
        return verify_receipt(bytes(changed), POLICY, query=QUERY, answer=ANSWER).verified

    assert_all_noticed(verify, b"".join(receipt.path), 20)


def test_damaged_checkpoints(small: SmallLog) -> None:
    receipt = small.receipt(17, SIZE)

    def verify(checkpoint: bytes) -> bool:
        changed = replace(receipt, checkpoint=checkpoint)
        return verify_receipt(bytes(changed), POLICY, query=QUERY, answer=ANSWER).verified

    assert_all_noticed(verify, receipt.checkpoint, 30)


def test_damaged_consistency_proofs_and_later_checkpoints(small: SmallLog) -> None:
    receipt = bytes(small.receipt(17, SIZE))
    note = bytes(small.note(LATER, cosigners=()))
    proof = small.consistency(SIZE, LATER)

    def verify(content: bytes) -> bool:
        return verify_receipt(receipt, POLICY, elsewhere=OtherCheckpoint(note, content)).verified

    assert_all_noticed(verify, proof, 40, EACH // 2)

    def verify_other(content: bytes) -> bool:
        return verify_receipt(receipt, POLICY, elsewhere=OtherCheckpoint(content, proof)).verified

    assert_all_noticed(verify_other, note, 50, EACH // 2)


def test_damaged_exports(small: SmallLog) -> None:
    records = b"\n".join(small.storage.submit(lambda t: small.log.records(t, limit=5)))
    note = bytes(small.note(5))

    def verify(content: bytes) -> bool:
        return verify_export(content.split(b"\n"), note, POLICY).verified

    assert_all_noticed(verify, records, 60, EACH // 3)


class TestHarmless:
    def verifies(self, receipt: Receipt, threshold: int = 3) -> bool:
        content = bytes(receipt)
        return verify_receipt(content, policy(threshold), query=QUERY, answer=ANSWER).verified

    def with_lines(self, small: SmallLog, choose: Callable[[Note], Note]) -> Receipt:
        return small.receipt(17, SIZE, choose(small.note(SIZE)))

    def test_a_further_signature_of_an_unknown_key(self, small: SmallLog) -> None:
        stranger = signing_key("stranger")
        receipt = self.with_lines(
            small, lambda n: replace(n, signatures=(stranger.sign(n.text), *n.signatures))
        )
        assert self.verifies(receipt)

    def test_signature_lines_in_another_order_or_twice(self, small: SmallLog) -> None:
        assert self.verifies(
            self.with_lines(small, lambda n: replace(n, signatures=n.signatures[::-1]))
        )
        assert self.verifies(
            self.with_lines(small, lambda n: replace(n, signatures=n.signatures * 2))
        )

    def test_a_witness_less_while_the_threshold_is_met(self, small: SmallLog) -> None:
        note = small.note(SIZE, cosigners=WITNESS_KEYS[:2])
        assert self.verifies(small.receipt(17, SIZE, note), threshold=2)

    def test_other_nonces_where_nothing_is_opened(self, small: SmallLog) -> None:
        receipt = replace(small.receipt(17, SIZE), nonces={"query": bytes(32), "answer": bytes(32)})
        report = verify_receipt(bytes(receipt), POLICY)
        assert report.verified
        assert {step.outcome for step in report.steps[7:9]} == {CheckOutcome.NOT_CHECKABLE}
