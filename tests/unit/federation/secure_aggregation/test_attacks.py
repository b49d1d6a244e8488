"""Attacks that read a party's vector out of broken versions, and find nothing in the right one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secure_aggregation.parties import (
    SERVER,
    Run,
    other_attempt,
    signer,
    sum_of,
    terms_for,
    vectors_for,
)
from voile.core.errors import Refused
from voile.federation.secure_aggregation import (
    ActiveServer,
    AttemptsInMemory,
    AttemptStep,
    AttemptTerms,
    HonestButCurious,
    ThreatModel,
    client,
)
from voile.federation.secure_aggregation.client import ClientAttempt
from voile.federation.secure_aggregation.masking import KeyPair, add_mask, subtract_mask
from voile.federation.secure_aggregation.shamir import joined
from voile.federation.secure_aggregation.signed import decode, encode, encode_names, signed

CLIENT: Any = client
SMALL = 1000
"""Quantised values are small beside the modulus: that is how an attacker knows one."""


def small_vectors(terms: AttemptTerms) -> dict[str, Any]:
    draw = np.random.default_rng(8)
    return {n: draw.integers(0, SMALL, terms.length).astype(terms.dtype) for n in terms.asked}


def looks_right(words: Any) -> bool:
    return bool((words < SMALL).all())


def masked_by(run: Run, name: str) -> Any:
    body = next(a.body for step, n, a in run.seen if (step, n) == (AttemptStep.MASK, name))
    return np.frombuffer(body, dtype=run.terms.dtype).copy()


# --- 16-bit mask seeds ----------------------------------------------------------------------------


def short_seeds(sound: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda *given: bytes(30) + sound(*given)[:2]


def brute_force(run: Run, name: str) -> Any | None:
    """What a server and one colluding party do: all masks but one are known, that one is tried."""
    others = [n for n in run.terms.asked if n != name]
    guess = masked_by(run, name)
    subtract_mask(guess, run.server._self_mask(name))  # the server may know it: he survived
    colluder, unknown = others
    its = run.clients[colluder]
    pair = its._roster.mask_pair(name, colluder)
    known = CLIENT.pair_seed(its._masking, its._roster.adverts[name].masking, pair)
    (subtract_mask if name < colluder else add_mask)(guess, known)
    for seed in range(1 << 16):
        tried = guess.copy()
        word = bytes(30) + seed.to_bytes(2, "big")
        (subtract_mask if name < unknown else add_mask)(tried, word)
        if looks_right(tried):
            return tried
    return None


@pytest.mark.parametrize("broken", [True, False])
def test_short_mask_seeds_are_found_by_trying(
    broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken:
        monkeypatch.setattr(client, "pair_seed", short_seeds(CLIENT.pair_seed))
    terms = terms_for(3, HonestButCurious(), length=8)
    vectors = small_vectors(terms)
    run = Run(terms, vectors)
    run.all_steps()
    found = brute_force(run, "party 000")
    assert (found is not None) == broken
    if broken:
        assert np.array_equal(found, vectors["party 000"])  # type: ignore[arg-type]


# --- a mask that is used in two rounds ------------------------------------------------------------


class Forgetful(ClientAttempt):
    """Derives keys and self mask from its name: the same in every round."""

    def __init__(self, terms: AttemptTerms, name: str, *rest: Any) -> None:
        super().__init__(terms, name, *rest)
        seed = name.encode().ljust(32, b"\1")
        self._sealing, self._masking = KeyPair.from_secret(seed), KeyPair.from_secret(seed[::-1])
        self._seed = seed


@pytest.mark.parametrize("kind", [Forgetful, ClientAttempt])
def test_a_mask_of_two_rounds_tells_the_difference(
    kind: type[ClientAttempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is Forgetful:  # neither keys nor what is derived from them belong to a round
        sound = CLIENT.pair_seed
        monkeypatch.setattr(
            client, "pair_seed", lambda a, b, pair: sound(a, b, pair._replace(bound=b""))
        )
    runs = []
    for number in (1, 2):
        terms = terms_for(4, number=number)
        run = Run(terms, vectors_for(terms, seed=number), kind=kind)
        run.advertise()
        run.step(AttemptStep.SHARE)
        run.step(AttemptStep.MASK)
        runs.append(run)
    first, second = (masked_by(run, "party 001") for run in runs)
    true = runs[0].vectors["party 001"] - runs[1].vectors["party 001"]
    assert np.array_equal(first - second, true) == (kind is Forgetful)


# --- no self mask ---------------------------------------------------------------------------------


def without_self_masks(run: Run) -> Callable[..., None]:
    """The mutant adds masks with others only."""
    own = {each._seed for each in run.clients.values()}
    return lambda vector, seed: None if seed in own else add_mask(vector, seed)


@pytest.mark.parametrize("broken", [True, False])
def test_without_a_self_mask_a_late_vector_is_read(
    broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vector arrives after the others have revealed its masking key."""
    terms = terms_for(5, HonestButCurious())
    vectors = small_vectors(terms)
    late = "party 002"
    run = Run(terms, vectors, deaf={AttemptStep.MASK: [late]})
    run.advertise()
    run.step(AttemptStep.SHARE)
    kept = {}
    if broken:
        monkeypatch.setattr(client, "add_mask", without_self_masks(run))
    for name, message in run.server.requests(AttemptStep.MASK).items():
        kept[name] = run.clients[name].handle(message)
        if name != late:
            run.server.take(AttemptStep.MASK, name, kept[name])
    shares = {}
    for name, message in run.server.requests(AttemptStep.UNMASK).items():
        parts = decode(run.clients[name].handle(message).body)
        shares[terms.number(name)] = parts[parts.index(late.encode()) + 2]
    key = KeyPair.from_secret(joined(shares, terms.shares_needed))
    guess = np.frombuffer(kept[late].body, dtype=terms.dtype).copy()
    roster = run.server._roster
    for name in roster.neighbours(late):
        seed = CLIENT.pair_seed(key, roster.adverts[name].masking, roster.mask_pair(late, name))
        (subtract_mask if late < name else add_mask)(guess, seed)
    assert np.array_equal(guess, vectors[late]) == broken


# --- shares for two attempts ----------------------------------------------------------------------


class ForgetsReveals(AttemptsInMemory):
    """Remembers nothing of what left."""

    def reveal(self, attempt: Any) -> None:
        """Not kept."""


@pytest.mark.parametrize("broken", [True, False])
def test_two_unmasked_attempts_tell_one_vector(broken: bool) -> None:
    terms = terms_for(5, ActiveServer())
    vectors = vectors_for(terms)
    store = ForgetsReveals if broken else AttemptsInMemory
    first = Run(terms, vectors, {name: store() for name in terms.asked})
    total = first.all_steps()
    second = Run(
        other_attempt(terms, "second"),
        vectors,
        first.stores,
        lost={AttemptStep.MASK: ["party 003"]},
    )
    try:
        found = total - second.all_steps()
    except Refused:
        found = None
    assert (found is not None) == broken
    if broken:
        assert np.array_equal(found, vectors["party 003"])


# --- the split view -------------------------------------------------------------------------------


class TakesAnyList(ClientAttempt):
    """Does not ask whether others signed the list."""

    def _check_consents(self, *given: Any) -> None:
        """Not checked."""


def split_view(model: ThreatModel, kind: type[ClientAttempt]) -> Any | None:
    """Six parties, two of which collude; the other half of the honest ones is told another list."""
    terms = terms_for(6, model)
    vectors = vectors_for(terms)
    run = Run(terms, vectors, kind=kind)
    run.advertise()
    run.step(AttemptStep.SHARE)
    run.step(AttemptStep.MASK)
    asked, target = terms.asked, terms.asked[0]
    told = {name: asked if name in asked[:2] else asked[1:] for name in asked[:4]}
    seeds: dict[int, bytes] = {}
    keys: dict[int, bytes] = {}
    for name, survivors in told.items():
        listed = encode_names(survivors)
        if model.signs_survivors:
            consent = signed(
                terms.attempt, AttemptStep.CONSENT, SERVER, name, listed, signer(SERVER)
            )
            run.clients[name].handle(consent)
        body = encode([listed, b""])
        ask = signed(terms.attempt, AttemptStep.UNMASK, SERVER, name, body, signer(SERVER))
        parts = decode(run.clients[name].handle(ask).body)
        share = parts[parts.index(target.encode()) + 2]
        (seeds if target in survivors else keys)[terms.number(name)] = share
    for name in asked[4:]:  # colluders give both
        key, seed = run.clients[name]._shares[target]
        keys[terms.number(name)], seeds[terms.number(name)] = key, seed
    masked = masked_by(run, target)
    subtract_mask(masked, joined(seeds, terms.shares_needed))
    own = KeyPair.from_secret(joined(keys, terms.shares_needed))
    roster = run.server._roster
    for name in roster.neighbours(target):
        seed = CLIENT.pair_seed(own, roster.adverts[name].masking, roster.mask_pair(target, name))
        (subtract_mask if target < name else add_mask)(masked, seed)
    return np.array_equal(masked, vectors[target])


@dataclass(frozen=True)
class TooLow(ActiveServer):
    """2t = n + c instead of 2t > n + c."""

    def least(self, parties: int) -> int:
        return super().least(parties) - 1


class Unsound(HonestButCurious):
    """Two sets of so many parties meet, but perhaps in a colluder only."""

    def least(self, parties: int) -> int:
        return parties // 2 + 1


def test_a_split_view_reads_a_vector_where_lists_are_not_signed() -> None:
    """And the threshold is too low; else both secrets of a party cannot be had."""
    assert split_view(Unsound(2, 4), ClientAttempt)
    with pytest.raises(Refused, match="5 shares are needed"):
        split_view(HonestButCurious(2, 5), ClientAttempt)


def test_a_split_view_is_refused_where_lists_are_signed() -> None:
    with pytest.raises(Refused, match="have to survive"):
        split_view(TooLow(2, 4), ClientAttempt)


def test_mutant_that_checks_no_signatures_is_read_where_the_threshold_is_too_low() -> None:
    assert split_view(TooLow(2, 4), TakesAnyList)


def test_the_threshold_alone_stops_a_split_view_too() -> None:
    with pytest.raises(Refused, match="5 shares are needed"):
        split_view(ActiveServer(2, 5), TakesAnyList)


def test_the_sum_is_right_where_nobody_attacks() -> None:
    terms = replace(terms_for(6, TooLow(2, 4)))
    vectors = vectors_for(terms)
    assert np.array_equal(Run(terms, vectors).all_steps(), sum_of(vectors, terms.asked))


# --- a passive colluder in two attempts -----------------------------------------------------------


@pytest.mark.parametrize("kind", [Unsound, HonestButCurious])
def test_a_colluder_that_tells_its_shares_does_not_complete_two_attempts(kind: Any) -> None:
    """The server follows the protocol, and is restarted while shares come in."""
    terms = terms_for(5, kind())
    vectors = small_vectors(terms)
    colluder = terms.asked[-1]
    first = Run(terms, vectors, lost={AttemptStep.UNMASK: terms.asked[2:]})
    with pytest.raises(Refused, match="stays masked"):
        first.all_steps()
    told = {name: seed for name, (_, seed) in first.clients[colluder]._shares.items()}
    for name, seed in told.items():  # told, not revealed: its own store holds nothing of it
        first.server._revealed[name][terms.number(colluder)] = seed
    first.server._heard.add(colluder)
    second = Run(
        other_attempt(terms, "second"),
        vectors,
        first.stores,
        lost={AttemptStep.ADVERTISE: terms.asked[:2]},  # they have revealed, and refuse
    )
    sums = []
    for found in (first.server.total, second.all_steps):
        with suppress(Refused):
            sums.append(found())
    assert len(sums) == (2 if kind is Unsound else 0)
    if kind is Unsound:
        assert np.array_equal(sums[0] - sums[1], sum_of(vectors, terms.asked[:2]))
