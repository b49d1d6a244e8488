"""An explanation is checked, computed, charged, recorded, and can be proved offline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.protecting import about, explained_row_of
from tests.unit.app.budget_examples import RULES, House
from tests.unit.app.explain.examples import (
    BACKGROUND,
    ROWS,
    SCHEMA,
    TRAINED,
    Asking,
    Costly,
    asking,
    balances,
    clipped,
    exact,
    free,
    house_in,
    model,
    people,
    private_training,
    records,
)
from tests.unit.records.ledger.examples import DATASET

from voile.app.explain import (
    ExplanationInputs,
    ExplanationSpec,
    ReleasedExplanation,
    ReleaseService,
    build_release,
    paid_clusters,
    paid_synthetic_background,
)
from voile.app.explain.per_record import account_of_record
from voile.app.explain.questions import about_population
from voile.app.explain.rows import (
    chosen,
    part_sizes,
    public_size,
    row_count,
    rows_digest,
)
from voile.app.explain.service import CARRIED, NO_PROMISE, rows_seed
from voile.attribution import ExactShapley
from voile.core.errors import (
    BudgetExceeded,
    InvalidInput,
    Refused,
    UnreadableFile,
)
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart
from voile.core.row_note import KnownNote
from voile.records.audit_log import (
    BudgetOpenedRecord,
    CheckOutcome,
    PostProcessingRecord,
    RefusalRecord,
    ReleaseRecord,
    RowTree,
    explanation_rows,
    guarantees_digest,
    verify_receipt,
    verify_row_receipt,
)
from voile.records.ledger import Children, NamedRecord, PlannedSpending, ReplayKey
from voile.records.ledger.event_text import event_from
from voile.records.ledger.tables import ENTRIES
from voile.release import (
    PUBLIC,
    Clusters,
    Level,
    PostProcessed,
    PrivateClusters,
    PrivateHistograms,
    Role,
    at_level,
    declared_clusters,
    trained_on,
)
from voile.release.charged import paid_artefact


@pytest.fixture
def house(tmp_path: Path) -> House:
    return house_in(tmp_path)


def checked(house: House, explain: Asking, explained: ReleasedExplanation) -> None:
    """All receipts hold, question and answer included."""
    house.keep()
    assert house.verify().verified
    for receipt, entry in zip(explain.receipts(explained), explained.entries, strict=True):
        report = verify_receipt(bytes(receipt), RULES, query=entry.question, answer=entry.answer)
        assert report.verified, report.failed
        opened = [step for step in report.steps if step.name in ("query", "answer")]
        assert [step.outcome for step in opened] == [CheckOutcome.CHECKED] * 2


def record_account(house: House, identifier: str) -> str:
    """The account of a record of "people"."""
    account = house.storage.submit(lambda t: house.vault.ledger.account(t, "people"))
    return account_of_record(house.vault.key, account, NamedRecord(identifier, DATASET))


# --- free ----------------------------------------------------------------------------------------


def test_what_costs_nothing_is_one_record_and_leaves_the_ledger_alone(house: House) -> None:
    house.open("clinic")
    before = balances(house)
    explain = asking(house, free(private_training()))
    explained = explain(ROWS)
    assert balances(house) == before
    (record,) = [each for each in records(house) if isinstance(each, PostProcessingRecord)]
    assert (record.rows, record.promise, record.epsilon) == (3, CARRIED, 2.0)
    assert record.dataset == TRAINED.protected.dataset
    assert record.guarantees == guarantees_digest([TRAINED])
    assert explained.charges == ()
    assert not explained.replayed
    assert explained.explanation.guarantees == (TRAINED,)
    assert explained.explanation.notes[-1] == KnownNote.NOTHING_TO_CHARGE
    assert KnownNote.NOT_CHARGED not in explained.explanation.notes
    assert np.array_equal(explained.explanation.values, exact()(ROWS).values)
    checked(house, explain, explained)


def test_without_a_guarantee_the_record_says_so(house: House) -> None:
    asking(house, free())(ROWS)
    record = records(house)[-1]
    assert isinstance(record, PostProcessingRecord)
    assert record.promise == NO_PROMISE
    assert (record.epsilon, record.delta, record.unit, record.dataset) == (None,) * 4
    assert record.guarantees == guarantees_digest([])


def test_each_row_of_a_free_call_has_a_proof_of_its_own(house: House) -> None:
    explain = asking(house, free(private_training()))
    explained = explain(ROWS)
    house.keep()
    for number in range(3):
        receipt = explain.row_receipt(explained, number)
        assert not receipt.record.nonces  # nothing in it opens the rest of the call
        own = next(explanation_rows(explained.explanation[number]))
        other = next(explanation_rows(explained.explanation[(number + 1) % 3]))
        assert verify_row_receipt(bytes(receipt), RULES, row=own).verified
        assert not verify_row_receipt(bytes(receipt), RULES, row=other).verified


def test_proofs_can_be_issued_later_from_record_key_and_explanation(house: House) -> None:
    explain = asking(house, free())
    explained = explain(ROWS)
    record = records(house)[-1]
    assert isinstance(record, PostProcessingRecord)
    seed = rows_seed(house.vault.key, record.call)
    again = RowTree.from_rows(explanation_rows(explained.explanation), seed)
    assert again == explained.rows_tree
    assert again.root == record.rows_root
    changed = replace(explained.explanation, notes=())
    assert RowTree.from_rows(explanation_rows(changed), seed).root != record.rows_root


def test_two_free_calls_have_different_names_and_nonces(house: House) -> None:
    explain = asking(house, free())
    explain(ROWS)
    explain(ROWS)
    first, second = (each for each in records(house) if isinstance(each, PostProcessingRecord))
    assert first.call != second.call
    assert (first.rows_root, first.answer) != (second.rows_root, second.answer)


# --- one question, one charge --------------------------------------------------------------------


def about_rows(part: RowPart = RowPart.BACKGROUND) -> Costly:
    """As a release with a private background or population looks to the workflow."""
    headline = about(clipped().guarantees(1)[0], unit=ProtectedUnit.ROW)
    return Costly(clipped(), part=part, guarantees=lambda _: (headline,))


def clinic(house: House, epsilon: float = 3.0) -> None:
    house.open("clinic", relation=Relation.REPLACE_ONE, epsilon=epsilon)


def test_public_rows_are_charged_once_and_recognised_by_value(house: House) -> None:
    clinic(house)
    release = about_rows()
    explain = asking(house, release, "clinic")
    first, again = explain(ROWS), explain(ROWS.copy())
    assert again.replayed
    assert not first.replayed
    assert again.explanation == first.explanation
    assert (again.charges, again.records) == (first.charges, first.records)
    assert KnownNote.NOT_CHARGED not in first.explanation.notes
    assert release.drawn == 1
    assert not explain(ROWS[:2]).replayed
    checked(house, explain, first)
    checked(house, explain, again)


def test_fresh_noise_is_charged_again(house: House) -> None:
    clinic(house)
    explain = asking(house, about_rows(), "clinic")
    first, fresh = explain(ROWS), explain(ROWS, fresh=True)
    assert fresh.charges != first.charges
    assert fresh.explanation != first.explanation


def test_a_population_is_recognised_by_name_and_size_never_by_values(house: House) -> None:
    clinic(house)
    release = about_rows(RowPart.POPULATION)
    explain = asking(house, release, "clinic")
    first = explain(ROWS, identifiers=["a", "b", "c"])
    assert explain(ROWS + 1, identifiers=["a", "b", "c"]).replayed
    assert not explain(ROWS, population="another").replayed
    assert not explain(ROWS[:2]).replayed
    entry = house.storage.submit(lambda t: t.scan(ENTRIES, "clinic"))[1]
    assert entry.population == 3
    assert entry.part == "population"
    checked(house, explain, first)


def test_who_loses_the_race_for_public_rows_gets_the_answer_of_the_winner(house: House) -> None:
    clinic(house)
    explain = asking(house, about_rows(), "clinic")
    won: list[ReleasedExplanation] = []

    class Meanwhile(Costly):
        def draw(self, rows: object) -> object:  # type: ignore[override]
            won.append(explain(ROWS))
            return super().draw(rows)

    release = about_rows()
    late = Meanwhile(release._inner, **release._changes)
    lost = asking(house, late, "clinic")(ROWS)
    assert lost.replayed
    assert lost.explanation == won[0].explanation


def test_beyond_the_budget_is_refused_recorded_and_nothing_is_computed(house: House) -> None:
    clinic(house, 0.5)
    release = about_rows()
    before = balances(house)
    with pytest.raises(BudgetExceeded, match="nothing was charged"):
        asking(house, release, "clinic")(ROWS)
    assert release.drawn == 0
    assert balances(house) == before
    assert isinstance(records(house)[-1], RefusalRecord)


# --- protected records ---------------------------------------------------------------------------


def test_each_record_pays_for_itself_in_parallel(house: House) -> None:
    people(house)
    explain = asking(house, clipped(), "people")
    explained = explain(ROWS, identifiers=["ada", "bob", "eve"])
    assert explained.explanation.shape == (3, 3, 1)
    assert len(explained.charges) == 3
    sums = balances(house)
    assert len(sums) == 4
    assert not any("ada" in name or "bob" in name for name in sums)
    once = asking(house, clipped(), "people")(ROWS[:1], identifiers=["dan"])
    assert balances(house)["people"] == sums["people"]  # a fifth record costs the parent nothing
    opened = [each for each in records(house) if isinstance(each, BudgetOpenedRecord)]
    assert [each.parent for each in opened] == [None, *["people"] * 4]
    checked(house, explain, explained)
    checked(house, explain, once)


def test_a_record_is_recognised_by_its_name_for_the_caller_who_asked(house: House) -> None:
    people(house)
    explain = asking(house, clipped(), "people", caller="ada's doctor")
    first = explain(ROWS[:1], identifiers=["ada"])
    again = explain(ROWS[1:2], identifiers=["ada"])  # other values: nobody must notice
    assert again.replayed
    assert again.explanation == first.explanation
    other = asking(house, clipped(), "people", caller="somebody else")
    assert not other(ROWS[:1], identifiers=["ada"]).replayed


def test_some_rows_of_a_call_can_be_known_already(house: House) -> None:
    people(house)
    release = Costly(clipped())
    explain = asking(house, release, "people")
    first = explain(ROWS[:1], identifiers=["ada"])
    both = explain(ROWS[:2], identifiers=["ada", "bob"])
    assert [entry.replayed for entry in both.entries] == [True, False]
    assert not both.replayed
    assert both.explanation[0] == first.explanation
    known = explain({"income": [1, 2]}, identifiers=["bob", "ada"])
    assert known.replayed  # nothing had to be looked at
    assert release.drawn == 2
    checked(house, explain, both)


def test_rows_without_a_name_are_charged_to_everybody(house: House) -> None:
    people(house)
    release = Costly(clipped())
    explain = asking(house, release, "people")
    explained = explain(ROWS[:2])
    again = explain(ROWS[:2], identifiers=[None, ""])
    assert not again.replayed
    assert list(balances(house)) == ["people"]
    assert len(explained.charges) == len(again.charges) == 2
    with pytest.raises(BudgetExceeded):
        explain(np.repeat(ROWS, 5, axis=0))
    assert release.drawn == 2  # all of them together were too much, and that was known before
    checked(house, explain, explained)


def test_a_record_that_is_named_twice_is_answered_once(house: House) -> None:
    people(house, epsilon=1.01)
    explain = asking(house, clipped(), "people")
    explained = explain(ROWS[:2], identifiers=["ada", "ada"])
    assert len(explained.charges) == 1
    assert explained.explanation[0] == explained.explanation[1]
    checked(house, explain, explained)


def test_several_rows_are_settled_all_or_none(house: House) -> None:
    people(house, epsilon=1.05)
    explain = asking(house, clipped(), "people")
    explain(ROWS[:1], identifiers=["ada"])
    before = balances(house)
    with pytest.raises(BudgetExceeded):
        explain(ROWS[:2], identifiers=["bob", "ada"], fresh=True)
    assert balances(house) == before
    refusal = records(house)[-1]
    assert isinstance(refusal, RefusalRecord)
    assert refusal.account == "people"  # never the name of a record's account
    assert house.verify().verified


def test_a_record_whose_account_is_a_plan_is_recorded_as_it_was_charged(house: House) -> None:
    people(house, epsilon=30.0)
    explain = asking(house, clipped(), "people")
    explain(ROWS[:1])
    event = house.storage.submit(lambda t: t.scan(ENTRIES, "people"))[-1].event
    planned = record_account(house, "ada")
    house.open(
        planned,
        parent="people",
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
        epsilon=20.0,
        delta=1e-5,
        spending=PlannedSpending((event_from(event),)),
    )
    explain(ROWS[1:2], identifiers=["ada"])
    record = records(house)[-1]
    assert isinstance(record, ReleaseRecord)
    assert (record.account, record.cost) == (planned, None)
    assert house.verify().verified


def test_who_loses_the_race_for_the_budget_is_refused_on_record(house: House) -> None:
    """It fitted when it was looked at; at the commit it does not."""
    people(house, epsilon=1.05)
    explain = asking(house, clipped(), "people")

    class Meanwhile(Costly):
        def draw(self, rows: object) -> object:  # type: ignore[override]
            if not self.drawn:
                self.drawn += 1
                explain(ROWS[:1], identifiers=["ada"], fresh=True)
            return super().draw(rows)

    late = asking(house, Meanwhile(clipped()), "people", caller="late")
    with pytest.raises(BudgetExceeded):
        late(ROWS[:2], identifiers=["bob", "ada"])
    assert len(balances(house)) == 2  # not even an account for bob
    refusal = records(house)[-1]
    assert isinstance(refusal, RefusalRecord)
    assert refusal.account == "people"
    assert house.verify().verified


def test_who_loses_the_race_for_one_question_gets_the_answer_of_the_winner(house: House) -> None:
    people(house, epsilon=1.05)
    explain = asking(house, clipped(), "people")
    won: list[ReleasedExplanation] = []

    class Meanwhile(Costly):
        def draw(self, rows: object) -> object:  # type: ignore[override]
            won.append(explain(ROWS[:1], identifiers=["ada"]))
            return super().draw(rows)

    lost = asking(house, Meanwhile(clipped()), "people")(ROWS[:1], identifiers=["ada"])
    assert lost.replayed
    assert lost.explanation == won[0].explanation


def test_a_sequential_account_adds_all_rows_up(house: House) -> None:
    people(house, children=Children.SEQUENTIAL)
    explain = asking(house, clipped(), "people")
    explained = explain(ROWS[:2], identifiers=["ada", "bob"])
    assert list(balances(house)) == ["people"]
    with pytest.raises(BudgetExceeded):
        explain(np.repeat(ROWS, 5, axis=0), identifiers=[f"person {n}" for n in range(15)])
    checked(house, explain, explained)


def test_alerts_are_told_after_the_commit(tmp_path: Path) -> None:
    told: list[object] = []
    house = House.create("memory:", tmp_path, on_alert=told.append)
    people(house, epsilon=1.05)
    asking(house, clipped(), "people")(ROWS[:1], identifiers=["ada"])
    assert told


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"dataset": "another"}, "dataset"),
        (
            {
                "unit": ProtectedUnit.ROW,
                "relation": Relation.REPLACE_ONE,
                "children": Children.SEQUENTIAL,
            },
            "unit",
        ),
    ],
)
def test_an_account_for_something_else_is_refused(
    house: House, changes: dict[str, object], names: str
) -> None:
    people(house, **changes)  # type: ignore[arg-type]
    check_refused(asking(house, clipped(), "people"), Refused, f"is for the {names}")


def check_refused(explain: Asking, kind: type[Exception], reason: str) -> None:
    """In a preview, and when it is asked."""
    with pytest.raises(kind, match=reason):
        explain.preview()
    with pytest.raises(kind, match=reason):
        explain(ROWS[:1])


def test_another_relation_is_refused(house: House) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE)
    headline = about(
        clipped().guarantees(1)[0], unit=ProtectedUnit.ROW, relation=Relation.REPLACE_ONE
    )
    release = Costly(clipped(), guarantees=lambda rows: (headline,))  # noqa: ARG005
    check_refused(asking(house, release, "clinic"), Refused, "is for the relation 'zero-out'")
    assert release.drawn == 0


def test_other_refusals(house: House) -> None:
    with pytest.raises(Refused, match="name the account that pays"):
        asking(house, clipped())(ROWS[:1])
    check_refused(asking(house, clipped(), "nowhere"), InvalidInput, "no account")
    people(house)
    explain = asking(house, clipped(), "people")
    with pytest.raises(InvalidInput, match="one identifier for each"):
        explain(ROWS, identifiers=["ada"])
    with pytest.raises(InvalidInput, match="at least one row"):
        explain(ROWS[:0])
    with pytest.raises(InvalidInput, match="receipts of their own"):
        explain.row_receipt(explain(ROWS[:1], identifiers=["ada"]), 0)


def test_an_account_that_is_elsewhere_is_not_taken_for_a_record(house: House) -> None:
    people(house)
    house.open(
        record_account(house, "ada"),
        protected=Protected(ProtectedUnit.USER, Relation.REPLACE_ONE, DATASET),
    )
    with pytest.raises(Refused, match="not below 'people'"):
        asking(house, clipped(), "people")(ROWS[:1], identifiers=["ada"])


def with_another_key(house: House) -> House:
    """The same database in the hands of somebody with a key of their own."""
    path = house.folder / "another.key"
    ReplayKey.generate().save(path)
    place = replace(house.vault.place, replay_key=path)
    return replace(house, service=ReleaseService(replace(house.vault, place=place)))


def test_another_key_cannot_give_records_a_second_budget(house: House) -> None:
    people(house)
    asking(house, clipped(), "people")(ROWS[:1], identifiers=["ada"])
    before = balances(house)
    stranger = asking(with_another_key(house), clipped(), "people")
    with pytest.raises(Refused, match="another replay key"):
        stranger(ROWS[:1], identifiers=["ada"])
    assert balances(house) == before


def test_another_key_is_noticed_behind_accounts_that_are_not_records(house: House) -> None:
    people(house)
    given = {"unit": ProtectedUnit.EXPLAINED_ROW, "relation": Relation.REPLACE_ONE}
    for name in ("people/!", "people/0 by hand", "a", *(f"people/ {n}" for n in range(120))):
        house.open(name, parent="people", epsilon=3.0, delta=1e-5, **given)
    asking(house, clipped(), "people")(ROWS[:1], identifiers=["ada"])
    asking(house, clipped(), "people")(ROWS[:1], identifiers=["bob"])
    stranger = asking(with_another_key(house), clipped(), "people")
    with pytest.raises(Refused, match="another replay key"):
        stranger(ROWS[:1], identifiers=["ada"])


def test_long_names_and_plans_are_refused(house: House) -> None:
    house.open(
        "p" * 80,
        unit=ProtectedUnit.EXPLAINED_ROW,
        relation=Relation.REPLACE_ONE,
        children=Children.PARALLEL,
    )
    check_refused(asking(house, clipped(), "p" * 80), Refused, "too long")
    plan = PlannedSpending((clipped().cost(1),))
    house.open(
        "plan",
        protected=explained_row_of("planned"),
        spending=plan,
    )
    planned = clipped(protected=explained_row_of("planned"))
    check_refused(asking(house, planned, "plan"), Refused, "has a fixed plan")


# --- questions -----------------------------------------------------------------------------------


def test_rows_have_equal_digests_exactly_if_they_are_equal() -> None:
    table = {"a": np.array([1.0, 2.0]), "b": np.array(["x", "y"], dtype=object)}
    assert rows_digest(table) == rows_digest(dict(table))
    others = [
        {"a": np.array([1.0, 3.0]), "b": table["b"]},
        {"a": table["a"], "c": table["b"]},
        {"a": table["a"], "b": np.array(["x", "z"], dtype=object)},
        {"a": np.array([1, 2]), "b": table["b"]},
        np.array([[1.0, 2.0]]),
        np.array([[1.0], [2.0]]),
    ]
    digests = {rows_digest(each) for each in [table, *others]}
    assert len(digests) == len(others) + 1


def test_rows_are_counted_and_chosen() -> None:
    table = {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    assert row_count(table) == 3
    assert row_count({"north": table, "south": ROWS[:2]}) == 5
    assert chosen(table, [2])["b"].tolist() == ["z"]
    assert chosen(ROWS, [0, 1, 2]) is ROWS
    explanation = exact()(BACKGROUND)
    assert chosen(explanation, [1]) == explanation[1]
    for wrong in ({"a": [1], "b": [1, 2]}, 3, "text"):
        with pytest.raises(InvalidInput):
            row_count(wrong)


RAGGED = {"income": [1.0, [2.0, 3.0], "4"], "debt": [1, 2, 3], "employed": ["yes", None, "no"]}


def test_what_one_record_is_read_as_depends_on_no_other() -> None:
    assert row_count(RAGGED) == 3
    picked = chosen(RAGGED, [0, 2])
    assert picked["income"].tolist() == [1.0, "4"]  # not ["1.0", "4"]
    assert chosen([[1.0, [2.0]], ["a", 3]], [1]) == [["a", 3]]
    columns_of_lists = {"income": [[1.0], [2.0]], "debt": [[1.0], [2.0]]}
    assert row_count(columns_of_lists) == 2
    assert rows_digest({"a": [1.0, 2.0]}) == rows_digest({"a": np.array([1.0, 2.0])})
    assert rows_digest(RAGGED) != rows_digest(RAGGED | {"debt": [1, 2, 4]})


def test_ragged_records_and_populations_are_explained(house: House) -> None:
    people(house)
    explain = asking(house, clipped(), "people")
    explain(ROWS[:1], identifiers=["ada"])
    assert len(explain(RAGGED, identifiers=["ada", "bob", "eve"]).explanation) == 3
    house.open("clinic", dataset="clinic", relation=Relation.REPLACE_ONE, epsilon=3.0)
    headline = about(clipped().guarantees(1)[0], unit=ProtectedUnit.ROW, dataset="clinic")
    release = Costly(clipped(), part=RowPart.POPULATION, guarantees=lambda _: (headline,))
    assert asking(house, release, "clinic")(RAGGED).charges


def test_the_sizes_of_parts_are_in_the_question(house: House) -> None:
    parts = {"north": ROWS, "south": ROWS[:1]}
    assert part_sizes(parts) == [("north", 3), ("south", 1)]
    assert part_sizes(ROWS) == part_sizes(RAGGED) == []
    house.open("clinic", relation=Relation.REPLACE_ONE, epsilon=9.0)
    headline = about(clipped().guarantees(1)[0], unit=ProtectedUnit.ROW)
    release = Costly(clipped(), part=RowPart.POPULATION, guarantees=lambda _: (headline,))
    release.draw = lambda rows: clipped().draw(ROWS)  # type: ignore[method-assign]  # noqa: ARG005
    explain = asking(house, release, "clinic")
    assert not explain(parts).replayed
    assert explain(dict(reversed(parts.items()))).replayed
    assert not explain({"north": ROWS[:1], "south": ROWS}).replayed


def test_a_population_question_names_size_and_name() -> None:
    assert about_population("a", 1) != about_population("a", 2)
    assert about_population("a", 1) != about_population("b", 1)


def test_releases_are_on_record_with_what_they_cost(house: House) -> None:
    people(house)
    asking(house, clipped(), "people", subject="loan score v3")(ROWS[:1], identifiers=["ada"])
    record = records(house)[-1]
    assert isinstance(record, ReleaseRecord)
    assert record.subject == "loan score v3"
    assert record.cost is not None
    assert (record.epsilon, record.unit, record.relation) == (1.0, "explained row", "replace one")


def test_a_synthetic_background_is_paid_for_once(house: House) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE, epsilon=2.0)
    table = {"income": [1.0, 9.0, np.nan], "debt": [1, 2, 3], "employed": ["yes", "no", "?"]}
    wanted = {"epsilon": 1.0, "delta": 1e-6, "size": 20}
    first, again = (
        paid_synthetic_background(house.service, "clinic", table, SCHEMA, **wanted)  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert np.array_equal(first.rows, again.rows)
    assert first.charge
    assert first.charge == again.charge
    assert all(map(np.array_equal, first.histograms, again.histograms))
    charged = [each for each in records(house) if isinstance(each, ReleaseRecord)]
    assert len(charged) == 1
    assert charged[0].subject == "synthetic background of 20 rows"
    explainer = ExactShapley(model(), first.rows, schema=SCHEMA)
    release = PostProcessed(explainer, [PUBLIC, first.origin], model="m", name="exact")
    assert asking(house, release)(ROWS).explanation.guarantees == (first.guarantee,)
    people(house)
    with pytest.raises(Refused, match="unit"):
        paid_synthetic_background(house.service, "people", table, SCHEMA, **wanted)  # type: ignore[arg-type]
    assert house.verify().verified


def test_only_what_a_ledger_keeps_under_a_charge_is_paid_for(house: House) -> None:
    """No name of a charge, invented or true, gives an unpaid background an origin."""
    house.open("clinic", relation=Relation.BLANK_ONE, epsilon=3.0)
    table = {"income": [1.0, 9.0], "debt": [1, 2], "employed": ["yes", "no"]}
    where = (house.service, "clinic", table, SCHEMA)
    paid = paid_synthetic_background(*where, epsilon=1.0, delta=1e-6, size=20)
    clusters = paid_clusters(*where, **CLUSTERED)  # type: ignore[arg-type]
    assert paid.charge is not None
    assert clusters.charge is not None
    wanted: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "size": 20}
    own = PrivateHistograms(table, SCHEMA, protected=paid.guarantee.protected, **wanted)
    assert np.array_equal(paid_artefact(own, paid.charge, house.service).rows, paid.rows)
    for name in ("anything", "clinic#99", "clinic#x", "", clusters.charge):
        with pytest.raises(Refused, match=r"no charge exists|paid for another event"):
            paid_artefact(own, name, house.service)
    cheaper = PrivateHistograms(
        table, SCHEMA, protected=paid.guarantee.protected, **(wanted | {"epsilon": 0.5})
    )
    with pytest.raises(Refused, match="another event"):
        paid_artefact(cheaper, paid.charge, house.service)
    elsewhere = replace(paid.guarantee.protected, dataset="others 2026")
    with pytest.raises(Refused, match="others 2026"):
        paid_artefact(
            PrivateHistograms(table, SCHEMA, protected=elsewhere, **wanted),
            paid.charge,
            house.service,
        )


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"x" * 500, b"{}", b"[" * 10**5])
def test_a_stored_artefact_that_was_damaged_is_said_so(
    house: House, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE, epsilon=5.0)
    table = {"income": [1.0, 9.0], "debt": [1, 2], "employed": ["yes", "no"]}
    monkeypatch.setattr(ReleaseService, "paid_answer", lambda *_: content)
    with pytest.raises(UnreadableFile, match="stored answer"):
        paid_synthetic_background(house.service, "clinic", table, SCHEMA, epsilon=1.0, delta=1e-6)
    if content != b"{}":
        with pytest.raises(UnreadableFile, match="stored answer"):
            paid_clusters(house.service, "clinic", table, SCHEMA, **CLUSTERED)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("relation", "charges"), [(Relation.ADD_OR_REMOVE_ONE, 1), (Relation.BLANK_ONE, 2)]
)
def test_a_private_number_of_records_does_not_show_in_what_is_charged(
    house: House, relation: Relation, charges: int
) -> None:
    """Whoever sees the budget would see that a record was added or taken away."""
    house.open("clinic", relation=relation, epsilon=3.0)
    table = {"income": [1.0, 9.0, 4.0], "debt": [1, 2, 3], "employed": ["yes", "no", "no"]}
    fewer = {name: column[:2] for name, column in table.items()}  # type: ignore[index]
    if relation is Relation.ADD_OR_REMOVE_ONE:
        nothing: dict[str, object] = {name: [] for name in table}
        paid_synthetic_background(house.service, "clinic", nothing, SCHEMA, epsilon=1.0, delta=1e-6)
    for each in (table, fewer):
        paid_synthetic_background(house.service, "clinic", each, SCHEMA, epsilon=1.0, delta=1e-6)
    assert sum(isinstance(each, ReleaseRecord) for each in records(house)) == charges


def test_the_size_of_a_population_is_part_of_its_question_where_it_is_public() -> None:
    parts = {"north": ROWS, "south": ROWS[:1]}
    assert public_size(ROWS, Relation.BLANK_ONE) == 3
    assert public_size(parts, Relation.REPLACE_ONE) == [("north", 3), ("south", 1)]
    assert public_size(ROWS, Relation.ADD_OR_REMOVE_ONE) is None
    assert public_size(parts, Relation.ADD_OR_REMOVE_ONE) is None


CLUSTERED = {"epsilon": 1.0, "delta": 1e-6, "count": 2}


def inputs(**changes: object) -> ExplanationInputs:
    said = {name: changes.pop(name) for name in ("protect", "level", "epsilon") if name in changes}
    spec = ExplanationSpec(model="loan score", **said)  # type: ignore[arg-type]
    given = {"spec": spec, "model": model(), "schema": SCHEMA, "model_origin": PUBLIC}
    return ExplanationInputs(**(given | changes))  # type: ignore[arg-type]


def test_clusters_that_nobody_paid_for_are_refused() -> None:
    found = PrivateClusters(
        BACKGROUND,
        schema=SCHEMA,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET),
        **CLUSTERED,  # type: ignore[arg-type]
    ).draw()
    aggregate = {"level": Level.AGGREGATE, "declared": found}
    with pytest.raises(Refused, match="nobody was charged"):
        inputs(background=BACKGROUND, background_origin=PUBLIC, **aggregate)
    with pytest.raises(Refused, match="nobody was charged"):
        at_level(
            Level.AGGREGATE,
            role=Role.ANALYST,
            model=model(),
            background=BACKGROUND,
            schema=SCHEMA,
            origins=[PUBLIC],
            clusters=found,
        )


def test_clusters_are_paid_for_once_and_carry_their_guarantee(house: House) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE, epsilon=3.0)
    before = balances(house)
    first, *again = (
        paid_clusters(house.service, "clinic", rows, SCHEMA, **CLUSTERED)  # type: ignore[arg-type]
        for rows in [BACKGROUND, BACKGROUND[::-1] * 0.1] * 15  # noise would give others soon
    )
    assert all(each == first for each in again)
    assert first.charge
    assert balances(house) != before
    (charged,) = [each for each in records(house) if isinstance(each, ReleaseRecord)]
    assert (charged.charge, charged.epsilon) == (first.charge, 1.0)
    given = {"level": Level.AGGREGATE, "declared": first, "background": BACKGROUND}
    release = build_release(inputs(background_origin=PUBLIC, **given), None, 1)
    assert asking(house, release)(ROWS).explanation.guarantees == first.origin.guarantees
    with pytest.raises(BudgetExceeded):
        paid_clusters(house.service, "clinic", BACKGROUND, SCHEMA, epsilon=5.0, delta=1e-6, count=2)
    people(house)
    with pytest.raises(Refused, match="unit"):
        paid_clusters(house.service, "people", BACKGROUND, SCHEMA, **CLUSTERED)  # type: ignore[arg-type]
    assert house.verify().verified


def test_an_artefact_is_drawn_only_where_it_is_missing_and_would_fit(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE, epsilon=2.0)
    drawn = []
    honest = PrivateClusters.draw

    def watched(release: PrivateClusters, rows: object = None) -> Clusters:
        drawn.append(release)
        return honest(release, rows)

    monkeypatch.setattr(PrivateClusters, "draw", watched)
    where = (house.service, "clinic", BACKGROUND, SCHEMA)
    first = paid_clusters(*where, **CLUSTERED)  # type: ignore[arg-type]
    assert paid_clusters(*where, **CLUSTERED) == first  # type: ignore[arg-type]
    assert len(drawn) == 1
    with pytest.raises(BudgetExceeded):
        paid_clusters(*where, epsilon=5.0, delta=1e-6, count=2)
    assert len(drawn) == 1


def test_an_artefact_can_be_previewed_for_the_account_that_would_pay(house: House) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE, epsilon=2.0)
    account = house.vault.account("clinic")
    release = PrivateClusters(
        BACKGROUND,
        SCHEMA,
        protected=account.protected,
        **CLUSTERED,  # type: ignore[arg-type]
    )
    seen = house.service.preview(release, payer="clinic")
    assert seen.event == release.cost(1)
    paid = house.service.obtain(release, payer="clinic", caller="grace")
    assert (paid.event, paid.origin.guarantees) == (seen.event, seen.guarantees)
    assert house.service.obtain(release, payer="clinic", caller="ada") == paid
    again = house.service.obtain(release, payer="clinic", caller="ada", fresh=True)
    assert again.charge != paid.charge
    people(house)
    with pytest.raises(Refused):
        house.service.obtain(release, payer="people", caller="grace")
    assert house.verify().verified


def test_what_background_rows_were_made_from_has_no_default() -> None:
    for protect in (RowPart.TRAINING, RowPart.POPULATION, RowPart.EXPLAINED):
        with pytest.raises(InvalidInput, match="background_origin"):
            inputs(protect=protect, background=BACKGROUND)
    assert inputs(protect=RowPart.BACKGROUND, background=BACKGROUND).origins == (PUBLIC,)
    stated = inputs(background=BACKGROUND, background_origin=trained_on("loans"))
    assert stated.origins == (PUBLIC, trained_on("loans"))
    assert "made from loans" in stated.notes[0]


def test_groups_tell_questions_over_itself_apart(house: House) -> None:
    house.open("clinic", relation=Relation.BLANK_ONE)
    account = house.storage.submit(lambda t: house.vault.ledger.account(t, "clinic"))
    names = ("income", "debt", "employed")
    found = [
        build_release(
            inputs(
                protect=RowPart.POPULATION,
                epsilon=1.0,
                level=Level.AGGREGATE,
                declared=declared_clusters({"a": names[:cut], "b": names[cut:]}),
            ),
            account,
            10,
        ).identity.parameters
        for cut in (1, 2)
    ]
    assert found[0] != found[1]
