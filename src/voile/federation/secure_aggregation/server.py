"""The server's side of one attempt: relays what parties say to each other, and adds up.

Vectors are added as they come, so the sum takes the same memory for any number of parties. What it
gets is checked; who sends something else counts as fallen out. Secrets that come together are
compared with what was advertised: from wrong shares comes no sum, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from voile.core.errors import Refused
from voile.federation.secure_aggregation.attempts import AttemptTerms
from voile.federation.secure_aggregation.client import MASKING_KEY, SELF_MASK, survivors_text
from voile.federation.secure_aggregation.masking import (
    KeyPair,
    Words,
    add_mask,
    commitment,
    pair_seed,
    subtract_mask,
)
from voile.federation.secure_aggregation.rosters import Advert, Roster, advertised
from voile.federation.secure_aggregation.shamir import SHARE_SIZE, joined
from voile.federation.secure_aggregation.signed import (
    EVERYBODY,
    SERVER,
    AttemptStep,
    SignedMessage,
    Signer,
    decode,
    decode_pairs,
    encode,
    encode_names,
    opened,
    signed,
)


class ServerAttempt:
    """One attempt, from everybody's adverts to the sum of the survivors' vectors.

    For each of `steps` in turn: send what `requests` gives, and `take` every answer. Both raise
    `Refused`: `take` about one answer, whose party has then fallen out; `requests` and `total` if
    too few are left, and then the attempt has failed.

    Args:
        terms: what was agreed on.
        sign: with the server's key.
    """

    def __init__(self, terms: AttemptTerms, sign: Signer) -> None:
        self.terms, self._sign = terms, sign
        self._adverts: dict[str, SignedMessage] = {}
        self._sealed: dict[str, dict[str, bytes]] = {}
        self._sum = np.zeros(terms.length, dtype=terms.dtype)
        self._masked: set[str] = set()
        self._consents: dict[str, bytes] = {}
        self._revealed: dict[str, dict[int, bytes]] = {}
        self._heard: set[str] = set()

    @property
    def steps(self) -> tuple[AttemptStep, ...]:
        """After the adverts."""
        consent = (AttemptStep.CONSENT,) if self.terms.model.signs_survivors else ()
        return (AttemptStep.SHARE, AttemptStep.MASK, *consent, AttemptStep.UNMASK)

    @property
    def survivors(self) -> tuple[str, ...]:
        """Those whose vectors are in the sum."""
        return tuple(name for name in self.terms.asked if name in self._masked)

    # --- what it sends ------------------------------------------------------------------------

    def requests(self, step: AttemptStep) -> dict[str, SignedMessage]:
        """A message for everybody who is still there."""
        bodies: Mapping[AttemptStep, Callable[[], dict[str, bytes]]] = {
            AttemptStep.SHARE: self._for_sharing,
            AttemptStep.MASK: self._for_masking,
            AttemptStep.CONSENT: self._for_consent,
            AttemptStep.UNMASK: self._for_unmasking,
        }
        return {
            name: signed(self.terms.attempt, step, SERVER, name, body, self._sign)
            for name, body in bodies[step]().items()
        }

    def _for_sharing(self) -> dict[str, bytes]:
        ordered = {name: self._adverts[name] for name in self.terms.asked if name in self._adverts}
        self._roster = Roster(self.terms, ordered)
        return dict.fromkeys(self._roster.names, self._roster.encoded)

    def _for_masking(self) -> dict[str, bytes]:
        self._sharing = tuple(name for name in self.terms.asked if name in self._sealed)
        self._enough(self._sharing, "shared keys")
        listed, found = encode_names(self._sharing), {}
        for name in self._sharing:
            parts = []
            for other in self._sharing:
                if name in self._sealed[other]:
                    parts += [other.encode(), self._sealed[other][name]]
            found[name] = encode([listed, encode(parts)])
        return found

    def _for_consent(self) -> dict[str, bytes]:
        self._enough(self.survivors, "sent a vector")
        return dict.fromkeys(self.survivors, encode_names(self.survivors))

    def _for_unmasking(self) -> dict[str, bytes]:
        asked, signatures = self.survivors, b""
        self._enough(asked, "sent a vector")
        if self.terms.model.signs_survivors:
            asked = tuple(name for name in asked if name in self._consents)
            self._enough(asked, "signed the list of survivors")
            parts: list[bytes] = []
            for name in asked:
                parts += [name.encode(), self._consents[name]]
            signatures = encode(parts)
        return dict.fromkeys(asked, encode([encode_names(self.survivors), signatures]))

    def _enough(self, names: tuple[str, ...], what: str) -> None:
        if len(names) < self.terms.threshold:
            raise Refused(
                f"{len(names)} parties {what}, and {self.terms.threshold} have to survive: this "
                "attempt has failed, and nothing was revealed by it"
            )

    # --- what it gets -------------------------------------------------------------------------

    def take(self, step: AttemptStep, name: str, answer: object) -> None:
        """An answer of this party."""
        takers: Mapping[AttemptStep, Callable[[str, object], None]] = {
            AttemptStep.ADVERTISE: self._take_advert,
            AttemptStep.SHARE: self._take_shares,
            AttemptStep.MASK: self._take_masked,
            AttemptStep.CONSENT: self._take_consent,
            AttemptStep.UNMASK: self._take_revealed,
        }
        takers[step](name, answer)

    def _take_advert(self, name: str, answer: object) -> None:
        Advert.decoded(advertised(answer, self.terms, name))
        assert type(answer) is SignedMessage
        self._adverts[name] = answer

    def _take_shares(self, name: str, answer: object) -> None:
        digest, *parts = decode(self._opened(AttemptStep.SHARE, name, answer)) or [b""]
        found = decode_pairs(encode(parts), self._roster.names)
        if digest != self._roster.digest or set(found) != set(self._roster.neighbours(name)):
            raise Refused(f"{name!r} has shared with others than its neighbours")
        self._sealed[name] = {other: sealed for other, (sealed,) in found.items()}

    def _take_masked(self, name: str, answer: object) -> None:
        body = self._opened(AttemptStep.MASK, name, answer)
        if len(body) != self.terms.size or name in self._masked:
            raise Refused(f"{name!r} has sent a vector of another length, or two")
        self._masked.add(name)
        words = np.frombuffer(body, dtype=np.dtype(self.terms.dtype).newbyteorder("<"))
        np.add(self._sum, words, out=self._sum)

    def _take_consent(self, name: str, answer: object) -> None:
        body = self._opened(AttemptStep.CONSENT, name, answer, EVERYBODY)
        if body != survivors_text(self._roster, encode_names(self.survivors)):
            raise Refused(f"{name!r} has signed another list of survivors")
        assert type(answer) is SignedMessage
        self._consents[name] = answer.signature

    def _take_revealed(self, name: str, answer: object) -> None:
        body, survivors = self._opened(AttemptStep.UNMASK, name, answer), set(self.survivors)
        if name in self._heard:
            raise Refused(f"{name!r} has revealed its shares before")
        found = decode_pairs(body, self._sharing, each=2)
        allowed = {name, *self._roster.neighbours(name)}
        for other, (kind, share) in found.items():
            expected = SELF_MASK if other in survivors else MASKING_KEY
            if kind != expected or len(share) != SHARE_SIZE or other not in allowed:
                raise Refused(f"{name!r} has revealed something else than one share of each")
        self._heard.add(name)
        for other, (_, share) in found.items():
            self._revealed.setdefault(other, {})[self.terms.number(name)] = share

    def _opened(
        self, step: AttemptStep, name: str, answer: object, recipient: str = SERVER
    ) -> bytes:
        return opened(
            answer, self.terms.attempt, step, sender=name, recipient=recipient,
            identities=self.terms.identities,
        )  # fmt: skip

    # --- the sum ------------------------------------------------------------------------------

    def total(self) -> Words:
        """The sum of the survivors' vectors modulo 2^width; `Refused` if it cannot be had."""
        if len(self._heard) < self.terms.threshold:
            raise Refused(
                f"{len(self._heard)} parties revealed shares, and {self.terms.threshold} are "
                "needed: the sum stays masked"
            )
        survivors, found = self.survivors, self._sum.copy()
        for name in survivors:
            subtract_mask(found, self._self_mask(name))
        for name in self._sharing:
            if name not in survivors:
                self._remove_masks_with(name, found)
        return found

    def _self_mask(self, name: str) -> bytes:
        seed = self._secret(name)
        if commitment(seed) != self._roster.adverts[name].commitment:
            raise Refused(f"shares of {name!r} do not give what it advertised: there is no sum")
        return seed

    def _remove_masks_with(self, gone: str, found: Words) -> None:
        """The survivors' masks with somebody who fell out are still in the sum: take them out."""
        key = KeyPair.from_secret(self._secret(gone))
        if key.public != self._roster.adverts[gone].masking:
            raise Refused(f"shares of {gone!r} do not give what it advertised: there is no sum")
        for name in self._roster.neighbours(gone):
            if name in self._masked:
                theirs = self._roster.adverts[name].masking
                seed = pair_seed(key, theirs, self._roster.mask_pair(gone, name))
                (subtract_mask if name < gone else add_mask)(found, seed)

    def _secret(self, name: str) -> bytes:
        return joined(self._revealed.get(name, {}), self.terms.shares_needed)
