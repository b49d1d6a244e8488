"""A workspace that is served to others: who may ask, what is answered, and once only.

- open all of it: `open_served`, a `ServedWorkspace` of `ServedRelease`s
- who asks: `Caller`, from a key or a token
- what they ask: `AskedExplanation`; requests of strangers are answered together
  (`ServedWorkspace.answer`)
- a repeated request gets the stored answer: `Once`
- when a charged answer may leave: `delay_of`

The HTTP service (`voile.server`) fills these and shows the results; it decides nothing itself.
"""

from voile.app.serving.callers import Caller, NotAuthenticated, NotGranted, issuer_caller
from voile.app.serving.once import AnsweredMeanwhile, OtherPayload
from voile.app.serving.opening import open_served
from voile.app.serving.recommending import AskedRecommendation, UnknownReasons
from voile.app.serving.release import ServedRelease, UnusableRows
from voile.app.serving.served import (
    AskedExplanation,
    CallerRequest,
    KeyNeeded,
    PaymentNeeded,
    ServedAnswer,
    ServedWorkspace,
    UnknownName,
)

__all__ = [
    "AnsweredMeanwhile",
    "AskedExplanation",
    "AskedRecommendation",
    "Caller",
    "CallerRequest",
    "KeyNeeded",
    "NotAuthenticated",
    "NotGranted",
    "OtherPayload",
    "PaymentNeeded",
    "ServedAnswer",
    "ServedRelease",
    "ServedWorkspace",
    "UnknownName",
    "UnknownReasons",
    "UnusableRows",
    "issuer_caller",
    "open_served",
]
