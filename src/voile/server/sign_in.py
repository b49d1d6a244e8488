"""Sign-in at an OpenID Connect issuer: its side of the authorization code flow with PKCE.

1. `begin`: where a browser is sent, with `state`, `nonce` and the digest of a verifier.
2. `finish`: the code that it brings back becomes an ID token, which is verified as other tokens of
   the issuer are. It has to name the client and the nonce.

That the browser is the one that was sent, and only comes back once, is checked before
(`PendingSignIns`). Neither codes nor tokens appear in errors or in the log.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
import jwt

from voile.app.dashboard.sessions import PendingSignIn
from voile.app.serving import Caller, NotAuthenticated
from voile.app.workspace.serve_table import HTTPS, IssuerTable
from voile.core.errors import InvalidInput, Refused
from voile.server.identity import Issuer

_FETCH_SECONDS: Final = 5.0
_DISCOVERY_SECONDS: Final = 300.0
_LONGEST_TOKEN: Final = 8192


class IssuerSilent(Refused):
    """An issuer cannot be reached, or says nothing that can be used."""


@dataclass(frozen=True)
class Endpoints:
    """Addresses of an issuer: for browsers, and for codes."""

    authorize: str
    token: str


@dataclass(frozen=True)
class SignedIn:
    """Somebody for whom an issuer spoke, until its token ends."""

    caller: Caller
    ends: float


class SignIns:
    """The issuers at which people may sign in.

    Args:
        transport: of requests to issuers, for tests; else the network.
    """

    def __init__(
        self, issuers: Iterable[Issuer], transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._transport = transport
        self._issuers = {each.name: each for each in issuers if each.table.client_id is not None}
        self._secrets = {name: _secret(each.table) for name, each in self._issuers.items()}
        self._discovered: dict[str, tuple[float, Endpoints]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of these issuers, as the workspace calls them."""
        return tuple(self._issuers)

    async def begin(self, name: str, pending: PendingSignIn) -> str:
        """Where a browser is sent."""
        table, endpoints = self._issuers[name].table, await self._endpoints(name)
        digest = hashlib.sha256(pending.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": table.client_id,
            "redirect_uri": _callback(name, table),
            "scope": " ".join(("openid", *table.scopes)),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        joined = "&" if "?" in endpoints.authorize else "?"
        return f"{endpoints.authorize}{joined}{urlencode(asked)}"

    async def finish(self, name: str, pending: PendingSignIn, code: str) -> SignedIn:
        """Who came back with a code.

        `NotAuthenticated` if the token does not hold, `NotGranted` if it grants nothing.
        """
        token = await self._exchange(name, pending, code)
        return await asyncio.to_thread(_verify, self._issuers[name], token, pending.nonce)

    async def _exchange(self, name: str, pending: PendingSignIn, code: str) -> str:
        table, secret = self._issuers[name].table, self._secrets[name]
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": _callback(name, table),
            "client_id": str(table.client_id),
            "code_verifier": pending.verifier,
        }
        auth = None
        if secret is not None:  # both are encoded first: RFC 6749, 2.3.1
            auth = httpx.BasicAuth(quote(str(table.client_id), ""), quote(secret, ""))
        endpoints = await self._endpoints(name)
        found = await self._ask("POST", endpoints.token, data=fields, auth=auth)
        token = found.get("id_token")
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
            raise NotAuthenticated("the issuer gave no token")
        return token

    async def _endpoints(self, name: str) -> Endpoints:
        table, now = self._issuers[name].table, time.monotonic()
        if table.authorize is not None and table.token is not None:
            return Endpoints(table.authorize, table.token)
        since, known = self._discovered.get(name, (0.0, None))
        if known is not None and now - since < _DISCOVERY_SECONDS:
            return known
        address = f"{table.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = _endpoints_of(await self._ask("GET", address), table.issuer)
        self._discovered[name] = now, found
        return found

    async def _ask(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        if not re.match(HTTPS, address):
            raise IssuerSilent("an issuer is asked by https")
        try:
            async with httpx.AsyncClient(
                transport=self._transport, timeout=_FETCH_SECONDS, follow_redirects=False
            ) as client:
                answer = await client.request(method, address, **more)
                found = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            raise IssuerSilent("the issuer does not answer") from None
        if answer.status_code >= 500 or not isinstance(found, dict):
            raise IssuerSilent("the issuer does not answer")
        if answer.status_code != 200:
            raise NotAuthenticated("the issuer refused")
        return found


def _verify(issuer: Issuer, token: str, nonce: str) -> SignedIn:
    client = str(issuer.table.client_id)
    try:
        claims = issuer.claims(token, client)
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else client) != client:
            raise jwt.InvalidAudienceError("the token was made for another client")
    except (jwt.PyJWTError, ValueError, TypeError):
        raise NotAuthenticated("the token does not hold") from None
    if claims.get("nonce") != nonce:
        raise NotAuthenticated("the token was not made for this sign-in")
    return SignedIn(issuer.caller_of(claims), float(claims["exp"]))


def _endpoints_of(found: dict[str, Any], issuer: str) -> Endpoints:
    addresses = found.get("authorization_endpoint"), found.get("token_endpoint")
    if found.get("issuer") != issuer:
        raise IssuerSilent("the discovery document is of another issuer")
    if not all(isinstance(each, str) and re.match(HTTPS, each) for each in addresses):
        raise IssuerSilent("the discovery document names no addresses that can be used")
    return Endpoints(str(addresses[0]), str(addresses[1]))


def _callback(name: str, table: IssuerTable) -> str:
    return f"{str(table.address).rstrip('/')}/signin/issuers/{name}/callback"


def _secret(table: IssuerTable) -> str | None:
    if table.client_secret_env is None:
        return None
    found = os.environ.get(table.client_secret_env)
    if not found:
        raise InvalidInput(f"set the environment variable {table.client_secret_env}")
    return found
