"""Values before noise: the right ones, by all coalitions and by some."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.privacy.sensitivity.games import ascent, shapley_matrix
from voile.attribution import CONSTANT_WORK, ExactShapley, Speed
from voile.attribution.players import Players
from voile.core.errors import InvalidInput
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.release.coalition_designs import BackgroundRowDesigns, full_stretch, sampling_error
from voile.release.games import BackgroundGames, background_outputs, joint
from voile.release.output_sets import BoundedModel
from voile.release.records import Records

PLAYERS = 6
SCHEMA = Schema("six", tuple(Feature(f"f{i}", Numbers(-9.0, 9.0)) for i in range(PLAYERS)))
DRAW = np.random.default_rng(2)
WEIGHTS = DRAW.normal(size=(PLAYERS, 4))
ROWS = DRAW.normal(size=(3, PLAYERS))
BACKGROUND = np.round(DRAW.normal(size=(30, PLAYERS)))
GROUPS = {"first": ("f0", "f3"), "second": ("f1", "f2")}


def two(rows: Any) -> Any:
    waves = np.sin(rows @ WEIGHTS + 0.7)
    return np.column_stack([waves.prod(axis=1), waves[:, 0] * waves[:, 1]])


def games(
    background: NDArray[np.float64] = BACKGROUND,
    *,
    groups: Any = None,
    speed: Speed | None = None,
    designs: BackgroundRowDesigns | None = None,
    together: bool = True,
) -> BackgroundGames:
    model = wrap(two, outputs=Box(-1, 1), digest="two", treats_rows_independently=together)
    return BackgroundGames.from_model(
        BoundedModel.from_model(model, SCHEMA),
        Records.read(background, SCHEMA, "the background"),
        schema=SCHEMA,
        players=Players.from_groups(SCHEMA.feature_names, groups),
        speed=speed or Speed(),
        designs=designs,
    )


def played(given: BackgroundGames, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return joint(given, rows, background_outputs(given))


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("speed", [Speed(), Speed(short_cuts=CONSTANT_WORK), Speed(batch_rows=7)])
def test_exact_values_are_those_of_the_explainer(groups: Any, speed: Speed) -> None:
    model = wrap(two, outputs=Box(-1, 1))
    expected = ExactShapley(model, BACKGROUND, schema=SCHEMA, groups=groups)(ROWS)
    found = played(games(groups=groups, speed=speed), ROWS)
    assert np.allclose(found[:, :-1], expected.values, atol=1e-13)
    assert np.allclose(found[:, -1], expected.base_values, atol=1e-13)


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("sampled", [False, True])
def test_pair_by_pair_a_model_of_single_rows_plays_the_same_games(
    groups: Any, sampled: bool
) -> None:
    with_null = BACKGROUND.copy()
    with_null[4] = math.nan
    players = Players.from_groups(SCHEMA.feature_names, groups).count
    designs = BackgroundRowDesigns(players, len(BACKGROUND), 8, 0) if sampled else None
    settings: dict[str, Any] = {"groups": groups, "designs": designs}
    apart = games(with_null, together=False, **settings)
    assert not apart.together
    expected = played(games(with_null, **settings), ROWS)
    assert np.allclose(played(apart, ROWS), expected, atol=1e-13)


def test_rows_come_back_in_their_order() -> None:
    several = ROWS[[2, 0, 2, 1]]
    assert np.array_equal(played(games(), several), played(games(), ROWS)[[2, 0, 2, 1]])


@pytest.mark.parametrize("speed", [Speed(), Speed(short_cuts=CONSTANT_WORK)])
def test_a_null_record_plays_the_game_of_the_centre(speed: Speed) -> None:
    """By the definition: worth the centre everywhere, and f(x) where everybody is in."""
    with_null = BACKGROUND.copy()
    with_null[[4, 9]] = math.nan
    others = np.delete(BACKGROUND, [4, 9], axis=0)
    rest = played(games(others), ROWS)
    null = np.zeros((len(ROWS), PLAYERS + 1, 2))
    worth = np.zeros((2**PLAYERS, 2))
    for row, output in enumerate(two(ROWS)):
        worth[-1] = output
        null[row, :-1] = shapley_matrix(PLAYERS) @ worth
    expected = (28 * rest + 2 * null) / 30
    assert np.allclose(played(games(with_null, speed=speed), ROWS), expected, atol=1e-13)


def test_a_background_of_null_records_only_says_nothing_about_anybody() -> None:
    found = played(games(np.full((3, PLAYERS), math.nan)), ROWS)
    assert np.allclose(found[:, :-1], two(ROWS)[:, np.newaxis] / PLAYERS, atol=1e-14)
    assert not found[:, -1].any()


def test_sums_are_pairwise() -> None:
    """A hundred thousand rows, of which one tells: lost in a sum that goes row by row."""
    schema = Schema("one", (Feature("f", Numbers(0.0, 1.0)),))
    rows = np.full((100_000, 1), 1 / 3)
    model = wrap(
        lambda given: given[:, 0], outputs=Box(0, 1), digest="line", treats_rows_independently=True
    )
    one = BackgroundGames.from_model(
        BoundedModel.from_model(model, schema),
        Records.read(rows, schema, "the background"),
        schema=schema,
        players=Players.from_groups(("f",), None),
        speed=Speed(short_cuts=CONSTANT_WORK),
        designs=None,
    )
    found = played(one, np.array([[0.5]]))
    exact = math.fsum([1 / 3] * 100_000) / 100_000
    assert abs(found[0, 1, 0] - exact) < 2e-15
    assert abs(found[0, 0, 0] - (0.5 - exact)) < 2e-15


# --- Some coalitions ------------------------------------------------------------------------------


def test_drawn_coalitions_are_right_on_average() -> None:
    """2,000 copies of one background row: the error is within its bound, wrong once in 1e6."""
    copies = np.repeat(BACKGROUND[:1], 2000, axis=0)
    designs = BackgroundRowDesigns(PLAYERS, 2000, 10, seed=3)
    found = played(games(copies, designs=designs), ROWS)
    exact = played(games(BACKGROUND[:1]), ROWS)
    error = sampling_error(
        harmonic=designs.harmonic, players=PLAYERS, pairs=10, background_rows=2000, width=2.0
    )
    count = found[:, :-1].size
    assert np.abs(found - exact)[:, :-1].max() < error.half_width(1e-6 / count)
    assert np.allclose(found[:, -1], exact[:, -1], atol=1e-12)
    # Efficiency holds without sampling error.
    assert np.allclose(found.sum(axis=1), two(ROWS), atol=1e-12)


def test_drawn_coalitions_respect_null_records() -> None:
    null = BACKGROUND.copy()
    null[:] = math.nan
    designs = BackgroundRowDesigns(PLAYERS, 30, 5, seed=0)
    assert np.allclose(played(games(null, designs=designs), ROWS), played(games(null), ROWS))


def test_each_weight_is_what_the_coalition_counts_over_its_chance() -> None:
    """The sum over all coalitions of chance × weight is the Shapley matrix itself."""
    designs = BackgroundRowDesigns(PLAYERS, 1, 2**PLAYERS - 2, seed=0)
    every = np.array(list(itertools.product([False, True], repeat=PLAYERS))[1:-1])
    designs.__dict__["coalitions"] = every[np.newaxis]
    size = every.sum(axis=1)
    each = 1 / np.sqrt(size * (PLAYERS - size))
    chance = each / np.array([math.comb(PLAYERS, s) for s in size]) / designs.harmonic
    assert chance.sum() == pytest.approx(1)
    weights = designs.weights(slice(0, 1))[0] * designs.pairs * chance[:, np.newaxis]
    bits = (every * (1 << np.arange(PLAYERS))).sum(axis=1)
    assert np.allclose(weights.T, shapley_matrix(PLAYERS)[:, bits])


@pytest.mark.parametrize("pairs", [4, 40])
def test_no_game_is_stretched_beyond_the_certificate(pairs: int) -> None:
    designs = BackgroundRowDesigns(PLAYERS, 4, pairs, seed=1)
    furthest = 0.0
    for row in range(4):
        weights = designs.weights(slice(row, row + 1))[0].T
        found = ascent(weights, lambda c: np.where(c >= 0, 1.0, -1.0), outputs=1, starts=30)
        furthest = max(furthest, found)
    assert 0.6 * designs.stretch < furthest <= designs.stretch


def test_more_coalitions_come_down_to_all_of_them() -> None:
    stretches = [
        BackgroundRowDesigns(12, 5, pairs, seed=0).stretch for pairs in (12, 120, 1200, 12_000)
    ]
    assert stretches == sorted(stretches, reverse=True)
    assert full_stretch(12) < stretches[-1] < 1.05 * full_stretch(12)


@pytest.mark.parametrize("last_digits", [-2e-15, 2e-15])
def test_the_certificate_is_the_same_on_every_processor(
    monkeypatch: pytest.MonkeyPatch, last_digits: float
) -> None:
    here, eigenvalues = BackgroundRowDesigns(18, 3, 36, seed=0).stretch, np.linalg.eigvalsh
    monkeypatch.setattr(
        np.linalg, "eigvalsh", lambda matrices: eigenvalues(matrices) * (1 + last_digits)
    )
    assert BackgroundRowDesigns(18, 3, 36, seed=0).stretch == here


def test_one_background_row_moves_sampled_values_by_no_more_than_the_bound() -> None:
    """Worst games for drawn coalitions, through the whole computation."""
    from voile.core.guarantee import Relation
    from voile.privacy.sensitivity import sampled_shapley_background_with_base

    designs = BackgroundRowDesigns(PLAYERS, 2, 6, seed=5)
    inside = designs.coalitions[0]
    bound = sampled_shapley_background_with_base(
        features=PLAYERS,
        background_rows=2,
        output_width=2.0,
        relation=Relation.REPLACE_ONE,
        stretch=designs.stretch,
    ).value
    draw = np.random.default_rng(0)
    furthest = 0.0
    for _ in range(200):
        direction = draw.normal(size=PLAYERS)
        signs = np.sign(designs.weights(slice(0, 1))[0] @ direction)
        known = {tuple(mask): s for mask, s in zip(inside.tolist(), signs, strict=True)}
        known |= {tuple((~mask).tolist()): -known[tuple(mask.tolist())] for mask in inside}

        def worth(rows: Any, known: dict[Any, Any] = known) -> Any:
            """1 or −1 by coalition against the row of 1s, opposite against the row of 2s."""
            found = []
            for row in rows:
                worth = known.get(tuple((row == 0).tolist()), 1.0)
                found.append(-worth if (row == 2).any() else worth)
            return np.array(found)

        pair = []
        for value in (1.0, 2.0):
            rows = np.full((2, PLAYERS), 3.0)
            rows[0] = value
            model = wrap(worth, outputs=Box(-1, 1), digest="worst", treats_rows_independently=True)
            one = replace(
                games(rows, designs=designs), bounded=BoundedModel.from_model(model, SCHEMA)
            )
            one = replace(one, game=replace(one.game, model=one.bounded.model))
            pair.append(played(one, np.zeros((1, PLAYERS))))
        furthest = max(furthest, float(np.linalg.norm(pair[0] - pair[1])))
    assert 0.6 * bound < furthest <= bound


def test_designs_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one pair"):
        BackgroundRowDesigns(1, 5, 5, 0)
    with pytest.raises(InvalidInput, match="too much memory"):
        BackgroundRowDesigns(500, 100_000, 8000, 0)


@pytest.mark.parametrize("sampled", [False, True])
def test_constant_work_asks_as_often_for_equal_rows_as_for_others(sampled: bool) -> None:
    """Rows of a population over itself are protected: how many are equal must not show."""
    asked = []

    def count(rows: Any) -> Any:
        asked.append(len(rows))
        return two(rows)

    model = wrap(count, outputs=Box(-1, 1), digest="two", treats_rows_independently=True)
    found = []
    for rows in (ROWS, np.repeat(ROWS[:1], len(ROWS), axis=0)):
        designs = BackgroundRowDesigns(PLAYERS, len(BACKGROUND), 4, seed=1) if sampled else None
        slow = games(speed=Speed(short_cuts=CONSTANT_WORK), designs=designs)
        slow = replace(slow, bounded=BoundedModel.from_model(model, SCHEMA))
        slow = replace(slow, game=replace(slow.game, model=slow.bounded.model))
        asked.clear()
        played(slow, rows)
        found.append(sum(asked))
    assert found[0] == found[1]
