"""Parties on machines of their own: each makes its keys, and together they have an agreement."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.unit.app.federate.test_run import CHOSEN, CLINIC, write_csv

from voile.app.federate.join import (
    NODE_LOG,
    DeployedNode,
    DeployedServer,
    enrol,
    node_status,
    server_key,
    server_key_line,
)
from voile.core.errors import InvalidInput, Refused
from voile.federation.responder import LAST_CONTACT, Event, NodeLog

NODE = """\
name = "{name}"
data = "{name}.csv"
federation = "federation.toml"
[accepts]
epsilon = 3
delta = 1e-4
[superlink]
address = "superlink.example:9092"
root_certificates = "ca.crt"
"""
FEDERATION = """\
name = "study v1"
schema = "schema.toml"
[privacy]
epsilon = 3
delta = 1e-4
[training]
rounds = 1
hidden = [8]
"""
SERVER = """\
[[held_out]]
name = "mountain"
data = "held-out.csv"
[superlink]
root_certificates = "ca.crt"
secret = "secret"
"""


@pytest.fixture
def machines(tmp_path: Path) -> dict[str, Path]:
    """Three hospitals and a server, each with a folder that nobody else sees."""
    folders = {name: tmp_path / name for name in (*CHOSEN, "server")}
    for folder in folders.values():
        folder.mkdir()
    lines = []
    for name in CHOSEN:
        write_csv(CLINIC.hospitals[name], folders[name] / f"{name}.csv")
        (folders[name] / "node.toml").write_text(NODE.format(name=name))
        lines.append(enrol(folders[name] / "node.toml").lines)
    server = folders["server"]
    write_csv(CLINIC.hospitals["mountain"], server / "held-out.csv")
    (server / "server.toml").write_text(SERVER)
    (server / "schema.toml").write_text(CLINIC.schema.dumps())
    agreed = server / "federation.toml"
    agreed.write_text(FEDERATION + "\n".join(lines))
    agreed.write_text(server_key_line(agreed) + "\n" + agreed.read_text())
    for name in CHOSEN:
        for file in ("federation.toml", "schema.toml"):
            shutil.copy(server / file, folders[name] / file)
    return folders


def test_everybody_reads_the_same_agreement_and_opens_its_node(machines: dict[str, Path]) -> None:
    server = DeployedServer.read(machines["server"] / "federation.toml")
    for name in CHOSEN:
        node = DeployedNode.read(machines[name] / "node.toml")
        assert node.agreement.digest == server.agreement.digest
        assert node.link.key == machines[name] / "flower.key"
        assert not node_status(node.party, node.agreement).running
        with node.responder() as responder:
            assert responder.node.name == name
            found = node_status(node.party, node.agreement)
            assert found.running
            assert found.accounts == ()
            assert "nothing was asked yet" in found.lines
    assert server_key(server.agreement).name.endswith("/server")


def test_a_status_says_when_the_superlink_answered_and_the_last_round(
    machines: dict[str, Path],
) -> None:
    node = DeployedNode.read(machines["city"] / "node.toml")
    found = node_status(node.party, node.agreement)
    assert (found.last_contact, found.last_round) == (None, None)
    log = NodeLog(node.party.folder / NODE_LOG)
    log.touch()
    os.utime(node.party.folder / LAST_CONTACT, (1_800_000_000, 1_800_000_000))
    log.write(Event.ANSWERED, "stage 'model', round 7")
    log.write(Event.OFFLINE, "no answer")
    found = node_status(node.party, node.agreement)
    assert "last contact with the SuperLink: 2027-01-15T08:00:00Z" in found.lines
    assert found.last_round is not None
    assert found.last_round.round == 7
    assert found.to_dict()["last_round"]["text"] == "stage 'model', round 7"


def test_keys_are_made_once(machines: dict[str, Path]) -> None:
    path = machines["city"] / "node.toml"
    assert enrol(path) == enrol(path)
    agreed = machines["server"] / "federation.toml"
    assert server_key_line(agreed) in agreed.read_text()


def test_a_party_that_protects_columns_counts_its_rows_in_parquet(
    machines: dict[str, Path],
) -> None:
    """A line break in a private cell of CSV would add to the count, which is handed over."""
    path = machines["city"] / "node.toml"
    path.write_text(path.read_text().replace("[accepts]", '[accepts]\ncolumns = ["age"]'))
    with pytest.raises(InvalidInput, match="must be a Parquet file"):
        enrol(path)


def test_what_is_missing_is_said(machines: dict[str, Path]) -> None:
    path = machines["city"] / "node.toml"
    path.write_text(path.read_text().partition("[superlink]")[0])
    with pytest.raises(InvalidInput, match="superlink"):
        enrol(path)
    with pytest.raises(InvalidInput, match="superlink"):
        DeployedNode.read(path)
    file = machines["server"] / "server.toml"
    file.write_text(file.read_text().partition("[superlink]")[0])
    with pytest.raises(InvalidInput, match="superlink"):
        DeployedServer.read(machines["server"] / "federation.toml")


def test_a_secret_that_others_can_read_is_refused(machines: dict[str, Path]) -> None:
    secret = machines["server"] / "secret"
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o640)
    deployed = DeployedServer.read(machines["server"] / "federation.toml")
    with pytest.raises(Refused, match="mode 0640 lets others at a secret"):
        deployed.federate("localhost:1")
