"""The logs in an artefact are checked, not believed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from voile.app.artefact import load_artefact
from voile.app.artefact_manifest import file_digest
from voile.app.dashboard.federations import LogLine, log_lines

STORED = Path(__file__).parents[1] / "artefact_without_calibration"


def test_logs_that_their_parties_signed_verify() -> None:
    lines = log_lines(load_artefact(STORED))
    assert sorted(lines, key=lambda line: line.party) == [
        LogLine("city", ""),
        LogLine("server", ""),
    ]


def test_a_log_that_was_changed_since_does_not(tmp_path: Path) -> None:
    """Also where the manifest, which nobody signs, was changed with it."""
    folder = tmp_path / "artefact"
    shutil.copytree(STORED, folder)
    records = folder / "logs" / "city" / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:-1]))
    manifest = json.loads((folder / "artefact.json").read_text())
    manifest["files"]["logs/city/records.jsonl"] = file_digest(records)
    (folder / "artefact.json").write_text(json.dumps(manifest))
    found = {line.party: line.fault for line in log_lines(load_artefact(folder))}
    assert found["server"] == ""
    assert found["city"]


def test_a_log_that_is_gone_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "artefact"
    shutil.copytree(STORED, folder)
    artefact = load_artefact(folder)
    shutil.rmtree(folder / "logs" / "city")
    found = {line.party: line.fault for line in log_lines(artefact)}
    assert found["city"]
