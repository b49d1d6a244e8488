"""Models by name; pickles are refused, however they are wrapped or called."""

from __future__ import annotations

import bz2
import gzip
import lzma
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.models import load_file, load_model, names_model, names_object, wrap

RAN: list[str] = []


class Trap:
    """What a pickle does when it is read."""

    def __reduce__(self) -> Any:
        return (RAN.append, ("the code in the pickle ran",))


FORMS: dict[str, Callable[[], bytes]] = {
    "protocol 0": lambda: pickle.dumps({"weights": [1, 2]}, protocol=0),
    "protocol 2": lambda: pickle.dumps(Trap(), protocol=2),
    "protocol 5": lambda: pickle.dumps(Trap(), protocol=5),
    "gzip": lambda: gzip.compress(pickle.dumps(Trap())),
    "zlib": lambda: zlib.compress(pickle.dumps(Trap())),
    "bzip2": lambda: bz2.compress(pickle.dumps(Trap())),
    "xz": lambda: lzma.compress(pickle.dumps(Trap())),
    "lzma": lambda: lzma.compress(pickle.dumps(Trap()), format=lzma.FORMAT_ALONE),
}


@pytest.mark.parametrize("suffix", [".pkl", ".onnx", ""])
@pytest.mark.parametrize("form", list(FORMS))
def test_pickles_are_refused_by_content(form: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(FORMS[form]())
    with pytest.raises(Refused, match="run any code") as refusal:
        load_model(str(path))
    assert "ONNX" in str(refusal.value)
    assert RAN == []


def test_torch_and_joblib_files_are_refused(tmp_path: Path) -> None:
    import torch

    joblib: Any = pytest.importorskip("joblib")

    for old in (True, False):
        path = tmp_path / f"network-{old}.onnx"
        torch.save({"w": torch.ones(3)}, path, _use_new_zipfile_serialization=not old)
        with pytest.raises(Refused):
            load_file(path)
    for compress in (0, 3):
        path = tmp_path / f"forest-{compress}.onnx"
        joblib.dump({"w": np.ones(3)}, path, compress=compress)
        with pytest.raises(Refused):
            load_file(path)


def test_files_named_as_pickles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.joblib"
    path.write_bytes(b"\x00\x01 something else")
    with pytest.raises(Refused, match="joblib"):
        load_file(path)


def test_what_is_no_model_at_all(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x07 not a model")
    with pytest.raises(UnreadableFile, match="not an ONNX model"):
        load_file(path)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        load_file(tmp_path / "absent.onnx")


def test_an_object_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clinic_models.py").write_text(
        "class Box:\n    @staticmethod\n    def score(rows):\n        return rows[:, 0]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    model = wrap(load_model("clinic_models:Box.score"))
    assert model.predict(np.array([[3.0, 1.0]])) == [[3.0]]
    with pytest.raises(InvalidInput, match=r"no object 'Box\.risk'"):
        load_model("clinic_models:Box.risk")
    with pytest.raises(InvalidInput, match="no module 'absent'"):
        load_model("absent.part:thing")
    sys.modules.pop("clinic_models", None)


# --- Silence of onnxruntime -----------------------------------------------------------------------

_TELLS = """if True:
    import sys
    import numpy as np
    from voile.models import wrap
    given = sys.argv[1]
    if sys.argv[2] == "session":
        import onnxruntime
        given = onnxruntime.InferenceSession(given, providers=["CPUExecutionProvider"])
    model = wrap(given, digest="gather")
    try:
        model.predict(np.array([[17.0]]))
    except Exception:
        print("failed")
"""


@pytest.mark.parametrize("form", ["file", "session"])
def test_onnxruntime_prints_nothing_about_a_row(form: str, tmp_path: Path) -> None:
    """An index out of bounds used to be printed on standard error, with its value."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "i"], ["y"], axis=0),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 1]) for n in "xy"]
    table = numpy_helper.from_array(np.arange(3, dtype=np.float32), "table")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [table])
    path = tmp_path / "gather.onnx"
    opset = [helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(made.SerializeToString())
    run = subprocess.run(
        [sys.executable, "-c", _TELLS, str(path), form], capture_output=True, text=True, timeout=120
    )
    assert (run.stdout, run.stderr) == ("failed\n", "")


def test_a_module_of_the_current_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_scoring_model.py").write_text("ANSWER = 42\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert load_model("my_scoring_model:ANSWER") == 42
    assert sys.path == before


def test_modules_are_looked_for_in_the_folder_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "scores_beside_a_file.py").write_text("ANSWER = 7\n")
    before = list(sys.path)
    assert load_model("scores_beside_a_file:ANSWER", tmp_path) == 7
    assert sys.path == before


def test_a_module_of_the_same_name_from_elsewhere_is_not_taken_for_it(tmp_path: Path) -> None:
    """Python would hand out the one that it loaded first."""
    for number, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scores_twice.py").write_text(f"ANSWER = {number}\n")
    assert load_model("scores_twice:ANSWER", tmp_path / "one") == 0
    assert load_model("scores_twice:ANSWER", tmp_path / "one") == 0
    with pytest.raises(InvalidInput, match=r"two/scores_twice\.py: a module 'scores_twice' from"):
        load_model("scores_twice:ANSWER", tmp_path / "two")


@pytest.mark.parametrize(
    ("line", "raised", "hinted"),
    [
        ("open('rows.csv')", "FileNotFoundError: .*rows.csv", True),
        ("Schema.load('rows.toml')", "SchemaError: rows.toml: .*cannot be read", True),
        ("import absent_library", "ModuleNotFoundError: No module named 'absent_library'", False),
        ("1 / 0", "ZeroDivisionError: division by zero", False),
    ],
)
def test_a_module_that_fails_is_said_to(
    line: str, raised: str, hinted: bool, tmp_path: Path
) -> None:
    (tmp_path / "failing_model.py").write_text(f"from voile.core.schema import Schema\n{line}\n")
    with pytest.raises(
        InvalidInput, match=f"module 'failing_model' failed while it was imported: {raised}"
    ) as said:
        load_model("failing_model:risk", tmp_path)
    assert ("Path(__file__).parent" in str(said.value)) == hinted


def test_what_a_text_is_called_like(tmp_path: Path) -> None:
    assert names_object("package.module:object")
    assert not names_object("package.module")
    (tmp_path / "a:b").touch()
    assert not names_object("a:b", tmp_path)
    assert names_object("a:b", tmp_path / "elsewhere")
    assert names_model("risk.ONNX")
    assert names_model("risk.joblib"), "to be refused as one"
    assert not names_model("rows.csv")
