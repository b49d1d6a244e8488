"""Trusted rounds, in clear and in secret, with and without privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import Falling
from tests.unit.pipelines.trusted_parties import (
    OPEN,
    PUBLIC,
    RECORDS,
    in_secret,
    nodes_of,
    planned,
    trained,
)
from voile.core.errors import InvalidInput, Refused
from voile.core.row_note import KnownNote
from voile.federation import Client, CountingGuard, Instruction, Outcome, SeededSources
from voile.federation.pipeline import name_arrays
from voile.pipelines.trusted_averaging import (
    EXACT,
    STAGE,
    DivergenceMeasure,
    ImportanceDesign,
    OverOwnRows,
    TrustRule,
    shares_of,
    train_trusted,
    weights_of,
)
from voile.pipelines.trusted_averaging.tasks import (
    ACCURACIES,
    COMMON,
    DIVERGENCE,
    DIVERGENCES,
    IMPORTANCE,
    MODEL,
    TRUST,
    UPDATE,
    one_number,
)

NAMES = sorted(RECORDS)


@pytest.fixture(scope="module")
def plain() -> Any:
    return trained(planned())


def test_the_model_learns_and_everybody_has_a_record(plain: Any) -> None:
    figures = plain.results[STAGE].figures
    assert figures[-1]["accuracy"] > max(0.6, np.mean(OPEN.labels == 0) - 0.02)
    history = plain.history
    assert [row.round for row in history.common] == [1, 2, 3]
    for row in history.common:
        assert sum(row.shares) == pytest.approx(1, abs=1e-5)
    assert set(history.scores) == set(NAMES)
    for number in (0, 1, 2):
        scores = [rows[number] for rows in history.scores.values()]
        assert sum(score.weight for score in scores) == pytest.approx(1)
        assert sum(score.reward for score in scores) == pytest.approx(1)
        assert all(0 <= score.trust <= 1 and score.divergence >= 0 for score in scores)


def test_trust_and_weights_can_be_computed_again_from_the_record(plain: Any) -> None:
    rule = TrustRule()
    for number in (0, 1, 2):
        trusts, divergences = {}, {}
        for name, rows in plain.history.scores.items():
            past = [row.accuracy for row in rows[: number + 1]]
            divergences[name] = rows[number].divergence
            trusts[name] = rule.trust(past, divergences[name])
            assert trusts[name] == rows[number].trust
        shares = weights_of(rule, trusts, divergences).shares
        assert {
            n: rows[number].weight for n, rows in plain.history.scores.items()
        } == pytest.approx(shares)


def test_a_sum_in_secret_gives_the_same_model_and_the_same_record(plain: Any) -> None:
    secret = trained(in_secret(planned()))
    for name, array in plain.results[STAGE].arrays.items():
        np.testing.assert_allclose(secret.results[STAGE].arrays[name], array, atol=2e-4)
    for name, rows in plain.history.scores.items():
        for one, other in zip(rows, secret.history.scores[name], strict=True):
            assert other == pytest.approx(one, abs=1e-3)
    assert {row.outcome for row in secret.results[STAGE].rows} == {Outcome.ANSWERED}


def test_the_server_of_a_secret_sum_sees_no_single_importance_or_update() -> None:
    plan = in_secret(planned(rounds=1))
    watched = [Falling(node, 10**9) for node in nodes_of(plan)]
    sent: list[Any] = []
    for each in watched:
        handle = each.node.handle
        each.instead = None

        def spy(message: Any, handle: Any = handle) -> Any:
            sent.append(answer := handle(message))
            return answer

        object.__setattr__(each.node, "handle", spy)
    trained(plan, watched)
    arrays = [a for answer in sent if hasattr(answer, "arrays") for a in answer.arrays.values()]
    assert {array.shape for array in arrays} == {(1,)}, "accuracy and divergence, nothing more"


@pytest.mark.parametrize("until", [1, 2, 3, 4])
def test_who_falls_out_is_left_out_and_the_rest_is_divided_by_what_survives(until: int) -> None:
    plan = planned(rounds=1)
    nodes: list[Any] = nodes_of(plan)
    nodes[2] = Falling(nodes[2], until)
    found = trained(plan, nodes)
    assert set(found.history.scores) == set(NAMES) - {nodes[2].name}
    assert sum(row[-1].weight for row in found.history.scores.values()) == pytest.approx(1)
    outcomes = {row.client: row.outcome for row in found.results[STAGE].rows}
    assert outcomes[nodes[2].name] is Outcome.VANISHED
    assert sum(outcome.counts for outcome in outcomes.values()) == len(NAMES) - 1
    if until == 1:  # as if it had not been there
        few = dict(plan.facts.sizes)
        few.pop(nodes[2].name)
        other = replace(plan, facts=replace(plan.facts, sizes=few, clients_per_round=None))
        alone = trained(other, [n for n in nodes_of(plan) if n.name in few])
        for name, array in alone.results[STAGE].arrays.items():
            np.testing.assert_allclose(found.results[STAGE].arrays[name], array, atol=1e-6)


@pytest.mark.parametrize("until", [1, 2, 4, 6, 9])
def test_drop_outs_of_a_secret_sum(until: int) -> None:
    plan = in_secret(planned(rounds=2))
    nodes: list[Any] = nodes_of(plan)
    nodes[0] = Falling(nodes[0], until)
    found = trained(plan, nodes)
    assert len(found.history.common) == 2
    lost = [rows for name, rows in found.history.scores.items() if name == nodes[0].name]
    assert all(len(rows) < 2 for rows in lost)
    assert all(len(rows) == 2 for n, rows in found.history.scores.items() if n != nodes[0].name)


def test_who_comes_back_finds_its_trust(tmp_path: Path) -> None:
    plan = planned(rounds=4)
    nodes: list[Any] = nodes_of(plan)

    class Away:
        """Away in rounds 2 and 3."""

        def __init__(self, node: Any) -> None:
            self.node, self.name = node, node.name

        def handle(self, message: Any) -> Any:
            if isinstance(message, Instruction) and message.round in (2, 3):
                raise ConnectionError("away")
            return self.node.handle(message)

    nodes[1] = Away(nodes[1])
    seen: dict[int, float] = {}

    class Watching:
        def __init__(self, node: Any) -> None:
            self.node, self.name = node, node.name

        def handle(self, message: Any) -> Any:
            if isinstance(message, Instruction) and message.stage == IMPORTANCE:
                known = {n: float(a[0]) for n, a in message.given.items() if n.startswith(TRUST)}
                seen[message.round] = known.get(f"{TRUST}/{nodes[1].name}", math.nan)
            return self.node.handle(message)

    nodes[0] = Watching(nodes[0])
    found = trained(plan, nodes, checkpoints=tmp_path)
    rows = found.history.scores[nodes[1].name]
    assert [row.round for row in rows] == [1, 4]
    assert seen[4] == pytest.approx(rows[0].trust, abs=1e-6), "the trust of round 1"
    again = trained(plan, nodes_of(plan), checkpoints=tmp_path)
    assert again.history == found.history, "from the checkpoints alone"


def test_a_broken_run_goes_on_with_the_same_record(tmp_path: Path) -> None:
    whole = trained(planned(4.0, rounds=3))

    class Stop(BaseException):
        pass

    class Bell:
        def __call__(self, seen: Any) -> None:
            if seen.round == 2 and seen.done:
                raise Stop

    plan = planned(4.0, rounds=3)
    nodes = nodes_of(plan, folder=tmp_path / "updates")
    with pytest.raises(Stop):
        trained(plan, nodes, checkpoints=tmp_path / "kept", progress=Bell())
    later = trained(plan, nodes, checkpoints=tmp_path / "kept")
    assert later.history == whole.history
    for name, array in whole.results[STAGE].arrays.items():
        np.testing.assert_array_equal(later.results[STAGE].arrays[name], array)


# --- private mode ---------------------------------------------------------------------------------


def test_private_mode_charges_once_a_round_and_promises_all_of_it() -> None:
    plan = planned(4.0, rounds=2)
    nodes = nodes_of(plan)
    found = trained(plan, nodes)
    guard = nodes[0].client.guard
    assert isinstance(guard, CountingGuard)
    assert len(guard.participations) == 2 * len(NAMES), "three answers follow for free"
    assert {p.stage for p in guard.participations} == {STAGE}
    assert plan.epsilon(1e-5) == pytest.approx(4.0, rel=0.01)
    seeded = found.promise()
    assert seeded.guarantees == (), "seeded noise promises nothing"
    assert plan.guarantee().epsilon <= 4.0


def test_over_own_rows_importance_and_accuracy_are_charged_in_every_round() -> None:
    plan = planned(4.0, rounds=2, over_own_rows=True)
    free = planned(4.0, rounds=2)
    assert plan.noise_multiplier is not None
    assert free.noise_multiplier is not None
    assert plan.noise_multiplier > free.noise_multiplier, "training gets less"
    assert plan.participation_events != free.participation_events
    assert plan.epsilon(1e-5) <= 4.0
    assert "importance and accuracy over own rows" in plan.guarantee().mechanism
    found = trained(plan)
    assert set(found.history.scores) == set(NAMES)
    other = trained(plan)
    assert other.history != found.history, "its noise is never seeded"


def test_without_privacy_it_is_said_what_exact_reports_reveal(plain: Any) -> None:
    promised = plain.promise()
    assert promised.guarantees == ()
    assert KnownNote.NOT_PRIVATE in promised.notes
    assert EXACT in promised.notes
    with pytest.raises(InvalidInput, match="nothing bounds it"):
        planned().guarantee()


def asked_again(client: Client, model: Any, commons: list[Any]) -> list[float]:
    """What a client says of one local model against common vectors of the server's choice: a node
    without a folder recomputes whatever it is asked."""
    given = {**name_arrays(MODEL, model), **PUBLIC.given}
    client.answer(
        Instruction(STAGE, 1, {"accuracy": np.zeros(1, np.float32)}, given, client.agreement)
    )
    found = []
    for common in commons:
        asked = Instruction(
            DIVERGENCE,
            1,
            {DIVERGENCES: np.zeros(1, np.float32)},
            {COMMON: common},
            client.agreement,
        )
        found.append(float(client.answer(asked).arrays[DIVERGENCES][0]))
    return found


def rebuilt(said: list[float], commons: list[Any]) -> Any:
    """KL(P || Q) − KL(P || Q') = Σ P·log(Q'/Q): linear in P. With Σ P = 1, d reports and one more
    equation determine it."""
    logs = np.log([np.asarray(common, dtype=np.float64) for common in commons])
    left = np.vstack([logs[0] - logs[1:], np.ones(logs.shape[1])])
    right = np.append(np.array(said[1:]) - said[0], 1.0)
    return np.linalg.lstsq(left, right, rcond=None)[0]


@pytest.mark.parametrize("epsilon", [None, 4.0], ids=["exact", "private"])
def test_d_exact_reports_of_one_vector_determine_it(epsilon: float | None) -> None:
    """In both modes the server learns the vector that the reports are about. In private mode that
    vector follows from a private model and public rows: it is no closer to the one that the same
    rows give without noise than noise allows, and knowing it costs nothing more."""
    plan = planned(epsilon, rounds=1)
    width = len(plan.facts.schema.features)
    draw = np.random.default_rng(3)
    commons = [draw.dirichlet(np.full(width, 3.0)).astype(np.float32) for _ in range(width + 8)]
    model = plan.start(STAGE)
    client = next(node.client for node in nodes_of(plan))
    found = rebuilt(asked_again(client, model, commons), commons)
    kept = client._latest[STAGE].arrays["importance"]
    np.testing.assert_allclose(found, kept, atol=2e-4)
    exact_plan = planned(None, rounds=1)
    exact = next(node.client for node in nodes_of(exact_plan))
    asked_again(exact, model, commons[:1])
    distance = float(np.abs(found - exact._latest[STAGE].arrays["importance"]).sum())
    if epsilon is None:
        assert distance < 1e-2
    else:
        assert distance > 5e-2


def test_with_a_folder_a_second_question_about_a_round_gets_the_first_answer(
    tmp_path: Path,
) -> None:
    plan = planned(4.0, rounds=1)
    client = nodes_of(plan, folder=tmp_path)[0].client
    width = len(plan.facts.schema.features)
    draw = np.random.default_rng(3)
    commons = [draw.dirichlet(np.full(width, 3.0)).astype(np.float32) for _ in range(3)]
    assert len(set(asked_again(client, plan.start(STAGE), commons))) == 1


# --- what nodes refuse ----------------------------------------------------------------------------


class TestRefusals:
    @pytest.fixture
    def node(self) -> tuple[Client, dict[str, Any]]:
        plan = planned(rounds=1)
        client = nodes_of(plan)[0].client
        given = {**name_arrays(MODEL, plan.start(STAGE)), **PUBLIC.given}
        zero = {"accuracy": np.zeros(1, np.float32)}
        said = client.answer(Instruction(STAGE, 1, zero, given, client.agreement))
        return client, {"accuracy": float(said.arrays["accuracy"][0]), "plan": plan}

    def ask(self, client: Client, plan: Any, stage: str, given: dict[str, Any]) -> Any:
        shapes = plan.tasks[stage].shapes
        arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        return client.answer(Instruction(stage, 1, arrays, given, client.agreement)).arrays

    def test_a_weight_that_would_show_one_importance(self, node: Any) -> None:
        client, facts = node
        for trusts in (
            {client.name: 1.0},
            {client.name: 1.0, NAMES[1]: 0.0, NAMES[2]: 0.0},
            {NAMES[1]: 1.0, NAMES[2]: 1.0},
        ):
            given = name_arrays(TRUST, {n: one_number(t) for n, t in trusts.items()})
            with pytest.raises(Refused, match="common importance"):
                self.ask(client, facts["plan"], IMPORTANCE, given)

    def test_a_record_that_says_something_else(self, node: Any) -> None:
        client, facts = node
        plan = facts["plan"]
        width = len(plan.facts.schema.features)
        common = np.full(width, 1 / width, np.float32)
        said = float(self.ask(client, plan, DIVERGENCE, {COMMON: common})[DIVERGENCES][0])

        def record(
            accuracy: float, divergence: float, others: Sequence[str] = NAMES[1:3]
        ) -> dict[str, Any]:
            names = [client.name, *others]
            accuracies = {n: one_number(accuracy if n == client.name else 0.7) for n in names}
            divergences = {n: one_number(divergence if n == client.name else 0.2) for n in names}
            return (
                name_arrays(ACCURACIES, accuracies)
                | name_arrays(DIVERGENCES, divergences)
                | {COMMON: common}
            )

        sound = self.ask(client, plan, UPDATE, record(facts["accuracy"], said))
        assert any(np.abs(array).max() > 0 for array in sound.values())
        for wrong in (record(facts["accuracy"] / 2, said), record(facts["accuracy"], said + 0.5)):
            with pytest.raises(Refused, match="something else"):
                self.ask(client, plan, UPDATE, wrong)
        with pytest.raises(Refused, match="nobody else"):
            self.ask(client, plan, UPDATE, record(facts["accuracy"], said, others=[]))
        with pytest.raises(Refused, match=r"nobody has agreed on: \['nobody'\]"):
            self.ask(client, plan, UPDATE, record(facts["accuracy"], said, [NAMES[1], "nobody"]))

    def test_trust_of_parties_that_nobody_agreed_on(self, node: Any) -> None:
        client, facts = node
        given = name_arrays(TRUST, {n: one_number(0.8) for n in (*NAMES[:2], "nobody")})
        with pytest.raises(Refused, match=r"nobody has agreed on: \['nobody'\]"):
            self.ask(client, facts["plan"], IMPORTANCE, given)

    def test_what_follows_from_nothing(self, node: Any) -> None:
        client, facts = node
        fresh = Client(
            client.name, client.size, client.records, client.tasks, client.guard, SeededSources(1),
            agreement=client.agreement,
        )  # fmt: skip
        width = len(facts["plan"].facts.schema.features)
        with pytest.raises(Refused, match="has made nothing"):
            self.ask(
                fresh, facts["plan"], DIVERGENCE, {COMMON: np.full(width, 1 / width, np.float32)}
            )


# --- importance -----------------------------------------------------------------------------------


def test_the_design_gives_exact_values_for_an_additive_game(plain: Any) -> None:
    """The margin of a linear model is additive: chains give each feature what it adds."""
    model = plain.model
    design = ImportanceDesign.from_rows(plain.plan.facts.schema, OPEN.rows[:20])
    values = design.values(model)
    ranks, places = design._drawn
    ends = design.columns[:, :, -1], design.columns[:, :, 0]
    said = [model.of_columns(c.reshape(-1, c.shape[-1])).reshape(*c.shape[:2], -1) for c in ends]
    np.testing.assert_allclose(values.sum(axis=1), (said[0] - said[1]).mean(axis=0), atol=1e-5)
    assert places.shape == ranks.shape[:2]


def test_importance_finds_what_the_exact_explainer_finds(plain: Any) -> None:
    from voile.attribution import shapley_explainer

    schema = plain.plan.facts.schema
    rows = OPEN.rows[:24]
    found = shares_of(ImportanceDesign.from_rows(schema, rows).strengths(plain.model))
    exact = shapley_explainer(plain.model, rows, schema=schema)(rows[:12])
    wanted = shares_of(np.abs(exact.values).mean(axis=(0, 2)))
    assert np.abs(found - wanted).sum() < 0.25
    assert set(np.argsort(found)[-3:]) & set(np.argsort(wanted)[-3:])


def test_jensen_shannon_serves_as_well() -> None:
    rule = TrustRule(divergence=DivergenceMeasure.JENSEN_SHANNON)
    found = trained(planned(rule=rule, rounds=1))
    assert all(row[-1].divergence <= math.log(2) for row in found.history.scores.values())


def test_unsound_plans_are_refused() -> None:
    with pytest.raises(InvalidInput, match="public rows"):
        train_trusted(planned(), None)  # type: ignore[arg-type]
    own = OverOwnRows(1.0, 1.0)
    with pytest.raises(InvalidInput, match="without privacy"):
        planned(own_rows=own)


# --- nodes ----------------------------------------------------------------------------------------


def test_a_node_in_secret_answers_nothing_in_clear_but_its_reports() -> None:
    plan = in_secret(planned(rounds=1))
    node = nodes_of(plan)[0]
    for stage in (IMPORTANCE, UPDATE):
        shapes = plan.tasks[stage].shapes
        arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        with pytest.raises(InvalidInput, match="nothing more"):
            node.handle(Instruction(stage, 1, arrays, {}, node.client.agreement))


def test_what_was_kept_is_found_again_after_a_restart_if_the_books_hold_it(tmp_path: Path) -> None:
    plan = planned(4.0, rounds=1)
    client = nodes_of(plan, folder=tmp_path)[0].client
    given = {**name_arrays(MODEL, plan.start(STAGE)), **PUBLIC.given}
    zero = {"accuracy": np.zeros(1, np.float32)}
    client.answer(Instruction(STAGE, 1, zero, given, client.agreement))
    width = len(plan.facts.schema.features)
    common = {COMMON: np.full(width, 1 / width, np.float32)}
    asked = Instruction(
        DIVERGENCE, 1, {DIVERGENCES: np.zeros(1, np.float32)}, common, client.agreement
    )
    again = replace(client, sources=SeededSources(9))
    said = again.answer(asked)
    assert said.arrays[DIVERGENCES].shape == (1,)
    assert said.event != ""
    assert said.event == again.answer(asked).event
    stranger = replace(client, guard=CountingGuard(1))
    with pytest.raises(Refused, match="books do not hold"):
        stranger.answer(asked)


def test_the_sum_is_divided_by_the_weights_of_those_who_are_still_there() -> None:
    """Two parties fall out in the last exchange, after everybody's weight was known."""
    plan = planned(rounds=1)
    sent: dict[str, Any] = {}
    reports: dict[str, dict[str, float]] = {"accuracy": {}, "divergence": {}}

    class Watching:
        def __init__(self, node: Any, *, falls: bool) -> None:
            self.node, self.name, self.falls = node, node.name, falls

        def handle(self, message: Any) -> Any:
            if message.stage == UPDATE and self.falls:
                raise ConnectionError("gone")
            answer = self.node.handle(message)
            if message.stage == UPDATE:
                sent[self.name] = answer.arrays
            for what, found in reports.items():
                if what in answer.arrays:
                    found[self.name] = float(answer.arrays[what][0])
            return answer

    nodes = [Watching(node, falls=place < 2) for place, node in enumerate(nodes_of(plan))]
    found = trained(plan, nodes)
    rule, divergences = plan.rule, reports["divergence"]
    trusts = {n: rule.trust([a], divergences[n]) for n, a in reports["accuracy"].items()}
    weights = weights_of(rule, trusts, divergences).shares
    surviving = sum(weights[name] for name in sent)
    assert len(sent) == len(NAMES) - 2
    assert surviving < 0.95
    start = plan.start(STAGE)
    for name, array in found.results[STAGE].arrays.items():
        mean = sum(each[name].astype(np.float64) for each in sent.values()) / surviving
        np.testing.assert_allclose(array, start[name] + mean, atol=1e-6)
    for name, rows in found.history.scores.items():
        assert rows[-1].weight == pytest.approx(weights[name] / surviving)
