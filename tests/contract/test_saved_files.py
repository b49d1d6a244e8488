"""Files of every kind, saved before they had one format, are read bit for bit.

`stored/saved/` holds what `make.py` in it wrote: nothing in it may ever have to change.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.contract.stored.saved.make import ARRAYS, EXPLANATIONS, FOLDER, KIND, LABEL, POINTS
from voile.app.recommend import check_place, load_recommender, save_recommender
from voile.attribution.fastshap import load_explainer, save
from voile.core import array_file
from voile.core.explanation import Explanation
from voile.records.audit_log import explanation_bytes

SAVED = {
    "complete": "52bf423d05de7e219a6813291a792daeddba6bf61ebe4aac480146bc10a17f24",
    "plain": "5d660af8750fe72d0704264fb126c7b1b3ed003202d948b06806328c17e4978d",
    "text": "f44e793255ddb2c1e0c6af8cd7a33e3b8618fa8e2b59317eb668664170c1a62b",
    "intervals": "c47e5f4a8fde7a18d798a9b602fc6620ce378080c642e9d42ff3ddca71d7cc76",
}
COMMITTED = {
    "complete": "7f36eaac14873c2acc21896ca59dc9440a10f96cfcc37960424a3dbb26c90d86",
    "plain": "37f5d6038db0a20c2b02752528752799b075824fb6404f704c104e9a0b90ad30",
    "text": "caa4ab00e454971c416b9445f920f906fe179e8564358ef2f45be713932db670",
    "intervals": "e1c3d6be1423d70247cd26e1d00615b57e45f6eb35d945b8000810776e8a5010",
}
SHOP = "869c70e055309b239e50486b6152974af31a070998cf65e2f4286b600b7be06e"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_a_saved_explanation_comes_back(name: str, tmp_path: Path) -> None:
    path, expected = FOLDER / f"{name}.voile", EXPLANATIONS[name]
    assert sha256(path.read_bytes()) == SAVED[name]
    again = Explanation.load(path).save(tmp_path / "again.voile")
    for found in (
        Explanation.load(path),
        Explanation.from_bytes(path.read_bytes()),  # as an answer is kept in a ledger
        Explanation.load(again),
    ):
        assert found == expected
        assert sha256(explanation_bytes(found)) == COMMITTED[name]
        for array in ("values", "base_values", "data", "standard_errors", "half_widths"):
            mine, theirs = getattr(expected, array), getattr(found, array)
            assert (mine is None) == (theirs is None)
            assert mine is None or (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes())


def test_arrays_of_a_federation_come_back() -> None:
    found, label = array_file.read(FOLDER / "round.safetensors", KIND)
    assert LABEL.items() <= label.items()
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        theirs = found[name]
        assert (theirs.dtype, theirs.shape) == (array.dtype, array.shape)
        assert theirs.tobytes() == array.tobytes()


def test_a_learned_explainer_comes_back(tmp_path: Path) -> None:
    found = load_explainer(FOLDER / "explainer.safetensors")
    again = load_explainer(save(found, tmp_path / "again.safetensors"))
    assert again.surrogate.digest == found.surrogate.digest
    assert np.array_equal(again(POINTS).values, found(POINTS).values)
    # Processors round a product of matrices differently in its last bits.
    assert found(POINTS).values == pytest.approx(np.load(FOLDER / "explained.npy"), rel=1e-4)


def test_a_recommender_comes_back(tmp_path: Path) -> None:
    found = load_recommender(FOLDER / "shop")
    assert found.digest == SHOP
    assert save_recommender(found.moments, tmp_path / "again").digest == SHOP
    assert load_recommender(tmp_path / "again").digest == SHOP


def test_a_recommender_takes_the_place_of_one_in_the_earlier_format(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER / "shop", tmp_path / "shop")
    check_place(folder)
    assert save_recommender(load_recommender(folder).moments, folder).digest == SHOP
    assert {path.name for path in folder.iterdir()} == {
        "recommender.json", "catalogue.json", "moments.safetensors",
    }  # fmt: skip
    assert load_recommender(folder).digest == SHOP
