"""FastSHAP++ on a small generated federation: accounting, settings, promises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.protecting import about, row_of
from tests.unit.federation.toys import rounds_over
from voile.attribution import FastShap
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Relation
from voile.core.randomness import Seeded
from voile.core.row_note import KnownNote
from voile.datasets import ClinicFederation, Dataset, clinic_federation
from voile.federation import (
    Booking,
    Client,
    CountingGuard,
    Instruction,
    NoGuard,
    Outcome,
    Participation,
    SeededSources,
    Unprotected,
    charged,
    digest_of_arrays,
)
from voile.models import Box, wrap
from voile.pipelines.objectives import Imitate
from voile.pipelines.private_explainer import (
    BLACK_BOX,
    EXPLAINER,
    FOREIGN_BOX,
    SURROGATE,
    Facts,
    PipelinePlan,
    PrivateExplainer,
    Setting,
    StageSpending,
    TableRecords,
    Training,
    separate_budgets,
    split_total,
    train_private_explainer,
)
from voile.privacy.events import Composed, Gaussian, PoissonSampled, Repeated
from voile.release import PUBLIC, trained_on, trained_privately
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED
from voile.training import arrays_of, with_arrays

ROUNDS, CAP, FEATURES = 2, 2, 5
QUICK = {
    BLACK_BOX: Training(hidden=(8,), clipping_norm=0.5, sampling_rate=0.25, epochs=1),
    SURROGATE: Training(hidden=(8,), clipping_norm=0.1, sampling_rate=0.25, epochs=1),
    EXPLAINER: Training(hidden=(8,), clipping_norm=0.1, sampling_rate=0.5, epochs=1),
}
ONE = StageSpending(1.0, 1e-3)


@pytest.fixture(scope="module")
def clinic() -> ClinicFederation:
    """Hospitals that look at five features only: exact values of twelve would take long."""
    whole = clinic_federation(60, reference_rows=6, seed=4)
    schema = replace(whole.schema, features=whole.schema.features[:FEATURES])
    hospitals = {
        name: Dataset(name, schema, data.rows[:, :FEATURES], data.labels)
        for name, data in whole.hospitals.items()
    }
    return ClinicFederation(schema, hospitals, whole.reference[:, :FEATURES], 0.0)


@pytest.fixture(scope="module")
def records(clinic: ClinicFederation) -> dict[str, TableRecords]:
    return {name: TableRecords.from_dataset(data) for name, data in clinic.hospitals.items()}


def facts(records: dict[str, TableRecords], **changes: Any) -> Facts:
    (schema, *_) = [r.schema for r in records.values()]
    settings: dict[str, Any] = {
        "rounds": ROUNDS,
        "participations": CAP,
        "protected": row_of("clinic v1"),
    }
    sizes = {name: len(found) for name, found in records.items()}
    return Facts(schema, sizes, **(settings | changes))


def run(
    plan: PipelinePlan,
    records: dict[str, TableRecords],
    books: Any = None,
    sources: Any = None,
    set_up_for: dict[str, PipelinePlan] | None = None,
) -> PrivateExplainer:
    books = CountingGuard(CAP) if books is None else books
    clients = [
        Client(
            name,
            len(found),
            found,
            (set_up_for or {}).get(name, plan).tasks,
            books,
            *(() if sources is None else (sources,)),
        )
        for name, found in records.items()
    ]
    rounds = rounds_over(clients, source=Seeded(0))
    held_out = Unprotected(next(iter(records.values())), "generated")
    found = train_private_explainer(plan, rounds, unprotected=held_out)
    assert not [error for result in found.results.values() for error in result.errors]
    return found


@pytest.fixture(scope="module")
def plan(records: dict[str, TableRecords]) -> PipelinePlan:
    return split_total(facts(records), epsilon=2.0, delta=1e-5, training=QUICK)


@pytest.fixture(scope="module")
def trained(plan: PipelinePlan, records: dict[str, TableRecords]) -> PrivateExplainer:
    return run(plan, records)


# --- accounting -----------------------------------------------------------------------------------


def library_epsilon(steps: list[tuple[float, float, int]], delta: float) -> float:
    return _library_epsilon(tuple(_together(steps)), delta)


@cache
def _library_epsilon(steps: tuple[tuple[float, float, int], ...], delta: float) -> float:
    """dp-accounting by itself, without any of our events: (noise, rate, count) of each stage."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    composed: Any = None
    for noise, rate, count in steps:
        found = pld.from_gaussian_mechanism(
            noise, sampling_prob=rate, value_discretization_interval=1e-4
        ).self_compose(count)
        composed = found if composed is None else composed.compose(found)
    return float(composed.get_epsilon_for_delta(delta))


def steps_of(event: Any, times: int = 1) -> list[tuple[float, float, int]]:
    """A recorded event taken apart by hand."""
    if isinstance(event, Composed):
        return [part for inner in event.events for part in steps_of(inner, times)]
    if isinstance(event, Repeated):
        return steps_of(event.event, times * event.times)
    assert isinstance(event, PoissonSampled)
    assert event.relation is Relation.BLANK_ONE
    return [(event.event.noise_multiplier, event.probability, times)]


def test_the_books_of_every_client_add_up_to_the_total_by_a_second_path(
    plan: PipelinePlan, records: dict[str, TableRecords]
) -> None:
    """From what was recorded, with dp-accounting alone: below the total, and barely."""
    books = CountingGuard(CAP)
    found = run(plan, records, books)
    for name in records:
        mine = [p.event for p in books.participations if p.client == name]
        assert len(mine) == 2 * CAP
        steps = [part for event in mine for part in steps_of(event)]
        total = library_epsilon(steps, 1e-5)
        assert total <= 2.0 * 1.001
        assert total >= 2.0 * 0.98
    rows = [row for result in found.results.values() for row in result.rows]
    told = charged(rows)
    assert set(told) == set(records)
    for event in told.values():
        assert sorted(steps_of(event)) == sorted(_together(steps))


def _together(steps: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    total: dict[tuple[float, float], int] = {}
    for noise, rate, count in steps:
        total[noise, rate] = total.get((noise, rate), 0) + count
    return [(noise, rate, count) for (noise, rate), count in total.items()]


def test_steps_are_those_of_the_cap_and_not_of_the_rounds(
    records: dict[str, TableRecords],
) -> None:
    """With more rounds and the same cap each record is part of the same number of steps."""
    few = split_total(facts(records), epsilon=2.0, delta=1e-5, training=QUICK)
    many = split_total(
        facts(records, rounds=20, clients_per_round=1, participations=CAP + 1),
        epsilon=2.0,
        delta=1e-5,
        training=QUICK,
    )
    assert {count for _, _, count in steps_of(few.event())} == {4 * CAP}
    assert {count for _, _, count in steps_of(many.event())} == {4 * (CAP + 1)}
    assert many.noise[BLACK_BOX] > few.noise[BLACK_BOX]  # type: ignore[operator]


def test_the_joint_figure_stands_beside_the_published_sum(
    records: dict[str, TableRecords],
) -> None:
    budgets = {BLACK_BOX: ONE, SURROGATE: ONE, EXPLAINER: StageSpending(0.5, 1e-3)}
    plan = separate_budgets(facts(records), budgets, setting=Setting.FULL_PRIVATE, training=QUICK)
    figures = plan.figures
    for name, budget in budgets.items():
        assert figures.stages[name].delta == budget.delta
        assert budget.epsilon * 0.999 <= figures.stages[name].epsilon <= budget.epsilon
        steps = steps_of(plan.event(name))
        assert library_epsilon(steps, 1e-3) == pytest.approx(budget.epsilon, rel=0.01)
    assert figures.published.epsilon == pytest.approx(2.5, rel=1e-3)
    assert figures.published.delta == pytest.approx(3e-3)
    assert figures.joint.delta == figures.published.delta
    assert figures.joint.epsilon < 0.8 * figures.published.epsilon


def test_shares_move_noise_between_the_stages(records: dict[str, TableRecords]) -> None:
    plan = split_total(
        facts(records),
        epsilon=1.0,
        delta=1e-5,
        training=QUICK,
        shares={BLACK_BOX: 2.0, SURROGATE: 1.0},
    )
    assert plan.noise[BLACK_BOX] == pytest.approx(2 * plan.noise[SURROGATE])  # type: ignore[operator]
    assert 0.999 <= plan.epsilon(1e-5) <= 1.0
    assert plan.epsilon(1e-5, BLACK_BOX) < plan.epsilon(1e-5, SURROGATE)


def test_the_plan_account_holds_every_participation(plan: PipelinePlan) -> None:
    from voile.privacy.accounting import Plan

    account = Plan(plan.participation_events, 2.0, 1e-5)
    assert len(account.events) == 2 * CAP
    assert account.needed() == pytest.approx(plan.epsilon(1e-5), rel=1e-9)


def test_what_is_released_is_what_was_planned(
    plan: PipelinePlan, records: dict[str, TableRecords]
) -> None:
    """The event of a run is the event of the plan: a client refuses to send anything else."""
    task = plan.tasks[BLACK_BOX]
    (name, found) = next(iter(records.items()))
    message = Instruction(BLACK_BOX, 1, task.start(0))
    fitted = task.fit(message, found, len(found), Seeded(1))
    assert fitted.event == plan.events(BLACK_BOX)[0] == task.cost(len(found))
    loud = replace(task, noise_multiplier=0.1)
    assert loud.cost(len(found)) != task.cost(len(found))
    assert name


# --- results and promises -------------------------------------------------------------------------


def test_figures_on_held_out_rows_are_kept_for_each_round(trained: PrivateExplainer) -> None:
    assert [set(f) for f in trained.results[BLACK_BOX].figures] == [{"accuracy"}] * ROUNDS
    assert [set(f) for f in trained.results[SURROGATE].figures] == [{"fidelity"}] * ROUNDS


def test_explanations_of_the_surrogate_carry_the_joint_guarantee(
    trained: PrivateExplainer, clinic: ClinicFederation
) -> None:
    found = trained.of_surrogate(clinic.reference[:2])
    (promise,) = found.guarantees
    assert 1.99 < promise.epsilon <= 2.0
    assert promise.delta == 1e-5
    assert promise.protected == row_of("clinic v1")
    assert Adversary.SERVER_SEEING_UPDATES in promise.against
    assert promise.computational
    assert "running time is not observed" in promise.assumptions
    assert "disjoint" in promise.composition
    sums = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(sums, trained.surrogate.predict(clinic.reference[:2]), atol=1e-6)


def test_interventional_values_need_the_black_box_alone(
    trained: PrivateExplainer, clinic: ClinicFederation
) -> None:
    """But whoever sees them has seen the surrogate's rounds as well: the joint figure counts."""
    found = trained.of_black_box(clinic.reference[:2], clinic.reference, origin=PUBLIC)
    (promise,) = found.guarantees
    assert promise.epsilon == trained.plan.figures.joint.epsilon
    sums = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(sums, trained.black_box.predict(clinic.reference[:2]), atol=1e-6)


def test_reference_rows_say_where_they_come_from(
    trained: PrivateExplainer, clinic: ClinicFederation
) -> None:
    """Private rows as reference would be published under a guarantee about others."""
    rows = clinic.reference[:2]
    with pytest.raises(TypeError, match="origin"):
        trained.of_black_box(rows, rows)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="made from"):
        trained.of_black_box(rows, rows, origin=None)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="nothing can be promised about"):
        trained.of_black_box(rows, rows, origin=trained_on("clinic v1"))
    (plain,) = trained.of_black_box(rows, rows, origin=PUBLIC).guarantees
    elsewhere = replace(about(plain, dataset="elsewhere"), epsilon=0.5)
    both = trained.of_black_box(rows, rows, origin=trained_privately(elsewhere)).guarantees
    assert both == (plain, elsewhere)
    here = replace(plain, epsilon=0.5)
    (added,) = trained.of_black_box(rows, rows, origin=trained_privately(here)).guarantees
    assert added.epsilon == plain.epsilon + 0.5


def perceptron_like(explainer: FastShap) -> Any:
    """A network of the same shape that came from elsewhere."""
    return with_arrays({n: 2 * a for n, a in arrays_of(explainer.network).items()})


def test_a_distilled_explainer_costs_nothing_more(
    trained: PrivateExplainer, clinic: ClinicFederation
) -> None:
    from voile.training import TrainingPlan

    quick = TrainingPlan(steps=20, batch_rows=32, hidden=(16,), checks=1)
    explainer = trained.distilled(Seeded(0), plan=quick).explainer
    found = trained.by_network(explainer, clinic.reference[:3])
    assert found.guarantees == trained.of_surrogate(clinic.reference[:3]).guarantees
    foreign = FastShap(explainer.surrogate, perceptron_like(explainer))
    with pytest.raises(Refused, match="neither distilled nor trained here"):
        trained.by_network(foreign, clinic.reference[:3])
    with pytest.raises(Refused, match="no explainer is trained on rows"):
        _ = trained.trained_explainer


def test_what_is_made_with_seeded_noise_says_so(
    plan: PipelinePlan, records: dict[str, TableRecords], clinic: ClinicFederation
) -> None:
    found = run(plan, records, sources=SeededSources(1))
    explanation = found.of_surrogate(clinic.reference[:1])
    assert explanation.guarantees == ()
    assert KnownNote.SEEDED_NOISE in explanation.notes
    again = run(plan, records, sources=SeededSources(1))
    for stage in (BLACK_BOX, SURROGATE):
        first, second = found.results[stage].arrays, again.results[stage].arrays
        assert digest_of_arrays(first) == digest_of_arrays(second)


@pytest.mark.parametrize(
    ("setting", "noisy", "promised"),
    [
        (Setting.FREE_EXPLANATIONS, {BLACK_BOX, SURROGATE}, True),
        (Setting.FULL_PRIVATE, {BLACK_BOX, SURROGATE, EXPLAINER}, True),
        (Setting.SEMI_PRIVATE, {BLACK_BOX, SURROGATE}, False),
        (Setting.WITHOUT_PRIVACY, {BLACK_BOX}, False),
    ],
)
def test_settings_of_the_paper(
    records: dict[str, TableRecords],
    clinic: ClinicFederation,
    setting: Setting,
    noisy: set[str],
    promised: bool,
) -> None:
    plan = separate_budgets(
        facts(records), dict.fromkeys(noisy, ONE), setting=setting, training=QUICK
    )
    books = CountingGuard(CAP)
    found = run(plan, records, books)
    assert {p.stage for p in books.participations if p.event is not None} == noisy
    rows = clinic.reference[:2]
    if setting is Setting.FREE_EXPLANATIONS:
        explanation = found.of_surrogate(rows)
    else:
        explanation = found.by_network(found.trained_explainer, rows)
    assert bool(explanation.guarantees) is promised
    assert (KnownNote.NOT_PRIVATE in explanation.notes) is not promised
    if setting is Setting.FULL_PRIVATE:
        assert explanation.guarantees[0].epsilon == pytest.approx(plan.figures.joint.epsilon)
    # The black box is private in every setting; against a server only if all stages were.
    (promise,) = found.of_black_box(rows, clinic.reference, origin=PUBLIC).guarantees
    assert (Adversary.SERVER_SEEING_UPDATES in promise.against) is promised


def test_budgets_must_fit_the_setting(records: dict[str, TableRecords]) -> None:
    with pytest.raises(InvalidInput, match="needs budgets for"):
        separate_budgets(facts(records), {BLACK_BOX: ONE})


def test_the_twin_has_no_noise_and_promises_nothing(
    plan: PipelinePlan, records: dict[str, TableRecords], clinic: ClinicFederation
) -> None:
    twin = plan.twin()
    assert twin.participation_events == ()
    with pytest.raises(InvalidInput, match="without noise"):
        twin.epsilon(1e-5)
    found = run(twin, records, NoGuard())
    assert KnownNote.NOT_PRIVATE in found.of_surrogate(clinic.reference[:1]).notes
    assert found.results[BLACK_BOX].rows[0].event == ""


# --- nothing is promised that nobody stated -------------------------------------------------------


def with_little_noise(plan: PipelinePlan) -> PipelinePlan:
    return replace(plan, noise=dict.fromkeys(plan.noise, 0.5))


@pytest.mark.parametrize("changed", [PipelinePlan.twin, with_little_noise])
def test_clients_that_were_set_up_for_another_plan_get_no_promise(
    plan: PipelinePlan, records: dict[str, TableRecords], changed: Any
) -> None:
    with pytest.raises(Refused, match="at another cost than the plan's"):
        run(plan, records, NoGuard(), set_up_for=dict.fromkeys(records, changed(plan)))


def test_an_update_of_another_cost_is_left_out_and_the_server_has_seen_it(
    plan: PipelinePlan, records: dict[str, TableRecords], clinic: ClinicFederation
) -> None:
    found = run(plan, records, set_up_for={"city": plan.twin()})
    for result in found.results.values():
        left_out = {row.client for row in result.rows if not row.outcome.counts}
        assert left_out == {"city"}
        assert {row.outcome for row in result.rows if row.client == "city"} == {Outcome.OTHER_COST}
    (promise,) = found.of_surrogate(clinic.reference[:1]).guarantees
    assert promise.against == (Adversary.PUBLIC,)
    assert any("city" in assumption for assumption in promise.assumptions)


def test_noise_without_a_plan_is_no_promise_either(
    plan: PipelinePlan, records: dict[str, TableRecords]
) -> None:
    """The other way round: a plan without noise never calls arrays its own that had some."""
    with pytest.raises(Refused, match="at another cost"):
        run(plan.twin(), records, set_up_for=dict.fromkeys(records, plan))


@dataclass
class Charging(CountingGuard):
    """Books that charge an account: here one that exists in name only."""

    def before_participation(self, participation: Participation) -> Booking:
        return super().before_participation(participation)._replace(account="clinic v1: all")


def test_not_charged_stays_unless_an_account_was_named_with_every_answer(
    plan: PipelinePlan,
    trained: PrivateExplainer,
    records: dict[str, TableRecords],
    clinic: ClinicFederation,
) -> None:
    counted = trained.of_surrogate(clinic.reference[:1])
    assert (len(counted.guarantees), counted.notes.count(KnownNote.NOT_CHARGED)) == (1, 1)
    says = "each client did what it states"
    assert any(each.startswith(says) for each in counted.guarantees[0].assumptions)
    paid = run(plan, records, Charging(CAP))
    assert {row.account for r in paid.results.values() for row in r.rows} == {"clinic v1: all"}
    assert KnownNote.NOT_CHARGED not in paid.of_surrogate(clinic.reference[:1]).notes


def test_noise_is_really_added(plan: PipelinePlan, records: dict[str, TableRecords]) -> None:
    """Two runs that differ in noise alone differ; the mutant without noise would not."""
    first = run(plan, records, sources=SeededSources(1)).results[BLACK_BOX].arrays
    loud = replace(plan, noise=dict.fromkeys(plan.noise, 50.0))
    second = run(loud, records, sources=SeededSources(1)).results[BLACK_BOX].arrays
    spread = [float(np.abs(arrays["2.weight"]).mean()) for arrays in (first, second)]
    assert spread[0] != spread[1]


# --- a black box of one's own ---------------------------------------------------------------------


def scikit_learn_box(clinic: ClinicFederation) -> Any:
    from sklearn.linear_model import LogisticRegression

    data = clinic.together()
    return wrap(LogisticRegression(max_iter=2000).fit(data.rows, data.labels))


def torch_box(clinic: ClinicFederation) -> Any:
    features = len(clinic.schema.features)
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(features, 2), torch.nn.Softmax(-1))
    from voile.models import Simplex

    return wrap(module.eval(), outputs=Simplex())


def onnx_box(clinic: ClinicFederation) -> Any:
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    data = clinic.together()
    fitted = LogisticRegression(max_iter=2000).fit(data.rows, data.labels)
    shape = [None, data.rows.shape[1]]
    model = skl2onnx.convert_sklearn(
        fitted,
        initial_types=[("x", skl2onnx.common.data_types.FloatTensorType(shape))],
        options={"zipmap": False},
    )
    onnxruntime = pytest.importorskip("onnxruntime")
    return wrap(onnxruntime.InferenceSession(model.SerializeToString()), digest="0" * 64)


@pytest.mark.parametrize("build", [scikit_learn_box, torch_box, onnx_box])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_trained_black_box_is_explained_and_the_gap_is_stated(
    clinic: ClinicFederation, records: dict[str, TableRecords], build: Any
) -> None:
    box = build(clinic)
    plan = split_total(facts(records, black_box=box), epsilon=1.0, delta=1e-5, training=QUICK)
    found = run(plan, records)
    assert set(found.results) == {SURROGATE}
    (promise,) = found.of_surrogate(clinic.reference[:1]).guarantees
    assert 0.99 < promise.epsilon <= 1.0
    assert {FOREIGN_BOX, MODEL_OUTPUT_UNPUBLISHED} <= set(promise.assumptions)
    # Whether a foreign box is private is not ours to say.
    assert (
        found.of_black_box(clinic.reference[:1], clinic.reference, origin=PUBLIC).guarantees == ()
    )


def test_a_box_without_a_declared_range_is_refused(records: dict[str, TableRecords]) -> None:
    plan = split_total(
        facts(records, black_box=wrap(lambda rows: rows[:, :1])),
        epsilon=1.0,
        delta=1e-5,
        training=QUICK,
    )
    with pytest.raises(InvalidInput, match="no declared range"):
        _ = plan.stages[0].task.shapes


def test_a_box_that_mixes_the_rows_of_a_batch_is_asked_about_one_at_a_time(
    records: dict[str, TableRecords],
) -> None:
    """Else a record would enter the losses, and the clipped gradients, of all others."""
    seen: list[int] = []

    def highest(rows: Any) -> Any:
        seen.append(len(rows))
        return np.full(len(rows), rows[:, 0].max())

    (mine, *_) = records.values()
    for declared in (False, True):
        box = wrap(highest, outputs=Box(18, 95), treats_rows_independently=declared)
        found = Imitate(mine.schema, box).targets(mine, {})
        np.testing.assert_allclose(found[:, 0], mine.rows[:, 0], rtol=1e-6)
    assert set(seen) == {1}


def test_a_box_that_leaves_the_process_teaches_nothing_about_that_row(
    records: dict[str, TableRecords],
) -> None:
    (mine, *_) = records.values()
    oldest = mine.rows[:, 0].max()

    def leaving(rows: Any) -> Any:
        if (rows[:, 0] == oldest).any():
            raise SystemExit(f"{oldest} is not supported")
        return rows[:, 0]

    found = Imitate(mine.schema, wrap(leaving, outputs=Box(18, 95))).targets(mine, {})
    np.testing.assert_array_equal(np.isnan(found[:, 0]), mine.rows[:, 0] == oldest)


def test_a_box_with_a_range_is_imitated_within_it(
    records: dict[str, TableRecords], clinic: ClinicFederation
) -> None:
    box = wrap(lambda rows: rows[:, :1], outputs=Box(18, 95))
    plan = split_total(facts(records, black_box=box), epsilon=5.0, delta=1e-5, training=QUICK)
    found = run(plan, records)
    outputs = found.surrogate.predict(clinic.reference)
    assert outputs.shape[1] == 1
    assert ((outputs >= 18) & (outputs <= 95)).all()


# --- what clients do ------------------------------------------------------------------------------


def test_groups_play_together(records: dict[str, TableRecords], clinic: ClinicFederation) -> None:
    groups = {"vital": ("heart_rate", "systolic_pressure"), "person": ("age", "smoker")}
    plan = split_total(facts(records, groups=groups), epsilon=2.0, delta=1e-5, training=QUICK)
    found = run(plan, records)
    assert found.of_surrogate(clinic.reference[:1]).shape[1] == 3
    assert found.of_black_box(clinic.reference[:1], clinic.reference, origin=PUBLIC).shape[1] == 3


def test_the_proximal_term_holds_clients_near_the_global_arrays(
    plan: PipelinePlan, records: dict[str, TableRecords]
) -> None:
    (found, *_) = records.values()
    for noise in (None, 0.5):
        moved = []
        for strength in (0.0, 30.0):
            task = replace(
                plan.tasks[BLACK_BOX],
                noise_multiplier=noise,
                training=replace(QUICK[BLACK_BOX], epochs=8, proximal=strength),
            )
            message = Instruction(BLACK_BOX, 1, task.start(0))
            change = task.fit(message, found, len(found), Seeded(1)).change
            moved.append(sum(float(np.square(array).sum()) for array in change.values()))
        assert moved[1] < 0.7 * moved[0]


def test_training_leaves_the_number_of_threads_as_it_was(
    plan: PipelinePlan, records: dict[str, TableRecords]
) -> None:
    (found, *_) = records.values()
    task = plan.tasks[BLACK_BOX]
    with threadpool_limits(2, user_api="blas"):
        task.fit(Instruction(BLACK_BOX, 1, task.start(0)), found, len(found), Seeded(1))
        blas = [each for each in threadpool_info() if each["user_api"] == "blas"]
        assert {each["num_threads"] for each in blas} == {2}


def test_records_outside_the_schema_never_raise(clinic: ClinicFederation) -> None:
    data = clinic.hospitals["city"]
    rows = data.rows.copy()
    rows[0, :] = np.nan
    rows[1, 0] = 1e9
    rows[2, 2] = 77
    found = TableRecords.from_dataset(replace(data, rows=rows))
    assert np.isnan(found.columns[0]).all()  # the null record
    assert np.isfinite(found.columns[1:]).all()
    assert np.abs(found.columns[1:]).max() <= 2  # halves of the range, from the default


def test_figures_are_refused_on_anything_but_table_records(plan: PipelinePlan) -> None:
    task = plan.tasks[BLACK_BOX]
    with pytest.raises(InvalidInput, match="TableRecords"):
        task.evaluate(task.start(0), {}, Unprotected([[1.0]], "generated"))


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.5},
        {"epochs": 0},
        {"proximal": -1.0},
        {"decay": -1.0},
        {"rate": 0.1, "decay": 10.0},
    ],
)
def test_unsound_training_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Training(**changes)


def test_noise_is_the_same_at_every_client_and_so_is_the_event(plan: PipelinePlan) -> None:
    events = {plan.tasks[SURROGATE].cost(size) for size in (10, 200, 5_000)}
    assert len(events) == 1
    (event,) = events
    assert isinstance(event, Repeated)
    assert isinstance(event.event, PoissonSampled)
    assert isinstance(event.event.event, Gaussian)
