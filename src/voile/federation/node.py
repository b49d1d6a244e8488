"""A party of a federation, as messages see it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from voile.core.atomic_file import create_file, create_folder
from voile.core.errors import InvalidInput, Refused
from voile.core.input_file import read_file
from voile.federation.chain import AnnouncedRound, ChainGuard, KeptRounds
from voile.federation.client import Client
from voile.federation.messages import (
    Advertised,
    Closed,
    Closing,
    Instruction,
    Joined,
    Joining,
    SecureInstruction,
    Update,
)
from voile.federation.secure_aggregation import (
    Attempt,
    AttemptStore,
    ClientAttempt,
    SignedMessage,
    Signer,
)
from voile.federation.secure_aggregation.attempts import (
    already_revealed,
    begun_before,
    check_asked,
    others_asked,
)
from voile.federation.secure_aggregation.signed import SERVER
from voile.federation.secure_sum import SecureSum, announced_round, flat_words
from voile.federation.stage import Stage
from voile.federation.stored_text import file_stem

# --- A party's side of rounds that are added up in secret ----------------------------------------


# --- What a party remembers of attempts, in a folder of its own; see AttemptStore ----------------
# Each fact is a file that is made once and never changed: whole and forced to the disk before the
# call returns, and two processes cannot both make it. A crash can leave a fact behind whose shares
# never left; that costs a round, and reveals nothing.


@dataclass(frozen=True)
class AttemptsOnDisk:
    """One folder for one party; each agreement has a folder of its own in it."""

    folder: Path

    def begin(self, attempt: Attempt, asked: Sequence[str]) -> None:
        if self._path(attempt, "revealed").exists():
            raise already_revealed(attempt)
        listed = json.dumps(list(asked)).encode()
        place = self._path(attempt, "asked")
        if not create_file(place, listed) and read_file(place) != listed:
            raise others_asked(attempt)
        if not create_file(self._path(attempt, f"{file_stem(attempt.name)}.begun"), b""):
            raise begun_before(attempt)

    def reveal(self, attempt: Attempt) -> None:
        if not create_file(self._path(attempt, "revealed"), attempt.name.encode()):
            raise already_revealed(attempt)

    def _path(self, attempt: Attempt, fact: str) -> Path:
        folder = self.folder / (file_stem(attempt.agreement) or "none")
        create_folder(folder)
        return folder / f"{file_stem(attempt.stage)}.{attempt.round}.{fact}"


# --------------------------------------------------------------------------------------------------


_ATTEMPT: Final = re.compile("[0-9A-Za-z]{1,64}")
_LINK: Final = re.compile("[0-9a-f]{64}")


@dataclass(eq=False)
class SecureMember:
    """What a node needs besides its client, and does before anything leaves.

    Asked to begin an attempt it

    1. refuses rounds that were not agreed on, and anything that the server did not sign for this
       round, attempt and list of parties;
    2. compares the round with those that it was shown before, and keeps it (`ChainGuard`);
    3. writes down that the attempt is begun, or refuses it (`AttemptStore`);
    4. lets its client answer as in a plain round: charge, train, store. What is stored is rounded
       without chance, so every attempt of a round masks the same integers;
    5. advertises keys of this attempt alone, among those who were shown the same arrays, and says
       what it was charged; no array leaves.

    One attempt at a time: a new one takes the place of an old one, whose keys are forgotten.

    Args:
        stages: what it has agreed to, each with a `SecureSum`.
        sign: with its identity key.
        store: what it remembers of attempts; durable.
        chain: what it remembers of rounds; durable, where it is to be evidence.
        in_clear: stages that it has agreed to answer in clear: reports that are no updates.
    """

    stages: Mapping[str, Stage]
    sign: Signer = field(repr=False)
    store: AttemptStore
    chain: ChainGuard = field(default_factory=KeptRounds)
    in_clear: frozenset[str] = frozenset()
    _running: ClientAttempt | None = field(default=None, init=False, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def begin(self, client: Client, message: SecureInstruction) -> Advertised:
        """Steps 1 to 5."""
        with self._turn:
            self._running = None
            instruction = message.instruction
            if type(instruction) is not Instruction or type(message.attempt) is not str:
                raise InvalidInput("a secure instruction holds an instruction and names an attempt")
            if not _ATTEMPT.fullmatch(message.attempt):  # it is signed, hashed and names a file
                raise Refused("an attempt is named by letters and digits, 64 at most")
            if instruction.agreement != client.agreement:
                raise Refused(f"{client.name!r} has agreed to {client.agreement!r} only")
            stage, protocol = self._agreed(client, instruction)
            announced = self._announced(protocol, message)
            if len(message.asked) != stage.clients_per_round:
                raise Refused(
                    f"{stage.clients_per_round} parties are asked in a round, as agreed; found "
                    f"{len(message.asked)}"
                )
            largest = stage.largest_change
            terms = protocol.terms(message, announced, largest)
            begun = ClientAttempt(terms, client.name, self.sign, self.store)
            update = client.answer(instruction)
            quantisation = protocol.quantisation(message.asked, largest)
            words = flat_words(update.arrays, protocol.weight(client.name), quantisation)
            advert = begun.advertise(words)
            self._running = begun
            return Advertised(replace(update, arrays={}), advert)

    def handle(self, message: SignedMessage) -> SignedMessage:
        """The next step of the running attempt."""
        with self._turn:
            if self._running is None:
                raise Refused("no attempt is running here; its keys are gone with it")
            try:
                return self._running.handle(message)
            except BaseException:
                self._running = None
                raise

    def _agreed(self, client: Client, instruction: Instruction) -> tuple[Stage, SecureSum]:
        """Attempts are kept apart by round, so every round more would be a sum more."""
        name, stage = instruction.stage, self.stages.get(instruction.stage)
        if stage is None or not isinstance(stage.protocol, SecureSum):
            raise Refused(f"{client.name!r} has not agreed to add up {name!r:.120} in secret")
        if instruction.round > stage.rounds:
            raise Refused(
                f"{client.name!r} has agreed to {stage.rounds} round{'s' * (stage.rounds > 1)} of "
                f"{name!r}, and to no round {instruction.round}"
            )
        return stage, stage.protocol

    def _announced(self, protocol: SecureSum, message: SecureInstruction) -> AnnouncedRound:
        if type(message.previous) is not str or not _LINK.fullmatch(message.previous):
            raise InvalidInput("a secure instruction names the round that it is chained to")
        check_asked(message.asked, protocol.identities)
        announced = announced_round(message)
        announced.verify(protocol.identities[SERVER])
        self.chain.before_round(announced)
        return announced


# --------------------------------------------------------------------------------------------------


def nothing_kept() -> Mapping[str, bytes]:
    """The log of a node that keeps none."""
    return {}


@dataclass(frozen=True, eq=False)
class Node:
    """Answers each kind of message that a server may send, and no other.

    Args:
        client: what it trains.
        signed_log: its own log, signed, as files by name.
        secure: what it adds up updates in secret with. A node that has it sends no update by
            itself, whatever it is asked for; only reports of stages that it lists for that.
    """

    client: Client
    signed_log: Callable[[], Mapping[str, bytes]] = field(default=nothing_kept, repr=False)
    secure: SecureMember | None = None

    @property
    def name(self) -> str:
        return self.client.name

    def handle(self, message: object) -> Update | Joined | Closed | Advertised | SignedMessage:
        """The answer, or `Refused`: nothing that comes in a message sets anything here."""
        if type(message) is Instruction and self._in_clear(message):
            return self.client.answer(message)
        if type(message) is SecureInstruction and self.secure is not None:
            return self.secure.begin(self.client, message)
        if type(message) is SignedMessage and self.secure is not None:
            return self.secure.handle(message)
        if type(message) is Joining:
            self._check_agreed(message.agreement)
            self.client.check_ready()
            return Joined(self.name, message.agreement)
        if type(message) is not Closing:  # a subclass could carry further fields
            raise InvalidInput(
                f"{self.name!r} takes {self._takes} and nothing more, found "
                f"{type(message).__name__}"
            )
        self._check_agreed(message.agreement)
        return Closed(self.name, message.agreement, self.signed_log())

    def _in_clear(self, instruction: Instruction) -> bool:
        return self.secure is None or instruction.stage in self.secure.in_clear

    @property
    def _takes(self) -> str:
        if self.secure is None:
            return "a Joining, an Instruction or a Closing"
        return "a Joining, a SecureInstruction, signed steps of it or a Closing"

    def _check_agreed(self, agreement: str) -> None:
        if agreement != self.client.agreement:
            raise Refused(f"{self.name!r} has agreed to {self.client.agreement!r} only")
