from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import voile
from voile.app.toml_file import TomlFile
from voile.core.errors import SchemaError, VoileError
from voile.core.schema import Schema
from voile.core.toml_text import DEEPEST, LARGEST_TOML, field_at, line_of, parse_toml
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.policy import Policy

N = 2_000
DEEP = {
    "key": ".".join("a" * N) + " = 1",
    "spaced key": " . ".join("a" * N) + " = 1",
    "quoted key": ".".join(['"a.b"', "'c'"] * N) + " = 1",
    "header": "[" + ".".join("a" * N) + "]",
    "tables": "[[" + ".".join("a" * N) + "]]",
    "arrays": "a = " + "[" * N + "]" * N,
    "lines": "a = " + "[\n" * N + "]" * N,
    "inline": "a = " + "{a=" * N + "1" + "}" * N,
    "mixed": "a = " + "[{a.b.c=" * N + "1" + "}]" * N,
    "together": "a = " + f"{{{'.'.join('a' * 15)} = " * N + "1" + "}" * N,
    "after a string": 'x = """\n"" \\""" \' """\n' + ".".join("a" * N) + " = 1",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_a_deep_statement_is_refused_before_it_is_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("was parsed"))
    with pytest.raises(ValueError, match=rf"more than {DEEPEST} levels deep \(at line \d+, col"):
        parse_toml(text)


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_every_reader_refuses_it_with_its_own_error(text: str) -> None:
    with pytest.raises(VoileError, match=r"settings\.toml: not TOML: nested"):
        TomlFile.parse(Path("settings.toml"), text)
    with pytest.raises(SchemaError, match="not valid TOML: nested"):
        Schema.loads(text)
    with pytest.raises(Malformed, match="nested"):
        Policy.parse(text)
    assert line_of("a", text) >= 1
    assert field_at(1, text)


def test_dots_and_brackets_elsewhere_do_not_count() -> None:
    dots = "." * 100 + "[{" * 100
    text = (
        f'# {dots}\na = "{dots}\\"{dots}"\nb = \'{dots}\'\nc = """{dots}\n""{dots}\\""""\n'
        f"d = '''{dots}\n'{dots}'''\n\"{dots}\" = 1\n"
        f"e = [{'1.5, ' * 100}]\nf = [{'[0.5, {x.y = 1.5}], ' * 100}]\n"
        "g = 2020-01-01T00:00:00.5\n" + "".join(f"[t{i}.u.v]\nw.x = 1\n" for i in range(100))
    )
    assert parse_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize("depth", [1, DEEPEST])
def test_up_to_the_limit_it_is_read(depth: int) -> None:
    for text in (".".join("a" * depth) + " = 1", f"a = {'[' * depth}{']' * depth}"):
        assert parse_toml(text) == tomllib.loads(text)


def test_a_long_text_is_refused() -> None:
    assert parse_toml("#" * LARGEST_TOML) == {}
    with pytest.raises(ValueError, match="longer than"):
        parse_toml("#" * (LARGEST_TOML + 1))


def test_recursion_is_an_error_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_: str) -> None:
        raise RecursionError

    monkeypatch.setattr(tomllib, "loads", exhausted)
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_toml("a = 1")


def test_nothing_else_reads_toml() -> None:
    source = Path(voile.__file__).parent
    users = [str(f.relative_to(source)) for f in source.rglob("*.py") if "tomllib" in f.read_text()]
    assert users == ["core/toml_text.py"]


PIECES: tuple[str, ...] = (
    "a",
    ".",
    "=",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    ",",
    "\n",
    " ",
    '"',
    "'",
    '"""',
    "'''",
)
PIECES += ("\\", "#", "1.5", "a.b = 1\n", "[t]\n", "\x00", "é", "9" * 5000, "0x", "1979-05-27")


def test_whatever_stands_in_a_file_is_read_or_refused() -> None:
    drawn = random.Random(16)
    readers: tuple[Callable[[str], object], ...] = (
        Schema.loads,
        Policy.parse,
        lambda text: TomlFile.parse(Path("x.toml"), text),
        lambda text: line_of("a.b", text),
        lambda text: field_at(2, text),
    )
    for _ in range(500):
        length, some = drawn.choice((5, 40, 400)), drawn.sample(PIECES, drawn.randint(2, 8))
        text = "".join(drawn.choices(some, k=length))
        for read in readers:
            try:
                read(text)
            except (VoileError, Malformed):
                continue
