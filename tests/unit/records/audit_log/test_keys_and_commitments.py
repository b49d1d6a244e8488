"""Key files that nobody else can read; commitments that hide; digests that fix every bit."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.protecting import row_of
from tests.unit.records.audit_log.examples import LOG_KEY, WITNESS_KEYS

from voile import Explanation, Guarantee
from voile.core.errors import InvalidInput, Refused, StorageFault, UnreadableFile
from voile.core.guarantee import Adversary
from voile.records.audit_log import (
    Commitment,
    SigningKey,
    array_digest,
    explanation_bytes,
    published_round_hash,
)
from voile.records.audit_log.canonical import Malformed, commitment_digest, decode
from voile.records.audit_log.digests import guarantees_digest
from voile.records.audit_log.notes import KeyKind


class TestKeyFiles:
    def test_a_key_comes_back_and_only_its_owner_can_read_it(self, tmp_path: Path) -> None:
        key = SigningKey.generate("example.org/voile")
        old = os.umask(0)
        try:
            key.save(tmp_path / "log.key")
        finally:
            os.umask(old)
        assert stat.S_IMODE((tmp_path / "log.key").stat().st_mode) == 0o600
        assert SigningKey.load(tmp_path / "log.key") == key
        assert [path.name for path in tmp_path.iterdir()] == ["log.key"]

    def test_two_keys_are_never_alike(self) -> None:
        one, two = (SigningKey.generate("a.example") for _ in range(2))
        assert one.seed != two.seed

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o610, 0o601, 0o777])
    def test_a_key_that_others_can_get_at_is_refused(self, tmp_path: Path, mode: int) -> None:
        LOG_KEY.save(tmp_path / "log.key")
        (tmp_path / "log.key").chmod(mode)
        with pytest.raises(Refused, match="others"):
            SigningKey.load(tmp_path / "log.key")

    def test_a_key_is_never_overwritten(self, tmp_path: Path) -> None:
        LOG_KEY.save(tmp_path / "log.key")
        with pytest.raises(InvalidInput, match="never overwritten"):
            SigningKey.generate("example.org/voile").save(tmp_path / "log.key")
        assert SigningKey.load(tmp_path / "log.key") == LOG_KEY

    def test_a_key_that_cannot_be_written_is_a_fault(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFault):
            LOG_KEY.save(tmp_path / "missing" / "log.key")

    def test_damaged_key_files_are_refused_wherever_the_damage_is(self, tmp_path: Path) -> None:
        path = tmp_path / "log.key"
        LOG_KEY.save(path)
        content = path.read_bytes()
        for place in range(len(content) - 1):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(UnreadableFile):
                SigningKey.load(path)
        for broken in (b"", content[:-10], content * 2, b"\xff" * 50, content[12:]):
            path.write_bytes(broken)
            with pytest.raises(UnreadableFile):
                SigningKey.load(path)
        with pytest.raises(UnreadableFile):
            SigningKey.load(tmp_path / "none.key")

    def test_printing_a_key_does_not_show_it(self) -> None:
        assert LOG_KEY.seed.hex() not in repr(LOG_KEY)
        assert repr(LOG_KEY.seed) not in repr(LOG_KEY)

    @pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2028b"])
    def test_a_name_that_notes_cannot_carry_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput):
            SigningKey.generate(name)

    def test_logs_sign_and_witnesses_cosign(self) -> None:
        with pytest.raises(InvalidInput):
            LOG_KEY.cosign("text\n", 1)
        with pytest.raises(InvalidInput):
            WITNESS_KEYS[0].sign("text\n")

    def test_a_witness_key_file_stays_a_witness_key(self, tmp_path: Path) -> None:
        WITNESS_KEYS[0].save(tmp_path / "w.key")
        assert SigningKey.load(tmp_path / "w.key").kind is KeyKind.WITNESS


class TestCommitments:
    def test_equal_contents_give_different_commitments(self) -> None:
        """Without the nonce, nobody can find the content by trying all of them."""
        one, two = (Commitment.to("query", b"the same row") for _ in range(2))
        assert one.digest != two.digest
        assert commitment_digest("query", one.nonce, b"the same row") == one.digest
        assert one.nonce.hex() not in repr(one)

    def test_the_formula(self) -> None:
        expected = hashlib.sha256(b"voile audit log v1 query \n" + bytes(32) + b"x").digest()
        assert commitment_digest("query", bytes(32), b"x") == expected

    def test_a_query_is_not_an_answer(self) -> None:
        assert commitment_digest("query", bytes(32), b"x") != commitment_digest(
            "answer", bytes(32), b"x"
        )

    @pytest.mark.parametrize(("name", "nonce"), [("other", bytes(32)), ("query", bytes(31))])
    def test_tag_and_nonce_have_fixed_lengths(self, name: str, nonce: bytes) -> None:
        with pytest.raises(Malformed):
            commitment_digest(name, nonce, b"x")


class TestDigests:
    def test_type_shape_and_every_bit_count(self) -> None:
        base = np.arange(6, dtype=np.float64).reshape(2, 3)
        others: list[NDArray[Any]] = [
            base.reshape(3, 2),
            base.astype(np.float32),
            base.astype(np.int64),
            base.T.copy(),
            base + np.float64(2**-50),
            np.negative(np.zeros((2, 3))),
            np.zeros((2, 3)),
            base[np.newaxis],
        ]
        assert len({array_digest(array) for array in [base, *others]}) == 1 + len(others)

    def test_byte_order_and_memory_order_do_not_count(self) -> None:
        base = np.arange(6, dtype="<f8").reshape(2, 3)
        assert array_digest(base) == array_digest(base.astype(">f8"))
        assert array_digest(base) == array_digest(np.asfortranarray(base))

    def test_the_formula(self) -> None:
        head = b"voile array v1\n<i2\n2,1\n"
        expected = hashlib.sha256(head + b"\x01\x00\x02\x00").digest()
        assert array_digest(np.array([[1], [2]], dtype=np.int16)) == expected

    @pytest.mark.parametrize(
        "array", [np.array(["a"]), np.array([object()]), np.zeros(1, dtype="i4,f4")]
    )
    def test_only_plain_numbers_have_one(self, array: NDArray[Any]) -> None:
        with pytest.raises(InvalidInput):
            array_digest(array)

    def test_the_published_round_hash_is_the_paper_s_formula(self) -> None:
        weights, attributions = np.array([1.0, 2.0]), np.array([0.5])
        got = published_round_hash(
            weights, attributions, {"b": 0.2, "a": 0.1}, {"a": 0.9, "b": 0.8}, b"p" * 32
        )
        parts = np.array([1.0, 2.0, 0.5, 0.1, 0.2, 0.9, 0.8], dtype="<f8").tobytes()
        assert got == hashlib.sha256(parts + b"p" * 32).digest()


class TestExplanationBytes:
    GUARANTEE = Guarantee(
        epsilon=1.0,
        delta=1e-6,
        protected=row_of("clinic v1"),
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="analytic Gaussian",
        composition="one release",
    )
    EXPLANATION = Explanation(
        values=np.array([[0.1, -0.2]]),
        base_values=np.array([0.5]),
        feature_names=("age", "bmi"),
        guarantees=(GUARANTEE,),
    )

    def test_they_are_canonical_and_survive_saving(self, tmp_path: Path) -> None:
        content = explanation_bytes(self.EXPLANATION)
        assert decode(content)
        self.EXPLANATION.save(tmp_path / "e.voile")
        assert explanation_bytes(Explanation.load(tmp_path / "e.voile")) == content

    def test_every_part_counts(self) -> None:
        e, g = self.EXPLANATION, self.GUARANTEE
        others = [
            replace(e, values=e.values + 1e-16),
            replace(e, base_values=e.base_values * 2),
            replace(e, feature_names=("age", "BMI")),
            replace(e, output_names=("risk",)),
            replace(e, standard_errors=np.ones_like(e.values)),
            replace(e, data=np.array([[1.0, 2.0]])),
            replace(e, data=np.array([["1.0", "2.0"]])),
            replace(e, guarantees=()),
            replace(e, guarantees=(replace(g, epsilon=2.0),)),
            replace(e, notes=("a note",)),
        ]
        assert len({explanation_bytes(item) for item in [e, *others]}) == 1 + len(others)

    def test_guarantees_have_a_digest_of_their_own(self) -> None:
        g = self.GUARANTEE
        lists = [(), (g,), (g, g), (replace(g, computational=True),), (replace(g, delta=0.0),)]
        assert len({guarantees_digest(item) for item in lists}) == len(lists)
