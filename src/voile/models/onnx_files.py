"""ONNX models through onnxruntime: a file, its bytes, or an open session."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.optional import optional
from voile.models.outputs import OutputSet, Simplex, Unbounded
from voile.models.protocol import Rows
from voile.models.wrapped import WrappedModel

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


def is_session(source: Any) -> bool:
    return type(source).__name__ == "InferenceSession" and hasattr(source, "get_inputs")


def load_onnx(path: Path) -> WrappedModel:
    """Open a file; one thread, so that results do not depend on the machine's load."""
    runtime = optional("onnxruntime", extra="explain")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is told by the exception
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base of their own
        raise UnreadableFile(f"{path}: not an ONNX model that can be run: {error}") from error
    return wrap_session(session, hashlib.sha256(content).hexdigest())


def wrap_session(session: Any, digest: str | None = None) -> WrappedModel:
    inputs, answers = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 2 or inputs[0].type not in _TYPES:
        found = [f"{item.name}: {item.type}{item.shape}" for item in inputs]
        raise InvalidInput(
            "an ONNX model must take one input of numbers with shape (rows, features), "
            f"found {found}; export with zipmap off and one input tensor"
        )
    chosen = _answer(answers)
    name, dtype, width = inputs[0].name, _TYPES[inputs[0].type], inputs[0].shape[1]

    def forward(rows: Rows) -> Any:
        (found,) = session.run([chosen.name], {name: rows.astype(dtype)})
        return found

    def identity() -> str:
        if digest is None:
            raise InvalidInput(
                "an open session does not show its content; pass `digest=` to `wrap` or wrap the "
                "path of the file"
            )
        return digest

    probable = chosen.name in ("probabilities", "output_probability")
    outputs: OutputSet = Simplex() if probable else Unbounded()
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
