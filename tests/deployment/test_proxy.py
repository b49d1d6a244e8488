"""Deployment (c): only the operator of a SuperLink registers nodes.

A SuperLink with node authentication refuses a key that nobody has registered. The proxy that the
documentation ships lets nodes work, and keeps registration and runs from members.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.fleet_pb2 import PullMessagesRequest, RegisterNodeFleetRequest
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from tests.support.deployment_files import deployment_files
from voile.app.testbed import StartedProcess, SuperLinkFiles, free_port
from voile.federation.flower import (
    FleetConnection,
    SuperLinkPlace,
    SuperLinkRun,
    public_bytes,
    register_node,
)
from voile.federation.flower.courier import CourierLost
from voile.federation.flower.superlink import wait_until_there

pytestmark = pytest.mark.deployment
"""nginx is tried where there is one; the SuperLink always."""
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin") or shutil.which("nginx")
_WHOLE = """\
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{server}}}
"""


@pytest.fixture(scope="module")
def superlink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuperLinkFiles]:
    files = SuperLinkFiles.make(tmp_path_factory.mktemp("proxied") / "superlink")
    process = files.start()
    try:
        yield files
    finally:
        process.kill()


@contextmanager
def proxy(superlink: SuperLinkFiles, folder: Path) -> Iterator[SuperLinkPlace]:
    """The shipped file, with the ports and files of this test."""
    assert NGINX is not None
    port = free_port()
    server = deployment_files()["superlink-proxy.conf"]
    for stated, here in (
        ("9091", str(superlink.port)),
        ("9092", str(port)),
        ("/var/lib/voile", str(superlink.folder)),
    ):
        assert stated in server
        server = server.replace(stated, here)
    config = folder / "nginx.conf"
    config.write_text(_WHOLE.format(folder=folder, server=server))
    process = StartedProcess.start([NGINX, "-c", str(config)], folder / "output", {})
    try:
        place = SuperLinkPlace(f"127.0.0.1:{port}", superlink.certificates.authority)
        wait_until_there(place, 30.0)
        yield place
    finally:
        process.end()


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def work(place: SuperLinkPlace, key: ec.EllipticCurvePrivateKey) -> None:
    with FleetConnection.open(place, key) as node:
        node.client.PullMessages(PullMessagesRequest(node=node.node))


def register_itself(place: SuperLinkPlace, key: ec.EllipticCurvePrivateKey) -> None:
    """As a node does where a SuperLink runs without node authentication."""
    auth = NodeAuthHttpInterceptor(key, key.public_key())
    with place.client(FleetHttpClient, [auth]) as client:
        client.RegisterNode(RegisterNodeFleetRequest(public_key=public_bytes(key)))


@pytest.fixture(params=[pytest.param("directly", marks=pytest.mark.real), "by the proxy"])
def place(
    request: pytest.FixtureRequest, superlink: SuperLinkFiles, tmp_path: Path
) -> Iterator[SuperLinkPlace]:
    with ExitStack() as stack:
        if request.param == "directly":
            yield superlink.place
        elif NGINX is None:
            pytest.skip("nginx is not installed")
        else:
            yield stack.enter_context(proxy(superlink, tmp_path))


def test_a_node_works_once_the_operator_has_registered_its_key(
    superlink: SuperLinkFiles, place: SuperLinkPlace
) -> None:
    key = new_key()
    with pytest.raises(httpx.HTTPStatusError, match="412 Precondition Failed"):
        work(place, key)
    with pytest.raises(httpx.HTTPStatusError, match="Client error"):
        register_itself(place, key)
    register_node(superlink.place, public_bytes(key), "city")
    work(place, key)


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_a_member_registers_nothing_and_begins_no_run(
    superlink: SuperLinkFiles, tmp_path: Path
) -> None:
    with proxy(superlink, tmp_path) as place:
        with pytest.raises(CourierLost, match="403"):
            register_node(place, public_bytes(new_key()), "city")
        with (
            pytest.raises(CourierLost, match="403"),
            SuperLinkRun(place, superlink.secret.read_bytes()),
        ):
            pass
        with SuperLinkRun(superlink.place, superlink.secret.read_bytes()):
            pass  # the operator does
