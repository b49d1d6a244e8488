"""The log's side of witnessing: ask all witnesses at once, keep what verifies, count what counts.

A witness can be down, slow, confused or hostile. None of that may stop the log for longer than its
patience, and nothing a witness says is believed: a cosignature counts if it verifies under a key of
the policy, over the checkpoint that was sent, and that witness has not been counted yet.
"""

from __future__ import annotations

import http.client
import queue
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from voile.core.errors import InvalidInput, VerificationFailed
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.merkle import Hash
from voile.records.audit_log.notes import (
    BadSignature,
    Checkpoint,
    Note,
    Signature,
    decimal,
    parse_signatures,
)
from voile.records.audit_log.policy import Policy, is_address
from voile.records.audit_log.witness import PATH, AddCheckpointRequest

PATIENCE: Final = 10.0
"""Seconds for all witnesses together."""
GRACE: Final = 0.5
"""Seconds that the remaining ones still get once there are enough."""
_LARGEST_REPLY: Final = 16 * 1024
_TRIES: Final = 3


class AskOutcome(StrEnum):
    """What became of asking one witness."""

    COSIGNED = "cosigned"
    REFUSED = "refused"
    CONTRADICTED = "knows another history of this log"
    AHEAD = "has seen more records than this log holds"
    GARBAGE = "answered with something that does not verify"
    UNREACHABLE = "could not be reached"
    LATE = "did not answer in time"


@dataclass(frozen=True)
class WitnessAnswer:
    """One witness's answer; `signatures` are verified."""

    url: str
    outcome: AskOutcome
    detail: str = ""
    signatures: tuple[Signature, ...] = ()

    def __str__(self) -> str:
        return f"{self.url} {self.outcome}" + (f" ({self.detail})" if self.detail else "")


class ContradictedCheckpoint(VerificationFailed):
    """A witness has seen another or a longer history, and too few cosigned; nothing was published.

    One witness alone cannot do that to a log whose policy asks for fewer than all of them.
    """

    def __init__(self, found: int, policy: Policy, answers: Sequence[WitnessAnswer]) -> None:
        self.found, self.policy, self.answers = found, policy, tuple(answers)
        super().__init__(
            f"{found} of {len(policy.witness_keys)} witnesses cosigned, the policy asks for "
            f"{policy.threshold}; not published: {'; '.join(map(str, answers))}"
        )


@dataclass(frozen=True)
class RemoteWitness:
    """Where a witness answers: the submission prefix, `http://` or `https://`."""

    url: str

    def __post_init__(self) -> None:
        if not is_address(self.url):
            raise InvalidInput(
                f"expected http://... or https://... of a witness, found {self.url!r}"
            )

    def post(self, body: bytes, timeout: float) -> tuple[int, bytes]:
        """Status and body of one request. No redirects, no proxies, no more than a small reply."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        connection = (
            http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout, context=ssl.create_default_context()
            )
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        )
        try:
            connection.request("POST", parts.path.rstrip("/") + PATH, body)
            reply = connection.getresponse()
            return reply.status, reply.read(_LARGEST_REPLY)
        finally:
            connection.close()


@dataclass(frozen=True)
class CosignRequest:
    """What all witnesses are asked: this note, with a proof from wherever they are."""

    note: Note
    checkpoint: Checkpoint
    known_size: int
    prove: Callable[[int], tuple[Hash, ...]]
    policy: Policy


def collect(
    inquiry: CosignRequest, witnesses: Sequence[RemoteWitness], *, patience: float = PATIENCE
) -> tuple[Note, tuple[WitnessAnswer, ...]]:
    """The note with all cosignatures that came in time.

    Raises `ContradictedCheckpoint` if a witness knows a later checkpoint.

    Too few cosignatures are no error here: a witness that is down says nothing about the log.
    """
    answers = _ask_all(inquiry, witnesses, patience)
    cosignatures = tuple(_distinct(answers))
    known_better = any(a.outcome in (AskOutcome.AHEAD, AskOutcome.CONTRADICTED) for a in answers)
    if known_better and len(cosignatures) < inquiry.policy.threshold:
        raise ContradictedCheckpoint(len(cosignatures), inquiry.policy, answers)
    return Note(inquiry.note.text, inquiry.note.signatures + cosignatures), answers


def _distinct(answers: Sequence[WitnessAnswer]) -> list[Signature]:
    """One cosignature of each key."""
    found = {(s.name, s.key_id): s for answer in answers for s in answer.signatures}
    return list(found.values())


def _ask_all(
    inquiry: CosignRequest, witnesses: Sequence[RemoteWitness], patience: float
) -> tuple[WitnessAnswer, ...]:
    """Threads are left behind when time is up: a witness that drips bytes cannot hold the log."""
    witnesses = list(dict.fromkeys(witnesses))
    arrived: queue.SimpleQueue[WitnessAnswer] = queue.SimpleQueue()
    for witness in witnesses:
        threading.Thread(
            target=lambda w=witness: arrived.put(_ask(inquiry, w, patience)), daemon=True
        ).start()
    answers: dict[str, WitnessAnswer] = {}
    deadline = time.monotonic() + patience
    while len(answers) < len(witnesses):
        try:
            answer = arrived.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        answers[answer.url] = answer
        if 0 < inquiry.policy.threshold <= len(_distinct(list(answers.values()))):
            deadline = min(deadline, time.monotonic() + GRACE)
    return tuple(answers.get(w.url, WitnessAnswer(w.url, AskOutcome.LATE)) for w in witnesses)


def _ask(inquiry: CosignRequest, witness: RemoteWitness, patience: float) -> WitnessAnswer:
    """Ask once; if the witness stands elsewhere (409), ask again from there."""
    old_size = inquiry.known_size
    try:
        for _ in range(_TRIES):
            request = AddCheckpointRequest(old_size, inquiry.prove(old_size), bytes(inquiry.note))
            status, body = witness.post(bytes(request), patience)
            if status == 200:
                return _cosigned(inquiry, witness, body)
            if status != 409:
                # 422: the proof does not hold, and this log's own proofs do.
                outcome = AskOutcome.CONTRADICTED if status == 422 else AskOutcome.REFUSED
                return WitnessAnswer(witness.url, outcome, f"status {status}: {_say(body)}")
            stands_at = decimal(_say(body), "a tree size")
            if stands_at > inquiry.checkpoint.size:
                return WitnessAnswer(witness.url, AskOutcome.AHEAD, f"{stands_at} records")
            if stands_at == old_size == inquiry.checkpoint.size:
                detail = f"another root for {stands_at} records"
                return WitnessAnswer(witness.url, AskOutcome.CONTRADICTED, detail)
            if stands_at == old_size:
                return WitnessAnswer(witness.url, AskOutcome.REFUSED, "asks for what it was given")
            old_size = stands_at
        return WitnessAnswer(witness.url, AskOutcome.GARBAGE, "its size keeps changing")
    except (Malformed, BadSignature) as error:
        return WitnessAnswer(witness.url, AskOutcome.GARBAGE, str(error))
    except TimeoutError:
        return WitnessAnswer(witness.url, AskOutcome.LATE)
    except (OSError, http.client.HTTPException) as error:
        return WitnessAnswer(witness.url, AskOutcome.UNREACHABLE, type(error).__name__)
    except Exception as error:  # whatever else goes wrong with one witness is that witness's answer
        return WitnessAnswer(witness.url, AskOutcome.GARBAGE, f"{type(error).__name__}: {error}")


def _cosigned(inquiry: CosignRequest, witness: RemoteWitness, body: bytes) -> WitnessAnswer:
    try:
        said = Note(inquiry.note.text, parse_signatures(body.decode("utf-8")))
    except UnicodeDecodeError:
        raise Malformed("expected signature lines in UTF-8") from None
    found = said.signers(inquiry.policy.witness_keys)
    if not found:
        return WitnessAnswer(witness.url, AskOutcome.GARBAGE, "no cosignature of a known witness")
    names = ", ".join(key.name for key in found)
    return WitnessAnswer(witness.url, AskOutcome.COSIGNED, names, tuple(found.values()))


def _say(body: bytes) -> str:
    """A reply as one short printable line."""
    line = body[:200].decode("utf-8", errors="replace").removesuffix("\n")
    return "".join(c if c.isprintable() else "?" for c in line)
