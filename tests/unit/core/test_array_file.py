"""Arrays and label come back bit for bit; another kind, a newer version and damage are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from voile.core import array_file
from voile.core.errors import InvalidInput, UnreadableFile

KIND = "voile example"
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "whole": np.arange(6, dtype=np.int64).reshape(2, 3),
    "odd": np.array([np.nan, -0.0, np.inf, 5e-324]),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big": np.arange(3, dtype=">f8"),
    "text": np.array([["red", ""], ["grün", "\U0001f600 wide"]]),
    "none": np.zeros((0, 3), np.float32),
    "one": np.array(2.5),
}
LABEL = {"names": ["größe"], "figures": {"loss": 0.1, "missing": None}}


def test_arrays_and_label_come_back() -> None:
    content = array_file.pack(KIND, ARRAYS, LABEL)
    found, label = array_file.unpack(content, Path("x"), KIND)
    assert label == {"format": KIND, "version": 1, **LABEL}
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype.newbyteorder("<")
        assert found[name].tobytes() == array.astype(found[name].dtype).tobytes()
    assert array_file.pack(KIND, dict(reversed(ARRAYS.items())), LABEL) == content
    assert array_file.is_saved(content)
    assert not array_file.is_saved(b"PK" + content[2:8])


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [("voile other", 1, "not a example.*another program"), (KIND, 2, "version 2.*update voile")],
)
def test_another_kind_and_a_newer_version_are_refused(
    kind: str, version: int, message: str
) -> None:
    content = array_file.pack(kind, {}, {}, version)
    assert array_file.unpack(content, Path("x"), kind, 3)[1]["version"] == version
    with pytest.raises(UnreadableFile, match=message):
        array_file.unpack(content, Path("x"), KIND)


def test_a_text_of_other_numbers_than_characters_is_refused() -> None:
    content = array_file.pack(KIND, {"x": np.zeros(3)}, {"texts": ["x"]})
    with pytest.raises(UnreadableFile, match="characters"):
        array_file.unpack(content, Path("x"), KIND)


def test_a_changed_label_or_value_is_noticed() -> None:
    content = array_file.pack(KIND, {"x": np.array([1.5])}, {"a": "word"})
    for before, after in ((b"word", b"work"), (np.float64(1.5).tobytes(), bytes(8))):
        assert before in content
        with pytest.raises(UnreadableFile, match="checksum"):
            array_file.unpack(content.replace(before, after), Path("x"), KIND)


@pytest.mark.parametrize("label", [None, "[]", "{", '{"format": "a", "format": "voile example"}'])
def test_arrays_of_somebody_else_are_refused(label: str | None) -> None:
    content = save({"x": np.zeros(3)}, metadata=None if label is None else {"voile": label})
    with pytest.raises(UnreadableFile, match="not a example"):
        array_file.unpack(content, Path("x"), KIND)


def test_what_utf8_cannot_hold_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="UTF-8"):
        array_file.write(tmp_path / "x", KIND, {}, {"name": "\ud800"})
    assert list(tmp_path.iterdir()) == []
