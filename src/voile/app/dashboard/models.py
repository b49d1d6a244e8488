"""What is known about a model: how good it is, what matters to it, what is promised about it.

All of it is public or post-processing: quality that was charged with the model or measured on open
rows, and, of releases that cost nothing, what the model says about rows that are public or invented
from the public schema. Of a release that costs something, the model is asked nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from voile.app.dashboard.dashboard import Dashboard
from voile.app.explain import build_release
from voile.app.explain.rows import row_count
from voile.app.serving import Caller, NotGranted, ServedRelease, UnknownName
from voile.core.description import Description
from voile.core.guarantee import Guarantee
from voile.core.schema import Categories, Feature, Rows
from voile.core.schema.schema import draw_rows
from voile.core.transparency import NEEDED, Level
from voile.release import Preview

_ROWS: Final = 100
_COMPARED: Final = 50
_FEWEST: Final = 5
_MOST_PLAYERS: Final = 10
_MOST_ASKED: Final = 400_000
"""Rows that the model is asked about, for the importance of a page; about a second or two."""
_POINTS: Final = 25
_INVENTED: Final = "rows invented from the public schema"
_PUBLIC: Final = "public background rows"


@dataclass(frozen=True)
class Rung:
    """A transparency level, and what the workspace offers at it for this model.

    Args:
        offered: name and price of each release; the price is None where it is free.
    """

    level: str
    role: str
    offered: tuple[tuple[str, Preview], ...]


@dataclass(frozen=True)
class Dependence:
    """What the model says as one feature changes, on average over rows or with others fixed.

    Args:
        points: value and prediction; the value is a text for categories.
        over: which rows.
    """

    feature: str
    output: str
    points: tuple[tuple[Any, float], ...]
    is_number: bool
    over: str


@dataclass(frozen=True)
class ModelPage:
    """One release and its model.

    Args:
        guarantees: what is promised about the rows that it was trained on; empty if nothing.
        price: of one row.
        quality: as `quality.json` of a trained model holds it; None where nobody measured it.
        figures: of an artefact of a federation; empty where there is none.
        importance: of all features together; None where asking would cost something.
        over: which rows that is over.
        features: that a dependence can be asked for.
    """

    release: str
    free: bool
    alarms: tuple[str, ...]
    outputs: tuple[str, ...]
    guarantees: tuple[Guarantee, ...]
    price: Preview
    quality: Mapping[str, Any] | None
    figures: Mapping[str, Any]
    importance: Description | None
    over: str
    features: tuple[str, ...]
    dependence: Dependence | None
    ladder: tuple[Rung, ...]


def model_page(
    dashboard: Dashboard, caller: Caller, name: str, feature: str | None = None
) -> ModelPage:
    """What may be known, with the dependence on one feature."""
    served = dashboard.workspace.release(name, caller)
    inputs, artefact = served.inputs, served.job.artefact
    importance, over = (None, "")
    dependence = None
    if served.is_free:
        importance, over = dashboard.remembered(("importance", name), lambda: _importance(served))
        names = inputs.schema.feature_names
        chosen = feature if feature is not None else names[0]
        if chosen not in names:
            raise UnknownName("there is no feature of this name")
        dependence = dashboard.remembered(
            ("dependence", name, chosen), lambda: _dependence(served, chosen)
        )
    return ModelPage(
        release=name,
        free=served.is_free,
        alarms=tuple(inputs.alarms),
        outputs=served.output_names,
        guarantees=tuple(inputs.model_origin.guarantees),
        price=served.release().preview(1),
        quality=getattr(artefact, "quality", None),
        figures=dict(getattr(artefact, "figures", None) or {}),
        importance=importance,
        over=over,
        features=inputs.schema.feature_names if served.is_free else (),
        dependence=dependence,
        ladder=_ladder(dashboard, caller, served),
    )


def _importance(served: ServedRelease) -> tuple[Description, str]:
    """Over few rows, compared with few: exact values ask the model for every coalition of each."""
    rows, over = _reference(served)
    background = served.inputs.background
    if not isinstance(background, np.ndarray):
        drawn = served.release(len(rows)).draw(rows)
        return drawn.describe(schema=served.inputs.schema), f"{len(rows)} {over}"
    compared = background[:_COMPARED]
    coalitions = 2 ** min(rows.shape[1], _MOST_PLAYERS)
    shown = rows[: max(_FEWEST, _MOST_ASKED // (len(compared) * coalitions))]
    release = build_release(replace(served.inputs, background=compared), None, len(shown))
    drawn = release.draw(shown)
    said = f"{len(shown)} {over}, each compared with {len(compared)}"
    return drawn.describe(schema=served.inputs.schema), said


def _reference(served: ServedRelease) -> tuple[Rows, str]:
    """Rows that anybody may see, at most a hundred."""
    background = served.inputs.background
    if isinstance(background, np.ndarray) and row_count(background):
        return background[:_ROWS], _PUBLIC
    return draw_rows(served.inputs.schema, _ROWS, np.random.default_rng(0)), _INVENTED


def _dependence(served: ServedRelease, name: str) -> Dependence:
    schema, (rows, over) = served.inputs.schema, _reference(served)
    place = schema.feature_names.index(name)
    feature = schema.features[place]
    values, shown = _grid(feature)
    points = []
    for value, text in zip(values, shown, strict=True):
        asked = rows.copy()
        asked[:, place] = value
        found = served.inputs.model.predict(schema.numbers(asked))
        points.append((text, float(np.mean(found[:, -1]))))
    is_number = not isinstance(feature.domain, Categories)
    return Dependence(
        name, served.output_names[-1], tuple(points), is_number, f"{len(rows)} {over}"
    )


def _grid(feature: Feature) -> tuple[list[float], list[Any]]:
    domain = feature.domain
    if isinstance(domain, Categories):
        return [float(domain.place(each)) for each in domain.values], list(domain.values)
    values = np.linspace(domain.lower, domain.upper, _POINTS)
    if domain.whole:
        values = np.unique(np.rint(values))
    return values.tolist(), values.tolist()


def _ladder(dashboard: Dashboard, caller: Caller, served: ServedRelease) -> tuple[Rung, ...]:
    """The releases of the same model that this caller may ask, by level."""
    found: dict[Level, list[tuple[str, Preview]]] = {level: [] for level in Level}
    for other in dashboard.workspace.releases.values():
        try:
            dashboard.workspace.release(other.name, caller)
        except NotGranted:
            continue
        if other.job.spec.model == served.job.spec.model:
            found[other.job.spec.level].append((other.name, other.release().preview(1)))
    return tuple(
        Rung(level.value, NEEDED[level].value, tuple(offered)) for level, offered in found.items()
    )
