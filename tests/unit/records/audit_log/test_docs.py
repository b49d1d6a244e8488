"""The task page works as written, and the guarantees page lists the verifier's steps."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from voile.records.audit_log.verifier import NAMES

DOCS = Path(__file__).parents[4] / "docs"
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)
BLOCKS = re.compile(r"```(console|python|toml)\n(.*?)```", re.DOTALL)
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
            line = re.sub(r"^voile\b", voile, command)
            done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_page_for_auditors_works_as_written(tmp_path: Path) -> None:
    auditor, _, operator = (DOCS / "audit.md").read_text(encoding="utf-8").partition(OPERATOR)
    once, _, rest = operator.partition("**Ask witnesses.**")
    witnesses, _, rotation = rest.partition("**Rotate the key.**")
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
    with witness_of(witnesses, tmp_path) as said:
        policy = tmp_path / "audit-policy.toml"
        for line in said:
            name = line.partition(" = ")[0]
            policy.write_text(re.sub(rf"(?m)^{name} = .*$", line, policy.read_text()))
        run(witnesses.partition("```toml")[2], tmp_path)
        run(rotation, tmp_path)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_page_about_anchors_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a chain of our own in the place of the page's, with a payer that has something to pay."""
    from tests.chain import LocalChain, served

    text = (DOCS / "anchor.md").read_text(encoding="utf-8")
    first, _, rest = text.partition("## 2. ")
    operator = (DOCS / "audit.md").read_text(encoding="utf-8").partition(OPERATOR)[2]
    monkeypatch.setenv("VOILE_KEYSTORE_PASSPHRASE", "correct horse")
    run(operator.partition("```console\n$ voile audit checkpoint")[0], tmp_path)
    run("```console\n$ voile audit checkpoint log.db\n```", tmp_path)
    run(first, tmp_path)
    chain = LocalChain()
    chain.fund("0x" + json.loads((tmp_path / "payer.json").read_text())["address"])
    with served(chain) as url:
        here = rest.replace("http://127.0.0.1:8545", url).replace("1337", str(chain.chain_id))
        run(re.sub(r"(\$ .*(--rpc).*)", r"\1 --confirmations 1", here), tmp_path)


@contextmanager
def witness_of(section: str, folder: Path) -> Iterator[list[str]]:
    """The witness that the page starts, on a free port; the lines of the policy that it asks for.

    What it prints stands in the place of what the page shows.
    """
    first, (_, lines) = commands(section)[0], BLOCKS.findall(section)[1]
    words = re.sub("8765", "0", first).split()[1:]
    command = [sys.executable, "-m", "voile.cli", *words, "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            printed = "".join(iter(process.stdout.readline, "}\n")) + "}"
            said = json.loads(printed)
            key, url = (
                re.search(rf"^{name}: +(.*)$", section, re.MULTILINE)
                for name in ("witness key", "url")
            )
            assert key
            assert url
            lines = lines.replace(key[1], said["witness_key"]).replace(url[1], said["url"])
            yield lines.splitlines()
        finally:
            process.terminate()


def test_the_guarantees_page_lists_the_steps_of_the_code() -> None:
    text = (DOCS / "guarantees" / "audit-log.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(\d+)\. \*\*([a-z ]+)\*\*:", text, re.MULTILINE)
    assert [(int(number), name) for number, name in listed] == list(enumerate(NAMES, start=1))


def test_every_page_that_is_linked_is_there() -> None:
    for page in ("audit.md", "anchor.md", "guarantees/audit-log.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert ((DOCS / page).parent / target).exists(), f"{page}: {target}"
