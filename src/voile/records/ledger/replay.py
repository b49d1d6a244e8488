"""The same question, the same answer, no second charge: how questions are recognised.

A question is recognised by HMAC-SHA-256 under a key that lives in a file outside the database: who
steals the database cannot test guesses against the digests in it.

Whether a charge occurred is visible (budgets are public), so it must not depend on a protected
value. For the units "explained row" and "user" a question therefore names its record by identifier
and data set version, never by values, and is recognised only for the caller who asked it: two
people with equal features get independent noise, each charged. Without an identifier nothing is
recognised. What is made from all records together (`WholeDataset`) is asked about by public facts
alone, and recognised under every unit.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import ClassVar, Final, Self, TypeAlias

from voile.core.atomic_file import create_key_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.guarantee import ProtectedUnit
from voile.core.identifiers import canonical_identifier, canonical_name
from voile.core.input_file import read_private
from voile.records.ledger.accounts import Account

KEY_SIZE: Final = 32
_PREFIX: Final = b"voile replay key v1 "
_ABOUT_A_PERSON: Final = (ProtectedUnit.EXPLAINED_ROW, ProtectedUnit.USER)


@dataclass(frozen=True)
class NamedRecord:
    """The record a question is about, by its name in a version of the data set.

    Whatever spelling it is given in, the identifier becomes the canonical one
    (`voile.core.identifiers`): two spellings of one name would be two budgets.

    Args:
        earlier: the same record as earlier versions of voile named it, where that differs. Only
            digests of names are stored, so what they stored is found by this name alone.
    """

    identifier: str
    dataset: str
    earlier: NamedRecord | None = field(init=False, default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        given = self.identifier
        identifier = canonical_identifier(given)
        if identifier is None:
            raise InvalidInput("a named record needs an identifier, found none")
        object.__setattr__(self, "identifier", identifier)
        if isinstance(given, str) and not given.isascii():
            object.__setattr__(self, "earlier", self._named_before(given))

    def _named_before(self, given: str) -> NamedRecord | None:
        with suppress(InvalidInput):  # what was refused before was never stored
            name = canonical_name(given)
            if name is not None and name != self.identifier:
                found = copy(self)
                object.__setattr__(found, "identifier", name)
                return found
        return None


@dataclass(frozen=True)
class PublicInput:
    """What a question is about where that is not protected: canonical bytes of the input, or the
    name of a population."""

    content: bytes = field(repr=False)


@dataclass(frozen=True)
class WholeDataset(PublicInput):
    """All records of a data set together: the name of what is made from them, and public facts.

    It speaks of no single record and holds no value of one, so it is recognised whatever one record
    of the account is, and whoever asks.
    """


About: TypeAlias = NamedRecord | PublicInput | None


@dataclass(frozen=True, kw_only=True)
class Question:
    """What was asked: everything the answer depends on.

    Args:
        account: which account pays.
        model, explainer: digests or version labels.
        level: the transparency level.
        parameters: all settings, as canonical text.
        about: the record or input; None if it has no name.
        earlier: the same question as earlier versions of voile spelled it: an answer that was
            stored under one of these answers this one.
    """

    account: str
    model: str
    explainer: str
    level: str
    parameters: str
    about: About = None
    earlier: tuple[Question, ...] = ()

    def spelled(self, digest: bytes, asked: Asked) -> Question:
        """The spelling that an answer was stored under."""
        known = {spelling: each for each, spelling in zip(self.earlier, asked.earlier, strict=True)}
        return known.get(digest, self)

    @cached_property
    def accounts(self) -> tuple[str, ...]:
        """The account that pays, then those that paid under earlier spellings."""
        return tuple(dict.fromkeys((self.account, *(each.account for each in self.earlier))))

    @cached_property
    def canonical_bytes(self) -> bytes:
        """One sequence of bytes for one question: what the audit log commits to.

        JSON with sorted keys and without spaces.
        """
        rest = _written_once(self.explainer, self.level, self.model, self.parameters)
        account = quoted(self.account)
        return f'{{"about":{_named(self.about)},"account":{account},{rest}'.encode()


@lru_cache(maxsize=256)
def _written_once(explainer: str, level: str, model: str, parameters: str) -> str:
    """What all questions to one release have in common, as the end of their JSON."""
    common = {"explainer": explainer, "level": level, "model": model, "parameters": parameters}
    return json.dumps(common, sort_keys=True, separators=(",", ":"))[1:]


@dataclass(frozen=True)
class Asked:
    """A question as the ledger knows it.

    Args:
        digest: what an answer is stored under.
        replayable: an earlier answer may be given again.
        earlier: digests of earlier spellings of the question, newest first.
    """

    account: str
    caller: str
    digest: bytes
    replayable: bool
    earlier: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class ReplayKey:
    """The key of the digests. Printing it does not show it."""

    FILE_STARTS_WITH: ClassVar[bytes] = _PREFIX

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_SIZE:
            raise InvalidInput(f"a replay key has {KEY_SIZE} bytes, found {len(self.key)}")

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(KEY_SIZE))

    def save(self, path: Path) -> None:
        """Write a new key file, mode 0600, whole or not at all; never over another file."""
        create_key_file(path, _PREFIX + self.key.hex().encode() + b"\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a key file; `Refused` if others than its owner can get at it."""
        content = read_private(path, "the replay key")
        try:
            return cls(bytes.fromhex(content.removeprefix(_PREFIX).decode("ascii").strip()))
        except ValueError:
            raise UnreadableFile(f"{path}: not a replay key of voile, or damaged") from None

    def digest_question(self, question: Question, account: Account, caller: str) -> Asked:
        """The question's digest, and whether an earlier answer to it may be given again."""
        if question.account != account.name:
            raise InvalidInput(
                f"the question is to {question.account!r}, the account is {account.name!r}"
            )
        about = question.about
        personal = account.protected.unit in _ABOUT_A_PERSON and not isinstance(about, WholeDataset)
        if isinstance(about, NamedRecord) and about.dataset != account.protected.dataset:
            raise InvalidInput(
                f"the record is of {about.dataset!r}, the account of {account.protected.dataset!r}"
            )
        if about is None or (personal and not isinstance(about, NamedRecord)):
            unknown = tuple(secrets.token_bytes(KEY_SIZE) for _ in (question, *question.earlier))
            return Asked(account.name, caller, unknown[0], replayable=False, earlier=unknown[1:])
        scope = (quoted(caller) if personal else "null").encode() + b"\n"
        digest = self._digest(b"question", scope + question.canonical_bytes)
        earlier = [
            self._digest(b"question", scope + each.canonical_bytes) for each in question.earlier
        ]
        return Asked(account.name, caller, digest, replayable=True, earlier=tuple(earlier))

    def records(self, identifiers: Iterable[str], dataset: str) -> frozenset[bytes]:
        """Keyed digests of the records of a population, for the reconstruction watch."""
        return frozenset(self.record(NamedRecord(each, dataset)) for each in identifiers)

    def record(self, named: NamedRecord) -> bytes:
        """Keyed digest of a record's name."""
        name = f"{quoted(named.dataset)}{quoted(named.identifier)}"
        return self._digest(b"record", name.encode())

    def nonce(self, of: str, name: str) -> bytes:
        """32 bytes for other purposes than a charge's commitments (`nonces`): nobody without the
        key can guess them, and they are found again without storing them."""
        return self._digest(b"nonce", f"{name}\n{of}".encode())

    def nonces(self, of: str) -> dict[str, bytes]:
        """What opens the commitments of a record: the halves of one HMAC-SHA-512.

        Args:
            of: which commitments; never the same for two contents.
        """
        both = _digest(self._long, b"nonces\n" + of.encode())
        return {"query": both[:32], "answer": both[32:]}

    def _digest(self, purpose: bytes, content: bytes) -> bytes:
        return _digest(self._short, purpose + b"\n" + content)

    # With the key hashed in once and copied, which is half of the work of a digest.

    @cached_property
    def _short(self) -> hmac.HMAC:
        return hmac.new(self.key, digestmod="sha256")

    @cached_property
    def _long(self) -> hmac.HMAC:
        return hmac.new(self.key, digestmod="sha512")


def _digest(keyed: hmac.HMAC, content: bytes) -> bytes:
    own = keyed.copy()
    own.update(content)
    return own.digest()


def _named(about: About) -> str:
    if about is None:
        return "[]"
    if isinstance(about, NamedRecord):
        return f'["record",{quoted(about.identifier)},{quoted(about.dataset)}]'
    return f'["input","{about.content.hex()}"]'
