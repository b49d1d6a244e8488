"""A party's side of one attempt: a state machine that takes each step once, in order.

1. write down that the attempt is begun; advertise keys
2. check everybody's keys; seal a share of both secrets for each neighbour
3. take the shares of others; send the vector under a self mask and a mask with each neighbour
4. (active server) check the list of survivors and sign it
5. check the list, and that at least t signed the same; write down that shares leave; reveal for
   each neighbour one share: of the self mask of a survivor, or of the masking key of who fell out

Whatever does not fit is `Refused`, and the attempt is over for this party: its keys are forgotten.
Never are both shares of one party revealed, and never shares of two attempts of a round.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from voile.core.errors import InvalidInput, Refused
from voile.federation.secure_aggregation.attempts import AttemptStore, AttemptTerms
from voile.federation.secure_aggregation.masking import (
    KeyPair,
    Words,
    add_mask,
    commitment,
    pair_seed,
    seal,
    subtract_mask,
    unseal,
)
from voile.federation.secure_aggregation.rosters import Advert, Roster
from voile.federation.secure_aggregation.shamir import SECRET_SIZE, SHARE_SIZE, split
from voile.federation.secure_aggregation.signed import (
    EVERYBODY,
    SERVER,
    AttemptStep,
    SignedMessage,
    Signer,
    decode,
    decode_names,
    decode_pairs,
    encode,
    opened,
    signed,
)

SELF_MASK: Final = b"self mask"
MASKING_KEY: Final = b"masking key"


class ClientAttempt:
    """One attempt of one party; making one writes down that it is begun.

    Args:
        terms: what was agreed on.
        name: of the party.
        sign: with its identity key.
        store: what it remembers of rounds.
    """

    def __init__(self, terms: AttemptTerms, name: str, sign: Signer, store: AttemptStore) -> None:
        if name not in terms.asked:
            raise Refused(f"{name!r} is not among those who are asked")
        store.begin(terms.attempt, terms.asked)
        self.terms, self.name = terms, name
        self._sign, self._store = sign, store
        self._sealing, self._masking = KeyPair.generate(), KeyPair.generate()
        self._seed = secrets.token_bytes(SECRET_SIZE)
        self._next: AttemptStep | None = AttemptStep.ADVERTISE
        self._shares: dict[str, tuple[bytes, bytes]] = {}
        self._sharing: tuple[str, ...] = ()

    def advertise(self, vector: Words) -> SignedMessage:
        """Step 1; to everybody.

        Args:
            vector: what it adds to the sum; stored durably by whoever calls this, so that it is the
                same in every attempt of a round.
        """
        if self._next is not AttemptStep.ADVERTISE:
            raise Refused(f"{self.name!r} has advertised its keys for this attempt before")
        if vector.dtype != np.dtype(self.terms.dtype) or vector.shape != (self.terms.length,):
            raise InvalidInput(
                f"expected {self.terms.length} integers of {np.dtype(self.terms.dtype)}, found "
                f"{vector.shape} of {vector.dtype}"
            )
        self._vector = vector
        self._next = AttemptStep.SHARE
        return self._said(AttemptStep.ADVERTISE, self._advert.encoded, EVERYBODY)

    def handle(self, message: SignedMessage) -> SignedMessage:
        """Steps 2 to 5."""
        steps: Mapping[AttemptStep, Callable[[bytes], SignedMessage]] = {
            AttemptStep.SHARE: self._share,
            AttemptStep.MASK: self._mask,
            AttemptStep.CONSENT: self._consent,
            AttemptStep.UNMASK: self._unmask,
        }
        step = self._next
        if step is None or step not in steps:
            raise Refused(f"this attempt is over for {self.name!r}")
        self._next = None  # whatever goes wrong below ends it
        body = opened(
            message, self.terms.attempt, step, sender=SERVER, recipient=self.name,
            identities=self.terms.identities,
        )  # fmt: skip
        return steps[step](body)

    # --- the steps ----------------------------------------------------------------------------

    def _share(self, body: bytes) -> SignedMessage:
        self._roster = roster = Roster.decoded(self.terms, body)
        if roster.adverts.get(self.name) != self._advert:
            raise Refused(f"the keys of {self.name!r} were replaced on the way")
        neighbours = roster.neighbours(self.name)
        holders = {name: self.terms.number(name) for name in (self.name, *neighbours)}
        numbers, needed = list(holders.values()), self.terms.shares_needed
        if len(holders) < needed:
            raise Refused(f"{len(holders)} parties hold shares, and {needed} are needed")
        keys = split(self._masking.secret, numbers, needed)
        seeds = split(self._seed, numbers, needed)
        number = holders[self.name]
        self._shares[self.name] = keys[number], seeds[number]
        parts = [roster.digest]
        for name in neighbours:
            both = keys[holders[name]] + seeds[holders[name]]
            pair, theirs = roster.sealed_pair(self.name, name), roster.adverts[name].sealing
            parts += [name.encode(), seal(both, self._sealing, theirs, pair)]
        self._next = AttemptStep.MASK
        return self._said(AttemptStep.SHARE, encode(parts))

    def _mask(self, body: bytes) -> SignedMessage:
        """A share that cannot be opened is as good as none: its sender then has one holder less."""
        roster, parts = self._roster, decode(body)
        if len(parts) != 2:
            raise Refused("malformed: expected the names of those who shared, and shares")
        self._sharing = decode_names(parts[0], roster.names)
        self._check_count(self._sharing)
        mine = roster.neighbours(self.name)
        sealed = decode_pairs(parts[1], roster.names)
        if set(sealed) != set(self._sharing) & set(mine):
            raise Refused("expected a share of every neighbour who is still there, and no other")
        masked = self._vector.copy()
        add_mask(masked, self._seed)
        for name, (share,) in sealed.items():
            theirs = roster.adverts[name]
            pair = roster.sealed_pair(name, self.name)
            both = unseal(share, self._sealing, theirs.sealing, pair)
            if both is not None and len(both) == 2 * SHARE_SIZE:
                self._shares[name] = both[:SHARE_SIZE], both[SHARE_SIZE:]
            seed = pair_seed(self._masking, theirs.masking, roster.mask_pair(self.name, name))
            (add_mask if self.name < name else subtract_mask)(masked, seed)
        signs = self.terms.model.signs_survivors
        self._next = AttemptStep.CONSENT if signs else AttemptStep.UNMASK
        return self._said(AttemptStep.MASK, masked.astype(masked.dtype.newbyteorder("<")).tobytes())

    def _consent(self, body: bytes) -> SignedMessage:
        self._checked_survivors(body)
        self._next = AttemptStep.UNMASK
        return self._said(AttemptStep.CONSENT, survivors_text(self._roster, body), EVERYBODY)

    def _unmask(self, body: bytes) -> SignedMessage:
        parts = decode(body)
        if len(parts) != 2:
            raise Refused("malformed: expected survivors and signatures")
        survivors = self._checked_survivors(parts[0])
        if self.terms.model.signs_survivors:
            self._check_consents(parts[0], parts[1], survivors)
        revealed = []
        for name in self._sharing:
            if name in self._shares:
                key, seed = self._shares[name]
                kind, share = (SELF_MASK, seed) if name in survivors else (MASKING_KEY, key)
                revealed += [name.encode(), kind, share]
        self._store.reveal(self.terms.attempt)  # before anything leaves
        return self._said(AttemptStep.UNMASK, encode(revealed))

    # --- checks -------------------------------------------------------------------------------

    def _checked_survivors(self, body: bytes) -> tuple[str, ...]:
        survivors = decode_names(body, self._sharing)
        self._check_count(survivors)
        return survivors

    def _check_count(self, names: tuple[str, ...]) -> None:
        if len(names) < self.terms.threshold or self.name not in names:
            raise Refused(
                f"{len(names)} parties are left, and {self.terms.threshold} have to survive, "
                f"{self.name!r} among them; nothing is revealed"
            )

    def _check_consents(self, listed: bytes, body: bytes, survivors: tuple[str, ...]) -> None:
        """At least t survivors signed this very list, and this party is one of them.

        Its own signature is asked for like all others: it has signed one list, so it is that one.
        """
        text = survivors_text(self._roster, listed)
        consents = decode_pairs(body, survivors)
        for name, (signature,) in consents.items():
            message = SignedMessage(
                self.terms.attempt, AttemptStep.CONSENT, name, EVERYBODY, text, signature
            )
            opened(
                message, self.terms.attempt, AttemptStep.CONSENT, sender=name, recipient=EVERYBODY,
                identities=self.terms.identities,
            )  # fmt: skip
        self._check_count(tuple(consents))

    # --- what it says -------------------------------------------------------------------------

    @property
    def _advert(self) -> Advert:
        return Advert(self._sealing.public, self._masking.public, commitment(self._seed))

    def _said(self, step: AttemptStep, body: bytes, recipient: str = SERVER) -> SignedMessage:
        return signed(self.terms.attempt, step, self.name, recipient, body, self._sign)


def survivors_text(roster: Roster, listed: bytes) -> bytes:
    """What a consent is about: one list, and one view of everybody's keys."""
    return encode([roster.digest, listed])
