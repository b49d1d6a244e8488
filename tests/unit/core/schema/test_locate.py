from __future__ import annotations

from typing import Any

import pytest

from voile.core.toml_text import dotted, field_at, line_of, parse_toml

DOCUMENT = '''\
# features.age.kind = "comment"
name = """
[features.age]
kind = "inside a string"
"""

[features]
"a=b".kind = "x"   # dotted and quoted
inline = { kind = "y", bounds = [0, 1] }

[ features . "blood pressure" ]
categories = [
  "kind = z",  # ]
  "w",
]
'default' = "w"

[features.age]
kind = "continuous"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 2),
        (("features",), 7),
        (("features", "a=b", "kind"), 8),
        (("features", "inline", "bounds"), 9),
        (("features", "blood pressure"), 11),
        (("features", "blood pressure", "categories"), 12),
        (("features", "blood pressure", "default"), 16),
        (("features", "blood pressure", "missing"), 11),
        (("features", "age", "kind"), 19),
        (("features", "nobody", "kind"), 7),
        (("nowhere",), 1),
    ],
)
def test_line_of(path: tuple[str, ...], line: int) -> None:
    assert line_of(dotted(*path), DOCUMENT) == line


ARRAYS = """\
[[parties]]
name = "north"
rows = 1
[[parties.keys]]
text = "a"
[parties.more]
size = 1

[[parties]]
name = "south"
rows = 2
[[parties.keys]]
text = "b"
[[parties.keys]]
text = "c"
[parties.more]
size = 2
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("parties", 1),
        ("parties.0.rows", 3),
        ("parties.0.keys.0.text", 5),
        ("parties.0.more.size", 7),
        ("parties.1", 9),
        ("parties.1.rows", 11),
        ("parties.1.missing", 9),
        ("parties.1.keys.0.text", 13),
        ("parties.1.keys.1.text", 15),
        ("parties.1.more.size", 17),
        ("parties.2.rows", 1),
    ],
)
def test_each_table_of_an_array_has_lines_of_its_own(field: str, line: int) -> None:
    assert line_of(field, ARRAYS) == line


def test_each_statement_is_parsed_once_or_twice_however_long_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An array was parsed again after each of its lines, and the whole file for each problem."""
    parsed: list[str] = []

    def counted(text: str) -> dict[str, Any]:
        parsed.append(text)
        return parse_toml(text)

    monkeypatch.setattr("voile.core.toml_text.parse_toml", counted)
    text = (
        "a = [\n" + "[1],\n" * 500 + "]\n[b]\nc = 1\n" + "".join(f"d{n} = 1\n" for n in range(50))
    )
    for number in range(50):
        assert line_of(f"b.d{number}", text) == 505 + number
    assert len(parsed) <= 2 * 53 + 50
    assert field_at(300, text + "=" * 5_000) == "a"
    parsed.clear()
    assert field_at(10**6, "=" * 5_000) == "document"
    assert len(parsed) <= 3


def test_dotted_quotes_what_is_not_a_bare_key() -> None:
    assert dotted("features", "a.b", 'c"\x7f') == 'features."a.b"."c\\u0022\\u007f"'
