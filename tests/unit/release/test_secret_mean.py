"""`SecretMean`: the aggregate of silos of which nobody sees a single one's values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contract.releases import PEOPLE
from tests.unit.federation.secret_toys import Falling
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.release.test_federated import explained, promise
from tests.unit.release.test_importance import importance
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.federation import (
    Advertised,
    Instruction,
    Rounds,
    SecureSum,
    Threads,
    digest_of_arrays,
)
from voile.federation.chain import digest_of_shown, link_before
from voile.federation.round_protocol import Agreed, RoundCall
from voile.federation.secure_aggregation import ActiveServer, AttemptsInMemory
from voile.release import FederatedAggregate, SecretMean, Silo, statement_of
from voile.release.secret_mean import STAGE

NAMES = ("east", "north", "south", "west")
VALUES = {"east": 0.3, "north": -0.2, "south": 0.5, "west": 0.05}


def silos() -> dict[str, Silo]:
    return {
        name: Silo(explained(promise(f"{name} v1"), value=VALUES[name]), 100 * (place + 1))
        for place, name in enumerate(NAMES)
    }


def terms(found: dict[str, Silo], **changes: Any) -> SecretMean:
    first = next(iter(found.values())).explanation
    sums = SecureSum(
        ActiveServer(), identities(found), {name: silo.size for name, silo in found.items()}
    )
    fixed: dict[str, Any] = {
        "shape": first.values.shape,
        "base_shape": first.base_values.shape,
        "bound": 2.0,
        "agreement": "mean 1",
    }
    return SecretMean(sums, **(fixed | changes))


def nodes(mean: SecretMean, found: dict[str, Silo]) -> list[Any]:
    return [mean.node(n, silo, signer(n), AttemptsInMemory()) for n, silo in found.items()]


def rounds(mean: SecretMean, members: list[Any]) -> Rounds:
    sizes = mean.protocol.sizes
    return Rounds(Threads(members), sizes, agreement=mean.agreement, sign=signer("server"))


def in_secret(found: dict[str, Silo], **settings: Any) -> FederatedAggregate:
    mean = terms(found)
    statements = {name: statement_of(silo) for name, silo in found.items()}
    over = rounds(mean, nodes(mean, found))
    return mean.aggregate(over, statements, dataset="all", **settings)


def test_the_mean_is_that_of_an_open_aggregate_up_to_rounding() -> None:
    found = silos()
    open_one = FederatedAggregate(found, dataset="all").explanation()
    hidden = in_secret(found)
    shown = hidden.explanation()
    assert hidden.totals is not None
    assert 0 < hidden.totals.rounding < 1e-6
    tolerance = hidden.totals.rounding + 1e-7
    assert np.allclose(shown.values, open_one.values, rtol=0, atol=tolerance)
    assert np.allclose(shown.base_values, open_one.base_values, rtol=0, atol=tolerance)
    assert np.array_equal(shown.standard_errors, open_one.standard_errors)  # type: ignore[arg-type]
    assert any("added up in secret" in str(note) for note in shown.notes)


def test_a_statement_holds_no_value() -> None:
    for silo in silos().values():
        struck = statement_of(silo)
        assert not struck.explanation.values.any()
        assert not struck.explanation.base_values.any()
        assert struck.explanation.guarantees == silo.explanation.guarantees


def test_the_promise_is_the_same_and_names_what_secrecy_rests_on() -> None:
    (plain,) = FederatedAggregate(silos(), dataset="all").guarantees
    (secret,) = in_secret(silos()).guarantees
    assert (secret.epsilon, secret.delta) == (plain.epsilon, plain.delta)
    assert set(secret.against) == {*plain.against, Adversary.SERVER_SEEING_SUMS}
    assert secret.computational
    assert any("an active server" in each for each in secret.assumptions)


def test_overlaps_count_as_before() -> None:
    (found,) = in_secret(silos(), overlaps=[{"east", "north"}]).guarantees
    assert found.epsilon == 2.0


def test_a_silo_that_falls_out_is_in_neither_mean_nor_promise() -> None:
    found = silos()
    mean = terms(found)
    members = nodes(mean, found)
    over = rounds(mean, [Falling(members[0], 2), *members[1:]])
    statements = {name: statement_of(silo) for name, silo in found.items()}
    left = mean.aggregate(over, statements, dataset="all")
    rest = {name: silo for name, silo in found.items() if name != "east"}
    expected = FederatedAggregate(rest, dataset="all").explanation().values
    assert set(left.silos) == set(rest)
    assert np.allclose(left.explanation().values, expected, rtol=0, atol=1e-6)


def test_too_few_silos_give_nothing() -> None:
    found = silos()
    mean = terms(found)
    members = [Falling(node, 2) for node in nodes(mean, found)]
    with pytest.raises(Refused, match="too few silos"):
        mean.totals(rounds(mean, members))


def test_a_second_mean_says_that_the_first_was_learnt() -> None:
    found = silos()
    mean = terms(found)
    members = nodes(mean, found)
    mean.totals(rounds(mean, members))
    with pytest.raises(Refused, match="have added their values up before"):
        mean.totals(rounds(mean, members))


def test_no_node_sends_its_values_by_themselves() -> None:
    found = silos()
    mean = terms(found)
    watched = [Falling(node, 99) for node in nodes(mean, found)]
    mean.totals(rounds(mean, watched))
    assert {len(each.seen) for each in watched} == {5}


def one_more_sum(mean: SecretMean, members: list[Any], number: int, without: str | None) -> Any:
    """What a server does that signs whatever it likes, and leaves somebody's keys out."""
    zeros = {
        "values": np.zeros(mean.shape, np.float32),
        "base values": np.zeros(mean.base_shape, np.float32),
    }
    shown = digest_of_shown(digest_of_arrays(zeros), digest_of_arrays({}))
    link = link_before(mean.agreement, STAGE, [shown] * (number - 1))
    clients = {name: Agreed(size, "") for name, size in mean.protocol.sizes.items()}
    asked = Instruction(STAGE, number, zeros, agreement=mean.agreement)
    call = RoundCall(asked, clients, mean.bound, {}, lambda _: None, link, signer("server"))

    def exchange(messages: Any) -> Any:
        for reply in Threads(members).exchange(messages):
            if reply.node != without or type(reply.content) is not Advertised:
                yield reply

    return mean.protocol.run(call, exchange)


def test_a_server_that_signs_more_rounds_than_one_learns_one_sum() -> None:
    """Values have no fresh noise, so the sum without one silo would tell what is in it."""
    found = silos()
    mean = terms(found)
    members = nodes(mean, found)
    assert one_more_sum(mean, members, 1, None).change is not None
    for number, name in enumerate(NAMES, 2):
        result = one_more_sum(mean, members, number, name)
        assert result.change is None
        assert all("1 round of" in str(each.error) for each in result.heard.values())


def test_importances_of_silos_are_averaged_in_secret() -> None:
    """`PrivateGlobalImportance` over each silo's own rows, noised there."""
    rows = {"east": PEOPLE, "north": PEOPLE[:40], "south": PEOPLE[10:], "west": PEOPLE[::2]}
    releases = {name: importance(dataset=f"{name} v1") for name in rows}
    found = {name: Silo(releases[name].draw(own), len(own)) for name, own in rows.items()}
    hidden, plain = in_secret(found), FederatedAggregate(found, dataset="all")
    assert hidden.guarantees[0].epsilon == plain.guarantees[0].epsilon
    assert np.allclose(hidden.explanation().values, plain.explanation().values, rtol=0, atol=1e-6)


def test_another_shape_size_or_bound_is_refused() -> None:
    found = silos()
    mean = terms(found)
    east = found["east"]
    with pytest.raises(InvalidInput, match="another shape"):
        terms(found, shape=(1, 3, 1)).node("east", east, signer("east"), AttemptsInMemory())
    with pytest.raises(InvalidInput, match="another size"):
        mean.node("east", replace(east, size=7), signer("east"), AttemptsInMemory())
    with pytest.raises(InvalidInput, match="bound"):
        terms(found, bound=0.0)
    totals = mean.totals(rounds(mean, nodes(mean, found)))
    with pytest.raises(InvalidInput, match="other silos"):
        FederatedAggregate({"east": east}, dataset="all", totals=totals)


def test_values_beyond_the_bound_are_clamped() -> None:
    found = {name: replace(s, explanation=explained(promise(name), value=9.0)) for name, s in
             silos().items()}  # fmt: skip
    assert np.allclose(in_secret(found).explanation().values, 2.0, atol=1e-6)
