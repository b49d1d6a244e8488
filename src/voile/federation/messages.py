"""What a server says to a client and what it gets back: nothing else crosses the line.

An `Instruction` names a stage that the client has been set up for, counts the round and carries
arrays. There is no field for a seed, a path, a schema, a noise scale or a budget, and whoever sends
one is refused: a node's randomness, data and budget are its own. An `Update` has no weight: weights
follow from sizes that were declared in public before the first round. It states what it cost and
what is to be said about its randomness, so that a server never promises noise that nobody says was
added, nor noise that can be guessed.

Before the first round a `Joining` is answered with `Joined`, or refused: nobody is charged until
everybody has said that they take part. At the end a `Closing` is answered with `Closed`: the node's
own signed log, for whoever wants to check what it says it did.

Where updates are added up in secret, a `SecureInstruction` takes the place of an `Instruction` and
is answered with `Advertised`, which has no arrays; the steps after it are each a `SignedMessage`.

Every message names the agreement that it belongs to: a digest of what all parties have agreed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeAlias

from voile.core.errors import InvalidInput
from voile.federation.arrays import Array, Arrays, checked
from voile.federation.secure_aggregation import SignedMessage

LONGEST_NAME = 100
LONGEST_STATEMENT = 300
"""Characters of an account or a note that an update states."""


@dataclass(frozen=True, eq=False)
class Instruction:
    """Server to client: train these arrays on your rows, as agreed for this stage.

    Args:
        stage: which of the tasks that the client holds.
        round: counted from 1.
        arrays: what is trained.
        given: what is fixed by now, such as the black box while a surrogate is trained.
        agreement: digest of what all parties have agreed on; empty where nothing was written
            down.
    """

    stage: str
    round: int
    arrays: Arrays
    given: Arrays = field(default_factory=dict)
    agreement: str = ""

    def __post_init__(self) -> None:
        check_name("the stage", self.stage)
        check_round(self.round)
        object.__setattr__(self, "arrays", checked(self.arrays, "the arrays of an instruction"))
        object.__setattr__(self, "given", checked(self.given, "the given arrays"))

    @classmethod
    def read(cls, wire: Mapping[str, Any]) -> Self:
        """From a mapping that came over a wire; refuses missing fields and any further one."""
        return cls(**_exactly(cls, wire))


@dataclass(frozen=True, eq=False)
class Update:
    """Client to server: by how much the arrays changed.

    The arrays are as they came: the server checks them before it uses them, see `faults`.

    Args:
        client, stage, round: whose, and of what.
        arrays: new minus old.
        event: what it costs, as canonical text (`history.event_as_text`); empty if nothing is
            promised.
        account: which account of the client was charged with it; None if none was.
        note: what must be written on anything made with the randomness that it was made with.
        resent: whether it was stored before, and is sent again.
        agreement: see `Instruction`.
    """

    client: str
    stage: str
    round: int
    arrays: Mapping[str, Array]
    event: str
    account: str | None = None
    note: str | None = None
    resent: bool = False
    agreement: str = ""

    @classmethod
    def read(cls, wire: Mapping[str, Any]) -> Self:
        """From a mapping that came over a wire; refuses missing fields and any further one."""
        return cls(**_exactly(cls, wire))


@dataclass(frozen=True)
class Joining:
    """Server to client: the first round is about to begin; say whether you take part."""

    agreement: str = ""


@dataclass(frozen=True)
class Joined:
    """Client to server: it has found nothing that it would refuse. It has charged nothing yet."""

    client: str
    agreement: str


@dataclass(frozen=True)
class Closing:
    """Server to client: all stages are over; hand over your signed log."""

    agreement: str = ""


@dataclass(frozen=True)
class Closed:
    """Client to server: what it kept, signed by itself, as files by name."""

    client: str
    agreement: str
    files: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, eq=False)
class SecureInstruction:
    """Server to client: train, keep the update, and begin an attempt to add it up in secret.

    Args:
        instruction: as in a plain round.
        attempt: a name for this attempt of the round.
        asked: everybody who is asked, in order of names.
        previous: what this round is chained to (`voile.federation.chain`).
        signature: of the server, over all of this.
    """

    instruction: Instruction
    attempt: str
    asked: tuple[str, ...]
    previous: str
    signature: bytes = field(repr=False)

    @property
    def round(self) -> int:
        return self.instruction.round


@dataclass(frozen=True, eq=False)
class Advertised:
    """Client to server: its update is stored, and these are its keys for this attempt.

    Args:
        statement: the update without its arrays.
    """

    statement: Update
    advert: SignedMessage


Message: TypeAlias = Joining | Instruction | Closing | SecureInstruction | SignedMessage
"""What a server may say."""


def check_name(what: str, name: object) -> None:
    """Names are shown, sorted and stored: printable, and of moderate length."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidInput(
            f"{what} must have a printable name of 1 to {LONGEST_NAME} characters, "
            f"found {name!r:.120}"
        )


def check_round(number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput(f"rounds are counted from 1, found {number!r:.60}")


def _exactly(kind: type[Any], wire: Mapping[str, Any]) -> dict[str, Any]:
    known = {item.name for item in fields(kind)}
    found = set(wire) if isinstance(wire, Mapping) else set()
    if found != known:
        unknown = sorted(str(name)[:40] for name in found - known)
        raise InvalidInput(
            f"an {kind.__name__.lower()} has exactly the fields {sorted(known)}; missing "
            f"{sorted(known - found)}, not accepted {unknown}"
        )
    return {name: wire[name] for name in known}
