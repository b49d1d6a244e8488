"""Keys, and the people who have them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from voile.app.dashboard.frame import KEYS
from voile.records.access import Duty
from voile.server import budgets
from voile.server.bodies import KeyBody
from voile.server.dashboard.door import PageRoute, Visitor, as_body, go, may_open, page, read_form

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Administering = Annotated[Visitor, may_open(KEYS)]
_DUTY: Final = "duty-"
_SAID: Final = {
    Duty.EXPLAIN: "ask for explanations, and pay for them from accounts of the key",
    Duty.OBSERVE: "see budgets, forecasts and history of these accounts",
    Duty.AUDIT: "see the log and its proofs, and all budgets; never rows or answers",
    Duty.ADMINISTER: "open and renew accounts, issue and end keys",
    Duty.APPROVE: "approve expensive charges that somebody else asked for, on these accounts",
    Duty.OPERATE: "see metrics and the description of the interface",
}


@router.get("/keys")
async def show_keys(visitor: Administering) -> Response:
    """All keys that this administrator may end."""
    return await _keys(visitor)


@router.post("/keys")
async def issue_key(request: Request, visitor: Administering) -> Response:
    """Issue a key, on record; it is shown once, on the page that answers."""
    fields = await read_form(request)
    duties = [name.removeprefix(_DUTY) for name in fields if name.startswith(_DUTY)]
    told = {name: value for name, value in fields.items() if not name.startswith(_DUTY)}
    told["duties"] = "\n".join(duties)
    body = as_body(KeyBody, told, several=("duties", "accounts"))
    made = await budgets.issue_key(body, visitor.service, visitor.caller)
    return await _keys(visitor, made["secret"], made["caller"])


@router.post("/keys/{key}/end")
async def end_key(request: Request, visitor: Administering, key: str) -> Response:
    """End a key at once, on record."""
    await read_form(request)
    await budgets.revoke_key(key, visitor.service, visitor.caller)
    return go(KEYS.path)


async def _keys(visitor: Visitor, secret: str = "", holder: str = "") -> Response:
    found: dict[str, Any] = await budgets.show_keys(visitor.service, visitor.caller)
    content = SimpleNamespace(
        keys=sorted(found["keys"], key=lambda key: (key["revoked"] is not None, -key["created"])),
        now=time.time(),
        secret=secret,
        holder=holder,
        duties=[(duty.value, said) for duty, said in _SAID.items()],
    )
    return page("keys", KEYS.title, visitor.frame(KEYS.path), content)
