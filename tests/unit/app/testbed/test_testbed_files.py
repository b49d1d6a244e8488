"""What a testbed writes, without its processes."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from voile.app import testbed
from voile.app.certificates import make_certificates
from voile.app.federate.join import DeployedNode, DeployedServer
from voile.app.testbed import (
    STATE,
    LocalDeployment,
    StartedProcess,
    invented,
    start_testbed,
    stop_testbed,
)
from voile.core.errors import InvalidInput, UnreadableFile

PAGE = Path(__file__).parents[4] / "docs" / "across-machines.md"


def test_all_files_are_read_by_those_they_belong_to(tmp_path: Path) -> None:
    made = invented(tmp_path / "bed", 2, 1)
    server = DeployedServer.read(made.federation)
    for party in made.parties:
        node = DeployedNode.read(made.node_file(party))
        assert node.agreement.digest == server.agreement.digest
        assert node.link.address == made.address
    assert LocalDeployment.load(made.folder) == made
    assert made.superlink.secret.stat().st_mode & 0o077 == 0
    assert made.superlink.certificates.key.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("parties", [0, 8])
def test_there_are_only_so_many_hospitals(tmp_path: Path, parties: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 7"):
        invented(tmp_path / "bed", parties, 1)


@pytest.mark.parametrize("parties", [1, 3])
def test_a_testbed_of_another_size_is_not_started(
    tmp_path: Path, parties: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed, "_started", lambda made, _: made)  # no process if this fails
    invented(tmp_path / "bed", 2, 1)
    with pytest.raises(InvalidInput, match=rf"is a testbed of 2 parties, and {parties} are asked"):
        start_testbed(tmp_path / "bed", parties)
    assert start_testbed(tmp_path / "bed", 2).parties == ("children and maternity", "city")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InvalidInput, match="not empty"):
        invented(tmp_path, 2, 1)
    with pytest.raises(InvalidInput, match="no testbed"):
        stop_testbed(tmp_path)
    (tmp_path / STATE).write_text("{}")
    with pytest.raises(UnreadableFile):
        stop_testbed(tmp_path)


def test_certificates_name_this_machine(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    found = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files.authority)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_certificate_commands_of_the_documentation_work(tmp_path: Path) -> None:
    """For nodes, which are given a name, and for the operator and the proxy on that machine."""
    text = PAGE.read_text().partition("<!-- certificates -->\n```\n")[2].partition("```")[0]

    def run(*command: str) -> None:
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    run("bash", "-euc", text)
    for names in ("hostname superlink.example", "hostname localhost", "ip 127.0.0.1"):
        kind, name = names.split()
        run("openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.crt",
            f"-verify_{kind}", name, "server.crt")  # fmt: skip
    for key in ("ca.key", "server.key"):
        assert (tmp_path / key).stat().st_mode & 0o077 == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")


def test_a_process_is_known_by_when_it_began(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    started = StartedProcess.start(command, tmp_path / "log", {})
    try:
        assert StartedProcess.read(started.to_dict()) == started
        assert started.is_running
        stranger = StartedProcess(started.pid, "1")  # the number was given to somebody else
        stranger.end()
        assert started.is_running
        assert not stranger.is_running
    finally:
        started.end()
    assert not started.is_running
    started.end()  # a second time is nothing
