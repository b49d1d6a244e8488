"""Who is signed in: a session of a key, and what its forms have to carry.

A session says which key it is of, when it began, and a random number; a keyed digest under the key
of the vault makes it ours. Nothing is stored, so that all processes of a service know all sessions.
The key itself is looked up each time: one that ended ends its sessions.

The token of its forms is another keyed digest of the session. Whoever does not have the session
cannot make it, and the session is in a cookie that no script can read.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Final

from voile.app.serving import Caller, NotAuthenticated
from voile.records.access import KEYS, KeyRow, find_key
from voile.records.ledger import ReplayKey
from voile.records.storage import Reader
from voile.records.vault import Vault

LONGEST: Final = 8 * 3600
"""Seconds for which somebody stays signed in."""
_FORM: Final = re.compile(
    r"([0-9a-f]{12})\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII
)
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
    """Begins, recognises and ends sessions of keys."""

    def __init__(self, vault: Vault) -> None:
        self._storage, self._key = vault.storage, vault.key
        self._ended: dict[str, float] = {}

    def begin(self, key: str) -> Session:
        """Sign in with an API key; `NotAuthenticated` if it is none of ours or has ended."""
        now = time.time()
        row = self._storage.read_snapshot(lambda t: find_key(t, key, now))
        if row is None:
            raise NotAuthenticated("no such key")
        stated = f"{row.identifier}.{int(now)}.{secrets.token_hex(16)}"
        return self._session(row, f"{stated}.{_digest(self._key, stated)}")

    def find(self, text: str) -> Session | None:
        """The session of a cookie, if it is one of ours, has not ended, and its key is valid."""
        read, now = _FORM.fullmatch(text), time.time()
        if read is None or text in self._ended:
            return None
        identifier, began, _, digest = read.groups()
        same = hmac.compare_digest(_digest(self._key, text.rpartition(".")[0]), digest)
        if not same or not 0 <= now - int(began) < LONGEST:
            return None
        row = self._storage.read_snapshot(lambda t: _row(t, identifier))
        return None if row is None or not row.is_valid(now) else self._session(row, text)

    def end(self, session: Session) -> None:
        """Sign out: in this process the session is known no more. Elsewhere it lasts its time."""
        now = time.time()
        if len(self._ended) >= _ENDED_AT_MOST:
            self._ended = {each: at for each, at in self._ended.items() if now - at < LONGEST}
        self._ended[session.text] = now

    def _session(self, row: KeyRow, text: str) -> Session:
        token = self._key.nonce(text, "token of the forms of a session").hex()
        return Session(Caller(f"key {row.identifier}", row.grants), text, token)


def check_token(session: Session, sent: str) -> bool:
    """Whether a form was made for this session."""
    return hmac.compare_digest(session.token.encode(), sent.encode())


def _digest(key: ReplayKey, stated: str) -> str:
    return key.nonce(stated, "session of the dashboard").hex()


def _row(t: Reader, identifier: str) -> KeyRow | None:
    return t.get(KEYS, identifier)
