"""How well attributions say what the model does; the model is any function of a batch of rows.

All measures replace features by a baseline: one row, or one row for each explained row. They ask
the model about (features + 1) times as many rows as are explained, in batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.lib.evaluation.agreement import correlation
from voile.core.errors import InvalidInput
from voile.evaluation.measures import Attributions, PerRow, attributions

Model: TypeAlias = Callable[[NDArray[np.float64]], ArrayLike]
"""From rows (n, features) to one output each, (n,)."""


def faithfulness(model: Model, rows: ArrayLike, values: ArrayLike, baseline: ArrayLike) -> PerRow:
    """Correlation of each feature's attribution with the drop when it alone is replaced.

    The measure of Alvarez-Melis and Jaakkola (2018), used by FastSHAP++; 0 where nothing varies.
    """
    x, phi, base = _checked(rows, values, baseline)
    count, features = x.shape
    replaced = np.repeat(x[:, None, :], features, axis=1)
    diagonal = np.arange(features)
    replaced[:, diagonal, diagonal] = base
    outputs = _ask(model, replaced.reshape(-1, features)).reshape(count, features)
    return correlation(phi, _ask(model, x)[:, None] - outputs)


def faithfulness_difference(
    model: Model, rows: ArrayLike, first: ArrayLike, second: ArrayLike, baseline: ArrayLike
) -> PerRow:
    """How far the faithfulness of two sets of explanations differs (FastSHAP++)."""
    one = faithfulness(model, rows, first, baseline)
    return np.asarray(np.abs(one - faithfulness(model, rows, second, baseline)))


def deletion(model: Model, rows: ArrayLike, values: ArrayLike, baseline: ArrayLike) -> PerRow:
    """Mean output while features are replaced one by one, those that raise it most first.

    Good attributions make it fall fast: smaller is better.
    """
    x, phi, base = _checked(rows, values, baseline)
    return _along(model, x, base, np.argsort(-phi, axis=1, kind="stable"))


def insertion(model: Model, rows: ArrayLike, values: ArrayLike, baseline: ArrayLike) -> PerRow:
    """Mean output while features are put back one by one, those that raise it most first.

    Good attributions make it rise fast: larger is better.
    """
    x, phi, base = _checked(rows, values, baseline)
    return _along(model, base, x, np.argsort(-phi, axis=1, kind="stable"))


def infidelity(
    model: Model,
    rows: ArrayLike,
    values: ArrayLike,
    baseline: ArrayLike,
    *,
    generator: np.random.Generator,
    perturbations: int = 64,
) -> PerRow:
    """Mean squared gap between the drop that attributions predict and the drop that happens.

    Yeh et al. (2019), with random sets of features replaced by the baseline: the attributions of a
    set should add up to what replacing it changes.
    """
    x, phi, base = _checked(rows, values, baseline)
    count, features = x.shape
    chosen = generator.random((count, perturbations, features)) < 0.5
    changed = np.where(chosen, base[:, None, :], x[:, None, :])
    outputs = _ask(model, changed.reshape(-1, features)).reshape(count, perturbations)
    predicted = np.einsum("rpf,rf->rp", chosen, phi)
    return np.asarray(np.square(predicted - (_ask(model, x)[:, None] - outputs)).mean(axis=1))


def _checked(
    rows: ArrayLike, values: ArrayLike, baseline: ArrayLike
) -> tuple[Attributions, Attributions, Attributions]:
    x, phi = attributions("rows", rows), attributions("values", values)
    if x.shape != phi.shape:
        raise InvalidInput(f"rows and values must agree in shape, found {x.shape}, {phi.shape}")
    base = np.asarray(baseline, dtype=np.float64)
    if base.shape not in ((x.shape[1],), x.shape) or not np.isfinite(base).all():
        raise InvalidInput(f"baseline must be one row, or one for each, found {base.shape}")
    return x, phi, np.broadcast_to(base, x.shape)


def _ask(model: Model, rows: Attributions) -> NDArray[np.float64]:
    outputs = np.asarray(model(rows), dtype=np.float64)
    if outputs.shape != (len(rows),) or not np.isfinite(outputs).all():
        raise InvalidInput(f"the model must give one finite output a row, found {outputs.shape}")
    return outputs


def _along(
    model: Model, start: Attributions, goal: Attributions, order: NDArray[np.intp]
) -> PerRow:
    """Mean output on the way from start to goal, one feature at a time, in this order."""
    count, features = start.shape
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(features)[None, :], axis=1)
    steps = np.arange(features + 1)
    moved = place[:, None, :] < steps[None, :, None]
    path = np.where(moved, goal[:, None, :], start[:, None, :])
    outputs = _ask(model, path.reshape(-1, features)).reshape(count, features + 1)
    return np.asarray(np.trapezoid(outputs, dx=1 / features, axis=1))
