"""What brings sealed bytes to nodes and back: the seam between the transport and Flower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from voile.core.errors import VoileError

_RECORD: Final = "voile"
_CONTENT: Final = "content"


class CourierLost(VoileError):
    """The way is broken, such as by a restart; what was under way may be lost."""


class CourierReply(NamedTuple):
    """A reply, or that there is none; `content` is as it came."""

    message_id: str
    content: bytes | None


class Courier(Protocol):
    """Brings bytes; raises `CourierLost`, after which `renew` begins anew."""

    def reachable(self) -> Mapping[str, int]:
        """Nodes that are there, by name."""

    def push(self, messages: Mapping[int, bytes], seconds: float | None) -> dict[int, str]:
        """Send each node its message; their names, by node. What is older is not delivered."""

    def pull(self, message_ids: Iterable[str]) -> list[CourierReply]:
        """Replies that have come in since."""

    def renew(self) -> None:
        """Begin anew: whatever was under way is forgotten."""


def packed(content: bytes) -> RecordDict:
    return RecordDict({_RECORD: ConfigRecord({_CONTENT: content})})


def unpacked(records: RecordDict) -> bytes | None:
    """None for whatever was not packed here."""
    record = records.get(_RECORD)
    if len(records) != 1 or not isinstance(record, ConfigRecord) or len(record) != 1:
        return None
    content = record.get(_CONTENT)
    return content if type(content) is bytes else None


def push(grid: Grid, messages: Mapping[int, bytes], seconds: float | None) -> dict[int, str]:
    made = [
        Message(packed(content), node, MessageType.QUERY, ttl=seconds)
        for node, content in messages.items()
    ]
    names = list(grid.push_messages(made))
    return {node: name for node, name in zip(messages, names, strict=True) if name}


def pull(grid: Grid, message_ids: Iterable[str]) -> list[CourierReply]:
    return [
        CourierReply(
            reply.metadata.reply_to_message_id,
            unpacked(reply.content) if reply.has_content() else None,
        )
        for reply in grid.pull_messages(list(message_ids))
    ]
