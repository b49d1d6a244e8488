"""`voile train` for people: what is printed, and the page about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.explain.test_page import BLOCK, commands
from tests.unit.app.training_examples import write_people

from voile import cli

PAGE = Path(__file__).parents[3] / "docs" / "train.md"
PRICE = ("--schema", "people.toml", "--account", "people", "--delta", "1e-5", "--output", "model")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)

    def typed(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main(["train", "rows.csv", *PRICE, *words])
        said = capsys.readouterr()
        assert left.value.code == code, said.err
        return said.out + said.err

    return typed


def test_what_is_printed(run: Any) -> None:
    said = run("--epsilon", "2", "--held-out", "open.csv")
    for line in (
        r"log-loss \(charged\)",
        r"AUC \(held out\)",
        r"guarantee: \(ε = 2, δ = 1e-5\) for each row of 'people 1'",
        "charged: people#1, people#2, people#3",
        "paid for before: nothing",
        "next, try: voile explain model ROWS.csv",
    ):
        assert re.search(line, said), line
    again = run("--epsilon", "2")
    assert again.startswith("made from the rows as they were on ")
    assert "charged: nothing" in again
    assert "paid for before: people#1, people#2, people#3" in again


def test_a_useless_model_is_named_first(run: Any) -> None:
    assert "Pass --yes to confirm" in run("--epsilon", "0.01", code=2)
    said = run("--epsilon", "0.01", "--yes")
    assert said.startswith("do not use it as it is: The model: it cannot be told from always")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_page_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/train.md: its examples in one namespace, its commands in order."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    ran = 0
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, PAGE.name, "exec"), namespace)
            continue
        for command in commands(block):
            with pytest.raises(SystemExit) as left:
                cli.main(command)
            assert left.value.code == 0, command
            ran += 1
    assert ran == 9
