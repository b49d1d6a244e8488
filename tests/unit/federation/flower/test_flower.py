"""The parts of Flower that voile stands on, below its public ones: a new version must not pass by.

Whoever moves to another version of Flower changes `VERSION`, and sees here what has changed.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
import sys
import zipfile
from importlib import metadata
from io import BytesIO

from flwr.common.config import get_fab_config
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import HttpGrid
from flwr.supernode.fleet_http_client import FleetHttpClient

from voile.federation.flower import BUNDLE, BUNDLE_HASH, VERSION
from voile.federation.flower.courier import packed, unpacked


def test_the_version_is_the_one_that_was_read() -> None:
    assert metadata.version("flwr") == VERSION == "1.41.0"


def test_every_call_that_is_made_is_there() -> None:
    calls = {
        FleetHttpClient: (
            "ActivateNode", "DeactivateNode", "SendNodeHeartbeat", "PullMessages", "PushMessages",
            "GetRun", "PullObject", "PushObject", "ConfirmMessageReceived",
        ),
        ControlHttpClient: ("StartRun", "RegisterNode"),
        RuntimeHttpClient: ("AcquireTask", "PullTaskInput", "PushTaskOutput", "SendTaskHeartbeat"),
        HttpGrid: ("get_nodes", "push_messages", "pull_messages", "set_run", "close"),
    }  # fmt: skip
    for kind, names in calls.items():
        for name in names:
            assert callable(getattr(kind, name)), f"{kind.__name__}.{name}"
    parameters = inspect.signature(ProtobufClient.from_server_address).parameters
    assert list(parameters)[:4] == [
        "server_address", "insecure", "root_certificates", "interceptors"
    ]  # fmt: skip
    assert {"node_id", "name"} <= {field.name for field in NodeInfo.DESCRIPTOR.fields}


def test_a_grid_takes_no_retries_that_end_the_process() -> None:
    grid = HttpGrid("127.0.0.1:1", token="t", root_certificates=None)
    assert hasattr(grid, "_retry_invoker")
    assert "self._retry_invoker" in inspect.getsource(HttpGrid._connect)


def test_the_app_holds_no_code_and_flower_takes_it() -> None:
    with zipfile.ZipFile(BytesIO(BUNDLE)) as archive:
        assert archive.namelist() == ["pyproject.toml"]
    assert get_fab_config(BUNDLE)["project"]["name"] == "voile"
    assert hashlib.sha256(BUNDLE).hexdigest() == BUNDLE_HASH
    # Nodes of one version of voile answer to servers of another: the app stays as it is.
    assert BUNDLE_HASH == "cf766bc69168f65ddf8b657a1cdf235f6228106cf824a5e2b4178609c84c03f3"


def test_nothing_is_told_to_anybody() -> None:
    script = (
        "import os, voile.federation.flower\n"
        "from flwr.supercore import telemetry\n"
        "print(telemetry.FLWR_TELEMETRY_ENABLED, os.environ['RAY_USAGE_STATS_ENABLED'])"
    )
    loud = {**os.environ, "FLWR_TELEMETRY_ENABLED": "1", "RAY_USAGE_STATS_ENABLED": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=loud, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["0", "0"]


def test_bytes_are_packed_and_nothing_else_is_unpacked() -> None:
    from flwr.app import ConfigRecord, RecordDict

    assert unpacked(packed(b"content")) == b"content"
    for other in (
        RecordDict(),
        RecordDict({"voile": ConfigRecord({"content": "text"})}),
        RecordDict({"voile": ConfigRecord({"content": b"x", "seed": 1})}),
        RecordDict({"voile": ConfigRecord({"content": b"x"}), "more": ConfigRecord()}),
    ):
        assert unpacked(other) is None
