"""Saved explainers come back bit for bit; anything else is refused; ONNX says the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from tests.unit.attribution.fastshap.examples import PLAN, SCHEMA, explainer, rows, surrogate

from voile.attribution.fastshap import (
    FastShap,
    distil,
    export_onnx,
    load_explainer,
    load_surrogate,
    save,
    train_explainer,
    train_surrogate,
)
from voile.core.errors import MissingDependency, UnreadableFile, VerificationFailed
from voile.core.randomness import Seeded
from voile.models import Box, wrap

TEST = rows(40, seed=21)


@pytest.mark.parametrize("grouped", [False, True])
def test_an_explainer_comes_back(grouped: bool, tmp_path: Path) -> None:
    before = explainer(grouped)
    after = load_explainer(save(before, tmp_path / "e.safetensors"))
    assert after(TEST) == before(TEST)
    assert after.surrogate.digest == before.surrogate.digest
    assert after.surrogate.schema == before.surrogate.schema


def test_a_distilled_explainer_comes_back_and_is_exported(tmp_path: Path) -> None:
    short = type(PLAN)(steps=30, batch_rows=32, hidden=(8,))
    before = distil(surrogate(), SCHEMA, source=Seeded(0), plan=short).explainer
    assert before.sees_surrogate
    after = load_explainer(save(before, tmp_path / "e.safetensors"))
    assert after(TEST) == before(TEST)
    export_onnx(before, tmp_path / "e.onnx", example=TEST)


def numbers(outputs: Box | None) -> FastShap:
    def forward(given: np.ndarray) -> np.ndarray:
        return np.stack([given[:, 0] * given[:, 1], 1 + given[:, 2]], axis=1)

    given = np.random.default_rng(0).random((300, 3)) + 0.5
    wrapped = wrap(forward) if outputs is None else wrap(forward, outputs=outputs)
    short = type(PLAN)(steps=30, batch_rows=32, hidden=(8,))
    return train_explainer(
        train_surrogate(wrapped, given, source=Seeded(0), plan=short),
        given,
        source=Seeded(1),
        plan=short,
    )


@pytest.mark.parametrize("outputs", [None, Box((0.0, 1.0), (4.0, 5.0))])
def test_every_head_comes_back(outputs: Box | None, tmp_path: Path) -> None:
    before = numbers(outputs)
    given = np.random.default_rng(1).random((10, 3)) + 0.5
    after = load_explainer(save(before, tmp_path / "e.safetensors"))
    assert after(given) == before(given)
    export_onnx(before, tmp_path / "e.onnx", example=given)


def test_a_surrogate_alone(tmp_path: Path) -> None:
    path = save(surrogate(), tmp_path / "s.safetensors")
    assert (load_surrogate(path).predict(TEST) == surrogate().predict(TEST)).all()
    with pytest.raises(UnreadableFile, match="no explainer"):
        load_explainer(path)
    both = save(explainer(), tmp_path / "e.safetensors")
    assert load_surrogate(both).digest == surrogate().digest


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    content = save(explainer(), tmp_path / "e.safetensors").read_bytes()
    for length in [*range(0, 40), *range(40, len(content), 997), len(content) - 1]:
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(UnreadableFile):
            load_explainer(tmp_path / "cut")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "f.safetensors"
    for content in (b"hello", b"\xff" * 64, save_tensors({"x": np.zeros(3)})):
        foreign.write_bytes(content)
        with pytest.raises(UnreadableFile):
            load_explainer(foreign)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        load_explainer(tmp_path / "absent")


def changed(tmp_path: Path, **labels: object) -> Path:
    """The saved explainer with other labels."""
    content = save(explainer(), tmp_path / "e.safetensors").read_bytes()
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    said = json.loads(head["__metadata__"]["voile"]) | labels
    path = tmp_path / "changed.safetensors"
    path.write_bytes(save_tensors(load_tensors(content), metadata={"voile": json.dumps(said)}))
    return path


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"version": 2}, "update voile"),
        ({"version": "1"}, "update voile"),
        ({"format": "another"}, "not a learned explainer"),
        ({"head": "tanh"}, "damaged"),
        ({"head": "sigmoid"}, "damaged"),
        ({"outputs": ["a"]}, "damaged"),
        ({"players": ["a"]}, "damaged"),
        ({"players": ["a", "a", "b", "c"]}, "damaged"),
        ({"features": None}, "damaged"),
        ({"schema": "name = "}, "damaged"),
    ],
)
def test_impossible_labels_are_refused(
    labels: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = changed(tmp_path, **labels)
    with pytest.raises(UnreadableFile, match=message):
        load_explainer(path)


def test_the_change_itself_is_not_what_is_refused(tmp_path: Path) -> None:
    assert load_explainer(changed(tmp_path))(TEST) == explainer()(TEST)


@pytest.mark.parametrize("grouped", [False, True])
def test_onnx_says_the_same(grouped: bool, tmp_path: Path) -> None:
    import onnxruntime

    path = export_onnx(explainer(grouped), tmp_path / "e.onnx", example=TEST)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found, base = session.run(["attributions", "base_values"], {"rows": TEST})
    assert found == pytest.approx(explainer(grouped).values(TEST), abs=1e-5)
    assert base == pytest.approx(surrogate(grouped).base, abs=1e-6)
    players = session.get_modelmeta().custom_metadata_map["players"].split("\n")
    assert tuple(players) == surrogate(grouped).players.names


def test_an_export_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FastShap, "values", lambda _, rows: np.ones((len(rows), 4, 2)))
    with pytest.raises(VerificationFailed, match="nothing was written"):
        export_onnx(explainer(), tmp_path / "e.onnx", example=TEST)
    assert not (tmp_path / "e.onnx").exists()


def test_without_onnx_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises((MissingDependency, ModuleNotFoundError)):
        export_onnx(explainer(), tmp_path / "e.onnx")
