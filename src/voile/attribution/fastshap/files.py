"""The file a learned explainer is saved in: arrays, with everything else as JSON inside.

The surrogate travels along: without it, attributions could not be made to add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.surrogate import Surrogate
from voile.attribution.players import Players
from voile.core import array_file
from voile.core.choices import chosen
from voile.core.errors import UnreadableFile
from voile.core.input_file import damaged
from voile.core.schema import Schema
from voile.training import Head, Identity, Sigmoid, Softmax, arrays_of, with_arrays

FORMAT: Final = "voile learned explainer"
_SURROGATE, _EXPLAINER, _ENCODING, _HEAD = "surrogate/", "explainer/", "encoding/", "head/"
_HEADS: Final[Mapping[str, type[Any]]] = {
    "softmax": Softmax,
    "sigmoid": Sigmoid,
    "identity": Identity,
}

Arrays = dict[str, NDArray[Any]]


def save(saved: FastShap | Surrogate, path: str | Path) -> Path:
    """Write an explainer with its surrogate, or a surrogate alone; replaces the file atomically.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> load_surrogate(save(surrogate, "surrogate.safetensors")).digest == surrogate.digest
    True
    """
    surrogate = saved.surrogate if isinstance(saved, FastShap) else saved
    labels = {
        "head": next(n for n, kind in _HEADS.items() if isinstance(surrogate.head, kind)),
        "players": list(surrogate.players.names),
        "features": list(surrogate.feature_names),
        "outputs": list(surrogate.output_names),
        "schema": None if surrogate.schema is None else surrogate.schema.dumps(),
    }
    arrays = _named(_SURROGATE, arrays_of(surrogate.network))
    arrays |= _named(_ENCODING, vars_of(surrogate.encoding))
    arrays |= _named(_HEAD, vars_of(surrogate.head))
    arrays["owner"] = surrogate.players.owner.astype(np.int64)
    if isinstance(saved, FastShap):
        arrays |= _named(_EXPLAINER, arrays_of(saved.network))
    return array_file.write(Path(path), FORMAT, arrays, labels)


def load_explainer(path: str | Path) -> FastShap:
    """Read an explainer that `save` wrote; anything else is an `UnreadableFile`.

    >>> from voile.attribution.fastshap import train_explainer, train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> explainer = train_explainer(surrogate, rows, source=Seeded(0), plan=plan)
    >>> again = load_explainer(save(explainer, "explainer.safetensors"))
    >>> np.array_equal(again.values(rows), explainer.values(rows))
    True
    """
    file = Path(path)
    arrays, labels = array_file.read(file, FORMAT)
    parameters = _under(_EXPLAINER, arrays)
    if not parameters:
        raise UnreadableFile(f"{file}: holds a surrogate, but no explainer; use load_surrogate")
    with damaged(file):
        return FastShap(_surrogate(labels, arrays), with_arrays(parameters))


def load_surrogate(path: str | Path) -> Surrogate:
    """Read the surrogate of a file that `save` wrote; anything else is an `UnreadableFile`.

    >>> Path("notes.txt").write_text("no surrogate")
    12
    >>> load_surrogate("notes.txt")
    Traceback (most recent call last):
    voile.core.errors.UnreadableFile: notes.txt: ...
    """
    file = Path(path)
    arrays, labels = array_file.read(file, FORMAT)
    with damaged(file):
        return _surrogate(labels, arrays)


def _surrogate(labels: Mapping[str, Any], arrays: Arrays) -> Surrogate:
    names = {key: _names(labels[key]) for key in ("players", "features", "outputs")}
    encoding = Encoding(**_under(_ENCODING, arrays))
    owner = arrays["owner"]
    text = labels["schema"]
    schema = None if text is None else Schema.loads(text)
    _agree(encoding, owner, names, schema)
    head: Head = chosen(_HEADS, labels["head"], "head")(**_under(_HEAD, arrays))
    if any(array.shape != (len(names["outputs"]),) for array in vars_of(head).values()):
        raise ValueError("its head does not fit the number of outputs")
    return Surrogate(
        encoding=encoding,
        players=Players(names["players"], owner),
        head=head,
        network=with_arrays(_under(_SURROGATE, arrays)),
        feature_names=names["features"],
        output_names=names["outputs"],
        schema=schema,
    )


def _agree(
    encoding: Encoding,
    owner: NDArray[Any],
    names: Mapping[str, tuple[str, ...]],
    schema: Schema | None,
) -> None:
    """A file may be well formed and still say impossible things: places that do not exist."""
    features, players = len(names["features"]), len(names["players"])
    shapes = {array.shape for array in vars_of(encoding).values()}
    sound = (
        shapes == {(encoding.width,)}
        and np.isin(encoding.feature, np.arange(features)).all()
        and owner.shape == (features,)
        and owner.dtype.kind == encoding.feature.dtype.kind == "i"
        and set(owner.tolist()) == set(range(players))
        and np.isfinite(encoding.shift).all()
        and np.isfinite(encoding.scale).all()
        and (schema is None or schema.feature_names == names["features"])
    )
    if not sound:
        raise ValueError("its parts do not fit together")


def vars_of(holder: Any) -> Arrays:
    """The arrays of a frozen dataclass, without what it has cached."""
    return {name: getattr(holder, name) for name in getattr(holder, "__dataclass_fields__", {})}


def _named(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _names(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(n, str) for n in given):
        raise ValueError("names are missing")
    if len(set(given)) != len(given):
        raise ValueError("names are not different")
    return tuple(given)
