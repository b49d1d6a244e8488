"""The task page works as written, and the guarantees page lists the verifier's steps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from voile.audit_log.verifier import NAMES

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)
OPERATOR = "## For the operator"


def commands(console: str) -> list[str]:
    """What follows a `$`, with lines continued by a backslash joined."""
    lines = console.replace("\\\n", " ").splitlines()
    return [line[2:] for line in lines if line.startswith("$ ")]


def run(text: str, folder: Path) -> None:
    voile = f"{sys.executable} -m voile.cli"
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            subprocess.run([sys.executable, "-c", block], cwd=folder, check=True)
            continue
        for command in commands(block):
            if "witness" in command:  # needs a second machine; tests/unit/audit_log/test_cli.py
                continue
            line = re.sub(r"^voile\b", voile, command)
            done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_page_for_auditors_works_as_written(tmp_path: Path) -> None:
    auditor, _, operator = (DOCS / "audit.md").read_text(encoding="utf-8").partition(OPERATOR)
    once, _, rotation = operator.partition("**Rotate the key.**")
    run(once, tmp_path)
    append = next(block for kind, block in BLOCK.findall(once) if kind == "python")
    # Two more records and a later checkpoint, so that section 4 has something to join; the nonces
    # of the receipt and its explanation stay as they are.
    kept = {name: (tmp_path / name).read_bytes() for name in ("nonces.json", "explanation.voile")}
    later = append.replace("range(3)", "range(2)")
    subprocess.run([sys.executable, "-c", later], cwd=tmp_path, check=True)
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    run("```console\n$ voile audit checkpoint log.db\n```", tmp_path)
    run(auditor, tmp_path)
    run(rotation, tmp_path)


def test_the_guarantees_page_lists_the_steps_of_the_code() -> None:
    text = (DOCS / "guarantees" / "audit-log.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(\d+)\. \*\*([a-z ]+)\*\*:", text, re.MULTILINE)
    assert [(int(number), name) for number, name in listed] == list(enumerate(NAMES, start=1))


def test_every_page_that_is_linked_is_there() -> None:
    for page in ("audit.md", "guarantees/audit-log.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert ((DOCS / page).parent / target).exists(), f"{page}: {target}"
