"""Transparency levels: who plays, who may ask, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contract.releases import MODEL, PEOPLE, SCHEMA
from tests.paying import as_if_paid
from tests.protecting import row_of
from voile.attribution import ExactShapley
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.release import (
    PUBLIC,
    Level,
    PostProcessed,
    PrivateBackground,
    PrivateBackgroundShapley,
    PrivateClusters,
    PrivateInteractions,
    Release,
    Role,
    at_level,
    declared_clusters,
    derived,
)

PRIVATE = PrivateBackground(
    PEOPLE,
    protected=row_of("d"),
    delta=1e-5,
    noise_share=0.1,
)
CLUSTERS = declared_clusters({"both": ("age", "dose")})
PLAYERS = {
    Level.SUMMARY: ("person", "treatment"),
    Level.AGGREGATE: ("both", "sex"),
    Level.DETAILED: ("age", "sex", "dose"),
    Level.GRANULAR: ("age", "sex", "dose", "age × sex", "age × dose", "sex × dose"),
}


def at(level: Level, background: Any = PRIVATE, **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "role": Role.AUDITOR,
        "model": MODEL,
        "background": background,
        "schema": SCHEMA,
        "origins": [PUBLIC],
        "clusters": CLUSTERS,
    }
    return at_level(level, **(settings | changes))


# --- who plays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("background", [PRIVATE, PEOPLE[:5]], ids=["private", "public"])
def test_each_level_has_its_players_and_says_which_level_it_is(
    level: Level, background: Any
) -> None:
    release = at(level, background)
    assert isinstance(release, Release)
    assert release.draw(PEOPLE[:2]).feature_names == PLAYERS[level]
    assert release.identity.level == str(level)


def test_groups_play_their_own_game_and_are_not_sums() -> None:
    """The values of groups as players, before noise, against those of the exact method."""
    release = at(Level.SUMMARY)
    groups = SCHEMA.semantic_groups()
    exact = ExactShapley(MODEL, PEOPLE, groups=groups, schema=SCHEMA)(PEOPLE[:2])
    assert np.allclose(release.before_noise(PEOPLE[:2])[:, :-1], exact.values)


def test_public_rows_cost_nothing_and_private_rows_do() -> None:
    for level in Level:
        assert at(level, PEOPLE[:5]).cost(1) is None
        assert at(level).cost(1) is not None
    assert isinstance(at(Level.DETAILED, PEOPLE[:5]), PostProcessed)
    assert type(at(Level.DETAILED)) is PrivateBackgroundShapley
    assert isinstance(at(Level.GRANULAR), PrivateInteractions)


def test_many_players_over_public_rows_are_sampled() -> None:
    wide = Schema("wide", tuple(Feature(f"f{i}", Numbers(0.0, 1.0)) for i in range(18)))
    model = wrap(lambda rows: rows.mean(axis=1), outputs=Box(0, 1), digest="mean")
    release = at(Level.DETAILED, np.zeros((2, 18)), schema=wide, model=model, clusters=None)
    assert "kernel" in release.title


def test_clusters_that_cost_something_carry_their_guarantee_forward() -> None:
    clusters = PrivateClusters(
        PEOPLE,
        schema=SCHEMA,
        epsilon=1.0,
        delta=1e-6,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "others"),
        count=2,
    )
    with pytest.raises(Refused, match="nobody was charged"):
        at(Level.AGGREGATE, clusters=clusters.draw())
    paid = as_if_paid(clusters)
    promised = at(Level.AGGREGATE, clusters=paid).guarantees(1)
    assert [guarantee.protected.dataset for guarantee in promised] == ["d", "others"]
    assert len(at(Level.DETAILED, clusters=paid).guarantees(1)) == 1
    with pytest.raises(InvalidInput, match="clusters"):
        at(Level.AGGREGATE, clusters=None)


# --- who may ask --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("role", Role)
def test_a_role_that_is_too_low_is_refused(level: Level, role: Role) -> None:
    high_enough = list(Role).index(role) >= list(Level).index(level)
    if high_enough:
        assert at(level, PEOPLE[:5], role=role)
        return
    with pytest.raises(Refused, match="needs the role"):
        at(level, PEOPLE[:5], role=role)


def test_unknown_words_are_said() -> None:
    with pytest.raises(InvalidInput, match="summary"):
        at("everything")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="reader"):
        at(Level.SUMMARY, role="king")
    assert at("summary", role="reader")  # type: ignore[arg-type]


# --- what it states -----------------------------------------------------------------------------


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_epsilon_follows_from_the_noise_level(level: Level, relation: Relation) -> None:
    background = replace(PRIVATE, protected=row_of("d", relation), noise_share=0.2)
    release = at(level, background)
    assert release.preview().standard_error == pytest.approx(0.2, rel=1e-6)
    assert release.protected == row_of("d", relation)
    assert release.epsilon == release.guarantees(1)[0].epsilon
    assert release.sensitivity.relation is relation


def test_an_epsilon_of_ones_own_is_kept() -> None:
    assert at(Level.SUMMARY, replace(PRIVATE, epsilon=0.3)).epsilon == 0.3


def test_finer_levels_cost_more_at_the_same_noise() -> None:
    epsilons = [at(level).epsilon for level in (Level.SUMMARY, Level.DETAILED)]
    assert epsilons[0] < epsilons[1] < at(Level.GRANULAR).epsilon


def test_plenty_of_rows_still_state_an_epsilon_above_zero() -> None:
    many = replace(PRIVATE, rows=np.repeat(PEOPLE, 500, axis=0), noise_share=0.5)
    assert at(Level.SUMMARY, many).epsilon > 0


# --- derivation ---------------------------------------------------------------------------------


def test_sums_are_free_and_labelled() -> None:
    drawn = at(Level.DETAILED, replace(PRIVATE, epsilon=1.0)).draw(PEOPLE[:2])
    coarse = derived(drawn, Level.SUMMARY, role=Role.READER, schema=SCHEMA)
    assert coarse.feature_names == ("person", "treatment")
    assert np.allclose(coarse.values[:, 0], drawn.values[:, 0] + drawn.values[:, 1])
    assert KnownNote.SUMMED in coarse.notes
    assert coarse.guarantees == drawn.guarantees
    clustered = derived(drawn, Level.AGGREGATE, role=Role.USER, schema=SCHEMA, clusters=CLUSTERS)
    assert clustered.feature_names == ("both", "sex")


def test_what_was_not_released_or_is_no_attribution_is_not_derived_from() -> None:
    bare = ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA)(PEOPLE[:2])
    drawn = at(Level.DETAILED, PEOPLE[:5]).draw(PEOPLE[:2])
    paid = replace(CLUSTERS, event=at(Level.SUMMARY).cost(1))

    def refused(explanation: Any, level: Level = Level.SUMMARY, **changes: Any) -> None:
        settings: dict[str, Any] = {"role": Role.AUDITOR, "schema": SCHEMA} | changes
        with pytest.raises(Refused):
            derived(explanation, level, **settings)

    assert derived(drawn, Level.SUMMARY, role=Role.READER, schema=SCHEMA)
    refused(bare)
    refused(drawn, Level.DETAILED)
    refused(drawn, Level.AGGREGATE, role=Role.READER, clusters=CLUSTERS)
    refused(drawn, Level.AGGREGATE, clusters=paid)
    refused(replace(drawn, notes=(*drawn.notes, KnownNote.NAMES_ONLY)))
    refused(derived(drawn, Level.SUMMARY, role=Role.READER, schema=SCHEMA))
    refused(at(Level.SUMMARY, PEOPLE[:5]).draw(PEOPLE[:2]))
