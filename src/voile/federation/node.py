"""A party of a federation, as messages see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from voile.core.errors import InvalidInput, Refused
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
from voile.federation.secure_aggregation import SignedMessage
from voile.federation.secure_node import SecureMember


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
