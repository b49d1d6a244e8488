"""The commands of docs/recommend.md work as written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.unit.recommenders.examples import catalogue, table

from voile import cli

PAGE = (Path(__file__).parents[4] / "docs" / "recommend.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"^```\n(voile .*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("block", "count", "made"),
    [(BLOCKS[0], 9, "why.html"), (BLOCKS[1], 3, "network/recommender.json")],
)
def test_the_commands_of_the_page(
    block: str, count: int, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    items = catalogue()
    genres = ["|".join(labels) for labels in items.kinds["genre"]]
    rows = [f"{item},{genre}" for item, genre in zip(items.items, genres, strict=True)]
    Path("items.csv").write_text("\n".join(["item,genre", *rows]) + "\n")
    columns = table(800)
    pairs = zip(columns["user"].tolist(), columns["item"].tolist(), strict=True)
    lines = [f"{user},{item}" for user, item in pairs]
    Path("interactions.csv").write_text("\n".join(["user,item", *lines]) + "\n")
    commands = block.replace("\\\n", " ").splitlines()
    assert len(commands) == count
    assert len(BLOCKS) == 2
    for command in commands:
        with pytest.raises(SystemExit) as left:
            cli.main(shlex.split(command)[1:])
        assert left.value.code == 0, command
    assert any(text in Path(made).read_text() for text in ("Recommended to you", "ncf"))
