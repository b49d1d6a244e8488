"""What an auditor trusts, decided before looking at any proof.

A policy is a small TOML file. It fixes the log's origin, the algorithms, the keys of the log (old
ones stay listed after a rotation), the keys of the witnesses and how many of them must have
cosigned. A proof can satisfy these rules; it cannot choose them. Where witnesses answer stands here
for the log, which asks them; nothing that is verified rests on it.

Pure: standard library, the reader of TOML and one signature primitive. The verifier stands on it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

from voile.core.toml_text import parse_toml
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.notes import KeyKind, VerifierKey, check_name

VERSION: Final = 1
ALGORITHM: Final = "Ed25519, SHA-256"

_ANCHOR = re.compile(r"eip155:([1-9][0-9]{0,17}):(0x[0-9a-fA-F]{40})", re.ASCII)
_HEAD = "# Whom to trust when checking receipts of this log. Get it from somebody you trust.\n"


@dataclass(frozen=True)
class AnchorAddress:
    """A contract on a chain, written `eip155:CHAIN:ADDRESS` (CAIP-10), in lower case."""

    chain_id: int
    contract: str

    def __str__(self) -> str:
        return f"eip155:{self.chain_id}:{self.contract}"

    @classmethod
    def parse(cls, text: str) -> Self:
        found = _ANCHOR.fullmatch(text)
        if found is None:
            raise Malformed(f"anchor: expected eip155:CHAIN:0x..., found {text[:80]!r}")
        return cls(int(found[1]), found[2].lower())


@dataclass(frozen=True)
class Policy:
    """Origin, keys and threshold.

    Args:
        origin: the log's name, first line of each of its checkpoints.
        log_keys: any one of these must have signed; all bear the origin's name.
        witness_keys: who may cosign.
        threshold: how many different witnesses must have cosigned; 0 asks for none.
        witness_urls: where the log asks for cosignatures.
        anchor: the contract on a chain that holds checkpoints of the log, if there is one.
    """

    origin: str
    log_keys: tuple[VerifierKey, ...]
    witness_keys: tuple[VerifierKey, ...] = ()
    threshold: int = 0
    witness_urls: tuple[str, ...] = ()
    anchor: AnchorAddress | None = None

    def __post_init__(self) -> None:
        check_name(self.origin)
        if not self.log_keys or any(
            key.kind is not KeyKind.LOG or key.name != self.origin for key in self.log_keys
        ):
            raise Malformed(
                f"log_keys: expected keys of type 1 named {self.origin!r}, at least one"
            )
        if any(key.kind is not KeyKind.WITNESS for key in self.witness_keys):
            raise Malformed("witness_keys: expected keys of type 4 (cosignatures) only")
        # One key under two names would count twice toward the threshold.
        material = [key.public for key in self.log_keys + self.witness_keys]
        if len(set(material)) != len(material):
            raise Malformed("expected different public keys, found one listed twice")
        if not 0 <= self.threshold <= len(self.witness_keys):
            raise Malformed(
                f"witness_threshold: expected 0 to {len(self.witness_keys)}, as many as are "
                f"listed, found {self.threshold}"
            )
        for url in self.witness_urls:
            if not is_address(url):
                raise Malformed(f"witness_urls: expected http://... or https://..., found {url!r}")

    def __str__(self) -> str:
        lines: dict[str, int | str | list[str]] = {
            "version": VERSION,
            "algorithm": ALGORITHM,
            "origin": self.origin,
            "log_keys": [str(key) for key in self.log_keys],
            "witness_keys": [str(key) for key in self.witness_keys],
            "witness_threshold": self.threshold,
            "witness_urls": list(self.witness_urls),
        }
        if self.anchor is not None:  # a policy without one stays readable for older verifiers
            lines["anchor"] = str(self.anchor)
        # What JSON writes for strings, integers and lists of strings is TOML as well.
        return _HEAD + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a policy file; unknown or missing settings are refused, not guessed."""
        try:
            found = parse_toml(text)
        except ValueError as error:  # of TOML, and of what numbers it may hold
            raise Malformed(f"expected a policy in TOML: {error}") from None
        kinds = {"version": int, "algorithm": str, "origin": str, "log_keys": list}
        kinds |= {"witness_keys": list, "witness_threshold": int, "witness_urls": list}
        kinds |= {"anchor": str}
        found = {"witness_urls": [], "anchor": ""} | found
        if found.keys() != kinds.keys():
            raise Malformed(f"expected the settings {sorted(kinds)}, found {sorted(found)}")
        for name, kind in kinds.items():
            if type(found[name]) is not kind:
                raise Malformed(f"{name}: expected {kind.__name__}, found {found[name]!r}")
        if found["version"] != VERSION or found["algorithm"] != ALGORITHM:
            raise Malformed(f"expected version {VERSION} and algorithm {ALGORITHM!r}")
        return cls(
            found["origin"],
            _keys("log_keys", found["log_keys"]),
            _keys("witness_keys", found["witness_keys"]),
            found["witness_threshold"],
            _strings("witness_urls", found["witness_urls"]),
            AnchorAddress.parse(found["anchor"]) if found["anchor"] else None,
        )


def is_address(url: str) -> bool:
    """Whether a witness can be asked there."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _keys(name: str, values: list[Any]) -> tuple[VerifierKey, ...]:
    return tuple(VerifierKey.parse(value) for value in _strings(name, values))


def _strings(name: str, values: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(value, str) for value in values):
        raise Malformed(f"{name}: expected strings")
    return tuple(values)
