"""Deployment (b): a testbed with real books. First a run that is stopped and a node that is killed,
then a hostile server, then the honest one.

Nothing that a server sends sets a node's randomness, data, schema, noise or budget. All attempts
are made with the server's own key where a key is needed, over TLS and a real SuperLink, and each
leaves a line in the node's log. Then the private explainer is trained: the artefact holds the
logs of all parties, which verify, and exactly the charges that were agreed on.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from tests.deployment.hostile import HostileServer, changed
from voile.app.federate.join import NODE_LOG, DeployedNode, DeployedServer, node_status
from voile.app.federate.party import signer_of
from voile.app.federate.status import RunStatus, run_status, stop_run
from voile.app.report import check_log
from voile.app.testbed import LocalDeployment, start_testbed, stop_testbed
from voile.cli import main
from voile.federation import Closing, Instruction, Joining, Update
from voile.federation.flower.superlink import SuperLinkRun, bundle
from voile.federation.messages import SecureInstruction
from voile.federation.responder import Event, NodeLog, SignedByServer
from voile.federation.secure_aggregation.signed import decode, encode
from voile.federation.wire import DeclinedMessage, to_bytes
from voile.pipelines.objectives import BLACK_BOX
from voile.records.audit_log import ParticipationRecord, decode_record, record_lines
from voile.records.audit_log.publishing import RECORDS_FILE

pytestmark = [pytest.mark.real, pytest.mark.deployment]
TRIED, KILLED = "city", "coast"
FOREIGN = """\
[project]
name = "foreign"
version = "1"
[tool.flwr.app]
publisher = "somebody"
[tool.flwr.app.components]
serverapp = "foreign:app"
clientapp = "foreign:app"
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDeployment]:
    folder = tmp_path_factory.mktemp("deployed") / "bed"
    try:
        yield start_testbed(folder, 3, rounds=1)
    finally:
        if (folder / "testbed.json").exists():
            stop_testbed(folder)


@pytest.fixture(scope="module")
def server(bed: LocalDeployment) -> DeployedServer:
    return DeployedServer.read(bed.federation)


@pytest.fixture
def hostile(bed: LocalDeployment, server: DeployedServer) -> Iterator[HostileServer]:
    with SuperLinkRun(bed.superlink.place, bed.superlink.secret.read_bytes()) as run:
        yield HostileServer(run, sealing(server), TRIED)


def sealing(server: DeployedServer, **changes: Any) -> SignedByServer:
    agreement = server.agreement
    assert agreement.server_key is not None
    settings: dict[str, Any] = {
        "agreement": agreement.digest,
        "sign": signer_of(server.server.folder, agreement.server_key),
        "identities": {name: key.public for name, key in agreement.keys.items()},
    }
    return SignedByServer(**(settings | changes))


def log_of(bed: LocalDeployment) -> NodeLog:
    return NodeLog(bed.node_file(TRIED).parent / NODE_LOG)


def refusals(bed: LocalDeployment) -> list[str]:
    return [line.text for line in log_of(bed).lines() if line.event is Event.REFUSED]


def spent(bed: LocalDeployment) -> Any:
    node = DeployedNode.read(bed.node_file(TRIED))
    return node_status(node.party, node.agreement).accounts


def sound(server: DeployedServer) -> Instruction:
    plan = server.agreement.plan
    return Instruction(BLACK_BOX, 1, plan.start(BLACK_BOX), {}, server.agreement.digest)


def contents(server: DeployedServer) -> dict[str, tuple[bytes, str]]:
    """What a server with the right key could put in a message, and what the node's log says."""
    one = sound(server)
    arrays = dict(one.arrays)
    name = next(iter(sorted(arrays)))
    wrong_shape = {**arrays, name: np.zeros((2, *arrays[name].shape), dtype=np.float32)}
    one_more = {**arrays, "another": np.zeros(2, dtype=np.float32)}
    renamed = replace(server.agreement.protected, dataset="another federation")
    other = replace(server.agreement, protected=renamed).digest
    parts = decode(to_bytes(one))
    not_finite = np.full(len(parts[2]) // 4, np.nan, dtype="<f4").tobytes()
    update = Update(TRIED, BLACK_BOX, 1, arrays, "{}", agreement=one.agreement)
    secure = SecureInstruction(one, "x1", (TRIED,), "0" * 64, b"signature")
    return {
        "a seed": (changed(one, seed=7), "has no field ['seed']"),
        "a data path": (changed(one, data="/etc/passwd"), "has no field ['data']"),
        "a schema": (changed(one, schema={"age": [0, 1]}), "has no field ['schema']"),
        "less noise": (changed(one, noise_multiplier=0.0), "has no field ['noise_multiplier']"),
        "more budget": (changed(one, epsilon=100.0), "has no field ['epsilon']"),
        "a higher cap": (changed(one, participations=99), "has no field ['participations']"),
        "a seed before the first round": (changed(Joining(one.agreement), seed=7), "['seed']"),
        "another stage": (changed(one, stage="rows"), "was not set up for 'rows'"),
        "a stage that is a path": (changed(one, stage="../../rows"), "was not set up for"),
        "round zero": (changed(one, round=0), "counted from 1"),
        "a round that is no number": (changed(one, round=True), "must be int"),
        "arrays of other shapes": (to_bytes(replace(one, arrays=wrong_shape)), "of the shapes"),
        "one array more": (to_bytes(replace(one, arrays=one_more)), "of the shapes"),
        "values that are not finite": (encode([*parts[:2], not_finite, *parts[3:]]), "finite"),
        "fewer values": (encode([*parts[:2], parts[2][:-4], *parts[3:]]), "another number"),
        "another agreement": (to_bytes(replace(one, agreement="00" * 32)), "to nothing else"),
        "another federation": (to_bytes(replace(one, agreement=other)), "to nothing else"),
        "the log of another agreement": (to_bytes(Closing("00" * 32)), "has agreed to"),
        "an update": (to_bytes(update), "and nothing more, found Update"),
        "a secure sum that nobody agreed on": (to_bytes(secure), "found SecureInstruction"),
        "no message at all": (b"\x80\x04pickle", "no message"),
    }


def envelopes(server: DeployedServer, before: bytes) -> dict[str, tuple[bytes, str]]:
    """What anybody between the server and a node could bring."""
    content, seal = to_bytes(sound(server)), sealing(server)
    good = decode(seal.seal(TRIED, content))
    strangers = signer_of(
        server.server.folder.parent / "nodes" / "coast", server.agreement.keys["coast"]
    )
    late = sealing(server, clock=lambda: 5)
    return {
        "nothing signed": (encode([*good[:-1], b""]), "not signed"),
        "signed for something else": (encode([*good[:4], b"other", good[5]]), "not signed"),
        "signed by a party": (sealing(server, sign=strangers).seal(TRIED, content), "not signed"),
        "for another node": (seal.seal("coast", content), "another node"),
        "an envelope of another agreement": (
            sealing(server, agreement="00" * 32).seal(TRIED, content),
            "to nothing else",
        ),
        "a message of yesterday": (late.seal(TRIED, content), "not newer"),
        "the same message again": (before, "not newer"),
        "no envelope": (b"hello", "malformed"),
    }


def waiting_status(config: Path, party: str) -> RunStatus:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = run_status(config)
        if found.running and found.last is not None and party in found.last.waiting:
            return found
        time.sleep(0.1)
    raise AssertionError(f"nobody waits for {party}: {run_status(config).lines}")


def test_a_run_that_waits_says_for_whom_and_is_stopped(
    bed: LocalDeployment, server: DeployedServer
) -> None:
    """As `--status` and `--stop` do from another terminal; the last test but one goes on."""
    os.kill(bed.processes[KILLED].pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(server.federate, bed.address)
        shown = waiting_status(bed.federation, KILLED).lines
        assert any(line.startswith(f"waiting for {KILLED} since 20") for line in shown)
        assert stop_run(bed.federation, patience=60)
        assert isinstance(run.exception(), KeyboardInterrupt)
    assert "goes on" in run_status(bed.federation).lines[0]


def test_a_killed_node_is_started_again(bed: LocalDeployment) -> None:
    """It takes part in the federation below; until then its old connection is forgotten."""
    bed.processes[KILLED].kill()
    again = start_testbed(bed.folder, 3)
    assert all(process.is_running for process in again.processes.values())
    changed = {name for name in again.processes if again.processes[name] != bed.processes[name]}
    assert changed == {KILLED}


def test_a_hostile_server_gets_nothing(
    bed: LocalDeployment, server: DeployedServer, hostile: HostileServer
) -> None:
    assert spent(bed) == ()
    before, tried = len(refusals(bed)), 0
    for what, (content, said) in contents(server).items():
        reply = hostile.ask(content)
        tried += 1
        assert isinstance(reply, DeclinedMessage), what
        assert said in refusals(bed)[-1], what
        assert len(refusals(bed)) == before + tried, what
    for what, (request, said) in envelopes(server, hostile.sent[0]).items():
        reply = hostile.send(request)
        tried += 1
        assert isinstance(reply, DeclinedMessage), what
        assert said in refusals(bed)[-1], what
        assert len(refusals(bed)) == before + tried, what
    odd = RecordDict({"config": ConfigRecord({"seed": 7}), "more": ConfigRecord({})})
    assert hostile.send_records(lambda node: Message(odd, node, MessageType.TRAIN)) is None
    assert "none of voile's" in refusals(bed)[-1]
    assert len(refusals(bed)) == before + tried + 1
    assert tried + 1 >= 15
    assert spent(bed) == ()


def test_no_app_of_a_server_is_even_fetched(bed: LocalDeployment, server: DeployedServer) -> None:
    place, secret = bed.superlink.place, bed.superlink.secret.read_bytes()
    with SuperLinkRun(place, secret, bundle(FOREIGN)) as run:
        foreign = HostileServer(run, sealing(server), TRIED)
        assert foreign.ask(to_bytes(sound(server))) is None
    assert "another app" in refusals(bed)[-1]
    assert "get-fab" not in (bed.superlink.folder / "superlink.log").read_text()
    assert spent(bed) == ()


def test_then_the_private_explainer_is_trained_and_everything_verifies(
    bed: LocalDeployment, server: DeployedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    artefact = server.federate(bed.address).artefact
    for party in ("server", *bed.parties):
        assert check_log(artefact, party).failed is None
    for party in bed.parties:
        assert len(charges(artefact.log_folder(party))) == 2  # one round of each stage
    with pytest.raises(SystemExit) as left:
        main(["node", str(bed.node_file(TRIED)), "--status", "--json"])
    status = json.loads(capsys.readouterr().out)
    assert left.value.code == 0
    assert status["running"]
    assert status["accounts"][0]["spent"] == pytest.approx(1.0)
    answered = [line.text for line in log_of(bed).lines() if line.event is Event.ANSWERED]
    # The run that was stopped may have been joined too.
    assert len([text for text in answered if text != "joining"]) == 3  # two stages, closing
    assert status["log"]["answered"] == len(answered)
    assert status["log"]["refused"] == len(refusals(bed))
    assert status["last_contact"] is not None
    assert "round 1" in status["last_round"]["text"]


def test_nothing_is_charged_twice_and_nothing_beyond_the_cap(
    bed: LocalDeployment, server: DeployedServer, hostile: HostileServer
) -> None:
    one = sound(server)
    arrays = {name: array + np.float32(1) for name, array in one.arrays.items()}
    again = hostile.ask(to_bytes(replace(one, arrays=arrays)))
    assert isinstance(again, Update)
    assert again.resent  # what was stored, whatever arrays come with the question
    beyond = hostile.ask(to_bytes(replace(one, round=2)))
    assert isinstance(beyond, DeclinedMessage)
    assert beyond.reason
    assert "round 2" in refusals(bed)[-1]
    log = DeployedNode.read(bed.node_file(TRIED))
    (account,) = node_status(log.party, log.agreement).accounts
    assert account.spent == pytest.approx(1.0)


def charges(folder: Path) -> list[ParticipationRecord]:
    with (folder / RECORDS_FILE).open("rb") as stream:
        found = [decode_record(record) for record in record_lines(stream)]
    return [record for record in found if isinstance(record, ParticipationRecord)]
