"""What is checked before anything is charged, and what leaves once it is: whatever comes after."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.test_explain import BACKGROUND, FREE, ROW, asked, prepared, run  # noqa: F401
from tests.unit.server.witnesses import witness_at

from voile.core.errors import StorageFull
from voile.records.audit_log import Policy, SigningKey, Witness
from voile.records.audit_log.notes import KeyKind
from voile.records.audit_log.witness import PART as WITNESS_PART
from voile.records.ledger import Ledger, share_of
from voile.records.storage import open_storage
from voile.records.vault import PARTS

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

POLICY = Path("audit-policy.toml")
NOWHERE = "http://127.0.0.1:9"


def spent(_: Any) -> list[float]:
    """Read without the command, which refuses a database that was set back."""
    with open_storage("log.db", PARTS) as storage:
        nodes = Ledger().nodes
        return storage.read_snapshot(lambda t: [share_of(t, node) for node in nodes(t)])


def records(call: Any) -> int:
    return int(call("audit", "show", "log.db")["size"])


# --- witnesses ------------------------------------------------------------------------------------


@contextmanager
def witness(key: SigningKey) -> Iterator[str]:
    rules = Policy.parse(POLICY.read_text())
    logs = {rules.origin: rules.log_keys}
    with (
        open_storage("memory:", [WITNESS_PART]) as storage,
        witness_at(Witness(storage, key, logs)) as url,
    ):
        yield url


def ask_for(key: SigningKey, url: str) -> None:
    """From now on the policy asks for one cosignature of this witness."""
    old = Policy.parse(POLICY.read_text())
    rules = Policy(old.origin, old.log_keys, (key.verifier,), 1, (url,) if url else ())
    POLICY.write_text(str(rules))


KEY = SigningKey.generate("witness.example", KeyKind.WITNESS)


def test_an_answer_leaves_although_no_witness_answers_and_is_completed_later(
    run: Any,  # noqa: F811
) -> None:
    ask_for(KEY, NOWHERE)
    said = run(*asked("applicants.csv", *BACKGROUND), "--output", "e.voile")
    assert len(said["charges"]) == 1
    assert said["values"]
    assert said["missing_cosignatures"] == 1
    assert "could not be reached" in said["checkpoint"]
    assert "voile audit complete" in said["checkpoint"]
    check = ("audit", "verify", "e.tlog-proof", "--answer", "e.voile")
    assert not run(*check, code=4)["verified"]
    assert run("audit", "complete", "log.db", "e.tlog-proof", code=4)["missing_cosignatures"] == 1
    with witness(KEY) as url:
        ask_for(KEY, url)
        assert run("audit", "complete", "log.db", "e.tlog-proof")["missing_cosignatures"] == 0
    assert run(*check)["verified"]


def test_the_witnesses_of_the_policy_are_asked_by_every_command(run: Any) -> None:  # noqa: F811
    with witness(KEY) as url:
        ask_for(KEY, url)
        more = ("--dataset", "other v1", "--epsilon", "1", "--delta", "1e-6")
        assert run("budget", "open", "log.db", "other", *more)["missing_cosignatures"] == 0
        assert run("budget", "renew", "log.db", "other", "--reason", "x")["renewed"] == "other"
        assert run(*asked("applicants.csv", *FREE), "--row-receipts", "proofs")["records"]
        assert run("audit", "checkpoint", "log.db")["missing_cosignatures"] == 0
        run("audit", "complete", "log.db", "proofs/1.row-proof")
    assert run("audit", "verify", "proofs/1.row-proof", "--answer", "proofs/1.voile")["verified"]


def test_an_account_is_opened_although_cosignatures_are_missing(run: Any) -> None:  # noqa: F811
    ask_for(KEY, "")
    more = ("--dataset", "other v1", "--epsilon", "1", "--delta", "1e-6")
    said = run("budget", "open", "log.db", "other", *more)
    assert said["missing_cosignatures"] == 1
    assert "names no witness" in said["checkpoint"]
    assert "missing" in run("budget", "renew", "log.db", "other", "--reason", "x", as_json=False)


def test_a_witness_that_knows_more_is_told_and_the_answer_leaves_all_the_same(
    run: Any,  # noqa: F811
) -> None:
    """The database was set back together with its kept copy: only the witness can tell."""
    with witness(KEY) as url:
        ask_for(KEY, url)
        before = [Path(name).read_bytes() for name in ("log.db", "audit.checkpoint")]
        run(*asked("applicants.csv", *BACKGROUND), "--redraw")
        run(*asked("applicants.csv", *BACKGROUND), "--redraw")
        for name, content in zip(("log.db", "audit.checkpoint"), before, strict=True):
            Path(name).write_bytes(content)
        said = run(*asked("applicants.csv", *BACKGROUND), code=4)
    assert len(said["charges"]) == 1
    assert said["values"]
    assert "has seen more records" in said["checkpoint"]


@pytest.mark.parametrize("spoiled", ["nonsense", "other key"])
def test_a_policy_that_cannot_be_used_is_found_before_the_charge(
    run: Any,  # noqa: F811
    spoiled: str,
) -> None:
    rules = Policy.parse(POLICY.read_text())
    other = Policy(rules.origin, (SigningKey.generate(rules.origin).verifier,))
    before, sums = records(run), spent(run)
    POLICY.write_text("nonsense" if spoiled == "nonsense" else str(other))
    run(*asked("applicants.csv", *BACKGROUND), code=2)
    more = ("--dataset", "other v1", "--epsilon", "1", "--delta", "1e-6")
    run("budget", "open", "log.db", "other", *more, code=2)
    assert (records(run), spent(run)) == (before, sums)


# --- the log we know ------------------------------------------------------------------------------

OPEN = ("budget", "open", "log.db", "other", "--dataset", "other v1", "--epsilon", "1")
COMMANDS = {
    "charged": asked("applicants.csv", *BACKGROUND),
    "by row": asked("applicants.csv", *ROW, "--top", "1"),
    "free": asked("applicants.csv", *FREE),
    "open": [*OPEN, "--delta", "1e-6"],
    "renew": ["budget", "renew", "log.db", "customers", "--reason", "why"],
    "checkpoint": ["audit", "checkpoint", "log.db"],
}


@pytest.mark.parametrize(
    ("command", "key"),
    [(name, "here") for name in COMMANDS]
    + [(name, "elsewhere") for name in COMMANDS if name != "checkpoint"],
)
def test_a_database_that_was_set_back_is_refused_before_anything_is_charged(
    run: Any,  # noqa: F811
    command: str,
    key: str,
) -> None:
    shutil.copy("log.db", "backup.db")
    run(*asked("applicants.csv", *BACKGROUND), "--epsilon", "0.1")
    shutil.copy("backup.db", "log.db")
    if key == "elsewhere":
        Path("audit.key").unlink()
    before, sums = records(run), spent(run)
    error = run(*COMMANDS[command], code=4)["error"]
    assert "set back" in error["message"]
    assert (records(run), spent(run)) == (before, sums)
    assert not run("budget", "verify", "log.db", code=4)["verified"]


@pytest.mark.parametrize("command", ["charged", "open"])
@pytest.mark.parametrize("key", ["here", "elsewhere"])
def test_so_is_one_that_is_reached_by_a_link(
    run: Any,  # noqa: F811
    command: str,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The copy beside the file itself is asked, whatever folder its name lies in."""
    shutil.copy("log.db", "backup.db")
    run(*asked("applicants.csv", *BACKGROUND), "--epsilon", "0.1")
    shutil.copy("backup.db", "log.db")
    before, sums = records(run), spent(run)
    elsewhere = Path("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "log.db").symlink_to(Path("log.db").absolute())
    for path in [*Path().glob("*.*")]:
        if path.name not in ("log.db", "backup.db", "audit.checkpoint") and path.is_file():
            shutil.copy(path, elsewhere)
    if key == "elsewhere":
        (elsewhere / "audit.key").unlink()
    with monkeypatch.context() as there:
        there.chdir(elsewhere)
        assert "set back" in run(*COMMANDS[command], code=4)["error"]["message"]
    assert (records(run), spent(run)) == (before, sums)


@pytest.mark.parametrize("command", COMMANDS)
def test_so_is_one_whose_pinned_checkpoint_was_deleted_until_somebody_accepts_it(
    run: Any,  # noqa: F811
    command: str,
) -> None:
    shutil.copy("log.db", "backup.db")
    run(*asked("applicants.csv", *BACKGROUND), "--epsilon", "0.1")
    shutil.copy("backup.db", "log.db")
    Path("audit.checkpoint").unlink()
    before, sums = records(run), spent(run)
    message = run(*COMMANDS[command], code=4)["error"]["message"]
    assert "audit.checkpoint: the pinned checkpoint of this log is missing" in message
    assert (records(run), spent(run)) == (before, sums)
    accept = ("audit", "accept-checkpoint", "log.db", "--reason", "the disk is gone")
    message = run(*accept, code=2)["error"]["message"]  # nobody at a terminal
    assert f"holds {before} records (the last: 20" in message
    assert "--yes" in message
    assert not Path("audit.checkpoint").exists()
    assert run(*accept, "--yes")["size"] == before + 1
    run(*COMMANDS[command])
    (record,) = [
        record
        for record in run("audit", "show", "log.db", "--last", "9")["records"]
        if record["kind"] == "checkpoint accepted"
    ]
    assert (record["size"], record["reason"]) == (before, "the disk is gone")
    assert run("budget", "verify", "log.db")["verified"]


def test_a_witness_that_knows_more_records_forbids_accepting(run: Any) -> None:  # noqa: F811
    with witness(KEY) as url:
        ask_for(KEY, url)
        run("audit", "checkpoint", "log.db")
        shutil.copy("log.db", "backup.db")
        run(*asked("applicants.csv", *BACKGROUND), "--epsilon", "0.1")
        run("audit", "checkpoint", "log.db")
        run(*asked("applicants.csv", *FREE))
        shutil.copy("backup.db", "log.db")
        Path("audit.checkpoint").unlink()
        accept = ("audit", "accept-checkpoint", "log.db", "--reason", "none", "--yes")
        assert "has seen more records" in run(*accept, code=4)["error"]["message"]
        assert not Path("audit.checkpoint").exists()
        run(*asked("applicants.csv", *FREE), code=4)


def test_a_machine_without_the_key_keeps_what_was_signed_elsewhere(run: Any) -> None:  # noqa: F811
    Path("signer").mkdir()
    for name in ("audit.key", "audit.checkpoint"):
        shutil.move(name, f"signer/{name}")
    there, free = ("--key", "signer/audit.key"), asked("applicants.csv", *FREE)
    run("audit", "checkpoint", "log.db", *there)
    shutil.copy("log.db", "backup.db")
    run(*asked("applicants.csv", *BACKGROUND), *there)  # signed there
    # Nothing is pinned on this machine: somebody has to say that this is the current database.
    assert "accept-checkpoint" in run(*free, code=4)["error"]["message"]
    run("audit", "accept-checkpoint", "log.db", "--reason", "a new machine", "--yes")
    run(*free)
    assert Path("audit.checkpoint").exists()
    shutil.copy("backup.db", "log.db")
    assert "set back" in run(*free, code=4)["error"]["message"]
    Path("audit-policy.toml").unlink()
    assert "--policy" in run(*free, code=2)["error"]["message"]


# --- outputs --------------------------------------------------------------------------------------

IMPOSSIBLE = [
    (["--output", "nowhere/e.voile"], "no folder"),
    (["--output", "e.docx"], "ends in .voile"),
    (["--output", "e"], "ends in .voile"),
    (["--output", "folder.voile"], "a folder"),
    (["--output", "e.voile", "--plot", "nowhere/e.png"], "no folder"),
    (["--plot", "e.xyz"], "ends in .png"),
    (["--plot", "e"], "ends in .png"),
    (["--receipt", "nowhere/e.tlog-proof"], "no folder"),
    (["--output", "e.voile", "--receipt", "./e.voile"], "would overwrite e.voile"),
    (["--row-receipts", "public.csv"], "found a file"),
]


@pytest.mark.parametrize(("options", "reason"), IMPOSSIBLE)
def test_outputs_are_checked_before_anything_is_charged(
    run: Any,  # noqa: F811
    options: list[str],
    reason: str,
) -> None:
    Path("folder.voile").mkdir()
    before, sums = records(run), spent(run)
    for more in (BACKGROUND, FREE):
        error = run(*asked("applicants.csv", *more), *options, code=2)["error"]
        assert reason in error["message"]
    assert (records(run), spent(run)) == (before, sums)


def test_a_disk_that_fails_after_the_charge_takes_no_answer_with_it(
    run: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageFull("no room left")

    out = ("--output", "e.json", "--plot", "e.png")
    with monkeypatch.context() as patch:
        patch.setattr("voile.app.explain.files.replace_file", full)
        said = run(*asked("applicants.csv", *BACKGROUND), *out, code=5)
        text = run(*asked("applicants.csv", *BACKGROUND), *out, code=5, as_json=False)
    assert len(said["charges"]) == 1
    assert [line.split(":")[0] for line in said["failed"]] == ["saved", "receipts", "picture"]
    assert str(said["values"][0][0][0]) in text  # the whole answer, to the last digit
    assert not capsys.readouterr().err
    again = run(*asked("applicants.csv", *BACKGROUND), *out)
    assert again["replayed"]
    assert again["values"] == said["values"]


def test_receipts_are_for_their_owner_only(run: Any) -> None:  # noqa: F811
    run(*asked("applicants.csv", *BACKGROUND), "--output", "one.voile")
    run(*asked("applicants.csv", *ROW, "--top", "1"), "--output", "many.voile")
    run(*asked("applicants.csv", *FREE), "--row-receipts", "rows")
    run("audit", "prove", "log.db", "0", "--out", "proved.tlog-proof")
    found = [path for path in Path().rglob("*") if path.suffix in (".tlog-proof", ".row-proof")]
    assert len(found) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
