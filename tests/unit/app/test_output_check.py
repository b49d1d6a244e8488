"""Outputs overwrite nothing that anybody needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from voile.app.output_check import check_outputs, files_of
from voile.core.errors import InvalidInput
from voile.records.audit_log import SigningKey
from voile.records.ledger import ReplayKey
from voile.records.storage import open_storage
from voile.records.vault import PARTS, Place


def test_what_is_needed_is_not_overwritten_under_whatever_name(tmp_path: Path) -> None:
    data, linked, hard = (tmp_path / name for name in ("data.csv", "linked.csv", "hard.csv"))
    data.write_text("age\n")
    linked.symlink_to(data)
    hard.hardlink_to(data)
    (tmp_path / "folder").mkdir()
    for path in (data, linked, hard, tmp_path / "folder" / ".." / "data.csv"):
        with pytest.raises(InvalidInput, match=r"would overwrite .*data\.csv"):
            check_outputs([path], [data])
    check_outputs([tmp_path / "new.csv"], [data])


def test_what_will_be_kept_is_not_overwritten_either(tmp_path: Path) -> None:
    """Before it is there: SQLite's files beside the database, also behind a link, and keys."""
    (tmp_path / "real").mkdir()
    (tmp_path / "log.db").symlink_to(tmp_path / "real" / "store")
    place = Place.within(tmp_path)
    names = ("real/store", "real/store-wal", "real/store-shm", "real/store.turn", "log.db-wal")
    copy = ("audit.checkpoint", ".audit.checkpoint.lock")
    for name in (*names, "audit.key", "replay.key", "audit-policy.toml", *copy):
        with pytest.raises(InvalidInput, match="would overwrite"):
            check_outputs([tmp_path / name], files_of(place))
    assert not any(path.name.startswith("postgres") for path in files_of(place))


def test_a_database_or_key_is_never_overwritten(tmp_path: Path) -> None:
    with open_storage(tmp_path / "x.db", PARTS):
        pass
    SigningKey.generate("example.org/x").save(tmp_path / "x.key")
    ReplayKey(bytes(32)).save(tmp_path / "y.key")
    for name, what in (("x.db", "database"), ("x.key", "signing key"), ("y.key", "replay key")):
        with pytest.raises(InvalidInput, match=f"holds a {what}, and is never overwritten"):
            check_outputs([tmp_path / name], [])


@pytest.mark.parametrize("name", ["scoring.py", "weights.PY", "notes.ipynb", "voile.toml"])
def test_code_and_settings_are_never_overwritten(tmp_path: Path, name: str) -> None:
    """A model's modules may be any that lie here; a workspace is not what a receipt needs."""
    path = tmp_path / name
    check_outputs([path], [])
    path.write_text("B = 2.0\n")
    with pytest.raises(InvalidInput, match="holds code or settings, and cannot be overwritten"):
        check_outputs([path], [])
    assert path.read_text() == "B = 2.0\n"


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="which this command also uses"):
        check_outputs([tmp_path / "x", tmp_path / "." / "x"], [])
    with pytest.raises(InvalidInput, match="which this command also uses"):
        check_outputs([tmp_path / "x"], [], [tmp_path / "x"])
    with pytest.raises(InvalidInput, match="below the file"):
        check_outputs([tmp_path / "x"], [], [tmp_path / "x" / "proofs"])


def test_numbered_files_in_a_folder_overwrite_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "proofs"
    folder.mkdir()
    for outputs, needed in (([folder / "0.voile"], []), ([], [folder / "12.voile"])):
        with pytest.raises(InvalidInput, match="numbered file"):
            check_outputs(outputs, needed, [folder])
    check_outputs([folder / "all.voile"], [folder / "data.csv"], [folder])


def test_numbered_keys_and_links_to_nowhere_are_no_place_for_pages(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    SigningKey.generate("example.org/clinic").save(folder / "2.voile")
    with pytest.raises(InvalidInput, match="holds a signing key, and is never overwritten"):
        check_outputs([], [], [folder])
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="a link to nowhere"):
        check_outputs([], [], [tmp_path / "link"])
