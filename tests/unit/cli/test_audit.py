"""`voile audit` as people and scripts meet it."""

from __future__ import annotations

import json
import os
import queue
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.records.audit_log.examples import NONCES, QUERY, release

from voile import Explanation
from voile.app.audits import WitnessServing
from voile.app.calls import Context, handle
from voile.app.commands.audit import ServeWitness
from voile.records.audit_log import PART, AuditLog, Commitment, explanation_bytes
from voile.records.storage import open_storage

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

ORIGIN = "example.org/clinic"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*arguments: str, code: int = 0) -> tuple[str, str]:
    """Run in this process: starting Python for every command would cost minutes."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    from voile.cli import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main(["audit", *arguments])
    assert left.value.code == code, out.getvalue() + err.getvalue()
    return out.getvalue(), err.getvalue()


def audit_json(*arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit(*arguments, "--json", code=code)[0])
    return found


EXPLANATION = Explanation(
    values=np.array([[0.1, -0.2]]), base_values=np.array([0.5]), feature_names=("age", "bmi")
)


def append(count: int, **changes: Any) -> None:
    with open_storage("log.db", [PART]) as storage:
        log = storage.submit(AuditLog.open)
        for number in range(count):
            record = type(release())(**{**vars(release(number)), **changes})
            storage.submit(lambda t, r=record: log.append(t, r))  # type: ignore[misc]


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["outcome"] for step in report["steps"]}


def test_the_whole_way_from_a_record_to_a_checked_explanation(folder: Path) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    assert stat.S_IMODE((folder / "audit.key").stat().st_mode) == 0o600
    answer = Commitment.to("answer", explanation_bytes(EXPLANATION))
    append(3, answer=answer.digest)
    nonces = {"answer": answer.nonce.hex(), "query": NONCES["query"].hex()}
    (folder / "nonces.json").write_text(json.dumps(nonces, separators=(",", ":")))
    (folder / "query.json").write_bytes(QUERY)
    EXPLANATION.save(folder / "explanation.voile")

    audit_json("checkpoint", "log.db")
    audit_json("prove", "log.db", "1", "--nonces", "nonces.json")
    (folder / "earlier.txt").write_bytes((folder / "checkpoint.txt").read_bytes())
    append(4)
    audit_json("checkpoint", "log.db")
    audit_json("prove", "log.db", "--from", "3", "--to", "7", "--out", "consistency.txt")

    handed_in = ["--query", "query.json", "--answer", "explanation.voile"]
    handed_in += ["--checkpoint", "checkpoint.txt", "--consistency", "consistency.txt"]
    report = audit_json("verify", "receipt.tlog-proof", *handed_in)
    assert report["verified"] is True
    assert report["record"]["charge"] == "charge 1"
    assert outcomes(report).pop("witnesses") == "not checkable"
    assert set(outcomes(report).values()) == {"checked", "not checkable"}

    text, _ = audit("verify", "receipt.tlog-proof")
    assert "verified: 6 checked, 5 not checkable" in text
    assert "no other checkpoint was handed in" in text


def test_verify_exits_with_4_and_names_the_step(folder: Path) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(5)
    audit_json("checkpoint", "log.db")
    audit_json("prove", "log.db", "2")
    receipt = (folder / "receipt.tlog-proof").read_text()
    (folder / "receipt.tlog-proof").write_text(receipt.replace("index 2", "index 3"))
    text, _ = audit("verify", "receipt.tlog-proof", code=4)
    assert " 7  failed         inclusion" in text
    assert "NOT VERIFIED" in text
    report = audit_json("verify", "receipt.tlog-proof", code=4)
    assert outcomes(report)["inclusion"] == "failed"
    EXPLANATION.save(folder / "other.voile")
    (folder / "receipt.tlog-proof").write_text(receipt)
    report = audit_json("verify", "receipt.tlog-proof", "--answer", "other.voile", code=4)
    assert outcomes(report)["answer"] == "failed"


def test_an_export_verifies_and_a_changed_one_does_not(folder: Path) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    assert "checkpoint" in audit("export", "log.db", "export", code=2)[1]
    append(5)
    audit_json("checkpoint", "log.db")
    append(2)
    assert audit_json("export", "log.db", "export")["records"] == 5
    assert audit_json("verify", "export")["verified"] is True
    path = folder / "export" / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b"charge 3", b"charge 4"))
    assert outcomes(audit_json("verify", "export", code=4))["inclusion"] == "failed"
    audit("export", "log.db", "export", code=2)


def test_show_and_check(folder: Path) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(5)
    shown = audit_json("show", "log.db", "--last", "2", "--check")
    assert (shown["size"], shown["checkpoint"]) == (5, None)
    assert [record["index"] for record in shown["records"]] == [3, 4]
    text, _ = audit("show", "log.db")
    assert ORIGIN in text
    assert "charge 4" in text
    import sqlite3

    with sqlite3.connect(folder / "log.db") as connection:
        connection.execute("UPDATE audit_leaves SET record = x'7b7d' WHERE number = 2")
    connection.close()
    assert "changed" in audit("show", "log.db", "--check", code=4)[1]


def test_a_database_set_back_is_noticed_by_the_kept_checkpoint(folder: Path) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(3)
    copy = (folder / "log.db").read_bytes()
    append(3)
    audit_json("checkpoint", "log.db")
    for name in ("log.db-wal", "log.db-shm"):
        (folder / name).unlink(missing_ok=True)
    (folder / "log.db").write_bytes(copy)
    assert "set back" in audit("checkpoint", "log.db", code=4)[1]


@pytest.mark.usefixtures("folder")
def test_rotation_adds_the_key_to_the_policy_and_old_receipts_verify() -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(3)
    audit_json("checkpoint", "log.db")
    audit_json("prove", "log.db", "1", "--out", "old.tlog-proof")
    audit_json("checkpoint", "log.db", "--rotate-to", "next.key", "--reason", "yearly")
    append(1)
    audit_json("checkpoint", "log.db", "--key", "next.key")
    audit_json("prove", "log.db", "4", "--out", "new.tlog-proof")
    for receipt in ("old.tlog-proof", "new.tlog-proof"):
        assert audit_json("verify", receipt)["verified"] is True
    assert audit_json("show", "log.db")["records"][3]["kind"] == "key rotation"


def test_after_a_rotation_the_pinned_checkpoint_is_found_beside_the_new_key(folder: Path) -> None:
    (folder / "safe").mkdir()
    old, new = ("--key", "safe/audit.key"), ("--key", "safe/next.key")
    audit_json("init", "log.db", "--origin", ORIGIN, *old)
    append(3)
    audit_json("checkpoint", "log.db", *old)
    audit_json("checkpoint", "log.db", *old, "--rotate-to", "safe/next.key", "--reason", "yearly")
    append(1)
    assert audit_json("checkpoint", "log.db", *new)["size"] == 5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "none.db"], 2, "no such database"),
        (["verify", "none.tlog-proof"], 2, "cannot be read"),
        (["prove", "log.db"], 2, "expected a record number"),
        (["prove", "log.db", "0"], 2, "published"),
        (["prove", "log.db", "--from", "1"], 2, "--from and --to"),
        (["init", "log.db", "--origin", ORIGIN], 2, "not overwritten"),
        (["init", "x.db", "--origin", "a b", "--policy", "p", "--key", "k"], 2, "name"),
        (["init", "x.db", "--origin", "b", "--policy", "p"], 2, "holds a key of"),
        (["init", "x.db", "--origin", ORIGIN, "--policy", "p", "--witness-key", "x"], 2, "key"),
        (["init", "x.db", "--origin", ORIGIN, "--policy", "p", "--threshold", "1"], 2, "0 to 0"),
        (["checkpoint", "log.db", "--witness", "x"], 2, "http://"),
        (["checkpoint", "log.db", "--key", "none.key"], 2, "cannot be read"),
        (["verify", "log.db", "--consistency", "c"], 2, "--checkpoint"),
    ],
)
def test_bad_input_is_told(folder: Path, arguments: list[str], code: int, said: str) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    assert said in audit(*arguments, code=code)[1]
    assert not (folder / "x.db").exists()


def test_a_policy_that_is_not_one_is_bad_input_not_a_failed_check(folder: Path) -> None:
    (folder / "audit-policy.toml").write_text("version = 1\n")
    (folder / "receipt").write_text("")
    assert "settings" in audit("verify", "receipt", code=2)[1]


def test_a_key_others_can_read_is_refused(folder: Path) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    (folder / "audit.key").chmod(0o644)
    assert "chmod 600" in audit("checkpoint", "log.db", code=3)[1]


@contextmanager
def witness_process(name: str) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "voile.cli", "audit", "witness", f"{name}.db", "--json"]
    command += ["--name", f"{name}.example", "--key", f"{name}.key", "--port", "0"]
    command += ["--policy", "audit-policy.toml"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = ""
        while not said.endswith("}\n"):
            said += process.stdout.readline()
        yield json.loads(said)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_witness_process_cosigns_and_a_threshold_that_is_not_met_exits_with_4(
    folder: Path,
) -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(3)
    with witness_process("w") as witness:
        assert witness["logs"] == [ORIGIN]
        policy = (folder / "audit-policy.toml").read_text()
        policy = policy.replace("witness_keys = []", f'witness_keys = ["{witness["witness_key"]}"]')
        policy = policy.replace("witness_threshold = 0", "witness_threshold = 1")
        (folder / "audit-policy.toml").write_text(policy)
        assert audit_json("checkpoint", "log.db", code=4)["missing_cosignatures"] == 1
        audit_json("prove", "log.db", "0")
        assert outcomes(audit_json("verify", "receipt.tlog-proof", code=4))["witnesses"] == "failed"
        said = audit_json("complete", "log.db", "receipt.tlog-proof", "--witness", witness["url"])
        assert said["witnesses"] == [f"{witness['url']} cosigned (w.example)"]
        assert said["missing_cosignatures"] == 0
    assert stat.S_IMODE((folder / "receipt.tlog-proof").stat().st_mode) == 0o600
    assert outcomes(audit_json("verify", "receipt.tlog-proof"))["witnesses"] == "checked"


def test_a_witness_in_python_is_the_same_witness(folder: Path) -> None:
    """It tells the same facts, cosigns, and ends when it is told to."""
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(3)
    with witness_process("w") as typed:
        pass
    told: queue.Queue[WitnessServing] = queue.Queue()
    context = Context(watch=told.put)
    command = ServeWitness.read(
        {"database": "w.db", "policies": ["audit-policy.toml"], "key": "w.key", "port": 0}
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(handle, command, context)
        try:
            serving = told.get(timeout=60)
            assert asdict(serving) | {"url": ""} == typed | {"url": ""}
            path, trusted = (
                folder / "audit-policy.toml",
                f'witness_keys = ["{serving.witness_key}"]',
            )
            path.write_text(path.read_text().replace("witness_keys = []", trusted))
            said = audit_json("checkpoint", "log.db", "--witness", serving.url)
            assert said["witnesses"] == [f"{serving.url} cosigned (w.example)"]
        finally:
            context.stop.set()
        assert running.result(timeout=60) == serving


def test_help_stays_light() -> None:
    code = (
        "import sys\nfrom voile.cli import main\n"
        "try: main(['audit', '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'cryptography', 'http.server', 'numpy', 'sqlite3', 'voile.records.audit_log'}\n"
        "sys.stderr.write(str(sorted(heavy & sys.modules.keys())))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stderr == "[]"


@pytest.mark.usefixtures("folder")
def test_no_proof_overwrites_what_is_kept() -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(1)
    audit_json("checkpoint", "log.db")
    kept = ("log.db", "audit.key", "audit-policy.toml", "audit.checkpoint")
    before = {name: Path(name).read_bytes() for name in kept}
    for name in kept:
        assert "overwrit" in audit("prove", "log.db", "0", "--out", name, code=2)[1]
        assert "overwrit" in audit("complete", "log.db", name, code=2)[1]
    for name in kept[:3]:
        assert "overwrit" in audit("checkpoint", "log.db", "--out", name, code=2)[1]
    new = ("--out", "new.key", "--rotate-to", "new.key")
    assert "overwrit" in audit("checkpoint", "log.db", *new, code=2)[1]
    assert {name: Path(name).read_bytes() for name in kept} == before
    audit_json("checkpoint", "log.db", "--out", "audit.checkpoint")


@pytest.mark.usefixtures("folder")
def test_an_earlier_proof_is_not_overwritten_unasked() -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(2)
    audit_json("checkpoint", "log.db")
    audit_json("prove", "log.db", "0")
    first = Path("receipt.tlog-proof").read_bytes()
    assert "kept unless you pass --yes" in audit("prove", "log.db", "1", code=2)[1]
    assert Path("receipt.tlog-proof").read_bytes() == first
    audit_json("prove", "log.db", "1", "--yes")
    assert Path("receipt.tlog-proof").read_bytes() != first


@pytest.mark.usefixtures("folder")
def test_names_are_unicode() -> None:
    """As signed notes allow: whatever is written is read again."""
    audit_json("init", "log.db", "--origin", "example.org/klinik-süd")
    append(1)
    audit_json("checkpoint", "log.db")
    audit_json("prove", "log.db", "0")
    assert audit_json("verify", "receipt.tlog-proof")["verified"]


def test_a_start_that_cannot_be_finished_leaves_nothing(folder: Path) -> None:
    for wrong in (
        ("--policy", "nowhere/policy.toml"),
        ("--key", "nowhere/audit.key"),
        ("--policy", "audit.key"),
        ("--key", "log.db"),
        ("--policy", "log.db-wal"),
        ("--threshold", "2"),
    ):
        audit("init", "log.db", "--origin", ORIGIN, *wrong, code=2)
        assert list(folder.iterdir()) == []
    audit("init", "log.db", "--origin", "a name+", code=2)
    assert list(folder.iterdir()) == []
    assert audit_json("init", "log.db", "--origin", ORIGIN)["log"] == "new"


@pytest.mark.usefixtures("folder")
def test_a_start_that_was_broken_off_is_finished_with_the_log_s_own_key() -> None:
    audit_json("init", "log.db", "--origin", ORIGIN)
    policy, start = Path("audit-policy.toml"), ("init", "log.db", "--origin", ORIGIN)
    written = policy.read_text()
    assert "exists already" in audit(*start, code=2)[1]
    policy.unlink()
    assert "was there already" in audit_json(*start)["log"]
    assert policy.read_text() == written
    policy.unlink()
    Path("audit.key").unlink()
    audit_json(*start)  # nothing was signed yet: a new key is as good
    append(1)
    audit_json("checkpoint", "log.db")
    policy.unlink()
    assert "of 'example.org/clinic'" in audit(*start[:3], "x", "--key", "x.key", code=2)[1]
    assert "signed with another key" in audit(*start, "--key", "x.key", code=2)[1]
    assert not Path("x.key").exists()
    audit_json(*start)
    audit_json("checkpoint", "log.db")
