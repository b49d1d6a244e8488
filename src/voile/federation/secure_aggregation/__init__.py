"""The secure sum: a server learns the sum of parties' vectors and nothing else of them.

Pure state machines, which send and store nothing themselves (Bonawitz and others, 2017):

    an `Attempt` says what messages belong to, `AttemptTerms` what was agreed on for it;
    a `ClientAttempt` is a party's side, which writes down in an `AttemptStore` what it must not do
    twice (`AttemptsInMemory` in tests); a `ServerAttempt` is the other side;
    all they say is a `SignedMessage` of a `AttemptStep`.

Against whom it holds is a type: `HonestButCurious` (over a `Complete` or a `Sparse` graph, whose
`GraphFailure` is computed; `sparse_for` finds one) or `ActiveServer`; a `ThreatModel` is either.

`Quantisation` turns numbers into integers whose sum cannot wrap around.

What a secure sum does not do: it adds no noise, so by itself it carries no guarantee about rows.
"""

from voile.federation.secure_aggregation.attempts import (
    AttemptsInMemory,
    AttemptStore,
    AttemptTerms,
)
from voile.federation.secure_aggregation.client import ClientAttempt
from voile.federation.secure_aggregation.quantisation import Quantisation
from voile.federation.secure_aggregation.server import ServerAttempt
from voile.federation.secure_aggregation.signed import (
    Attempt,
    AttemptStep,
    Identities,
    SignedMessage,
    Signer,
)
from voile.federation.secure_aggregation.threat_models import (
    ActiveServer,
    Complete,
    GraphFailure,
    HonestButCurious,
    Sparse,
    ThreatModel,
    sparse_for,
)

__all__ = [
    "ActiveServer",
    "Attempt",
    "AttemptStep",
    "AttemptStore",
    "AttemptTerms",
    "AttemptsInMemory",
    "ClientAttempt",
    "Complete",
    "GraphFailure",
    "HonestButCurious",
    "Identities",
    "Quantisation",
    "ServerAttempt",
    "SignedMessage",
    "Signer",
    "Sparse",
    "ThreatModel",
    "sparse_for",
]
