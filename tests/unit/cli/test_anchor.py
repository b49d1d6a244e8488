"""`voile audit anchor` and `verify --rpc`, over HTTP, against a real EVM."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chain import LocalChain, keystore, served
from tests.unit.cli.test_audit import append, audit, audit_json, outcomes

from voile.records.audit_log import SigningKey
from voile.records.audit_log.anchor import open_account
from voile.records.checkpoints import read_policy

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
ORIGIN = "example.org/clinic"
ONE = ("--confirmations", "1")


@pytest.fixture
def chain() -> LocalChain:
    return LocalChain()


@pytest.fixture
def url(chain: LocalChain) -> Iterator[str]:
    with served(chain) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain: LocalChain, url: str) -> Path:
    """A log of five records, anchored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOILE_KEYSTORE_PASSPHRASE", "correct horse")
    monkeypatch.setenv("VOILE_RPC", url)
    address, content = keystore("correct horse")
    Path("payer.json").write_text(content)
    chain.fund(address)
    audit_json("init", "log.db", "--origin", ORIGIN)
    append(5)
    audit_json("checkpoint", "log.db")
    found = anchor("--deploy", str(chain.chain_id))
    assert found["size"] == 5
    assert found["gas"] < 80_000
    return tmp_path


def anchor(*more: str, code: int = 0) -> dict[str, Any]:
    return audit_json("anchor", "log.db", "--keystore", "payer.json", *ONE, *more, code=code)


def verified(url: str, proof: str = "export", *more: str, code: int = 0) -> dict[str, str]:
    report = audit_json("verify", proof, "--rpc", url, *ONE, *more, code=code)
    return outcomes(report)


@pytest.mark.usefixtures("folder")
def test_a_log_grows_and_is_anchored_again(url: str) -> None:
    assert read_policy(Path("audit-policy.toml")).anchor is not None
    assert anchor()["transaction"] is None, "the chain holds it already"
    append(4)
    assert anchor()["size"] == 5, "only what was published is anchored"
    audit_json("checkpoint", "log.db")
    found = anchor()
    assert found["size"] == 9
    assert 30_000 < found["gas"] < 40_000
    audit("export", "log.db", "export")
    assert verified(url)["anchor"] == "checked"
    audit("prove", "log.db", "2")
    assert verified(url, "receipt.tlog-proof")["anchor"] == "checked"
    append(1)
    audit_json("checkpoint", "log.db")
    audit("prove", "log.db", "9", "--yes")
    assert verified(url, "receipt.tlog-proof", code=4)["anchor"] == "failed"
    audit("prove", "log.db", "--from", "9", "--to", "10", "--out", "joined.txt")
    more = ("--consistency", "joined.txt")
    assert verified(url, "receipt.tlog-proof", *more)["anchor"] == "checked"


def test_a_log_that_was_set_back_is_noticed_by_the_anchor_alone(folder: Path, url: str) -> None:
    """Everything else is set back with it: database, kept checkpoint, policy, key."""
    shutil.copytree(folder, folder.parent / "before", dirs_exist_ok=True)
    append(2)
    audit_json("checkpoint", "log.db")
    anchor()
    for path in folder.iterdir():
        path.unlink()
    shutil.copytree(folder.parent / "before", folder, dirs_exist_ok=True)
    audit("export", "log.db", "export")
    audit("verify", "export")
    audit("show", "log.db", "--check")
    found = verified(url, code=4)
    assert found.pop("anchor") == "failed"
    assert "failed" not in found.values()
    text, _ = audit("verify", "export", "--rpc", url, *ONE, code=4)
    assert "the chain holds a checkpoint of 7 records, 5 were handed in" in text
    said = anchor(code=4)["error"]
    assert "does not extend it" in said["message"]
    append(5, account="another")  # and growing again does not help
    audit_json("checkpoint", "log.db")
    audit("export", "log.db", "grown")
    assert verified(url, "grown", code=4)["anchor"] == "failed"
    assert "does not extend it" in anchor(code=4)["error"]["message"]


def test_any_record_that_the_key_holder_rewrites_is_noticed_by_the_anchor(
    folder: Path, url: str
) -> None:
    """The tree is built again and signed with the log's own key: by itself all of it verifies."""
    from tests.unit.records.audit_log.examples import release

    from voile.records.audit_log import canonical_bytes
    from voile.records.audit_log.merkle import grow, leaf_hash, root_of
    from voile.records.audit_log.notes import Checkpoint, Note

    audit("export", "log.db", "export")
    key = SigningKey.load(Path("audit.key"))
    sound = (folder / "export" / "records.jsonl").read_bytes().splitlines()
    for number in range(5):
        records = [*sound[:number], canonical_bytes(release(77)), *sound[number + 1 :]]
        edge = b""
        for place, record in enumerate(records):
            edge, _ = grow(place, edge, leaf_hash(record))
        text = Checkpoint(ORIGIN, 5, root_of(edge)).text
        (folder / "export" / "records.jsonl").write_bytes(b"\n".join(records) + b"\n")
        (folder / "export" / "checkpoint.txt").write_bytes(bytes(Note(text, (key.sign(text),))))
        audit("verify", "export")
        found = verified(url, code=4)
        assert found.pop("anchor") == "failed"
        assert "failed" not in found.values()


def test_refusals(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = anchor("--deploy", "1", code=2)["error"]["message"]
    assert "names eip155:" in said
    append(1)
    audit_json("checkpoint", "log.db")
    assert "--max-fee" in anchor("--max-fee", "0.000001", code=5)["error"]["message"]
    assert "took" not in anchor("--rpc", "http://127.0.0.1:9", code=5)["error"]["message"]
    monkeypatch.setenv("VOILE_KEYSTORE_PASSPHRASE", "wrong horse")
    message = anchor(code=2)["error"]["message"]
    assert "not an encrypted keystore that this passphrase opens" in message
    assert "wrong horse" not in message
    (folder / "payer.json").write_text("{}")
    anchor(code=2)
    policy = Path("audit-policy.toml")
    lines = [line for line in policy.read_text().splitlines() if not line.startswith("anchor")]
    policy.write_text("\n".join(lines) + "\n")
    audit("export", "log.db", "export")
    _, said = audit("verify", "export", "--rpc", url, code=2)
    assert "the policy names no contract" in said


@pytest.mark.usefixtures("folder")
def test_another_chain_than_the_policy_s_is_refused() -> None:
    policy = Path("audit-policy.toml")
    text = policy.read_text()
    number = str(read_policy(policy).anchor).split(":")[1]
    policy.write_text(text.replace(number, "1"))
    message = anchor(code=5)["error"]["message"]
    assert f"chain {number}, expected chain 1" in message


@pytest.mark.usefixtures("folder")
def test_the_passphrase_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOILE_KEYSTORE_PASSPHRASE")
    asked: list[str] = []

    def prompt(text: str, **_: Any) -> str:
        asked.append(text)
        return "correct horse"

    monkeypatch.setattr("typer.prompt", prompt)
    assert anchor()["transaction"] is None
    assert asked == ["Passphrase of the keystore"]


def test_a_new_account_is_encrypted_and_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOILE_KEYSTORE_PASSPHRASE", "correct horse")
    address = audit_json("account", "new.json")["address"]
    kept = (tmp_path / "new.json").read_bytes()
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o600
    assert json.loads(kept)["version"] == 3
    assert open_account(tmp_path / "new.json", "correct horse").address == address
    assert "exists already" in audit("account", "new.json", code=2)[1]
    assert (tmp_path / "new.json").read_bytes() == kept
