"""The experiment on private statistics: noise of parties, schemas, tables and their verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.harness import Figure
from experiments.private_statistics.boosted import Rounds, boosted, shrunk_steps
from experiments.private_statistics.headline import (
    BEST,
    BOOSTED,
    DEFAULT,
    LINEAR,
    NETWORK,
    OURS,
    Found,
    _lines,
    _stored,
    dp_ebm_columns,
    judged,
)
from experiments.private_statistics.peers import dp_ebm_of, is_installed, network_scores
from experiments.private_statistics.setting import (
    EPSILONS,
    STUDIES,
    Data,
    _feature,
    _texts,
    account_rho,
    cosine,
    fitted,
    scored,
    studied_schema,
    study_rho,
)
from experiments.private_statistics.small import (
    NOISES,
    SHARED,
    Run,
    line,
    on_threads,
    one_run,
    simulated,
)
from experiments.private_statistics.small import judged as small_judged
from experiments.private_statistics.study import table_lines
from experiments.private_statistics.targets import SETS, one_split
from tests.unit.release.statistics.examples import SCHEMA, people, records

from voile.core.schema import Categories, Label, Numbers
from voile.datasets import clinic_federation
from voile.models.additive import bin_codes
from voile.release.statistics import LabelledRecords


def test_noise_of_parties_adds_up() -> None:
    """Nine noises have the variance of nine; the cells of the tables follow the signal."""
    given = records(50)
    alone, nine = (fitted(given, SCHEMA, 0.1, noises).budget for noises in (1, 9))
    assert nine.tables_noise.sigma == pytest.approx(3 * alone.tables_noise.sigma)
    assert nine.signal == pytest.approx(alone.signal / 3)


def test_the_study_spent_a_little_more_than_an_account_grants() -> None:
    assert np.sqrt(2 * study_rho(2.0)) == pytest.approx(0.502, abs=1e-3)
    assert np.sqrt(2 * account_rho(2.0)) == pytest.approx(0.465, abs=1e-3)


def test_schemas_are_read_off_public_data() -> None:
    assert _feature("age", np.array([3.0, np.nan, 9.0])).domain == Numbers(3, 9, whole=True)
    assert _feature("weight", np.array([3.5, 9.0])).domain == Numbers(3.5, 9.0)
    texts = _texts(np.array(["b", None, " a"], dtype=object))
    assert _feature("colour", texts).domain == Categories(("a", "b", "missing"))


def test_the_table_has_a_line_for_each_kind_of_noise() -> None:
    study = STUDIES[0]
    kinds = (
        "pooled, ε = {:g}: {}",
        "local, ε = {:g}: {}",
        "an account of ε = {:g} beside plain LR: {}",
    )
    figures = [
        Figure(f"{study.title}, {kind.format(epsilon, what)}", "", 0.25, 0.75, None)
        for kind in kinds
        for epsilon in EPSILONS
        for what in ("AUC", "log-loss")
    ]
    figures += [Figure(f"{study.title}, boosting: {what}", "", 0.5, None, None) for what in "ab"]
    title, account, pooled, local = table_lines(study, figures)
    assert title[1] == "without privacy: plain LR 0.750 / 0.750, boosting 0.500 / 0.500"
    assert account[2:] == ["0.250 / 0.250"] * 4
    assert pooled[2:] == local[2:] == ["0.250 / 0.250 (0.750 / 0.750)"] * 4


def test_cosine() -> None:
    one = np.array([[1.0, 0.0], [0.0, 0.0]])
    assert cosine(one, 2 * one) == 1.0
    assert cosine(one, one[:, ::-1]) == 0.0


# --- beside other learners ------------------------------------------------------------------------


def _found(**given: tuple[float, float]) -> Found:
    return {
        OURS: (0.88, 0.40),
        LINEAR: (0.89, 0.38),
        BOOSTED: (0.9, 0.3),
        NETWORK: (0.8, 0.5),
        **given,
    }


def test_a_set_is_close_only_if_both_figures_are() -> None:
    near, area, loss = _found(), _found(), _found()
    area[LINEAR], loss[LINEAR] = (0.896, 0.38), (0.89, 0.374)
    (close,) = judged({"near": near, "area": area, "loss": loss})
    assert (close.ours, close.met) == (1, False)
    (close,) = judged(dict.fromkeys("abcd", near))
    assert (close.ours, close.met) == (4, True)


def test_dp_ebm_counts_at_its_best_rate() -> None:
    by_rate = {"0.01": (0.7, 0.6), "0.2": (0.87, 0.39), "0.5": (0.88, 0.4)}
    better = _found() | dp_ebm_columns(by_rate)
    assert (better[DEFAULT], better[BEST]) == ((0.7, 0.6), (0.87, 0.39))
    _, loss, area = judged(dict.fromkeys("abcde", better))
    assert (loss.ours, loss.met) == (0, False)
    assert (area.ours, area.met) == (5, True)
    ((title, *cells),) = _lines({"a": better}, {"a": by_rate})
    assert (title, cells[0], cells[-2]) == ("a", "0.880 / 0.400", "0.870 / 0.390 (0.2)")


def test_a_peer_that_is_missing_is_said() -> None:
    ((_, *cells),) = _lines({"a": _found()}, {})
    assert cells.count("not installed") == 2


def test_the_network_learns() -> None:
    clinic = clinic_federation(500).together()
    data = Data(clinic.schema, clinic.rows, clinic.labels)
    assert network_scores(data, 0, 8.0)[0] > 0.6


def test_stored_figures_of_dp_ebm_are_kept_where_it_is_not_installed() -> None:
    by_rate = _stored()["dp_ebm_by_rate"]
    assert set(by_rate) == {study.title for study in STUDIES}
    for each in by_rate.values():
        assert {DEFAULT, BEST} == set(dp_ebm_columns(each))


@pytest.mark.skipif(not is_installed("interpret"), reason="DP-EBM is not installed")
def test_dp_ebm_takes_bounds_from_the_schema() -> None:
    model = dp_ebm_of(SCHEMA, 2.0, 0.1)
    assert len(model.feature_types) == len(SCHEMA.features)


# --- small federations ----------------------------------------------------------------------------


def _run(area: float, loss: float, *, alarmed: bool = False) -> Run:
    return Run((area, loss), (0.8, 0.5), constant=0.6, alarmed=alarmed)


def test_a_useless_run_needs_an_alarm_or_a_refusal() -> None:
    useless, told = _run(0.78, 0.6), _run(0.78, 0.7, alarmed=True)
    area, silent = small_judged("a", [useless, told], False, True)
    assert area.met
    assert (silent.ours, silent.met) == (1, False)
    assert small_judged("a", [useless, told], True, True)[1].met
    assert small_judged("a", [told], False, True)[1].met
    assert not small_judged("a", [_run(0.76, 0.5)], False, True)[0].met
    assert [each.met for each in small_judged("a", [useless], False, False)] == [None, None]


def test_small_federations_are_judged_on_other_rows() -> None:
    clinic = clinic_federation(1200).together()
    data = Data(clinic.schema, clinic.rows, clinic.labels)
    run = one_run(data, 0, simulated(data, 0.01))
    assert 0.6 < run.ours[0] < 0.9
    assert run.ours[1] < run.constant
    assert not run.alarmed
    assert line("clinic", "shared", 30.4, [run], True)[2] == "30, refused"


def test_real_rounds_have_the_noise_that_is_simulated() -> None:
    clinic = clinic_federation(100).together()
    data = Data(clinic.schema, clinic.rows, clinic.labels)
    records = LabelledRecords.read(data.rows, data.schema, data.labels)
    real, like = (
        fit(records).budget for fit in (on_threads(data), simulated(data, NOISES[SHARED]))
    )
    assert (real.rows, real.bins) == (800, like.bins)
    assert real.signal == pytest.approx(like.signal, rel=1e-3)


# --- boosting on noisy histograms -----------------------------------------------------------------


def test_steps_are_shrunk_by_how_far_they_stand_out_of_the_noise() -> None:
    gradients, curvatures = np.array([100.0, -100.0]), np.array([1000.0, 1000.0])
    loud = shrunk_steps(gradients, curvatures, 1.0)
    assert loud == pytest.approx([0.1, -0.1], rel=0.1)
    assert shrunk_steps(gradients, curvatures, 1000.0) == pytest.approx([0, 0])


def test_boosting_finds_an_interaction() -> None:
    """A label that depends on the product of two features, with hardly any noise."""
    draw = np.random.default_rng(0)
    rows, other = people(4000)
    rows[:, 3:] = draw.integers(0, 2, (4000, 2))
    labels = np.where(draw.random(4000) < 0.9, rows[:, 3] == rows[:, 4], other).astype(float)
    found = fitted(LabelledRecords.read(rows, SCHEMA, labels), SCHEMA, 10.0).model
    codes, seen = bin_codes(found.bins, SCHEMA, rows), (np.arange(4000), labels)
    after = boosted(found.log_odds(rows), found, codes, seen, Rounds(2, 40, None, 1), 10.0, draw)
    assert scored(labels, found.predict(rows)[:, 1])[0] < 0.6
    assert scored(labels, 1 / (1 + np.exp(-after)))[0] > 0.85


# --- several classes and numbers ------------------------------------------------------------------


def test_targets_are_scored_beside_the_constant() -> None:
    classes, number = one_split(SETS["iris, 3 classes"](), 0), one_split(_line(), 0)
    assert classes.ours[1] < classes.constant[1]
    assert classes.plain[0] > classes.constant[0]
    assert number.constant[0] == pytest.approx(0, abs=0.05)
    assert number.ours[0] > 0.5


def _line() -> Data:
    """A number that follows one feature."""
    draw = np.random.default_rng(0)
    x = draw.random(2000)
    schema = studied_schema("line", {"x": x}, Label("y", Numbers(0.0, 1.0)))
    return Data(schema, x[:, np.newaxis], np.clip(x + 0.1 * draw.normal(size=2000), 0, 1))
