"""FastAPI that reads the same body and answers a constant of the same size, with uvicorn."""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI

from voile.server.bodies import ExplanationBody

app = FastAPI()
ANSWER: dict[str, Any] = {"values": [[[0.123456789012345]] * 12], "text": "x" * 1_500}


@app.post("/api/v1/explanations")
async def answer(body: ExplanationBody) -> dict[str, Any]:  # noqa: ARG001
    return ANSWER


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])
    sys.exit(0)
