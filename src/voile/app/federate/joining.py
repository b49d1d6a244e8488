"""Before the first round every party is asked whether it takes part: check first, charge last."""

from __future__ import annotations

from voile.app.federate.agreement import FederationAgreement
from voile.core.errors import Refused, VoileError
from voile.federation import Joined, Joining, Transport
from voile.federation.transport import NodeReply


def check_all_join(transport: Transport, agreement: FederationAgreement) -> None:
    """`Refused`, with everybody's reasons, unless every party says that it takes part.

    Until then nobody has charged anything or opened an account, so a party that refuses, or cannot
    be reached, costs the others nothing.
    """
    asked = dict.fromkeys(agreement.sizes, Joining(agreement.digest))
    refusals = [
        f"{reply.node!r}: {_reason(reply)}"
        for reply in transport.exchange(asked)
        if not _has_joined(reply, agreement)
    ]
    if refusals:
        raise Refused(
            "not everybody takes part, so nothing was trained or charged: "
            + "; ".join(sorted(refusals))
        )


def _has_joined(reply: NodeReply, agreement: FederationAgreement) -> bool:
    expected = Joined(reply.node, agreement.digest)
    return reply.outcome is None and type(reply.content) is Joined and reply.content == expected


def _reason(reply: NodeReply) -> str:
    if isinstance(reply.error, VoileError):
        return str(reply.error)
    return "has answered with something else" if reply.outcome is None else str(reply.outcome)
