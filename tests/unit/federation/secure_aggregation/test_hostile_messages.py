"""Whatever a server or a party sends that does not belong: refused, and nothing is revealed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.federation.secure_aggregation.parties import (
    SERVER,
    Run,
    other_attempt,
    refusal,
    signer,
    sum_of,
    terms_for,
    vectors_for,
)
from voile.core.errors import InvalidInput, Refused
from voile.federation.secure_aggregation import (
    ActiveServer,
    Attempt,
    AttemptsInMemory,
    AttemptStep,
    ClientAttempt,
    HonestButCurious,
    SignedMessage,
)
from voile.federation.secure_aggregation.client import MASKING_KEY, SELF_MASK
from voile.federation.secure_aggregation.masking import KeyPair, commitment
from voile.federation.secure_aggregation.rosters import Advert, Roster
from voile.federation.secure_aggregation.signed import (
    EVERYBODY,
    decode,
    encode,
    encode_names,
    signed,
)


def begun(
    model: Any = None, count: int = 5, upto: AttemptStep = AttemptStep.ADVERTISE, **changes: Any
) -> Run:
    """A run in which every step up to this one is done."""
    terms = terms_for(count, model or ActiveServer())
    run = Run(terms, vectors_for(terms), **changes)
    run.advertise()
    for step in run.server.steps:
        if list(AttemptStep).index(step) <= list(AttemptStep).index(upto):
            run.step(step)
    return run


def from_server(
    run: Run, step: AttemptStep, name: str, body: bytes, **changes: Any
) -> SignedMessage:
    made = signed(run.terms.attempt, step, SERVER, name, body, signer(SERVER))
    return replace(made, **changes)


BEFORE = {
    AttemptStep.SHARE: AttemptStep.ADVERTISE,
    AttemptStep.MASK: AttemptStep.SHARE,
    AttemptStep.CONSENT: AttemptStep.MASK,
    AttemptStep.UNMASK: AttemptStep.CONSENT,
}


def elsewhere(attempt: Attempt, **changes: Any) -> Callable[[Any], Any]:
    """The same message, signed by the server for another place."""
    other = replace(attempt, **changes)
    return lambda m: signed(other, m.step, SERVER, m.recipient, m.body, signer(SERVER))


@dataclass(frozen=True, eq=False)
class WithSeed(SignedMessage):
    """What a server would send to choose a party's masks."""

    seed: int = 0


WRONG: dict[str, Callable[[Any], Any]] = {
    "another round": lambda m: elsewhere(m.attempt, round=2)(m),
    "another attempt": lambda m: elsewhere(m.attempt, name="second")(m),
    "another stage": lambda m: elsewhere(m.attempt, stage="other")(m),
    "another agreement": lambda m: elsewhere(m.attempt, agreement="other")(m),
    "relabelled from another round": lambda m: replace(
        elsewhere(m.attempt, round=2)(m), attempt=m.attempt
    ),
    "of somebody else": lambda m: replace(m, recipient="party 001"),
    "for somebody else": lambda m: signed(
        m.attempt, m.step, SERVER, "party 001", m.body, signer(SERVER)
    ),
    "relabelled from somebody else": lambda m: replace(
        signed(m.attempt, m.step, SERVER, "party 001", m.body, signer(SERVER)),
        recipient=m.recipient,
    ),
    "relabelled from another step": lambda m: replace(
        signed(m.attempt, AttemptStep.ADVERTISE, SERVER, m.recipient, m.body, signer(SERVER)),
        step=m.step,
    ),
    "relabelled from another sender": lambda m: replace(
        signed(m.attempt, m.step, "party 001", m.recipient, m.body, signer(SERVER)), sender=SERVER
    ),
    "signed by a party": lambda m: signed(
        m.attempt, m.step, SERVER, m.recipient, m.body, signer("party 001")
    ),
    "changed after signing": lambda m: replace(m, body=m.body + b"\0"),
    "not signed": lambda m: replace(m, signature=b""),
    "no bytes": lambda m: replace(m, signature=None),
    "no message": lambda _: None,
    "text": lambda m: str(m),
    "a subclass": lambda m: WithSeed(**vars(m), seed=7),
    "another step": lambda m: signed(
        m.attempt, AttemptStep.ADVERTISE, SERVER, m.recipient, m.body, signer(SERVER)
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("step", BEFORE)
def test_what_belongs_elsewhere_is_refused_and_ends_the_attempt(
    step: AttemptStep, kind: str
) -> None:
    run = begun(upto=BEFORE[step])
    client, right = run.clients["party 000"], run.server.requests(step)["party 000"]
    refusal(lambda: client.handle(WRONG[kind](right)))
    assert "over" in refusal(lambda: client.handle(right))


@pytest.mark.parametrize("step", BEFORE)
def test_a_step_is_taken_once(step: AttemptStep) -> None:
    run = begun(upto=BEFORE[step])
    client, right = run.clients["party 000"], run.server.requests(step)["party 000"]
    client.handle(right)
    refusal(lambda: client.handle(right))
    refusal(client.advertise, run.vectors["party 000"])


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_malformed_bodies_are_refused_and_never_raise_anything_else(data: Any) -> None:
    step = data.draw(st.sampled_from(list(BEFORE)))
    run = begun(upto=BEFORE[step], count=4)
    client, right = run.clients["party 000"], run.server.requests(step)["party 000"]
    body = bytearray(right.body)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    if bytes(body) == right.body:
        return
    refused = from_server(run, step, "party 000", bytes(body))
    try:
        client.handle(refused)
    except Refused:
        return
    # Sealed shares may be damaged without being noticed here: then there is no share.
    assert step is AttemptStep.MASK


# --- keys -----------------------------------------------------------------------------------------


def with_roster(run: Run, changed: dict[str, Any]) -> bytes:
    adverts = {**run.server._adverts, **changed}
    return Roster(run.terms, dict(sorted(adverts.items()))).encoded


def forged(run: Run, name: str, by: str) -> SignedMessage:
    own = Advert(KeyPair.generate().public, KeyPair.generate().public, commitment(bytes(32)))
    return signed(
        run.terms.attempt, AttemptStep.ADVERTISE, name, EVERYBODY, own.encoded, signer(by)
    )


@pytest.mark.parametrize("by", [SERVER, "party 002"])
def test_a_key_that_its_party_did_not_sign_is_refused(by: str) -> None:
    run = begun()
    parts = []
    for name, message in run.server._adverts.items():
        shown = forged(run, name, by) if name == "party 001" else message
        parts += [name.encode(), shown.body, shown.signature]
    message = from_server(run, AttemptStep.SHARE, "party 000", encode(parts))
    assert "not signed by 'party 001'" in refusal(lambda: run.clients["party 000"].handle(message))


def test_own_keys_that_were_replaced_are_noticed() -> None:
    """Also by those of an earlier process of the same party, which it signed itself."""
    run = begun()
    body = with_roster(run, {"party 000": forged(run, "party 000", "party 000")})
    message = from_server(run, AttemptStep.SHARE, "party 000", body)
    assert "replaced" in refusal(lambda: run.clients["party 000"].handle(message))


def test_one_key_for_two_parties_is_refused() -> None:
    run = begun()
    theirs = run.server._adverts["party 001"].body
    copied = signed(
        run.terms.attempt,
        AttemptStep.ADVERTISE,
        "party 002",
        EVERYBODY,
        theirs,
        signer("party 002"),
    )
    parts = []
    for name, message in run.server._adverts.items():
        shown = copied if name == "party 002" else message
        parts += [name.encode(), shown.body, shown.signature]
    message = from_server(run, AttemptStep.SHARE, "party 000", encode(parts))
    assert "twice" in refusal(lambda: run.clients["party 000"].handle(message))


def test_keys_of_small_order_are_refused() -> None:
    run = begun()
    weak = Advert(bytes(32), KeyPair.generate().public, commitment(bytes(32)))
    shown = signed(
        run.terms.attempt, AttemptStep.ADVERTISE, "party 001", EVERYBODY, weak.encoded,
        signer("party 001"),
    )  # fmt: skip
    body = with_roster(run, {"party 001": shown})
    message = from_server(run, AttemptStep.SHARE, "party 000", body)
    assert "no honest party" in refusal(lambda: run.clients["party 000"].handle(message))


def test_parties_that_saw_different_keys_cannot_open_each_others_shares() -> None:
    """A server that shows two rosters gets masked vectors and nothing that unmasks them."""
    run = begun(HonestButCurious(), count=6)
    run.server.requests(AttemptStep.SHARE)
    second = forged(run, "party 005", "party 005")  # a colluding party signs two sets of keys
    for name in run.terms.asked[:5]:
        shown = run.server._adverts["party 005"] if name < "party 002" else second
        body = with_roster(run, {"party 005": shown})
        answer = run.clients[name].handle(from_server(run, AttemptStep.SHARE, name, body))
        _, *parts = decode(answer.body)
        run.server._sealed[name] = dict(
            zip((p.decode() for p in parts[::2]), parts[1::2], strict=True)
        )
    run.step(AttemptStep.MASK)
    run.step(AttemptStep.UNMASK)
    assert "shares are needed" in refusal(run.server.total)


# --- survivors ------------------------------------------------------------------------------------


def lists(run: Run) -> dict[str, tuple[str, ...]]:
    asked = run.terms.asked
    return {
        "too few": asked[: run.terms.threshold - 1],
        "without itself": asked[1:],
        "a stranger": (*asked, "stranger"),
        "twice": (*asked[:4], asked[3]),
        "out of order": asked[::-1],
    }


@pytest.mark.parametrize(
    "kind", ["too few", "without itself", "a stranger", "twice", "out of order"]
)
@pytest.mark.parametrize("model", [ActiveServer(), HonestButCurious()], ids=["active", "curious"])
def test_lists_of_survivors_that_cannot_be_are_refused(model: Any, kind: str) -> None:
    run = begun(model, upto=AttemptStep.MASK)
    listed = encode_names(lists(run)[kind])
    step = AttemptStep.CONSENT if model.signs_survivors else AttemptStep.UNMASK
    body = listed if step is AttemptStep.CONSENT else encode([listed, b""])
    refusal(lambda: run.clients["party 000"].handle(from_server(run, step, "party 000", body)))


def test_both_shares_of_one_party_are_never_revealed() -> None:
    """Asked once with a party among the survivors and once without, a client answers once."""
    run = begun(HonestButCurious(), upto=AttemptStep.MASK)
    asked, client = run.terms.asked, run.clients["party 000"]
    for listed in (asked, asked[:-1]):
        message = from_server(
            run, AttemptStep.UNMASK, "party 000", encode([encode_names(listed), b""])
        )
        if listed is asked:
            revealed = decode(client.handle(message).body)
            assert MASKING_KEY not in revealed[1::3]
        else:
            refusal(client.handle, message)


def consents(run: Run, listed: bytes, names: Any) -> dict[str, bytes]:
    made = {}
    for name in names:
        answer = run.clients[name].handle(from_server(run, AttemptStep.CONSENT, name, listed))
        made[name] = answer.signature
    return made


def unmask(run: Run, name: str, listed: bytes, signatures: dict[str, bytes]) -> Any:
    parts = []
    for other, signature in signatures.items():
        parts += [other.encode(), signature]
    body = encode([listed, encode(parts)])
    return run.clients[name].handle(from_server(run, AttemptStep.UNMASK, name, body))


def test_an_active_server_gets_no_shares_for_a_list_that_others_did_not_sign() -> None:
    """The split view: half are told that one fell out, half that it did not."""
    run = begun(ActiveServer(), count=6, upto=AttemptStep.MASK)
    asked = run.terms.asked
    whole, without = encode_names(asked), encode_names(asked[:-1])
    first = consents(run, whole, asked[3:])
    second = consents(run, without, asked[:3])
    for name, listed, signatures in (
        (asked[0], without, second),
        (asked[4], whole, first),
        (asked[1], whole, first),
        (asked[2], without, dict(sorted({**second, **first}.items()))),
    ):
        refusal(unmask, run, name, listed, signatures)


@pytest.mark.parametrize("change", ["too few", "forged", "of another attempt", "twice one"])
def test_signatures_under_a_list_are_checked(change: str) -> None:
    run = begun(ActiveServer(), count=5, upto=AttemptStep.MASK)
    asked, listed = run.terms.asked, encode_names(run.terms.asked)
    signatures = consents(run, listed, asked)
    if change == "too few":
        signatures = {name: signatures[name] for name in asked[: run.terms.threshold - 1]}
    elif change == "forged":
        signatures["party 003"] = signatures["party 002"]
    elif change == "of another attempt":
        other = begun(ActiveServer(), count=5, upto=AttemptStep.MASK)
        signatures["party 003"] = consents(other, listed, ["party 003"])["party 003"]
    else:
        del signatures["party 003"], signatures["party 004"]
        signatures["party 003 "] = signatures["party 002"]
    refusal(lambda: unmask(run, "party 000", listed, signatures))


def test_shares_leave_only_after_they_are_written_down() -> None:
    class Full(AttemptsInMemory):
        def reveal(self, attempt: Attempt) -> None:  # noqa: ARG002
            raise OSError("no room left")

    run = begun(HonestButCurious(), upto=AttemptStep.MASK, stores={"party 000": Full()})
    message = run.server.requests(AttemptStep.UNMASK)["party 000"]
    with pytest.raises(OSError, match="no room"):
        run.clients["party 000"].handle(message)
    refusal(lambda: run.clients["party 000"].handle(message))


# --- attempts -------------------------------------------------------------------------------------


def test_complete_crash_repeat_with_one_party_fewer_is_not_unmasked() -> None:
    terms = terms_for(5, HonestButCurious())
    vectors = vectors_for(terms)
    first = Run(terms, vectors)
    assert (first.all_steps() == sum_of(vectors, terms.asked)).all()
    again = Run(
        other_attempt(terms, "second"),
        vectors,
        first.stores,
        lost={AttemptStep.MASK: ["party 004"]},
    )
    assert "one party's vector" in refusal(again.all_steps)


def test_an_attempt_that_was_broken_off_is_repeated_with_new_keys() -> None:
    terms = terms_for(5, ActiveServer())
    vectors = vectors_for(terms)
    first = Run(terms, vectors)
    first.advertise()
    first.step(AttemptStep.SHARE)
    first.step(AttemptStep.MASK)
    again = Run(other_attempt(terms, "second"), vectors, first.stores)
    assert (again.all_steps() == sum_of(vectors, terms.asked)).all()
    bodies = [
        {n: answer.body for step, n, answer in run.seen if step is AttemptStep.ADVERTISE}
        for run in (first, again)
    ]
    assert all(set(decode(bodies[0][n])).isdisjoint(decode(bodies[1][n])) for n in terms.asked)


def test_an_attempt_is_begun_once_with_those_who_were_asked_first() -> None:
    terms = terms_for(5)
    store = AttemptsInMemory()
    vector = vectors_for(terms)["party 000"]

    def begin(changed: Any) -> None:
        ClientAttempt(changed, "party 000", signer("party 000"), store).advertise(vector)

    begin(terms)
    assert "begun before" in refusal(lambda: begin(terms))
    fewer = replace(other_attempt(terms, "second"), asked=terms.asked[:4])
    assert "other parties" in refusal(lambda: begin(fewer))
    begin(other_attempt(terms, "second"))


# --- hostile parties, as the server sees them -----------------------------------------------------


def answer_of(run: Run, step: AttemptStep) -> Any:
    return next(a for s, name, a in run.seen if (s, name) == (step, "party 001"))


@pytest.mark.parametrize(
    "step", [AttemptStep.SHARE, AttemptStep.MASK, AttemptStep.CONSENT, AttemptStep.UNMASK]
)
def test_answers_that_somebody_else_signed_or_changed_are_refused(step: AttemptStep) -> None:
    run = begun(upto=step)
    right = answer_of(run, step)
    for wrong in (
        replace(right, sender="party 002"),
        replace(right, body=right.body[:-1]),
        replace(right, signature=bytes(64)),
        None,
    ):
        refusal(run.server.take, step, "party 001", wrong)


def test_a_share_of_the_other_kind_is_refused() -> None:
    run = begun(HonestButCurious(), upto=AttemptStep.MASK)
    message = run.server.requests(AttemptStep.UNMASK)["party 001"]
    parts = decode(run.clients["party 001"].handle(message).body)
    parts[1] = MASKING_KEY
    answer = signed(
        run.terms.attempt,
        AttemptStep.UNMASK,
        "party 001",
        SERVER,
        encode(parts),
        signer("party 001"),
    )
    assert "one share of each" in refusal(
        lambda: run.server.take(AttemptStep.UNMASK, "party 001", answer)
    )


@pytest.mark.parametrize("kind", [SELF_MASK, MASKING_KEY])
def test_wrong_shares_give_no_sum_rather_than_a_wrong_one(kind: bytes) -> None:
    """One party sends zeros in place of its shares of one kind; another one has fallen out."""
    run = begun(HonestButCurious(), upto=AttemptStep.SHARE)
    run.lost = {AttemptStep.MASK: ["party 004"]}
    run.step(AttemptStep.MASK)
    for name, message in run.server.requests(AttemptStep.UNMASK).items():
        parts = decode(run.clients[name].handle(message).body)
        for place in range(0, len(parts), 3):
            if name == "party 000" and parts[place + 1] == kind:
                parts[place + 2] = bytes(len(parts[place + 2]))
        answer = signed(
            run.terms.attempt, AttemptStep.UNMASK, name, SERVER, encode(parts), signer(name)
        )
        run.server.take(AttemptStep.UNMASK, name, answer)
    said = refusal(run.server.total)
    assert "there is no sum" in said or "no secret" in said


def test_a_vector_of_another_length_is_refused() -> None:
    run = begun(upto=AttemptStep.SHARE)
    run.server.requests(AttemptStep.MASK)
    short = signed(
        run.terms.attempt, AttemptStep.MASK, "party 001", SERVER, b"1234", signer("party 001")
    )
    assert "another length" in refusal(
        lambda: run.server.take(AttemptStep.MASK, "party 001", short)
    )


def test_somebody_who_was_not_asked_takes_no_part() -> None:
    terms = terms_for(5)
    vector = vectors_for(terms)["party 000"]
    with pytest.raises(Refused, match="not among"):
        ClientAttempt(terms, "party 9", signer("party 9"), AttemptsInMemory())
    made = ClientAttempt(terms, "party 000", signer("party 000"), AttemptsInMemory())
    with pytest.raises(InvalidInput, match="integers"):
        made.advertise(vector[:2])
    with pytest.raises(Refused, match="does not name"):
        replace(terms, asked=("party 000", "stranger"))
