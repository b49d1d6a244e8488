"""A party of a federation, as messages see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from voile.core.errors import InvalidInput, Refused
from voile.federation.client import Client
from voile.federation.messages import Closed, Closing, Instruction, Update


def nothing_kept() -> Mapping[str, bytes]:
    """The log of a node that keeps none."""
    return {}


@dataclass(frozen=True, eq=False)
class Node:
    """Answers each kind of message that a server may send, and no other.

    Args:
        client: what it trains.
        signed_log: its own log, signed, as files by name.
    """

    client: Client
    signed_log: Callable[[], Mapping[str, bytes]] = field(default=nothing_kept, repr=False)

    @property
    def name(self) -> str:
        return self.client.name

    def handle(self, message: object) -> Update | Closed:
        """The answer, or `Refused`: nothing that comes in a message sets anything here."""
        if type(message) is Instruction:
            return self.client.answer(message)
        if type(message) is not Closing:  # a subclass could carry further fields
            raise InvalidInput(
                f"{self.name!r} takes an Instruction or a Closing and nothing more, found "
                f"{type(message).__name__}"
            )
        if message.agreement != self.client.agreement:
            raise Refused(f"{self.name!r} has agreed to {self.client.agreement!r} only")
        return Closed(self.name, message.agreement, self.signed_log())
