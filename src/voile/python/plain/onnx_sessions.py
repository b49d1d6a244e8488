"""ONNX sessions with one input for all columns, or one for each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.models.inspection import graphs

_DTYPES: Final[Mapping[str, Any]] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": object,
}
_NUMBERS: Final = ("tensor(float)", "tensor(double)")


def is_session(model: Any) -> bool:
    return type(model).__name__ == "InferenceSession" and hasattr(model, "get_inputs")


@dataclass(frozen=True, eq=False)
class OnnxOutputs:
    """One output of a session, for rows as an array or as columns by name.

    Args:
        session: runs the graph.
        inputs: by name, which type it takes.
        answer: which output is read.
        labels: of the classes, where the output are their probabilities.
        at_once: how many rows a graph takes that was exported for a fixed number.
    """

    session: Any
    inputs: Mapping[str, Any]
    answer: str
    labels: tuple[str, ...] | None
    at_once: int | None

    @property
    def is_matrix(self) -> bool:
        """Whether all columns go into one input."""
        return len(self.inputs) == 1

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the columns, if each has an input of its own."""
        return None if self.is_matrix else tuple(self.inputs)

    def __call__(self, table: Any) -> Any:
        feed = self._feed(table)
        count = len(next(iter(feed.values())))
        size = self.at_once or max(count, 1)
        parts = [self._run(feed, start, size) for start in range(0, count, size)]
        return np.concatenate(parts)[:count]

    def _feed(self, table: Any) -> dict[str, NDArray[Any]]:
        if self.is_matrix:
            ((name, dtype),) = self.inputs.items()
            return {name: np.asarray(table).astype(dtype)}
        return {n: np.asarray(table[n]).astype(d)[:, np.newaxis] for n, d in self.inputs.items()}

    def _run(self, feed: Mapping[str, NDArray[Any]], start: int, size: int) -> NDArray[Any]:
        part = {name: _padded(column[start : start + size], size) for name, column in feed.items()}
        (found,) = self.session.run([self.answer], part)
        if isinstance(found, list):  # one dict of classes for each row
            return np.array([list(row.values()) for row in found])
        return np.asarray(found)


def _padded(rows: NDArray[Any], size: int) -> NDArray[Any]:
    short = size - len(rows)
    return np.concatenate([rows, rows[-1:].repeat(short, axis=0)]) if short > 0 else rows


def onnx_outputs(session: Any, content: bytes | None) -> OnnxOutputs:
    """Find the input of each column, and the output with probabilities or predictions.

    Raises:
        InvalidInput: an input is of a type that no column has, or no output is of numbers.
    """
    inputs, answers = session.get_inputs(), session.get_outputs()
    unknown = [f"{each.name}: {each.type}" for each in inputs if each.type not in _DTYPES]
    if unknown:
        raise InvalidInput(f"model: an ONNX input must be numbers or text, found {unknown}")
    answer = _answer(answers)
    fixed = inputs[0].shape[0] if inputs[0].shape else None
    return OnnxOutputs(
        session,
        {each.name: _DTYPES[each.type] for each in inputs},
        answer.name,
        _labels(session, content, answer),
        fixed if isinstance(fixed, int) else None,
    )


def _answer(answers: Any) -> Any:
    """Probabilities if there are any, as an array or as dicts; else the only numbers."""
    probable = [each for each in answers if "prob" in each.name.lower()]
    numbers = [each for each in answers if each.type in _NUMBERS]
    if len(probable) == 1 or len(numbers) == 1:
        return (probable or numbers)[0]
    found = [f"{each.name}: {each.type}" for each in answers]
    raise InvalidInput(
        f"model: an ONNX model must have one output of floating-point numbers, found {found}; "
        "leave the others out when you export it, or pass a function that runs the session"
    )


def extracted_labels(content: bytes) -> tuple[Any, ...]:
    """The only list of labels from which a graph picks; none if there is no such list."""
    onnx = optional("onnx", extra="explain")
    graph = onnx.load_from_string(content).graph
    constants = {each.name: each for each in graph.initializer}
    found = [
        onnx.numpy_helper.to_array(constants[node.input[0]]).ravel()
        for node in graph.node
        if node.op_type == "ArrayFeatureExtractor" and node.input[0] in constants
    ]
    if len(found) != 1 or len(found[0]) < 2:
        return ()
    return tuple(each.decode() if isinstance(each, bytes) else each for each in found[0].tolist())


def _labels(session: Any, content: bytes | None, answer: Any) -> tuple[str, ...] | None:
    """Of a classifier; None for any other model."""
    if content is None:
        content = getattr(session, "_model_bytes", None)
    known = None if content is None else graphs.class_labels(content) or extracted_labels(content)
    if known:
        return tuple(map(str, known))
    width = answer.shape[1] if len(answer.shape or ()) == 2 else None
    if "prob" in answer.name.lower() and isinstance(width, int):
        return tuple(f"class {place}" for place in range(width))
    return None
