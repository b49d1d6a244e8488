"""What is said of errors: problem documents (RFC 9457) in which nothing that was sent appears.

Messages of other packages may name values or columns that somebody sent. So a problem has a fixed
text for each kind of error, and beside it only what our own code says or public facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voile.app.compliance.enforcement import CoarserOffered, MeasureInForce
from voile.app.serving import (
    AnsweredMeanwhile,
    KeyNeeded,
    NotAuthenticated,
    NotGranted,
    OtherPayload,
    PaymentNeeded,
    UnknownName,
    UnknownReasons,
    UnusableRows,
)
from voile.app.serving.release import preview_facts
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, StorageFault, VoileError
from voile.records.audit_log import UnsignedRecord
from voile.server.load import LoadShed

MEDIA_TYPE: Final = "application/problem+json"
_MOST_ERRORS: Final = 10
_KNOWN_PLACES: Final = frozenset(
    {"body", "query", "path", "header", "release", "rows", "account", "purpose", "redraw", "saved"}
    | {"requests", "instances", "inputs", "outputs", "parameters", "data", "shape", "datatype"}
    | {"name", "id", "reason", "dataset", "epsilon", "delta", "parent", "parallel", "unit"}
    | {"relation", "caller", "duties", "roles", "level", "accounts", "rate", "days", "first"}
    | {"recommender", "history", "group_by", "count", "limit", "hours", "last", "record", "columns"}
    | {"coarser"}
)
"""Where an error may be: names of ours. Any other part of a place was sent by somebody."""


class RateExceeded(Refused):
    """Too many requests for a key."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__("too many requests")


class UnusableKey(InvalidInput):
    """A key against repetition that is too long, empty, or not the only one."""


class StillRunning(Refused):
    """A request with this key against repetition is being answered."""


class NotYetSigned(Refused):
    """No checkpoint covers the record yet."""


@dataclass(frozen=True)
class Problem:
    """A problem document.

    Args:
        kind: the last part of its type.
        more: further members.
        headers: of the response.
    """

    status: int
    kind: str
    title: str
    detail: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        said = {"type": f"urn:voile:problem:{self.kind}", "title": self.title}
        told = {"detail": self.detail} if self.detail else {}
        return {**said, "status": self.status, **told, **self.more}

    def response(self) -> Response:
        """As it is sent."""
        return JSONResponse(
            self.to_dict(), self.status, media_type=MEDIA_TYPE, headers=dict(self.headers)
        )


def problem_of(error: Exception) -> Problem:
    """What is said of an error of ours; anything else is a fault of the service."""
    for kind, make in _MAKERS.items():
        if isinstance(error, kind):
            found: Problem = make(error)
            return found
    return Problem(500, "fault", "The service failed")


def of_status(error: HTTPException) -> Problem:
    """What the framework refuses: no route, another method, a body that is too large."""
    kind, title = _STATUSES.get(error.status_code, ("refused", "The request was refused"))
    headers = {name: value for name, value in (error.headers or {}).items() if name == "Allow"}
    if error.status_code in _UNREAD:
        headers["Connection"] = "close"  # the rest of the body is not waited for
    return Problem(error.status_code, kind, title, headers=headers)


def of_validation(errors: Iterable[Mapping[str, Any]]) -> Problem:
    """Which fields are wrong and how, never what stood in them."""
    told = []
    for error in errors:
        place = []
        for part in error["loc"]:
            if not isinstance(part, int) and part not in _KNOWN_PLACES:
                break
            place.append(str(part))
        told.append({"field": ".".join(place), "problem": str(error["type"])})
    unique = [dict(each) for each in dict.fromkeys(tuple(t.items()) for t in told)]
    more = {"errors": unique[:_MOST_ERRORS]}
    return Problem(422, "invalid-request", "The request does not have the expected form", more=more)


async def answer_error(_: Request, error: Exception) -> Response:
    """For the framework."""
    if isinstance(error, RequestValidationError):
        return of_validation(error.errors()).response()
    if isinstance(error, HTTPException):
        return of_status(error).response()
    return problem_of(error).response()


def _said(status: int, kind: str, title: str) -> Any:
    """With the error's own text: only for errors whose texts are fixed."""
    return lambda error: Problem(status, kind, title, str(error))


def _fixed(
    status: int, kind: str, title: str, detail: str = "", *, retry: int = 0, challenge: str = ""
) -> Any:
    headers = {"Retry-After": str(retry)} if retry else {}
    headers |= {"WWW-Authenticate": challenge} if challenge else {}
    return lambda _: Problem(status, kind, title, detail, headers=headers)


def _unusable(error: UnusableRows) -> Problem:
    more = {"errors": [dict(each) for each in error.problems]}
    return Problem(422, "unusable-rows", "The rows do not fit the schema", more=more)


def _payment(error: PaymentNeeded) -> Problem:
    more = {"price": preview_facts(error.preview)}
    title = "An explanation of this release costs privacy budget"
    detail = "Name the account that pays: the field `account`, or the header `Voile-Account`."
    return Problem(402, "account-needed", title, detail, more)


def _exceeded(error: BudgetExceeded) -> Problem:
    more = {"remaining": error.remaining, "requested": error.requested}
    detail = "Nothing was charged. `remaining` and `requested` are in the measure of the account."
    return Problem(403, "budget-exceeded", "The privacy budget does not cover this", detail, more)


def _rate(error: RateExceeded) -> Problem:
    headers = {"Retry-After": str(max(1, round(error.seconds)))}
    return Problem(429, "rate-exceeded", "Too many requests for this key", headers=headers)


def _measure(error: MeasureInForce) -> Problem:
    found = error.forbidden
    more = {"measure": str(found.rule.action), "rule": found.rule.name}
    title, detail = "A rule does not allow this charge now", f"{found}; nothing was charged"
    if found.seconds is None:
        return Problem(403, "measure-in-force", title, detail, more)
    headers = {"Retry-After": str(max(1, found.seconds))}
    return Problem(429, "measure-in-force", title, detail, more, headers)


def _offer(error: CoarserOffered) -> Problem:
    more = {"offer": {"level": error.level or None}, "rule": error.forbidden.rule.name}
    detail = (
        'Nothing was charged. Send `"coarser": true` with the request to get it, or the header '
        "`Voile-Coarser: true` where a protocol has no such field."
    )
    return Problem(409, "coarser-level-offered", "A coarser level is offered", detail, more)


_STATUSES: Final = {
    400: ("unreadable-request", "The request cannot be read"),
    404: ("not-found", "There is nothing here"),
    405: ("method-not-allowed", "This method is not offered here"),
    408: ("too-slow", "The request took too long to arrive"),
    413: ("too-large", "The request is too large"),
}
_UNREAD: Final = frozenset({408, 413})
_REPEAT: Final = "Idempotency-Key"
_MAKERS: Final[Mapping[type[Exception], Any]] = {
    NotAuthenticated: _fixed(
        401, "not-authenticated", "An API key or a token is needed", challenge="Bearer"
    ),
    NotGranted: _said(403, "not-granted", "This key may not do this"),
    PaymentNeeded: _payment,
    BudgetExceeded: _exceeded,
    MeasureInForce: _measure,
    CoarserOffered: _offer,
    LoadShed: _fixed(503, "load-shed", "The service has too much to do", retry=1),
    RateExceeded: _rate,
    KeyNeeded: _fixed(
        400, "idempotency-key-needed", "Sent twice, this would be charged twice", f"Send {_REPEAT}."
    ),
    UnusableKey: _said(400, "idempotency-key-unusable", f"The {_REPEAT} cannot be used"),
    OtherPayload: _fixed(
        422, "idempotency-key-reused", f"The {_REPEAT} was used for something else"
    ),
    StillRunning: _fixed(409, "still-running", "This request is being answered"),
    AnsweredMeanwhile: _fixed(409, "still-running", "This request is being answered"),
    NotYetSigned: _fixed(409, "not-yet-signed", "No checkpoint covers this record yet", retry=5),
    UnsignedRecord: _fixed(409, "not-yet-signed", "No checkpoint covers this record yet", retry=5),
    UnknownName: _said(404, "not-found", "There is nothing here"),
    UnknownReasons: _said(422, "unknown-reasons", "The request cannot be used"),
    UnusableRows: _unusable,
    Refused: _fixed(403, "refused", "Answering this would break a promise"),
    InvalidInput: _fixed(422, "invalid-request", "The request cannot be used"),
    StorageFault: _fixed(503, "storage", "The database cannot be used now", retry=5),
    VoileError: _fixed(503, "unavailable", "The service cannot answer now"),
}
