"""A model keeps its digest whatever voile's classes are called, and wherever they lie.

The digest of a model is part of a stored question: another one would be charged a second time.
`stored/model_digests.json` was written when digests spelled out the paths of classes; nothing in it
may ever have to change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.surrogate import Surrogate
from voile.attribution.players import Players
from voile.core.digest_names import frozen_name
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.models import Box, digest_of, digests, wrap
from voile.pipelines.tables import NetworkModel, NetworkModelForward, OutputHead
from voile.recommenders import Catalogue, LinearRecommender
from voile.training import Head, Identity, Perceptron, Sigmoid, Softmax, with_arrays

STORED: dict[str, str] = json.loads(
    (Path(__file__).parent / "stored" / "model_digests.json").read_text()
)
PAIR = np.array([0.0, 1.0], np.float32)


class Scoring:
    """A model of one's own, with something of voile inside."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, rows: Any) -> Any:
        return self.inner.predict(rows)


class OwnSoftmax(Softmax):
    """Of one's own: it goes by its own name."""


def network(inputs: int, outputs: int) -> Perceptron:
    weight = np.arange(inputs * outputs, dtype=np.float32).reshape(outputs, inputs) / 8
    return with_arrays({"0.weight": weight, "0.bias": np.ones(outputs, np.float32)})


def clinic() -> Schema:
    """A new one each time: what an object has computed and keeps is part of a digest."""
    features = Feature("age", Numbers(0.0, 100.0)), Feature("sex", Categories(("f", "m")))
    return Schema("clinic", features, Label("ill", Categories((0, 1))))


def surrogate(head: Head) -> Surrogate:
    schema = clinic()
    encoding, names = Encoding.around_defaults(schema), schema.feature_names
    inner = network(encoding.width + len(names), 2)
    return Surrogate(
        encoding, Players.from_groups(names, None), head, inner, names, ("0", "1"), schema
    )


def network_model() -> NetworkModel:
    schema, head = clinic(), OutputHead(Softmax(), ("0", "1"), Box(0.0, 1.0))
    return NetworkModel(schema, head, network(len(schema.column_names), 2))


def fast() -> FastShap:
    inner = surrogate(Softmax())
    return FastShap(inner, network(inner.encoding.width, 4))


def linear() -> LinearRecommender:
    catalogue = Catalogue("shop", ("a", "b", "c"), {"genre": (("x",), ("y",), ())})
    features = catalogue.features.shape[1]
    head, weights = np.array([0, 1]), np.array([[0.0, 0.5], [0.25, 0.0]])
    return LinearRecommender(catalogue, np.ones(3), head, weights, np.ones((2, features)))


CASES: dict[str, Callable[[], str]] = {
    "surrogate of classes": lambda: surrogate(Softmax()).digest,
    "surrogate between bounds": lambda: surrogate(Sigmoid(PAIR, PAIR + 1)).digest,
    "surrogate of numbers": lambda: surrogate(Identity(PAIR, PAIR + 1)).digest,
    "surrogate of an own head": lambda: surrogate(OwnSoftmax()).digest,
    "network model": lambda: network_model().digest,
    "network model as a callable": lambda: wrap(NetworkModelForward(network_model())).digest,
    "linear model": lambda: digest_of(linear()),
    "own class around a surrogate": lambda: wrap(Scoring(surrogate(Softmax()))).digest,
    "own class around a network model": lambda: wrap(Scoring(network_model())).digest,
    "own class around a fast explainer": lambda: wrap(Scoring(fast())).digest,
    "own class around layers": lambda: wrap(Scoring(network(2, 2).layers)).digest,
}


def test_every_case_is_stored() -> None:
    assert set(STORED) == set(CASES)


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="digests cover bytecode: stored by 3.11"
)
@pytest.mark.parametrize("name", CASES)
def test_a_digest_is_what_it_was(name: str) -> None:
    assert CASES[name]() == STORED[name]


@pytest.mark.parametrize("name", CASES)
def test_renamed_and_moved_classes_make_no_other_digest(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CASES[name]()
    with renamed(*named_classes(CASES[name], monkeypatch)):
        assert CASES[name]() == before


@pytest.mark.parametrize("name", CASES)
def test_every_class_of_voile_in_a_digest_has_a_frozen_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = named_classes(CASES[name], monkeypatch)
    assert [kind for kind in found if frozen_name(kind) is None] == []


def test_own_classes_keep_their_paths() -> None:
    before = CASES["own class around a surrogate"]()
    with renamed(Scoring, module=__name__):
        assert CASES["own class around a surrogate"]() != before
    assert surrogate(OwnSoftmax()).digest != surrogate(Softmax()).digest


@contextmanager
def renamed(*kinds: type, module: str = "voile.elsewhere") -> Iterator[None]:
    before = [(kind, kind.__module__, kind.__name__, kind.__qualname__) for kind in kinds]
    try:
        for number, kind in enumerate(kinds):
            kind.__module__ = module
            kind.__name__ = kind.__qualname__ = f"Renamed{number}"
        yield
    finally:
        for kind, *path in before:
            kind.__module__, kind.__name__, kind.__qualname__ = path


def named_classes(case: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """Classes of voile that a digest names."""
    found: dict[type, None] = {}

    def seen(value: Any) -> str | None:
        if isinstance(value, type) and value.__module__.startswith("voile."):
            found[value] = None
        return frozen_name(value)

    with monkeypatch.context() as patch:
        patch.setattr(digests, "frozen_name", seen)
        case()
    return list(found)
