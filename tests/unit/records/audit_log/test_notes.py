"""Signed notes, keys, checkpoints and cosignatures: examples of the specifications, and rules."""

from __future__ import annotations

import pytest
from tests.unit.records.audit_log.examples import LOG_KEY, ORIGIN, WITNESS_KEYS, signing_key

from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.keys import SigningKey
from voile.records.audit_log.notes import (
    BadSignature,
    Checkpoint,
    KeyKind,
    Note,
    Signature,
    VerifierKey,
    cosigned_at,
    cosigned_text,
)

# c2sp.org/signed-note, section "Verifier keys", example.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE_NOTE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6"
    "TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG"
    "1Yu72IneyaQM=\n"
)
# The reference key pair and note of the Go implementation of notes.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_SEED = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
GO_LINE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZ"
    "InNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6Ryy"
    "BwJnAM=\n"
)
# c2sp.org/tlog-checkpoint and tlog-cosignature: examples to parse (their keys are not given).
CHECKPOINT = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZni"
    "Mp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGz"
    "Gku9nTo+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn"
    "/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1n"
    "PZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)
POEM = (
    "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n\n"
    "— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO"
    "/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcX"
    "xj99ihAQwaqP3ZekRwNtIc=\n"
)


class TestVectors:
    def test_the_signed_note_example_verifies_with_its_key(self) -> None:
        key = VerifierKey.parse(EXAMPLE_KEY)
        note = Note.parse(EXAMPLE_NOTE.encode())
        assert list(note.signers([key])) == [key]
        assert str(key) == EXAMPLE_KEY
        assert bytes(note) == EXAMPLE_NOTE.encode()

    def test_any_change_to_its_text_is_a_bad_signature(self) -> None:
        key = VerifierKey.parse(EXAMPLE_KEY)
        with pytest.raises(BadSignature, match=r"example\.com/foo"):
            Note.parse(EXAMPLE_NOTE.replace("message", "messagf").encode()).signers([key])

    def test_the_go_key_signs_byte_for_byte_alike(self) -> None:
        from base64 import b64decode

        key = SigningKey("PeterNeumann", KeyKind.LOG, b64decode(GO_SEED)[1:])
        assert str(key.verifier) == GO_KEY
        assert str(key.sign(GO_TEXT)) == GO_LINE

    def test_the_checkpoint_example_parses(self) -> None:
        note = Note.parse(CHECKPOINT.encode())
        checkpoint = Checkpoint.parse(note.text)
        assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
        assert checkpoint.root.hex().startswith("0ac5186a91863e8e")
        assert checkpoint.text == note.text
        assert [s.key_id.hex() for s in note.signatures] == ["033de0ae", "8d66cf3f"]
        assert cosigned_at(note.signatures[1].value) == 1679315147
        assert bytes(note) == CHECKPOINT.encode()

    def test_the_cosigned_message_is_the_specification_s(self) -> None:
        text = Note.parse(CHECKPOINT.encode()).text.encode()
        assert cosigned_text(1679315147, text) == (
            b"cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\n"
            b"CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
        )

    def test_a_text_may_hold_empty_lines_the_last_one_parts(self) -> None:
        note = Note.parse(POEM.encode())
        assert note.text.endswith("ed è subito sera.\n")
        assert note.signatures[0].key_id.hex() == "367ba04b"


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "text\n",
        "text\n\n",
        "text\n\nno signature\n",
        EXAMPLE_NOTE[:-1],
        EXAMPLE_NOTE + "\n",
        EXAMPLE_NOTE.replace("— ", "- "),
        EXAMPLE_NOTE.replace("— ", "—  "),
        EXAMPLE_NOTE.replace("IneyaQM=", "IneyaQN="),  # spare bits of base64
        EXAMPLE_NOTE.replace("IneyaQM=", "IneyaQM"),
        EXAMPLE_NOTE.replace("Uw2Q", "Uw 2Q"),
        EXAMPLE_NOTE.replace("message", "mess\tage"),
        EXAMPLE_NOTE.replace("message", "mess\rage"),
        EXAMPLE_NOTE.replace("example.com/foo", "example.com+foo"),
        EXAMPLE_NOTE.replace("example.com/foo", "example.com\u00a0foo"),
        "text\n\n— a QUJDRA==\n",  # an id and no signature
        "text\n\n" + "— a QUJDREVG\n" * 65,
        "x" * 70_000 + EXAMPLE_NOTE,
    ],
)
def test_what_is_not_a_note_is_refused(broken: str) -> None:
    with pytest.raises(Malformed):
        Note.parse(broken.encode())


def test_a_note_must_be_utf_8() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        Note.parse(EXAMPLE_NOTE.encode("utf-16"))


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "example.com/foo",
        EXAMPLE_KEY[:-1],
        EXAMPLE_KEY.replace("530d903a", "530D903A"),
        EXAMPLE_KEY.replace("530d903a", "530d903b"),
        EXAMPLE_KEY.replace("example", "exemple"),
        EXAMPLE_KEY.replace("+Aeky", "+Beky"),
        EXAMPLE_KEY.replace("+Aeky", "+Ze ky"),
        "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    ],
)
def test_what_is_not_a_verifier_key_is_refused(broken: str) -> None:
    with pytest.raises(Malformed):
        VerifierKey.parse(broken)


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "origin\n1\n",
        "origin\n01\n" + "A" * 43 + "=\n",
        "origin\n-1\n" + "A" * 43 + "=\n",
        "origin\n1 \n" + "A" * 43 + "=\n",
        "origin\n١\n" + "A" * 43 + "=\n",
        "origin\n" + "9" * 30 + "\n" + "A" * 43 + "=\n",
        "origin\n1\n" + "A" * 42 + "==\n",
        "origin\n1\nQUJD\n",
        "\n1\n" + "A" * 43 + "=\n",
        "origin\n1\n" + "A" * 43 + "=",
        "origin\n1\n" + "A" * 43 + "=\n\nextension\n",
    ],
)
def test_what_is_not_a_checkpoint_is_refused(broken: str) -> None:
    with pytest.raises(Malformed):
        Checkpoint.parse(broken)


class TestSigners:
    TEXT = Checkpoint(ORIGIN, 7, b"r" * 32).text

    def test_unknown_keys_are_ignored(self) -> None:
        stranger = signing_key("stranger")
        note = Note(self.TEXT, (LOG_KEY.sign(self.TEXT), stranger.sign(self.TEXT)))
        assert list(note.signers([LOG_KEY.verifier])) == [LOG_KEY.verifier]

    def test_a_known_name_with_another_id_is_unknown(self) -> None:
        stranger = signing_key("stranger")
        note = Note(self.TEXT, (stranger.sign(self.TEXT),))
        assert not note.signers([LOG_KEY.verifier])

    def test_a_false_claim_spoils_the_whole_note(self) -> None:
        good = LOG_KEY.sign(self.TEXT)
        false = Signature(good.name, good.key_id, bytes(64))
        for signatures in [(good, false), (false, good)]:
            with pytest.raises(BadSignature):
                Note(self.TEXT, signatures).signers([LOG_KEY.verifier])

    def test_a_key_counts_once_however_often_it_signs(self) -> None:
        witness = WITNESS_KEYS[0]
        twice = (witness.cosign(self.TEXT, 5), witness.cosign(self.TEXT, 6))
        assert len(Note(self.TEXT, twice).signers([witness.verifier])) == 1

    def test_a_cosignature_covers_time_and_text(self) -> None:
        witness = WITNESS_KEYS[0]
        made = witness.cosign(self.TEXT, 5)
        later = Signature(made.name, made.key_id, (6).to_bytes(8, "big") + made.value[8:])
        for text, signature in [(self.TEXT, later), (self.TEXT.replace("7", "8"), made)]:
            with pytest.raises(BadSignature):
                witness.verifier.verify(text, signature.value)

    def test_a_log_signature_is_no_cosignature_even_with_the_same_key(self) -> None:
        """The type belongs to the key: the same material under both types has two ids."""
        as_log = signing_key("both", KeyKind.LOG, "both.example")
        as_witness = signing_key("both", KeyKind.WITNESS, "both.example")
        assert as_log.verifier.public == as_witness.verifier.public
        note = Note(self.TEXT, (as_log.sign(self.TEXT),))
        assert not note.signers([as_witness.verifier])

    @pytest.mark.parametrize("length", [0, 1, 63, 65, 71, 73])
    def test_signatures_of_another_length_do_not_verify(self, length: int) -> None:
        for key in (LOG_KEY, WITNESS_KEYS[0]):
            with pytest.raises(BadSignature):
                key.verifier.verify(self.TEXT, bytes(length))
