"""Equal content, equal digest; any change shows."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.models import digest_of, wrap

ROWS = np.random.default_rng(0).normal(size=(60, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)
SCALE = 2.0


def forest(seed: int = 0) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=3, random_state=seed).fit(ROWS, LABELS)


def test_estimators_fitted_alike_are_alike() -> None:
    assert wrap(forest()).digest == wrap(forest()).digest
    assert wrap(forest()).digest != wrap(forest(1)).digest


def test_a_network_is_its_parameters_and_its_structure() -> None:
    import torch

    def network(kind: Any, seed: int = 0) -> Any:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(3, 4), kind()).eval()

    tanh = wrap(network(torch.nn.Tanh)).digest
    assert tanh == wrap(network(torch.nn.Tanh)).digest
    assert tanh != wrap(network(torch.nn.ReLU)).digest
    assert tanh != wrap(network(torch.nn.Tanh, 1)).digest


def test_a_function_is_its_code_and_what_it_refers_to() -> None:
    def scaled(factor: float) -> Any:
        return lambda rows: rows[:, 0] * factor

    def through_global(rows: Any) -> Any:
        return rows[:, 0] * SCALE

    assert digest_of(scaled(2.0)) == digest_of(scaled(2.0))
    assert digest_of(scaled(2.0)) != digest_of(scaled(3.0))
    before = digest_of(through_global)
    globals()["SCALE"] = 5.0
    try:
        assert digest_of(through_global) != before
    finally:
        globals()["SCALE"] = 2.0
    assert digest_of(partial(np.multiply, 2)) != digest_of(partial(np.multiply, 3))


def test_arrays_differ_in_values_shape_and_type() -> None:
    array = np.arange(6.0)
    forms = [array, array.reshape(2, 3), array.astype(np.float32), array + 1, array.tolist()]
    assert len({digest_of(form) for form in forms}) == len(forms)
    assert digest_of(array.astype(">f8")) == digest_of(array)
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_records_are_digested_without_the_padding_between_their_fields() -> None:
    kind = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    first, second = np.zeros(3, kind), np.frombuffer(b"\xff" * kind.itemsize * 3, kind).copy()
    second["a"], second["b"] = 0, 0.0
    assert digest_of(first) == digest_of(second)


def test_a_loop_of_references_ends() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert len(digest_of(loop)) == 64


def test_what_cannot_be_looked_into_asks_for_a_digest() -> None:
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match="digest="):
        digest_of(lambda rows: (lock, rows))
    assert wrap(lambda rows: (lock, rows), digest="abc").digest == "abc"


def test_digests_are_the_same_in_another_process() -> None:
    code = (
        "import numpy as np; from voile.models import digest_of; "
        "print(digest_of({'b': np.arange(3.0), 'a': {'x', 'y', 'z'}}))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert other == digest_of({"a": {"x", "y", "z"}, "b": np.arange(3.0)})
