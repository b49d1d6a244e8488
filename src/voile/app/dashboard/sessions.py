"""Who is signed in: a session of a key or of an issuer's token, and what its forms have to carry.

A session says which key it is of, when it began, and a random number; a keyed digest under the key
of the vault makes it ours. Nothing is stored, so that all processes of a service know all sessions.
The key itself is looked up each time: one that ended ends its sessions.

A session of an issuer says whom the issuer named, with which duties and until when, and the digest
covers that. What these duties allow is read from the issuer's table each time. Sign-ins that were
begun are kept the same way, in a cookie of their own.

The token of its forms is another keyed digest of the session. Whoever does not have the session
cannot make it, and the session is in a cookie that no script can read.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from voile.app.serving import Caller, NotAuthenticated, NotGranted, issuer_caller
from voile.app.workspace.serve_table import IssuerTable
from voile.records.access import KEYS, KeyRow, find_key
from voile.records.ledger import ReplayKey
from voile.records.storage import Reader
from voile.records.vault import Vault

LONGEST: Final = 8 * 3600
"""Seconds for which somebody stays signed in."""
_FORM: Final = re.compile(
    r"([0-9a-f]{12})\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII
)
_OF_ISSUER: Final = re.compile(
    r"([A-Za-z0-9_-]{1,2048}={0,2})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII
)
LONGEST_PENDING: Final = 600
"""Seconds in which somebody has to come back from the issuer."""
_PENDING: Final = re.compile(r"([0-9]{1,12})\.[0-9a-f]{64}", re.ASCII)
_ENDED_AT_MOST: Final = 4096


@dataclass(frozen=True)
class Session:
    """Somebody who is signed in.

    Args:
        text: of the cookie.
        token: what forms carry.
    """

    caller: Caller
    text: str = field(repr=False)
    token: str = field(repr=False)


class Sessions:
    """Begins, recognises and ends sessions.

    Args:
        issuers: whose sessions there are, beside those of keys.
    """

    def __init__(self, vault: Vault, issuers: Mapping[str, IssuerTable]) -> None:
        self._storage, self._key, self._issuers = vault.storage, vault.key, issuers
        self._ended: dict[str, float] = {}

    def begin(self, key: str) -> Session:
        """Sign in with an API key; `NotAuthenticated` if it is none of ours or has ended."""
        now = time.time()
        row = self._storage.read_snapshot(lambda t: find_key(t, key, now))
        if row is None:
            raise NotAuthenticated("no such key")
        stated = f"{row.identifier}.{int(now)}.{secrets.token_hex(16)}"
        return self._session_of(row, f"{stated}.{_digest(self._key, stated)}")

    def begin_of_issuer(self, issuer: str, caller: Caller, ends: float) -> Session:
        """Sign in somebody for whom an issuer spoke, until its token ends."""
        now = time.time()
        facts = {
            "issuer": issuer,
            "subject": caller.grants.caller.removeprefix(f"{issuer}:"),
            "duties": sorted(caller.grants.duties),
            "ends": min(ends, now + LONGEST),
        }
        told = base64.urlsafe_b64encode(json.dumps(facts).encode()).decode()
        stated = f"{told}.{secrets.token_hex(16)}"
        return self._session(caller, f"{stated}.{_digest(self._key, stated)}")

    def find(self, text: str) -> Session | None:
        """The session of a cookie, if it is one of ours, has not ended, and its key is valid."""
        if text in self._ended:
            return None
        return self._find_of_issuer(text) or self._find_of_key(text)

    def _find_of_issuer(self, text: str) -> Session | None:
        read = _OF_ISSUER.fullmatch(text)
        if read is None or not self._is_ours(text, read[3]):
            return None
        facts = json.loads(base64.urlsafe_b64decode(read[1]))
        table = self._issuers.get(facts["issuer"])
        if table is None or time.time() >= facts["ends"]:
            return None
        try:
            caller = issuer_caller(facts["issuer"], table, facts["subject"], facts["duties"])
        except NotGranted:
            return None  # the table was changed
        return self._session(caller, text)

    def _find_of_key(self, text: str) -> Session | None:
        read, now = _FORM.fullmatch(text), time.time()
        if read is None:
            return None
        identifier, began, _, digest = read.groups()
        if not self._is_ours(text, digest) or not 0 <= now - int(began) < LONGEST:
            return None
        row = self._storage.read_snapshot(lambda t: _row(t, identifier))
        return None if row is None or not row.is_valid(now) else self._session_of(row, text)

    def end(self, session: Session) -> None:
        """Sign out: in this process the session is known no more. Elsewhere it lasts its time."""
        now = time.time()
        if len(self._ended) >= _ENDED_AT_MOST:
            self._ended = {each: at for each, at in self._ended.items() if now - at < LONGEST}
        self._ended[session.text] = now

    def _is_ours(self, text: str, digest: str) -> bool:
        return hmac.compare_digest(_digest(self._key, text.rpartition(".")[0]), digest)

    def _session_of(self, row: KeyRow, text: str) -> Session:
        return self._session(Caller(f"key {row.identifier}", row.grants), text)

    def _session(self, caller: Caller, text: str) -> Session:
        return Session(caller, text, self._key.nonce(text, "token of the forms of a session").hex())


@dataclass(frozen=True)
class PendingSignIn:
    """Somebody who was sent to an issuer.

    Args:
        text: of the cookie.
        state: what the issuer sends back: this browser began it.
        nonce: what its token repeats: the token was made for this sign-in.
        verifier: what the code is exchanged with (PKCE): nobody else can use the code.
    """

    text: str = field(repr=False)
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


class PendingSignIns:
    """Sign-ins that were begun, each of which can be finished once, with the issuer it began with.

    The cookie holds a time and a random number. The rest is derived from it with the key of the
    vault, so a state that fits was made here, for this cookie and this issuer. Once in each
    process; an issuer takes its code once in all of them.
    """

    def __init__(self, vault: Vault) -> None:
        self._key = vault.key
        self._used: dict[str, float] = {}

    def begin(self, issuer: str) -> PendingSignIn:
        """Before somebody is sent to an issuer."""
        return self._pending(issuer, f"{int(time.time())}.{secrets.token_hex(32)}")

    def finish(self, issuer: str, text: str, state: str) -> PendingSignIn:
        """The one of a cookie and a state; `NotAuthenticated` unless it is ours and not used."""
        read, now = _PENDING.fullmatch(text), time.time()
        if read is None or not 0 <= now - int(read[1]) < LONGEST_PENDING:
            raise NotAuthenticated("no sign-in was begun here")
        found = self._pending(issuer, text)
        if not hmac.compare_digest(found.state.encode(), state.encode()):
            raise NotAuthenticated("this answer belongs to no sign-in that was begun here")
        if text in self._used:
            raise NotAuthenticated("this sign-in was finished")
        self._used = {k: at for k, at in self._used.items() if now - at < LONGEST_PENDING}
        self._used[text] = now
        return found

    def _pending(self, issuer: str, text: str) -> PendingSignIn:
        def derive(of: str) -> str:
            return self._key.nonce(f"{issuer} {text}", f"sign-in at an issuer, {of}").hex()

        return PendingSignIn(text, derive("state"), derive("nonce"), derive("verifier"))


def check_token(session: Session, sent: str) -> bool:
    """Whether a form was made for this session."""
    return hmac.compare_digest(session.token.encode(), sent.encode())


def _digest(key: ReplayKey, stated: str) -> str:
    return key.nonce(stated, "session of the dashboard").hex()


def _row(t: Reader, identifier: str) -> KeyRow | None:
    return t.get(KEYS, identifier)
