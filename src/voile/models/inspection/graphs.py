"""ONNX graphs in which each row of the input has its own way to the output.

What becomes of the input is followed from node to node, by a rule for each listed operator: for its
axes in `voile.models.inspection.operators`, for its numbers in `.rounding`. Where a node has none,
or its rule is not sure, the graph is not known. Only what leads to the answer is followed.
"""

from __future__ import annotations

from typing import Any

from voile.core.optional import optional
from voile.models.inspection.operators import Batch, Fixed, GraphNode, Value
from voile.models.inspection.rounding import DOUBLE, RULES
from voile.models.inspection.unsure import sure


def is_row_wise(content: bytes, answer: str) -> bool:
    """Whether a model file is known to answer each row by itself, in the output called `answer`."""
    try:
        onnx = optional("onnx", extra="explain")
        model = onnx.load_from_string(content)
        return not model.functions and isinstance(_followed(onnx, model, answer), Batch)
    except Exception:  # whatever is not understood is not known
        return False


def class_labels(content: bytes) -> tuple[str, ...] | tuple[int, ...] | None:
    """The labels of a classifier in the order of its outputs; none where the file states none.

    None where it cannot be read, or where its classifiers have different labels.
    """
    try:
        model = optional("onnx", extra="explain").load_from_string(content)
    except Exception:  # whatever is not understood is not known
        return None
    found = {
        tuple(each.decode() for each in entry.strings) or tuple(entry.ints)
        for node in model.graph.node
        for entry in node.attribute
        if entry.name in ("classlabels_strings", "classlabels_ints", "classlabels_int64s")
    } - {()}
    return None if len(found) > 1 else next(iter(found), ())


def _followed(onnx: Any, model: Any, answer: str) -> Value:
    graph = model.graph
    versions = {_domain(entry.domain): entry.version for entry in model.opset_import}
    known: dict[str, Value] = {
        tensor.name: Fixed(onnx.numpy_helper.to_array(tensor)) for tensor in graph.initializer
    }
    for entry in graph.input:
        if entry.name not in known:
            known[entry.name] = _input(entry)
    makers = {name: node for node in graph.node for name in node.output}

    def value(name: str) -> Value:
        if name not in known:
            node = makers[name]
            domain = _domain(node.domain)
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if (domain, node.op_type) == ("", "Constant"):
                known[name] = Fixed(onnx.numpy_helper.to_array(attributes["value"]))
            else:
                taken = [value(given) if given else None for given in node.input]
                asked = GraphNode(attributes, versions[domain], list(node.output).index(name))
                known[name] = RULES[domain, node.op_type](asked, taken)
        return known[name]

    return value(answer)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _input(entry: Any) -> Batch:
    given = entry.type.tensor_type
    axes = given.shape.dim
    sure(None, len(axes) == 2 and not axes[0].HasField("dim_value"))
    width = axes[1].dim_value if axes[1].HasField("dim_value") else None
    return Batch((width,), double=given.elem_type == DOUBLE)
