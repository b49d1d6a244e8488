from __future__ import annotations

import pytest

from voile.core.schema.locate import dotted, line_of

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


def test_dotted_quotes_what_is_not_a_bare_key() -> None:
    assert dotted("features", "a.b", 'c"\x7f') == 'features."a.b"."c\\u0022\\u007f"'
