"""What is said of a population, or of one explained row, audited.

Of a population: importance, names, histograms, clusters of features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from math import ceil
from typing import Any, Final

import numpy as np

from voile.assess.assessment import Arrangement, AuditTrial
from voile.assess.betting import Floats
from voile.assess.claims import group_size
from voile.assess.invented import InventedExplainer, InventedGame, MemorisingExplainer
from voile.assess.release_canary import ReleaseCanary, all_of, otherwise, pair
from voile.assess.shared_sums import canary_in_sum
from voile.core.guarantee import ProtectedUnit, Relation
from voile.core.schema import Categories, Numbers, Rows, Schema
from voile.pipelines.shared_importance import ShareImportance
from voile.privacy.events import PrivacyEvent
from voile.privacy.sensitivity import Norm
from voile.release import (
    PUBLIC,
    ByExplainer,
    ClippedRelease,
    NoisyValues,
    OverItself,
    PrivateClusters,
    PrivateGlobalImportance,
    PrivateHistograms,
    PrivateTopFeatures,
    TopFeaturesOfRow,
)
from voile.release.charged import ArtefactRelease
from voile.release.records import Records

MOST_TOGETHER: Final = 16
_TIMES: Final = 8
"""Times as many records as canaries, in a population that is its own background."""
_CONCENTRATED: Final = 8.0
"""Among names, those that the canary says nothing about are e⁸ times less likely than others."""
_BINS: Final = 4
"""Cells of a audited histogram; noise is drawn for each."""


def importance(release: PrivateGlobalImportance, together: int) -> tuple[Arrangement, ...]:
    """Mean absolute values, by an explainer or of the population over itself."""
    source, game = release.importance, InventedGame(release.importance.schema)
    if isinstance(source, OverItself):
        return (_over_itself(release, source, game, together),)
    made = _by_invented_explainer(release, source, game)
    return tuple(
        pair(
            f"as many others{place and ', in another part'}",
            _mean_of(made, game.explained, together, together, place),
            game,
            release.protected.relation,
        )
        for place in ("", *made.parts[1:][-1:])
    )


def _by_invented_explainer(
    release: PrivateGlobalImportance, source: ByExplainer, game: InventedGame
) -> PrivateGlobalImportance:
    size = len(source.players), len(source.output_names)
    names = source.players, source.output_names
    vectors = 2 * source.longest * _ends_of_means(size, release.protected.relation)
    explainer = InventedExplainer(np.concatenate([game.canary, game.against]), vectors, names)
    tried = replace(source, explainer=explainer)
    object.__setattr__(tried, "inner", MemorisingExplainer(tried.inner))
    return replace(release, importance=tried, origins=(PUBLIC,))


def importance_sum_trial(
    name: str, task: ShareImportance, charged: PrivacyEvent, *, honest: int, delta: float
) -> AuditTrial:
    """A sum over parties that share the noise, see `voile.assess.shared_sums`.

    Args:
        name: of the trial.
        task: of one party.
        charged: for it.
        honest: how many parties' shares are in every sum.
        delta: at which epsilon is stated.
    """
    together = group_size(charged, MOST_TOGETHER)

    def arrangements(half: bool) -> tuple[Arrangement, ...]:
        tried = replace(task, rho=4 * task.rho) if half else task
        return (_in_shares(tried, honest, together),)

    return AuditTrial(name, charged, arrangements, delta, together)


def _in_shares(task: ShareImportance, honest: int, together: int) -> ReleaseCanary:
    release, others = task.release, together
    source, game = release.importance, InventedGame(release.importance.schema)
    if isinstance(source, OverItself):
        made, others = _over_invented_model(release, source, game), together * (_TIMES - 1)
        inside, outside, filler = _furthest_apart(made, game)
    else:
        made, filler = _by_invented_explainer(release, source, game), game.explained
        inside, outside = game.canary, otherwise(game, release.protected.relation)
    tried = replace(task, release=made)

    def steps(row: Rows) -> Sequence[Any]:
        rows = np.concatenate([np.repeat(row, together, axis=0), np.repeat(filler, others, axis=0)])
        return [tried.exact(Records.read(rows, made.importance.schema, "invented"))]

    return canary_in_sum("as many others", task.noise, steps(inside), steps(outside), honest)


def _ends_of_means(size: tuple[int, int], relation: Relation) -> Floats:
    """Explanations of the canary, of what stands against it, and of everybody else.

    All values move, each as far as the others: whoever clips them one by one lets more through, and
    noise that is missing anywhere is missed. Of absolute values two lie furthest apart where each
    is zero whenever the other is not.
    """
    places = np.arange(size[0] * size[1]).reshape(size)
    if relation is Relation.REPLACE_ONE:
        return np.stack([1.0 * (places % 2 == 0), 1.0 * (places % 2 == 1), np.zeros(size)])
    return np.stack([np.ones(size), np.zeros(size), np.zeros(size)])


def _over_itself(
    release: PrivateGlobalImportance, source: OverItself, game: InventedGame, together: int
) -> ReleaseCanary:
    made = _over_invented_model(release, source, game)
    inside, outside, filler = _furthest_apart(made, game)
    side = _mean_of(made, filler, together, together * (_TIMES - 1))
    return ReleaseCanary("many others", partial(side, inside), partial(side, outside))


def _over_invented_model(
    release: PrivateGlobalImportance, source: OverItself, game: InventedGame
) -> PrivateGlobalImportance:
    model = game.model(source.outputs, len(source.output_names))
    return replace(release, importance=replace(source, model=model), origins=(PUBLIC,))


def _furthest_apart(made: PrivateGlobalImportance, game: InventedGame) -> tuple[Rows, Rows, Rows]:
    """Rows of the canary, of what stands against it, and of all others."""
    return max(_ends(game, made.protected.relation), key=partial(_apart, made))


def _ends(game: InventedGame, relation: Relation) -> Iterator[tuple[Rows, Rows, Rows]]:
    """Rows that may be the canary, what stands against it, and all others."""
    mixed = game.canary
    mixed[0, game.first] = game.explained[0, game.first]
    rows = game.canary, game.against, game.explained, mixed
    if relation is Relation.REPLACE_ONE:
        yield from permutations(rows, 3)
    else:
        yield from ((one, otherwise(game, relation), two) for one, two in product(rows, rows))


def _apart(made: PrivateGlobalImportance, ends: tuple[Rows, Rows, Rows]) -> float:
    """How far two populations lie apart before there is noise; all of them are invented."""
    *sides, filler = ends
    fillers = np.repeat(filler, _TIMES - 1, axis=0)
    means = [
        np.abs(
            made.importance.vectors(
                Records.read(np.concatenate([row, fillers]), made.importance.schema, "invented")
            )
        ).mean(axis=0)
        for row in sides
    ]
    return float(np.linalg.norm(means[0] - means[1]))


def _mean_of(
    made: PrivateGlobalImportance, filler: Rows, together: int, others: int, place: str = ""
) -> Callable[[Rows, int], Floats]:
    """Of a population that holds the canary; in parts, in one of them, the first if not named."""
    fillers = np.repeat(filler, others, axis=0)

    def side(row: Rows, draws: int) -> Floats:
        rows: Any = np.concatenate([np.repeat(row, together, axis=0), fillers])
        if made.parts:
            without = np.repeat(filler, together + others, axis=0)
            rows = {**dict.fromkeys(made.parts, without), place or made.parts[0]: rows}
        return np.stack([all_of(made.draw(rows)).ravel() for _ in range(draws)])

    return side


def top_features(release: PrivateTopFeatures, together: int) -> tuple[Arrangement, ...]:
    """Names of a population.

    Everybody else leans up in one half of the features and down in the other, so far that hardly
    anything else is named; the canary leans up in all, so half of the scores go up and half down.
    """
    game, players = InventedGame(release.schema), release._inner.players
    half, width = np.arange(players) < (players + 1) // 2, release.output_width
    up, both_ways = np.ones(players), np.where(half, 1.0, -1.0)
    ends = (up, -up, both_ways) if release.signed else (1.0 * half, 1.0 * ~half, up)
    known = release._inner.known
    explainer = InventedExplainer(
        np.concatenate([game.canary, game.against]),
        np.stack(ends)[..., np.newaxis] * width,
        (known.feature_names, known.output_names),
    )
    made = replace(release, explainer=explainer, origins=(PUBLIC,))
    object.__setattr__(made, "_inner", MemorisingExplainer(made._inner))
    others = max(together, ceil(2 * _CONCENTRATED / release.epsilon_each))
    fillers = np.repeat(game.explained, others, axis=0)

    def side(row: Rows, draws: int) -> Floats:
        rows = np.concatenate([np.repeat(row, together, axis=0), fillers])
        return np.stack([all_of(made.draw(rows)).ravel() for _ in range(draws)])

    return (pair("many others", side, game, release.protected.relation),)


# --- what is made once ----------------------------------------------------------------------------


def histograms(release: PrivateHistograms, together: int) -> tuple[Arrangement, ...]:
    """Counts, and the rows that are drawn from them: nothing else may be in these."""
    small = replace(release, bins=min(release.bins, _BINS))

    def seen(made: PrivateHistograms) -> Floats:
        drawn = made.draw()
        return np.concatenate([*drawn.histograms, drawn.rows.mean(axis=0)]).astype(np.float64)

    game = InventedGame(release.schema)
    return (_once(small, seen, (game.opposite, game.against), together),)


def clusters(release: PrivateClusters, together: int) -> tuple[Arrangement, ...]:
    """The noisy moments that clusters are made from, and nothing besides."""
    up = np.array([[_end(release.schema, place, 1) for place in range(_width(release.schema))]])
    some = up.copy()
    for place in range(0, _width(release.schema), 2):
        some[0, place] = _end(release.schema, place, 0)
    return (_once(release, PrivateClusters.noisy_moments, (up, some), together),)


def _once(
    release: Any, seen: Callable[[Any], Floats], ends: tuple[Rows, Rows], together: int
) -> ReleaseCanary:
    """Records of the canary, or what stands in their place, and as many of a filler."""
    relation, (canary, against) = release.protected.relation, ends
    other = {
        Relation.REPLACE_ONE: against,
        Relation.BLANK_ONE: np.full_like(against, np.nan),
        Relation.ADD_OR_REMOVE_ONE: against[:0],
    }[relation]
    fillers = np.repeat(against, together, axis=0)

    def released_with(row: Rows) -> Callable[[int], Floats]:
        records = np.concatenate([np.repeat(row, together, axis=0), fillers])
        made: ArtefactRelease = replace(release, records=records)
        return lambda draws: np.stack([seen(made) for _ in range(draws)])

    return ReleaseCanary("as many others", released_with(canary), released_with(other))


def _width(schema: Schema) -> int:
    return len(schema.features)


def _end(schema: Schema, place: int, which: int) -> float:
    """The lowest (0) or highest (1) value of a feature."""
    domain = schema.features[place].domain
    if isinstance(domain, Categories):
        return float(which * (len(domain.values) - 1))
    assert isinstance(domain, Numbers)
    return float((domain.lower, domain.upper)[which])


# --- What is said of one explained row, or of values that somebody brings, audited ----------------


def clipped(release: ClippedRelease, together: int) -> tuple[Arrangement, ...]:  # noqa: ARG001
    """Two opposite vectors, longer than they may be in every value: whoever clips values one by one
    lets more of them through, and noise that is missing anywhere is missed."""
    shape = release._inner.known.values.shape[1:]
    vectors = 3 * release.bound * np.stack([np.ones(shape), -np.ones(shape), np.zeros(shape)])
    return (_of_row(release, vectors),)


def names_of_row(release: TopFeaturesOfRow, together: int) -> tuple[Arrangement, ...]:  # noqa: ARG001
    """Two rows that have no name in common, if there are names enough."""
    players = release._inner.players
    rising = np.linspace(1.0, 2.0, players)
    vectors = np.stack([rising, -rising[::-1], 0 * rising])[..., np.newaxis]
    return (_of_row(release, vectors),)


def _of_row(release: ClippedRelease | TopFeaturesOfRow, vectors: Floats) -> ReleaseCanary:
    game, known = InventedGame(release.schema), release._inner.known
    rows = np.concatenate([game.canary, game.against])
    explainer = InventedExplainer(rows, vectors, (known.feature_names, known.output_names))
    made = replace(release, explainer=explainer, origins=(PUBLIC,))

    def side(row: Rows, draws: int) -> Floats:
        return all_of(made.draw(np.repeat(row, draws, axis=0)))

    return pair("one record", side, game, Relation.REPLACE_ONE)


def noisy_values(release: NoisyValues, together: int) -> tuple[Arrangement, ...]:
    """Values that lie as far apart as was declared; whether that is true is not audited."""
    shape = len(release.feature_names), len(release.output_names)
    one, all_values = np.zeros(shape), np.ones(shape)
    one[0, 0] = 1.0
    order = 1 if release.sensitivity.norm is Norm.L1 else 2
    spread = all_values / np.linalg.norm(all_values.ravel(), order)

    def rows(values: Floats) -> Callable[[int], Floats]:
        return partial(_together if _by_row(release) else _one_by_one, release, values)

    far = together * release.sensitivity.value
    return (
        ReleaseCanary("one value", rows(far * one), rows(0 * one)),
        ReleaseCanary("all values", rows(far * spread), rows(0 * one)),
    )


def _by_row(release: NoisyValues) -> bool:
    return release.protected.unit is ProtectedUnit.EXPLAINED_ROW


def _together(release: NoisyValues, values: Floats, draws: int) -> Floats:
    """Rows are released each by itself, so many of them are many draws."""
    return all_of(release.draw(np.repeat(values[np.newaxis], draws, axis=0)))


def _one_by_one(release: NoisyValues, values: Floats, draws: int) -> Floats:
    return np.concatenate([all_of(release.draw(values[np.newaxis])) for _ in range(draws)])
