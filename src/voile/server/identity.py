"""Who asks: an API key or a token of an OpenID Connect issuer, and how often they may."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from starlette.requests import Request

from voile.app.serving import Caller, NotAuthenticated, NotGranted, ServedWorkspace, issuer_caller
from voile.app.workspace.serve_table import IssuerTable
from voile.records.access import KeyRow, find_key, is_key
from voile.server.problems import RateExceeded

_KNOWN_FOR: Final = 1.0
"""Seconds for which a key is not looked up again; one revoked elsewhere ends after that."""
_MOST_KNOWN: Final = 4096
_MOST_BUCKETS: Final = 16_384
_LONGEST_TOKEN: Final = 8192
_LONGEST_SUBJECT: Final = 100
_KEY_SET_SECONDS: Final = 300
_REFRESH_SECONDS: Final = 10.0
"""Whoever makes up names of keys must not make us ask the issuer for each."""
_FETCH_SECONDS: Final = 5.0
_LEEWAY: Final = 30
_DUTY: Final = "voile:"


class Rates:
    """A bucket for each key: it fills with its rate, and holds a minute of it."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, rate: int, now: float) -> None:
        """Take one; `RateExceeded` if the bucket is empty."""
        if rate == 0:
            return
        left, since = self._buckets.pop(name, (float(rate), now))
        left = min(float(rate), left + (now - since) * rate / 60)
        self._buckets[name] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise RateExceeded((1 - left) * 60 / rate)


@dataclass(frozen=True)
class Issuer:
    """Checks tokens of one issuer.

    Only the algorithms of the workspace count, never what a token says of itself. Keys are fetched
    again when a token names one that is new, at most every ten seconds.
    """

    name: str
    table: IssuerTable
    keys: jwt.PyJWKClient

    @classmethod
    def from_table(cls, name: str, table: IssuerTable) -> Issuer:
        """As the workspace states it; fetches nothing yet."""
        keys = jwt.PyJWKClient(
            table.keys,
            lifespan=_KEY_SET_SECONDS,
            timeout=_FETCH_SECONDS,
            cooldown_duration=_REFRESH_SECONDS,
        )
        return cls(name, table, keys)

    def caller(self, token: str) -> Caller:
        """Who it is; `jwt.PyJWTError` if the token does not hold, `NotGranted` without duties."""
        return self.caller_of(self.claims(token, self.table.audience))

    def claims(self, token: str, audience: str) -> dict[str, Any]:
        """What a token says, for somebody to whom it is addressed; or `jwt.PyJWTError`."""
        key = self.keys.get_signing_key_from_jwt(token)
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(self.table.algorithms),
            issuer=self.table.issuer,
            audience=audience,
            leeway=_LEEWAY,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
        subject = str(claims["sub"])
        if not subject.isprintable() or not 0 < len(subject) <= _LONGEST_SUBJECT:
            raise jwt.InvalidTokenError("a subject is a short text")
        return claims

    def caller_of(self, claims: Mapping[str, Any]) -> Caller:
        """Who it is by claims that hold; `NotGranted` without duties."""
        return issuer_caller(self.name, self.table, str(claims["sub"]), self._duties(claims))

    def _duties(self, claims: Mapping[str, Any]) -> frozenset[str]:
        stated = claims.get(self.table.claim, "")
        words = stated if isinstance(stated, list) else str(stated).split()
        return frozenset(
            word.removeprefix(_DUTY)
            for word in words
            if isinstance(word, str) and word.startswith(_DUTY)
        )


class Identities:
    """Finds out who asks."""

    def __init__(self, workspace: ServedWorkspace) -> None:
        self._storage = workspace.vault.storage
        self._known: OrderedDict[bytes, tuple[float, KeyRow]] = OrderedDict()
        self.issuers = [
            Issuer.from_table(name, table) for name, table in workspace.settings.issuers.items()
        ]
        self._rates = Rates()

    async def caller(self, request: Request) -> Caller:
        """Who asks; anonymous without credentials. Wrong ones are refused, whatever is asked."""
        given = request.headers.get("authorization")
        found = Caller.anonymous() if given is None else await self._believed(given)
        self.count(found)
        return found

    def count(self, caller: Caller) -> None:
        """One more request of somebody; `RateExceeded` if there were too many."""
        name = f"{caller.name}/{caller.grants.caller}"
        self._rates.take(name, caller.grants.rate, time.monotonic())

    def forget(self) -> None:
        """Look all keys up again."""
        self._known.clear()

    async def _believed(self, given: str) -> Caller:
        scheme, _, text = given.partition(" ")
        if scheme.lower() != "bearer" or not text or len(text) > _LONGEST_TOKEN:
            raise NotAuthenticated("expected a bearer token")
        if is_key(text):
            row = await self._key(text)
            return Caller(f"key {row.identifier}", row.grants)
        return await asyncio.to_thread(self._of_token, text)

    async def _key(self, text: str) -> KeyRow:
        now = time.time()
        known = self._known.get(digest := hashlib.sha256(text.encode()).digest())
        if known is not None and now - known[0] < _KNOWN_FOR and known[1].is_valid(now):
            return known[1]
        row = await asyncio.to_thread(self._look_up, text, now)
        if row is None:
            self._known.pop(digest, None)
            raise NotAuthenticated("no such key")
        self._known[digest] = (now, row)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return row

    def _look_up(self, text: str, now: float) -> KeyRow | None:
        return self._storage.read_snapshot(lambda t: find_key(t, text, now))

    def _of_token(self, text: str) -> Caller:
        for issuer in self.issuers:
            try:
                unverified = jwt.decode(text, options={"verify_signature": False})
                if unverified.get("iss") == issuer.table.issuer:
                    return issuer.caller(text)
            except (jwt.PyJWTError, NotGranted, ValueError, TypeError):
                break
        raise NotAuthenticated("the token does not hold")
