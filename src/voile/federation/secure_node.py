"""A party's side of rounds that are added up in secret."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from voile.core.errors import InvalidInput, Refused
from voile.federation.chain import AnnouncedRound, ChainGuard, KeptRounds
from voile.federation.client import Client
from voile.federation.messages import Advertised, Instruction, SecureInstruction
from voile.federation.secure_aggregation import AttemptStore, ClientAttempt, SignedMessage, Signer
from voile.federation.secure_aggregation.attempts import check_asked
from voile.federation.secure_aggregation.signed import SERVER
from voile.federation.secure_sum import SecureSum, announced_round, flat_words
from voile.federation.stage import Stage

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
