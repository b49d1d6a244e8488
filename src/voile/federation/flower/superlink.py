"""A server's side: runs on a SuperLink whose server app is this very process.

The SuperLink runs with `--isolation process`: it starts no app of its own, and hands a run's task
to whoever shows the shared secret. That is this process, which has the server's keys and folder;
nothing is shipped to the SuperLink but an app without code (`bundle`).
"""

from __future__ import annotations

import hashlib
import io
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from voile.core.errors import InvalidInput, Refused, VoileError
from voile.core.input_file import read_file
from voile.federation.flower.courier import CourierLost, CourierReply, pull, push

# --- The app that a Flower run of voile is of: a name and a version, and not a line of code ------
# Flower ships apps from the server to the nodes. Voile's nodes fetch none: they compare the hash of
# a run's app with this one, and refuse a run of any other.


_PROJECT: Final = """\
[project]
name = "voile"
version = "1"
description = "Nodes answer with the voile that is installed there; this app holds no code."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "voile"

[tool.flwr.app.components]
serverapp = "voile.nothing:app"
clientapp = "voile.nothing:app"
"""
_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


def bundle(project: str) -> bytes:
    """An app of Flower's format with this `pyproject.toml` alone; equal texts, equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("pyproject.toml", _NO_DATE), project)
    return content.getvalue()


BUNDLE: Final = bundle(_PROJECT)
BUNDLE_HASH: Final = hashlib.sha256(BUNDLE).hexdigest()


# --------------------------------------------------------------------------------------------------


# --- Tells the other side, now and then, that this side is alive ---------------------------------


@contextmanager
def beating(beat: Callable[[], object], every: float) -> Iterator[None]:
    """Call `beat` every so many seconds, in a thread of its own.

    A beat that fails is made up for by the next; whether the other side is there at all is seen by
    whoever talks to it.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            try:
                beat()
            except Exception:  # whatever is said instead of an answer
                continue

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# --------------------------------------------------------------------------------------------------


_ACQUIRE: Final = "/flwr.proto.Runtime/AcquireTask"
_BEAT: Final = 10.0
_LOST: Final = (httpx.HTTPError, ObjectPullError, ObjectPushError)
_ClientKind = TypeVar("_ClientKind", bound=ProtobufClient)


@dataclass(frozen=True)
class SuperLinkPlace:
    """Where a SuperLink is, and how to know that it is the right one.

    Args:
        address: host and port.
        root_certificates: PEM file of whoever has signed its certificate.
    """

    address: str
    root_certificates: Path

    def client(self, kind: type[_ClientKind], interceptors: Sequence[Any]) -> _ClientKind:
        """TLS always; without Flower's retries, which end the process when they are refused."""
        certificates = read_file(self.root_certificates)
        version = RuntimeVersionHttpInterceptor(component_name="voile")
        try:
            made = kind.from_server_address(
                self.address, False, certificates, [version, *interceptors]
            )
        except (ValueError, OSError) as error:
            raise InvalidInput(
                f"{self.root_certificates}: expected certificates in PEM form ({error})"
            ) from error
        made._client.follow_redirects = False  # elsewhere may be without TLS
        return made


@contextmanager
def with_reading_context(what: str) -> Iterator[None]:
    """What a SuperLink has against a request, in its own words, or that it is not there."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        found = FlowerError.from_json(error.response.text)
        reason = error.response.text[:200] if found is None else found.message
        raise CourierLost(f"{what}: {error.response.status_code} {reason}") from error
    except VoileError:
        raise
    except (*_LOST, ValueError) as error:  # the last: Flower cannot read what was said
        raise CourierLost(f"{what}: {type(error).__name__} {error}") from error


def register_node(place: SuperLinkPlace, key: bytes, name: str) -> None:
    """Tell a SuperLink the public key of a node, unless it knows it already."""
    with (
        place.client(ControlHttpClient, []) as client,
        with_reading_context(f"registering {name!r}"),
    ):
        try:
            client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
        except httpx.HTTPStatusError as error:
            found = FlowerError.from_json(error.response.text)
            if found is None or found.code != ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
                raise


@dataclass(eq=False)
class SuperLinkRun:
    """The courier of a deployment: one Flower run, and another one if that is lost.

    Nodes are found by the name under which they were registered; that a reply is of the right one
    is seen from its signature.

    Args:
        place: of the SuperLink.
        secret: that the SuperLink was started with, for whoever runs its apps.
        app: what the run is of; nodes answer to this one and no other.
    """

    place: SuperLinkPlace
    secret: bytes = field(repr=False)
    app: bytes = field(default=BUNDLE, repr=False)
    _grid: HttpGrid | None = field(default=None, init=False, repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def __enter__(self) -> SuperLinkRun:
        self.renew()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._grid is not None:
            self._finish(SubStatus.COMPLETED if kind is None else SubStatus.FAILED)
        self._stack.close()

    def renew(self) -> None:
        self._stack.close()
        self._stack, self._grid = ExitStack(), None
        with with_reading_context("beginning a Flower run"):
            run = self._started()
            token = self._acquired(run)
            self._grid = self._joined(token)

    def reachable(self) -> Mapping[str, int]:
        with with_reading_context("looking for nodes"):
            nodes = list(self.grid.get_nodes())
        found: dict[str, int] = {}
        for node in nodes:
            if node.name and found.setdefault(node.name, node.node_id) != node.node_id:
                raise Refused(
                    f"two SuperNodes are registered as {node.name!r}: unregister the wrong one "
                    "(flwr supernode unregister), and find out whose it is"
                )
        return found

    def push(self, messages: Mapping[int, bytes], seconds: float | None) -> dict[int, str]:
        with with_reading_context("sending"):
            return push(self.grid, messages, seconds)

    def pull(self, message_ids: Iterable[str]) -> list[CourierReply]:
        with with_reading_context("looking for replies"):
            return pull(self.grid, message_ids)

    @property
    def grid(self) -> HttpGrid:
        if self._grid is None:
            raise CourierLost("no Flower run is open")
        return self._grid

    # --- one run ------------------------------------------------------------------------------

    def _started(self) -> int:
        fab = fab_to_proto(Fab(hashlib.sha256(self.app).hexdigest(), self.app, {}))
        with self.place.client(ControlHttpClient, []) as client:
            answer = client.StartRun(StartRunRequest(fab=fab))
        if not answer.HasField("run_id"):
            raise CourierLost("the SuperLink has begun no run")
        return int(answer.run_id)

    def _acquired(self, run: int) -> str:
        """The token of the run's task. Tasks of earlier runs that nobody took are left to expire.

        The task of this run is there already: it was made with the run.
        """
        auth = SuperExecAuthHttpInterceptor(
            master_secret=self.secret, protected_methods=frozenset({_ACQUIRE})
        )
        wanted = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        with self.place.client(RuntimeHttpClient, [auth]) as client:
            while True:
                found = client.AcquireTask(wanted)
                if not found.HasField("task"):
                    raise CourierLost(
                        "the SuperLink hands out no task; it must run with --isolation process, "
                        "and nobody else may run its apps"
                    )
                if found.task.run_id == run:
                    return str(found.token)

    def _joined(self, token: str) -> HttpGrid:
        bearer = RuntimeTokenHttpInterceptor(token=token)
        client = self._stack.enter_context(self.place.client(RuntimeHttpClient, [bearer]))
        given = client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id = given.task_id  # Flower's messages say whose they are
        TaskIdentity.run_id = given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        beat = SendTaskHeartbeatRequest()
        self._stack.enter_context(beating(lambda: client.SendTaskHeartbeat(beat), _BEAT))
        certificates = read_file(self.place.root_certificates)
        grid = HttpGrid(self.place.address, False, certificates, token=token)
        grid._retry_invoker = None  # type: ignore[assignment]  # see SuperLinkPlace.client
        grid.set_run(run_from_proto(given.run))
        grid._runtime_client._client.follow_redirects = False
        self._stack.callback(grid.close)
        self._client = client
        return grid

    def _finish(self, status: str) -> None:
        with suppress(*_LOST):
            self._client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))


def wait_until_there(place: SuperLinkPlace, seconds: float) -> None:
    """Until a SuperLink answers at all."""
    until = time.monotonic() + seconds
    while True:
        try:
            with place.client(ControlHttpClient, []) as client:
                client._client.get(f"{client._base_url}/health")
                return
        except httpx.TransportError as error:
            if time.monotonic() > until:
                raise CourierLost(f"no SuperLink answers at {place.address}: {error}") from error
            time.sleep(0.2)
