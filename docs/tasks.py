"""Count the code of the same eight tasks into the table of their page.

The table stands between `<!-- tasks -->` and `<!-- end -->`; what is between is generated from the
code below it. `python docs/tasks.py` rewrites it; a test compares.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parent / "python" / "eight-tasks.md"
PACKAGES: Final = ("voile", "shap", "diffprivlib", "DP-EBM", "explainerdashboard")
TASK: Final = re.compile(r"^## (\d\. .*)$", re.MULTILINE)
CODE: Final = re.compile(
    r"^(?P<package>[\w-]+)[^\n]*:\n\n```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE
)
BLOCK: Final = re.compile(r"(<!-- tasks -->\n).*?(<!-- end -->)", re.DOTALL)


def snippets(page: str) -> dict[str, dict[str, str]]:
    """By task, the code of each package that has an answer."""
    parts = TASK.split(page)[1:]
    found = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        found[title] = {each["package"]: each["code"] for each in CODE.finditer(text)}
    return found


def statements(code: str) -> int:
    """How many there are, those inside of a function too; imports are not counted."""
    return sum(
        isinstance(each, ast.stmt) and not isinstance(each, ast.Import | ast.ImportFrom)
        for each in ast.walk(ast.parse(code))
    )


def table(page: str) -> str:
    """One line a task, one column a package."""
    lines = [f"| | {' | '.join(PACKAGES)} |", f"| --- |{' ---: |' * len(PACKAGES)}"]
    for title, code in snippets(page).items():
        counts = (str(statements(code[each])) if each in code else "-" for each in PACKAGES)
        lines.append(f"| {title} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def filled(page: str) -> str:
    return BLOCK.sub(lambda found: f"{found[1]}{table(page)}{found[2]}", page)


def main() -> None:
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before)
    if after != before:
        PAGE.write_text(after, encoding="utf-8")
        print(f"rewrote {PAGE.name}")


if __name__ == "__main__":
    main()
