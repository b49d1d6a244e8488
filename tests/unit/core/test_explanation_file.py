"""Saving and loading: every bit comes back, and nothing else is ever taken for an explanation."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from voile.core.errors import InvalidInput, StorageFault, UnreadableFile
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation

PROMISE = Guarantee(
    epsilon=0.1,
    delta=1e-6,
    protected=Protected(ProtectedUnit.USER, Relation.REPLACE_ONE, "clinic v3"),
    against=(Adversary.PUBLIC, Adversary.OTHER_CLIENTS),
    computational=True,
    mechanism="Gaussian noise",
    composition="one release",
    public_facts=("number of rows: 10",),
    assumptions=("silos are disjoint",),
)


def explain(**parts: Any) -> Explanation:
    """Any array-like will do at run time."""
    return Explanation(**parts)


COMPLETE = explain(
    values=np.arange(1.0, 9.0).reshape(2, 2, 2) / 3,
    base_values=[[0.5, -0.0], [1e-300, 7]],
    feature_names=("age", "größe"),
    output_names=("risk", "cost"),
    data=[[1.0, np.nan], [3.0, -np.inf]],
    standard_errors=np.arange(8.0).reshape(2, 2, 2),
    guarantees=(PROMISE,),
    notes=("sum of attributions",),
)
ZIPPED = Path(__file__).parents[2] / "contract" / "stored" / "saved" / "complete.voile"
"""The complete one, as version 1 saved it."""
PLAIN = explain(values=[[1.0, 2.0]], base_values=3, feature_names=("a", "b"))


@st.composite
def explanations(draw: st.DrawFn) -> Explanation:
    rows, features, outputs = (draw(st.integers(1, 3)) for _ in range(3))
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
    finite = st.floats(allow_nan=False, allow_infinity=False)
    shape = (rows, features, outputs)
    data = st.one_of(
        st.none(),
        hnp.arrays(float, (rows, features), elements=st.floats()),
        hnp.arrays("U4", (rows, features)),
    )
    errors = st.none() | hnp.arrays(float, shape, elements=st.floats(0, allow_infinity=False))
    promise = st.builds(
        lambda epsilon, delta: Guarantee.from_dict(
            PROMISE.to_dict() | {"epsilon": epsilon, "delta": delta}
        ),
        st.floats(0, allow_infinity=False),
        st.floats(0, 1, exclude_max=True),
    )
    return explain(
        values=draw(hnp.arrays(float, shape, elements=finite)),
        base_values=draw(hnp.arrays(float, (rows, outputs), elements=finite)),
        feature_names=draw(st.lists(names, min_size=features, max_size=features, unique=True)),
        output_names=draw(st.lists(names, min_size=outputs, max_size=outputs, unique=True)),
        data=draw(data),
        standard_errors=draw(errors),
        guarantees=draw(st.lists(promise, max_size=2)),
        notes=draw(st.lists(names, max_size=2)),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def saved(explanation: Explanation, path: Path) -> bytes:
    return explanation.save(path).read_bytes()


# --- every bit comes back -------------------------------------------------------------------------


@settings(deadline=None)  # a disk takes its time
@given(explanation=explanations())
def test_what_is_loaded_equals_what_was_saved(explanation: Explanation, folder: Path) -> None:
    path = folder / "any.voile"
    assert explanation.save(path) == path
    loaded = Explanation.load(path)
    assert loaded == explanation
    for name in ("values", "base_values", "data", "standard_errors"):
        mine, theirs = getattr(explanation, name), getattr(loaded, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.tobytes() == theirs.tobytes()
            assert not theirs.flags.writeable
    assert [g.epsilon.hex() for g in loaded.guarantees] == [
        g.epsilon.hex() for g in explanation.guarantees
    ]
    assert saved(loaded, folder / "again.voile") == path.read_bytes()


def test_a_text_will_do_for_a_path(tmp_path: Path) -> None:
    COMPLETE.save(str(tmp_path / "x"))
    assert Explanation.load(str(tmp_path / "x")) == COMPLETE


def test_saving_replaces(tmp_path: Path) -> None:
    path = PLAIN.save(tmp_path / "x")
    COMPLETE.save(path)
    assert Explanation.load(path) == COMPLETE
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (COMPLETE, COMPLETE[:]),
        (
            explain(values=np.ones((1, 2), np.float32), base_values=0, feature_names=["a", "b"]),
            explain(values=[[1, 1]], base_values=[0.0], feature_names=np.array(["a", "b"])),
        ),
        (
            explain(
                values=[[1]], base_values=0, feature_names=["a"], data=np.array([["x"]], ">U9")
            ),
            explain(values=[[1]], base_values=0, feature_names=["a"], data=[["x"]]),
        ),
        (
            explain(
                values=[[1]],
                base_values=0,
                feature_names=["a"],
                guarantees=[Guarantee.from_dict(PROMISE.to_dict() | {"delta": -0.0, "epsilon": 1})],
            ),
            explain(
                values=[[1]],
                base_values=0,
                feature_names=["a"],
                guarantees=[Guarantee.from_dict(PROMISE.to_dict() | {"delta": 0, "epsilon": 1.0})],
            ),
        ),
    ],
    ids=["slice", "kinds of numbers", "widths of text", "kinds of zero"],
)
def test_equal_explanations_give_equal_bytes(
    one: Explanation, same: Explanation, tmp_path: Path
) -> None:
    assert one == same
    assert saved(one, tmp_path / "one") == saved(same, tmp_path / "same")


def test_the_bytes_of_version_two_never_change() -> None:
    """The compatibility promise, held to: labels and encoding of a file people have."""
    content = COMPLETE.to_bytes()
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(head.pop("__metadata__")["voile"]) == {
        "format": "voile explanation",
        "version": 2,
        "feature_names": ["age", "größe"],
        "output_names": ["risk", "cost"],
        "guarantees": [PROMISE.to_dict()],
        "notes": ["sum of attributions"],
        "checksum": 3770381978,
    }
    assert {name: (array["dtype"], array["shape"]) for name, array in head.items()} == {
        "values": ("F64", [2, 2, 2]),
        "base_values": ("F64", [2, 2]),
        "data": ("F64", [2, 2]),
        "standard_errors": ("F64", [2, 2, 2]),
    }


def test_a_file_of_version_one_is_read() -> None:
    """Members, labels and encoding of a file people have."""
    assert Explanation.load(ZIPPED) == COMPLETE
    with zipfile.ZipFile(ZIPPED) as archive:
        assert archive.namelist() == [
            "explanation.json",
            "values.npy",
            "base_values.npy",
            "data.npy",
            "standard_errors.npy",
        ]
        labels = json.loads(archive.read("explanation.json"))
        assert labels == {
            "format": "voile explanation",
            "version": 1,
            "arrays": ["base_values", "data", "standard_errors", "values"],
            "feature_names": ["age", "größe"],
            "output_names": ["risk", "cost"],
            "guarantees": [PROMISE.to_dict()],
            "notes": ["sum of attributions"],
        }
        values = np.load(io.BytesIO(archive.read("values.npy")), allow_pickle=False)
        assert values.dtype == np.dtype("<f8")
        assert values.shape == (2, 2, 2)


def test_a_file_without_data_holds_none(tmp_path: Path) -> None:
    with_data = explain(
        values=[[1.0, 2.0]], base_values=3, feature_names=("a", "b"), data=[["secret", "secret"]]
    )
    assert b"s\0\0\0e\0\0\0c" in saved(with_data, tmp_path / "x")
    content = saved(with_data.group({"g": ["a"]}), tmp_path / "y")
    assert b"s\0\0\0e\0\0\0c" not in content
    assert b"secret" not in content
    assert b'"data"' not in content
    assert b'"data"' in saved(with_data, tmp_path / "x")


def test_names_that_no_file_can_hold_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    odd = explain(values=[[1]], base_values=0, feature_names=["\ud800"])
    with pytest.raises(InvalidInput, match="UTF-8"):
        odd.save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


# --- damage ---------------------------------------------------------------------------------------


def is_refused(path: Path) -> str:
    with pytest.raises(UnreadableFile) as caught:
        Explanation.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("explanation", [COMPLETE, PLAIN], ids=["complete", "plain"])
def test_a_file_cut_short_anywhere_is_refused(explanation: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "x"
    content = saved(explanation, path)
    for length in {*range(0, len(content), 64), *range(len(content) - 30, len(content))}:
        path.write_bytes(content[:length])
        is_refused(path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_changed_byte_never_gives_another_explanation(version: int, tmp_path: Path) -> None:
    """Blanks and what zip says twice do not matter, so a few are harmless: but none is misread."""
    path = tmp_path / "x"
    content = PLAIN.to_bytes() if version == 2 else zipped(members())
    refused = 0
    for place in range(len(content)):
        for change in (0x01, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= change
            path.write_bytes(damaged)
            try:
                loaded = Explanation.load(path)
            except UnreadableFile:
                refused += 1
            else:
                assert loaded == PLAIN, (place, change)
    assert refused > 0.8 * 2 * len(content)


@pytest.mark.parametrize("content", [COMPLETE.to_bytes(), ZIPPED.read_bytes()], ids=["2", "1"])
def test_every_changed_bit_of_an_array_is_noticed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    for array in (COMPLETE.values, COMPLETE.data, COMPLETE.standard_errors):
        assert array is not None
        start = content.index(array.tobytes())
        for bit in range(8 * array.nbytes):
            damaged = bytearray(content)
            damaged[start + bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            is_refused(path)


def test_optional_parts_cannot_get_lost_in_the_directory_of_the_zip(tmp_path: Path) -> None:
    path = tmp_path / "x"
    content = ZIPPED.read_bytes()
    start = content.index(b"PK\x01\x02")
    for place in range(start, len(content)):
        for change in (1, 2, 4, 8, 16, 32, 64, 128):
            damaged = bytearray(content)
            damaged[place] ^= change
            path.write_bytes(damaged)
            with suppress(UnreadableFile):
                assert Explanation.load(path) == COMPLETE, (place, change)


# --- what is not an explanation -------------------------------------------------------------------


def npy(array: Any, *, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, values=np.ones((1, 2)))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        zipped({"readme.txt": b"hello"}),
        zipped({}),
        zipped({"explanation.json": b'{"format": "another"}'}),
        zipped({"explanation.json": b"[]"}),
        zipped({"explanation.json": b"not json"}),
        zipped({"explanation.json": b"[" * 100_000}),
        npz(),
        npy(np.ones((1, 2))),
        pickle.dumps(PLAIN),
        b"\x00" * 1000,
        b"PK\x05\x06",
        b"PK\x05\x06" + b"\xff" * 18,
    ],
    ids=[
        "empty", "text", "zip", "empty zip", "other format", "list", "not json", "deep json",
        "npz", "npy", "pickle", "zeros", "zip tail", "zip tail that lies",
    ],
)  # fmt: skip
def test_a_foreign_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    is_refused(path)


def test_loading_runs_nothing(tmp_path: Path) -> None:
    """A pickle inside an array is refused before it could do something."""
    done = tmp_path / "done"

    class Trap:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
            return Path.touch, (done,)

    path = tmp_path / "x"
    trap = npy(np.array([[Trap(), 1]]), allow_pickle=True)
    path.write_bytes(zipped(members(data=trap)))
    assert "damaged" in is_refused(path)
    assert not done.exists()


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "No such file" in is_refused(tmp_path / "nowhere")
    assert "directory" in is_refused(tmp_path)


def test_saving_over_a_folder_or_into_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageFault):
        PLAIN.save(tmp_path / "folder")
    with pytest.raises(StorageFault, match="No such file"):
        PLAIN.save(tmp_path / "nowhere" / "x")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def labels(**changes: Any) -> bytes:
    head = {
        "format": "voile explanation",
        "version": 1,
        "arrays": ["base_values", "values"],
        "feature_names": ["a", "b"],
        "output_names": ["output"],
        "guarantees": [],
        "notes": [],
    }
    return json.dumps(head | changes).encode()


def members(**arrays: bytes) -> dict[str, bytes]:
    """A file made by hand, as `save` makes it, with some arrays put in or replaced."""
    sound = {
        "values": npy(np.array([[[1.0], [2.0]]])),
        "base_values": npy(np.array([[3.0]])),
    } | arrays
    files = {f"{name}.npy": content for name, content in sound.items()}
    return {"explanation.json": labels(arrays=sorted(sound))} | files


def relabelled(**changes: Any) -> dict[str, bytes]:
    return members() | {"explanation.json": labels(**changes)}


def without(name: str) -> dict[str, bytes]:
    return {key: value for key, value in members().items() if key != name}


def header_only(shape: str, dtype: str = "<f8", padding: int = 0) -> bytes:
    """An array file whose head promises far more than follows."""
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}" + " " * padding
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(head) + 1) + head.encode() + b"\n"


def test_a_file_of_the_same_members_is_read(tmp_path: Path) -> None:
    """What the refusals below are measured against."""
    path = tmp_path / "x"
    path.write_bytes(zipped(members()))
    assert Explanation.load(path) == PLAIN


@pytest.mark.parametrize("version", [2, 99, 0, -1, 1.5, "1", None, True])
def test_another_version_is_refused_and_named(version: Any, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(zipped(relabelled(version=version)))
    assert f"version {version!r}" in is_refused(path)


STATED = PROMISE.to_dict()
WRONG: dict[str, dict[str, bytes]] = {
    "no labels": without("explanation.json"),
    "a key that stands twice": members()
    | {"explanation.json": labels().replace(b'"guarantees"', b'"guarantees": [], "guarantees"')},
    "a key that no explanation has": relabelled(approved_by="regulator"),
    "no values": without("values.npy"),
    "no base values": without("base_values.npy"),
    "no values, and none announced": without("values.npy")
    | {"explanation.json": labels(arrays=["base_values"])},
    "an array that was not announced": members() | {"data.npy": npy(np.ones((1, 2)))},
    "announced by a number": relabelled(arrays=3),
    "nothing announced": members() | {"explanation.json": labels().replace(b'"arrays"', b'"a"')},
    "one name too few": relabelled(feature_names=["a"]),
    "no names": relabelled(feature_names=None),
    "numbers for names": relabelled(feature_names=[1, 2]),
    "a text for names": relabelled(feature_names="ab"),
    "an object for names of outputs": relabelled(output_names={"y": 1}),
    "a text for guarantees": relabelled(guarantees=""),
    "a text for notes": relabelled(notes="note"),
    "an object for notes": relabelled(notes={"text": "a note", "rows": [0]}),
    "a number for a note": relabelled(notes=[7]),
    "a text for the rows of a note": relabelled(notes=[{"text": "a note", "rows": "0"}]),
    "a truth value for a row of a note": relabelled(notes=[{"text": "a note", "rows": [False]}]),
    "half a guarantee": relabelled(guarantees=[{"epsilon": 1.0}]),
    "a guarantee of a newer voile": relabelled(guarantees=[STATED | {"strength": 1}]),
    "epsilon below zero": relabelled(guarantees=[STATED | {"epsilon": -1}]),
    "epsilon not a number": relabelled(guarantees=[STATED | {"epsilon": float("nan")}]),
    "an explained row with blank one": relabelled(
        guarantees=[STATED | {"unit": "explained row", "relation": "blank one"}]
    ),
    "guarantees missing": members()
    | {"explanation.json": labels().replace(b'"guarantees"', b'"g"')},
    "values with NaN": members(values=npy(np.array([[[np.nan], [1]]]))),
    "values of text": members(values=npy(np.array([[["1"], ["2"]]]))),
    "data of another shape": members(data=npy(np.ones((2, 1)))),
    "objects": members(data=npy(np.array([[None, {}]], dtype=object), allow_pickle=True)),
    "something else inside": members() | {"run.py": b"print('hello')"},
    "bytes after an array": members(data=npy(np.ones((1, 2))) + b"x"),
    "an array cut short": members(data=npy(np.ones((1, 2)))[:-1]),
    "not an array": members(data=b"hello"),
    "an empty array file": members(data=b""),
    "an array larger than memory": members(data=header_only(f"({2**60}, 2)")),
    "an array larger than anything": members(data=header_only(f"({10**30},)")),
    "an array of many empty texts": members(data=header_only(f"({2**50},)", "<U0")),
    "a head that does not fit": members(data=header_only("(1, 2)", padding=10**5) + bytes(16)),
    "a head that is code": members(data=header_only("(__import__('os'),)")),
    "a head that is never closed": members(data=npy(np.ones((1, 2))).replace(b"(1, 2)", b"(1, 2,")),
    "a head without room": members(data=npy(np.ones((1, 2))).replace(b"(1, 2)", b"(9, 9)")),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_a_zip_with_wrong_parts_is_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(zipped(WRONG[what]))
    is_refused(path)


RELABELLED: dict[str, dict[str, Any]] = {
    "another kind": {"format": "voile learned explainer"},
    "a newer version": {"version": 3},
    "no version": {"version": True},
    "a key that no explanation has": {"approved_by": "regulator"},
    "no names": {"feature_names": None},
    "one name too few": {"feature_names": ["a"]},
    "a text for guarantees": {"guarantees": ""},
    "epsilon not a number": {"guarantees": [STATED | {"epsilon": float("nan")}]},
    "numbers for a text": {"texts": ["values"]},
    "a text that is not there": {"texts": ["data"]},
    "a number for the texts": {"texts": 3},
}


@pytest.mark.parametrize("what", [None, *RELABELLED])
def test_wrong_labels_are_refused(what: str | None, tmp_path: Path) -> None:
    """Also where the checksum is right, or there is none."""
    path = tmp_path / "x"
    content = PLAIN.to_bytes()
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    label = json.loads(head["__metadata__"]["voile"]) | RELABELLED.get(what or "", {})
    label.pop("checksum")
    head["__metadata__"]["voile"] = json.dumps(label)
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    if what is None:
        assert Explanation.load(path) == PLAIN
    else:
        is_refused(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_are_refused(compression: int, tmp_path: Path) -> None:
    """A small file could otherwise make the reader allocate without bounds."""
    path = tmp_path / "x"
    path.write_bytes(zipped(members(), compression))
    assert "uncompressed" in is_refused(path)


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """Many names for one stretch of bytes: a small file would be read many times over."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members().items():
            archive.writestr(name, content)
        archive.writestr("data.npy", npy(np.zeros((1, 10_000))))
        shared = archive.getinfo("data.npy")
        archive.filelist += [shared] * 50
    path = tmp_path / "x"
    path.write_bytes(buffer.getvalue())
    assert "overlap" in is_refused(path)


def test_bytes_are_the_content_of_the_file(tmp_path: Path) -> None:
    explanation = COMPLETE
    content = explanation.to_bytes()
    assert content == explanation.save(tmp_path / "e.voile").read_bytes()
    assert Explanation.from_bytes(content) == explanation
    with pytest.raises(UnreadableFile, match="cut short"):
        Explanation.from_bytes(content[:40])
