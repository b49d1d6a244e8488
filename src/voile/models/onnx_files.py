"""ONNX models through onnxruntime: a file, its bytes, or an open session."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import read_file
from voile.core.optional import optional
from voile.models.inspection import graphs
from voile.models.outputs import DeclaredOutputs, Simplex, Unbounded
from voile.models.protocol import Rows
from voile.models.wrapped import Forward, InspectedForward, WrappedModel

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_SILENT = 4
"""Only what ends the process is written to standard error."""


def is_session(source: Any) -> bool:
    return type(source).__name__ == "InferenceSession" and hasattr(source, "get_inputs")


def load_onnx(path: Path) -> WrappedModel:
    """Open a file; one thread, so that results do not depend on the machine's load."""
    runtime = optional("onnxruntime", extra="explain")
    content = read_file(path)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    try:
        session = runtime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # onnxruntime's errors have no common base of their own
        raise UnreadableFile(f"{path}: not an ONNX model that can be run: {error}") from error
    return wrap_session(session, content)


@digest_name("voile.models.onnx_files.OfSession")
@dataclass(frozen=True, eq=False)
class SessionForward(InspectedForward):
    """What a graph says.

    Args:
        session: runs it.
        given, answer: names of its input and output.
        dtype: of the input.
        options: of every run.
        content: the file, where it is known: an open session does not show it.
    """

    session: Any
    given: str
    answer: str
    dtype: Any
    options: Any
    content: bytes | None = field(repr=False)

    def __call__(self, rows: Rows) -> Any:
        rows = rows.astype(self.dtype)
        (found,) = self.session.run([self.answer], {self.given: rows}, self.options)
        return found

    def steady(self) -> Forward | None:
        known = self.content is not None and graphs.is_row_wise(self.content, self.answer)
        return self if known else None

    def class_labels(self) -> tuple[str, ...] | None:
        found = None if self.content is None else graphs.class_labels(self.content)
        if found is None:
            return None
        words = any(each.type == "tensor(string)" for each in self.session.get_outputs())
        # A file that answers in words and does not state their order may have any order.
        unknown = words and not any(isinstance(each, str) for each in found)
        return None if unknown else tuple(map(str, found))


def wrap_session(session: Any, content: bytes | None = None) -> WrappedModel:
    """What goes wrong in a run is told by its exception, not in lines on standard error.

    Such a line holds what was found in a row.
    """
    inputs, answers = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 2 or inputs[0].type not in _TYPES:
        found = [f"{item.name}: {item.type}{item.shape}" for item in inputs]
        raise InvalidInput(
            "an ONNX model must take one input of numbers with shape (rows, features), "
            f"found {found}; export with zipmap off and one input tensor"
        )
    chosen = _answer(answers)
    width = inputs[0].shape[1]
    options = optional("onnxruntime", extra="explain").RunOptions()
    options.log_severity_level = _SILENT
    forward = SessionForward(
        session, inputs[0].name, chosen.name, _TYPES[inputs[0].type], options, content
    )

    def identity() -> str:
        if content is None:
            raise InvalidInput(
                "an open session does not show its content; pass `digest=` to `wrap` or wrap the "
                "path of the file"
            )
        return hashlib.sha256(content).hexdigest()

    probable = chosen.name in ("probabilities", "output_probability")
    outputs: DeclaredOutputs = Simplex() if probable else Unbounded()
    return WrappedModel(
        forward=forward,
        identity=identity,
        width=width if isinstance(width, int) else None,
        outputs=outputs,
        source=session,
    )


def _answer(answers: Any) -> Any:
    """The only output of numbers, or the probabilities beside the label of a classifier."""
    tensors = [item for item in answers if item.type in ("tensor(float)", "tensor(double)")]
    probable = [item for item in tensors if "prob" in item.name.lower()]
    if len(probable) == 1 or len(tensors) == 1:
        return (probable or tensors)[0]
    found = [f"{item.name}: {item.type}" for item in answers]
    raise InvalidInput(
        f"expected one output of floating-point numbers, found {found}; "
        "export classifiers with zipmap off"
    )
