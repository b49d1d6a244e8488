"""Write the figures of `results/*.json` into the tables of README and docs.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; what is between is generated.
`python docs/tables.py` rewrites them; a test compares.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table: (?P<name>[a-z_0-9]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """The text with every table made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{table(found['name'])}{found[3]}", text)


def table(name: str) -> str:
    """One result file as a table in Markdown: of its figures, or of columns and rows of its own."""
    result = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
    if "columns" in result:
        heads = [result["columns"], ["---"] * len(result["columns"])]
        return "".join(f"| {' | '.join(line)} |\n" for line in [*heads, *result["rows"]])
    lines = [
        f"| {result['peer']} | voile | peer | ratio | target |",
        "| --- | ---: | ---: | ---: | --- |",
        *(_line(figure) for figure in result["figures"]),
    ]
    return "\n".join(lines) + "\n"


def _line(figure: dict[str, Any]) -> str:
    verdict = {True: "met", False: "**missed**", None: ""}[figure["met"]]
    target = "" if figure["target"] is None else f"{figure['target']}: {verdict}"
    ratio = "" if figure["ratio"] is None else f"{figure['ratio']:.2f}"
    ours = f"{_number(figure['ours'])} {figure['unit']}"
    peer = "" if figure["peer"] is None else _number(figure["peer"])
    return f"| {figure['what']} | {ours} | {peer} | {ratio} | {target} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> None:
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"rewrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
