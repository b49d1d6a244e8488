"""Routes that inference platforms know: KServe's V1 protocol and the Open Inference Protocol."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from voile._version import __version__
from voile.app.serving import AskedExplanation, Caller, ServedRelease, UnusableRows
from voile.server.answering import (
    ACCOUNT,
    COARSER,
    FOR_EXPLAINERS,
    Given,
    OneService,
    Service,
    SomeCaller,
    give,
    repeat_key,
)
from voile.server.bodies import InferenceBody, InstancesBody, TensorBody


class JsonRoute(APIRoute):
    """A route whose bodies are JSON, whatever they are called: servers of these protocols do not
    look at the content type, and what their documentation shows for curl sends another one."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `fastapi.routing.APIRoute`."""
        handle = super().get_route_handler()

        async def read_json(request: Request) -> Response:
            others = [each for each in request.scope["headers"] if each[0] != b"content-type"]
            request.scope["headers"] = [*others, (b"content-type", b"application/json")]
            return await handle(Request(request.scope, request.receive))

        return read_json


router = APIRouter(tags=["inference"], route_class=JsonRoute)
ROWS: Final = "rows"
_OF_A_ROW: Final = ("values", "base_values", "half_widths")
_NUMBERS: Final = frozenset(
    {"FP64", "FP32", "FP16", "INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16"}
    | {"UINT8", "BOOL"}
)
_LARGEST: Final = 1e300
_READERS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "BYTES": lambda cell: isinstance(cell, str),
    "BOOL": lambda cell: isinstance(cell, bool),
}


# --- KServe V1 -----------------------------------------------------------------------------------


@router.get("/v1/models", dependencies=[FOR_EXPLAINERS])
async def list_models(service: OneService) -> dict[str, Any]:
    """Names of the releases."""
    return {"models": list(service.workspace.releases)}


@router.get("/v1/models/{name}")
async def show_model(name: str, service: OneService, caller: SomeCaller) -> dict[str, Any]:
    """Whether a release can be asked."""
    return {"name": service.workspace.release(name, caller).name, "ready": True}


@router.post("/v1/models/{name}:explain")
async def explain_instances(
    name: str,
    request: Request,
    response: Response,
    body: InstancesBody,
    service: OneService,
    caller: SomeCaller,
) -> dict[str, Any]:
    """The explain verb: an explanation for each instance, in order.

    `predictions` are the model's own, for public rows; null where rows are protected.
    """
    served = service.workspace.release(name, caller)
    given = await _give(request, service, served, body.instances, "v1", caller)
    given.tell(response)
    facts = given.facts
    told = ("charges", "records", "guarantees", "notes", "alarms", "remarks")
    return {
        "predictions": await asyncio.to_thread(served.predictions, given.rows),
        "explanations": _by_row(facts),
        "voile": {key: facts[key] for key in told},
    }


def _by_row(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = {key: facts[key] for key in ("feature_names", "output_names")}
    found = [key for key in _OF_A_ROW if facts[key] is not None]
    rows = len(facts["values"])
    return [{**names, **{key: facts[key][row] for key in found}} for row in range(rows)]


# --- Open Inference Protocol, version 2 ----------------------------------------------------------


@router.get("/v2")
async def show_server() -> dict[str, Any]:
    """Which server this is."""
    return {"name": "voile", "version": __version__, "extensions": []}


@router.get("/v2/models/{name}")
async def show_release(name: str, service: OneService, caller: SomeCaller) -> dict[str, Any]:
    """Inputs and outputs of a release."""
    served = service.workspace.release(name, caller)
    features, outputs = len(served.inputs.schema.feature_names), len(served.output_names)
    shapes = {
        "values": [-1, features, outputs],
        "base_values": [-1, outputs],
        "half_widths": [-1, features, outputs],
    }
    return {
        "name": served.name,
        "versions": [],
        "platform": "voile",
        "inputs": [{"name": ROWS, "datatype": "FP64", "shape": [-1, features]}],
        "outputs": [{"name": n, "datatype": "FP64", "shape": s} for n, s in shapes.items()],
    }


@router.get("/v2/models/{name}/ready")
async def release_is_ready(name: str, service: OneService, caller: SomeCaller) -> dict[str, Any]:
    """Whether a release can be asked."""
    return {"name": service.workspace.release(name, caller).name, "ready": True}


@router.post("/v2/models/{name}/infer")
async def infer(
    name: str,
    request: Request,
    response: Response,
    body: InferenceBody,
    service: OneService,
    caller: SomeCaller,
) -> dict[str, Any]:
    """Explain rows: one tensor `rows` in the schema's numbers, or one tensor for each column."""
    served, wanted = service.workspace.release(name, caller), _wanted(body)
    given = await _give(request, service, served, _rows(body.inputs), "v2", caller)
    given.tell(response)
    facts = given.facts
    told = ("guarantees", "charges", "records", "notes", "remarks")
    return {
        "model_name": served.name,
        "parameters": {key: json.dumps(facts[key]) for key in told},
        "outputs": [_tensor(each, facts[each]) for each in wanted if facts[each] is not None],
    }


async def _give(
    request: Request,
    service: Service,
    served: ServedRelease,
    rows: Any,
    endpoint: str,
    caller: Caller,
) -> Given:
    """Account, word for a coarser level and key against repetition stand in headers: these
    protocols have no field."""
    asked = AskedExplanation(
        rows,
        request.headers.get(ACCOUNT),
        coarser=request.headers.get(COARSER) == "true",
        repeat=repeat_key(request),
        endpoint=endpoint,
    )
    return await give(service, served, asked, caller)


def _wanted(body: InferenceBody) -> list[str]:
    """Names of outputs; checked before anything is charged."""
    wanted = list(_OF_A_ROW) if body.outputs is None else [each.name for each in body.outputs]
    if not set(wanted) <= set(_OF_A_ROW):
        raise UnusableRows([{"problem": f"outputs are {', '.join(_OF_A_ROW)}"}])
    return wanted


def _rows(inputs: Sequence[TensorBody]) -> Any:
    """A matrix in the schema's numbers, or columns by name."""
    if len(inputs) == 1 and len(inputs[0].shape) == 2 and inputs[0].name == ROWS:
        (given,) = inputs
        cells = _cells(given)
        if given.datatype not in _NUMBERS:
            raise UnusableRows([{"problem": f"the tensor {ROWS} holds numbers"}])
        return np.asarray(cells, dtype=np.float64).reshape(given.shape)
    if any(len(each.shape) == 2 and each.shape[1] != 1 for each in inputs):
        raise UnusableRows([{"problem": "a tensor of a column has the shape [rows] or [rows, 1]"}])
    return {each.name: _cells(each) for each in inputs}


def _cells(given: TensorBody) -> list[Any]:
    """Flat, in order; each of the tensor's type."""
    cells: list[Any] = []
    for each in given.data:
        cells += each if isinstance(each, list) else [each]
    is_cell = _READERS.get(given.datatype, _is_number)
    known = given.datatype in _NUMBERS or given.datatype in _READERS
    if not known or len(cells) != math.prod(given.shape) or not all(map(is_cell, cells)):
        raise UnusableRows([{"problem": "data, datatype and shape of a tensor do not agree"}])
    return cells


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and abs(cell) < _LARGEST


def _tensor(name: str, found: Any) -> dict[str, Any]:
    array = np.asarray(found, dtype=np.float64)
    return {
        "name": name,
        "datatype": "FP64",
        "shape": list(array.shape),
        "data": array.ravel().tolist(),
    }
