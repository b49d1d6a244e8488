"""Keys of the service, by command and on record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.app.workspace.examples import started
from typer.testing import CliRunner

from voile.app.calls import handle
from voile.app.commands.serve import AddKey, ListKeys, RevokeKey
from voile.app.keys import KeyResult
from voile.cli.app import app
from voile.core.errors import InvalidInput
from voile.records.access import PART, Duty, Grants, NewKey, find_key
from voile.records.audit_log import KeyIssuedRecord, KeyRevokedRecord, decode_record
from voile.records.vault import Place, open_vault_at


def added(home: Path, **more: object) -> KeyResult:
    told = {"holder": "ward 3", "duties": ("explain",), "accounts": ("customers v1",), **more}
    found = handle(AddKey.read({"workspace": home, **told}))
    assert isinstance(found, KeyResult)
    return found


def test_a_key_is_shown_once_and_kept_as_a_digest(tmp_path: Path) -> None:
    started(tmp_path)
    key = added(tmp_path)
    secret = key.text.split("_", 2)[2]
    assert len(secret) >= 42  # 256 bits in base64
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes(), path
    assert "ward 3" not in repr(key.text)
    assert key.text not in repr(key)
    (row,) = handle(ListKeys(workspace=tmp_path)).rows
    assert row.identifier == key.row.identifier
    assert row.grants.duties == {Duty.EXPLAIN}


def test_issue_and_end_are_on_record_with_a_checkpoint(tmp_path: Path) -> None:
    started(tmp_path)
    key = added(tmp_path)
    ended = handle(RevokeKey(workspace=tmp_path, key=key.row.identifier))
    assert ended.row.revoked is not None
    assert ended.kept.error is None
    with open_vault_at(Place.within(tmp_path), extra_parts=(PART,)) as vault:
        records = vault.storage.read_snapshot(lambda t: vault.log.records(t))
        assert vault.unsigned == 0
    acts = [decode_record(each) for each in records[-2:]]
    assert isinstance(acts[0], KeyIssuedRecord)
    assert isinstance(acts[1], KeyRevokedRecord)
    assert acts[0].key == acts[1].key == key.row.identifier
    assert acts[0].issuer == "command line"


def test_only_the_whole_key_is_found_and_only_while_it_holds(tmp_path: Path) -> None:
    started(tmp_path)
    with open_vault_at(Place.within(tmp_path), extra_parts=(PART,)) as vault:
        grants = Grants(caller="a", duties=frozenset({Duty.AUDIT}))
        new = NewKey.generate(grants, now=100.0, seconds=10.0)
        from voile.records.access import add_key

        vault.storage.submit(lambda t: add_key(t, new))

        def found(text: str, now: float = 105.0) -> bool:
            return vault.storage.read_snapshot(lambda t: find_key(t, text, now)) is not None

        assert found(new.text)
        assert not found(new.text, 110.0)
        other = NewKey.generate(grants, now=100.0, seconds=10.0).text
        mixed = new.text[:19] + other[19:]
        assert not any(map(found, (other, mixed, new.text[:-1], "", "voile_", new.text + "A")))


@pytest.mark.parametrize(
    "wrong",
    [
        {"duties": ()},
        {"duties": ("rule",)},
        {"holder": "login:ada"},  # as callers of tokens are called
        {"holder": ""},
        {"days": 0.0},
        {"accounts": ("customer v1",)},  # no such account
    ],
)
def test_what_no_key_can_have_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    started(tmp_path)
    with pytest.raises(InvalidInput):
        added(tmp_path, **wrong)


def test_the_command_line_shows_a_key_once(tmp_path: Path) -> None:
    started(tmp_path)
    there = ["--workspace", str(tmp_path)]
    run = CliRunner().invoke
    made = run(app, ["keys", "add", "ward 3", "--duty", "explain", "--json", *there])
    key = json.loads(made.stdout)
    assert key["secret"].startswith(f"voile_{key['key']}_")
    listed = run(app, ["keys", "list", *there]).stdout
    assert key["key"] in listed
    assert key["secret"] not in listed
    ended = run(app, ["keys", "revoke", key["key"], "--json", *there])
    assert json.loads(ended.stdout)["revoked"]
    assert run(app, ["keys", "revoke", "000000000000", *there]).exit_code != 0
