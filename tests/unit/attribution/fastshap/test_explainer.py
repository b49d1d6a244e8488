"""Learned explanations are close to exact ones, add up, and know when they are wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from experiments.lib.noisy_labels import NoisyLabels
from tests.unit.attribution.fastshap.examples import (
    PLAN,
    SCHEMA,
    explainer,
    model,
    rows,
    surrogate,
)
from tests.unit.training.twins import slopes_by_torch

from voile.attribution.fastshap import (
    LEARNED,
    Check,
    FastShap,
    KernelRegression,
    check,
    distil,
    draw_rows,
    exact_values,
    inferred_marginals,
    train_explainer,
    train_surrogate,
)
from voile.attribution.fastshap.checking import quality
from voile.attribution.fastshap.objectives import ShapleyLoss, normalised, total
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.randomness import Seeded
from voile.core.schema import Categories, Feature, Schema
from voile.training import TrainingPlan, perceptron

TEST = rows(60, seed=11)


@pytest.mark.parametrize("grouped", [False, True])
def test_it_is_close_to_exact_values(grouped: bool) -> None:
    found = quality(explainer(grouped), TEST)
    assert found.truth == "exact"
    assert min(found.cosine) > 0.99
    assert min(found.r_squared) > 0.97
    assert "cosine" in str(found)


@pytest.mark.parametrize("grouped", [False, True])
def test_attributions_add_up_to_the_last_digits(grouped: bool) -> None:
    found, imitator = explainer(grouped)(TEST), surrogate(grouped)
    # `predict` has every player's flag in the input, the explainer has them folded into the bias.
    total = imitator.predict(TEST) - imitator.base
    assert found.values.sum(axis=1) == pytest.approx(total, abs=1e-6)
    assert (found.base_values == imitator.base).all()
    assert found.feature_names == imitator.players.names
    assert found.notes == (LEARNED,)
    assert (found.data is None) is grouped


def test_an_untrained_network_adds_up_as_well() -> None:
    blank = perceptron(7, (5,), 8, np.random.default_rng(0))
    values = FastShap(surrogate(), blank)(TEST).values
    assert values.sum(axis=1) == pytest.approx(
        surrogate().predict(TEST) - surrogate().base, abs=1e-6
    )
    assert values.std(axis=1).max() < 1e-9  # no opinion: an even split


def test_threads_and_chunks_change_nothing() -> None:
    many = rows(3_000, seed=5)
    once = explainer().values(many)
    assert (replace(explainer(), threads=2).values(many) == once).all()
    assert explainer().values(many[1500:1510]) == pytest.approx(once[1500:1510], abs=1e-6)


def test_the_other_way_of_training_learns_the_same() -> None:
    other = train_explainer(
        surrogate(), rows(4_000), source=Seeded(1), plan=PLAN, objective=NoisyLabels(2)
    )
    assert min(quality(other, TEST).cosine) > 0.99
    assert other.history is not None
    losses = [point.validation_loss for point in other.history.points]
    assert losses[-1] is not None
    assert losses[0] is not None
    assert losses[-1] < losses[0]


def test_sampled_truth_agrees_with_exact_truth() -> None:
    exact, sampled = quality(explainer(), TEST), quality(explainer(), TEST, exact=False, orders=200)
    assert sampled.truth == "sampled from 200 orders"
    assert sampled.cosine == pytest.approx(exact.cosine, abs=0.005)


def test_a_single_player_needs_no_training() -> None:
    alone = train_surrogate(
        model(),
        rows(200),
        source=Seeded(0),
        schema=SCHEMA,
        groups={"all": SCHEMA.feature_names},
        plan=TrainingPlan(steps=20, hidden=(4,)),
    )
    found = train_explainer(alone, rows(200), source=Seeded(0))
    values = found(TEST).values[:, 0]
    assert values == pytest.approx(alone.predict(TEST) - alone.base, abs=1e-6)
    assert not check(found, TEST[:3]).doubtful.any()


# --- without data ---------------------------------------------------------------------------------


def test_draws_lie_inside_the_schema_and_reach_its_corners() -> None:
    found = draw_rows(SCHEMA, 5_000, np.random.default_rng(0))
    assert (SCHEMA.clamp(found) == found).all()
    assert found[:, 0].min() == 0
    assert found[:, 0].max() == 100
    assert np.bincount(found[:, 1].astype(int)) / 5_000 == pytest.approx([1 / 3] * 3, abs=0.03)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_distillation_touches_no_data(share: float) -> None:
    made = distil(
        surrogate(),
        SCHEMA,
        source=Seeded(2),
        plan=PLAN,
        inferred_share=share,
        unprotected_rows=TEST,
    )
    assert min(made.on_schema.cosine) > 0.99
    assert made.on_rows is not None
    assert min(made.on_rows.cosine) > 0.99
    assert distil(surrogate(), SCHEMA, source=Seeded(2), plan=TrainingPlan(steps=2)).on_rows is None


def test_a_surrogate_reveals_how_often_values_occur() -> None:
    schema = Schema("skewed", tuple(Feature(n, Categories((0, 1))) for n in "abc"))
    given = (np.random.default_rng(0).random((8_000, 3)) < [0.9, 0.2, 0.5]).astype(float)

    def forward(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = x @ np.array([0.3, 0.3, 0.2]) + 0.1 * x[:, 0] * x[:, 1]
        return found

    found = train_surrogate(forward, given, source=Seeded(0), schema=schema, plan=PLAN)
    laws = inferred_marginals(found, schema)
    assert [law[1] for law in laws.chances] == pytest.approx([0.9, 0.2, 0.5], abs=0.06)
    drawn = laws.draw(4_000, np.random.default_rng(1))
    assert drawn.mean(axis=0) == pytest.approx([0.9, 0.2, 0.5], abs=0.08)


def test_distillation_refuses_another_schema() -> None:
    other = Schema("other", SCHEMA.features)
    with pytest.raises(InvalidInput, match="another schema"):
        distil(surrogate(), other, source=Seeded(0))
    with pytest.raises(InvalidInput, match="the same, in the same order"):
        distil(surrogate(), Schema("x", SCHEMA.features[:3]), source=Seeded(0))
    with pytest.raises(InvalidInput, match="inferred_share"):
        distil(surrogate(), SCHEMA, source=Seeded(0), inferred_share=2.0)


# --- doubt ----------------------------------------------------------------------------------------


def test_a_check_estimates_the_error_of_learned_values() -> None:
    """The claim: sampling noise is taken out of the estimate."""
    truth = quality(explainer(), TEST)
    assert truth.largest_error < 0.1
    found = check(explainer(), TEST, orders=64)
    exact = exact_values(surrogate(), TEST).values
    real = float(np.sqrt(np.square(explainer().values(TEST) - exact).mean()))
    assert found.typical_error == pytest.approx(real, rel=0.5, abs=1e-3)
    assert "rows are doubtful" in str(found)


def test_a_check_finds_wrong_explanations_and_only_those() -> None:
    sound = check(explainer(), TEST, orders=16, tolerance=0.05)
    assert sound.doubtful.mean() <= 0.05
    blank = FastShap(surrogate(), perceptron(7, (5,), 8, np.random.default_rng(0)))
    assert check(blank, TEST, orders=16, tolerance=0.05).doubtful.mean() > 0.7


def test_sampling_noise_is_not_held_against_learned_values() -> None:
    """Known errors of 0.1 under sampling noise of three times their size."""
    draw = np.random.default_rng(0)
    truth = draw.normal(size=(4_000, 5, 1))
    names, base = tuple("abcde"), np.zeros(1)
    found = Check(
        learned=Explanation(values=truth + 0.1, base_values=base, feature_names=names),
        sampled=Explanation(
            values=truth + 0.3 * draw.normal(size=truth.shape),
            base_values=base,
            feature_names=names,
            standard_errors=np.full(truth.shape, 0.3),
        ),
        error=np.zeros(4_000),
        doubtful=np.zeros(4_000, dtype=np.bool_),
    )
    assert found.typical_error == pytest.approx(0.1, rel=0.2)


def test_chance_alone_is_no_reason_for_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact values differ from sampled ones, and pass at the stated level without tolerance."""
    monkeypatch.setattr(FastShap, "__call__", lambda self, x: exact_values(self.surrogate, x))
    test = rows(200, seed=31)
    assert check(explainer(), test, orders=8, level=0.01).doubtful.mean() <= 0.03
    # Eight values of a row are looked at; a level spent on each of them doubts four rows in ten.
    assert check(explainer(), test, orders=8, level=0.2).doubtful.mean() <= 0.2


def test_normalisation_meets_the_sum_and_keeps_differences() -> None:
    raw = np.random.default_rng(0).normal(size=(6, 4, 2)).astype(np.float32)
    gap = np.ones((6, 2), dtype=np.float32)
    found = normalised(raw, gap)
    assert found.sum(1) == pytest.approx(gap, abs=1e-6)
    assert found[:, 1] - found[:, 0] == pytest.approx(raw[:, 1] - raw[:, 0], abs=1e-6)


@pytest.mark.parametrize("objective", [KernelRegression(6), NoisyLabels(2)])
def test_slopes_of_explainers_are_those_of_torch(objective: KernelRegression | NoisyLabels) -> None:
    """Through normalisation, whose adjoint is written by hand."""
    import torch

    draw = np.random.default_rng(0)
    columns = surrogate().encoding.columns(TEST)
    gap = total(surrogate(), columns)
    batch = (columns, gap, *objective.targets(surrogate(), columns, gap, draw))
    loss, logits = ShapleyLoss(objective, 4), draw.normal(size=(len(TEST), 8)).astype(np.float32)
    given = [torch.from_numpy(np.array(part, dtype=np.float64)) for part in batch[1:]]

    def twin(raw: torch.Tensor) -> torch.Tensor:
        shaped = raw.view(len(TEST), 4, 2)
        attributions = shaped + ((given[0] - shaped.sum(1)) / 4)[:, None]
        if isinstance(objective, NoisyLabels):
            return (given[1] - attributions).square().sum((1, 2))
        return (given[2] - given[1] @ attributions).square().sum(-1).mean(-1)

    wanted = slopes_by_torch(twin, logits)
    np.testing.assert_allclose(loss.slopes(logits, batch), wanted, rtol=0, atol=1e-5)
    values = twin(torch.from_numpy(logits.astype(np.float64))).numpy()
    np.testing.assert_allclose(loss.values(logits, batch), values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrong", [{"orders": 1}, {"level": 0.0}, {"tolerance": -1.0}])
def test_impossible_checks_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        check(explainer(), TEST[:2], **wrong)  # type: ignore[arg-type]


# --- wrong input ----------------------------------------------------------------------------------


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="features"):
        explainer()(TEST[:, :3])
    with pytest.raises(InvalidInput, match="finite"):
        explainer()(np.full((1, 4), np.nan))
    with pytest.raises(InvalidInput, match="at least 20 rows"):
        train_explainer(surrogate(), TEST[:5], source=Seeded(0))
    with pytest.raises(InvalidInput, match="threads"):
        replace(explainer(), threads=0)
    with pytest.raises(InvalidInput, match="players"):
        FastShap(surrogate(), perceptron(7, (5,), 9, np.random.default_rng(0)))
    with pytest.raises(InvalidInput, match="pairs"):
        KernelRegression(3)
    with pytest.raises(InvalidInput, match="order"):
        NoisyLabels(0)


def test_nothing_here_needs_torch_to_be_imported() -> None:
    script = (
        "import sys, voile.attribution.fastshap, voile.training.private\n"
        "print({'torch', 'scipy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
