"""What in `src/voile` is reached from no command and no public name.

Run it as `python -m tools.reachability`; it fails when something is found that `exceptions` in
`tools/reachability.toml` does not name.

It starts from the entry points of `pyproject.toml`, from the public names of `voile` and
`voile.views.plots`, and from what the documentation and the examples import or name in full. From
there it follows names: whatever reached code mentions is reached, also in annotations, in imports
inside of functions and in strings such as "voile.app.init:start". Classes are followed whole.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
EXCEPTIONS = Path(__file__).with_suffix(".toml")
PUBLIC_PACKAGES = ("voile", "voile.views.plots")
_PLACE = re.compile(r"voile(?:\.\w+)+(?::\w+)?")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PLAIN_DECORATORS = {"cache", "contextmanager", "dataclass", "final", "lru_cache", "overload"}

Name: TypeAlias = tuple[str, str]
"""A module and a name in it; the empty name stands for what runs when the module is imported."""


@dataclass
class Module:
    """One file: what it defines, what it imports, and what runs when it is imported."""

    name: str
    is_package: bool
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, Name] = field(default_factory=dict)
    body: list[ast.stmt] = field(default_factory=list)


@dataclass(frozen=True, order=True)
class Finding:
    """Something that nothing reaches."""

    module: str
    name: str
    lines: int

    def __str__(self) -> str:
        return f"{self.lines:5d} {self.module}:{self.name}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="tools.reachability")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with pyproject.toml")
    root = parser.parse_args(arguments).root
    exceptions = read_exceptions(EXCEPTIONS)
    found = find_unreached(root)
    left = [finding for finding in found if not is_excepted(finding, exceptions)]
    unused = [
        pattern for pattern in exceptions if not any(is_excepted(one, [pattern]) for one in found)
    ]
    for finding in left:
        print(finding)
    for pattern in unused:
        print(f"tools/reachability.toml: {pattern} excepts nothing, take it out")
    if left:
        print(f"{sum(one.lines for one in left)} lines are reached from no command or public name")
    return 1 if left or unused else 0


def read_exceptions(path: Path) -> list[str]:
    """The patterns "module:name" that may stay unreached; each has a reason beside it."""
    return list(tomllib.loads(path.read_text(encoding="utf-8"))["exceptions"])


def is_excepted(finding: Finding, patterns: Iterable[str]) -> bool:
    return any(fnmatch(f"{finding.module}:{finding.name}", pattern) for pattern in patterns)


def find_unreached(root: Path) -> list[Finding]:
    """Top-level functions, classes and constants that nothing reaches, by module."""
    modules = read_modules(root / "src")
    reached = follow(modules, roots(root, modules))
    findings = []
    for module in modules.values():
        for name, parts in module.defined.items():
            if (module.name, name) not in reached and not _is_special(name):
                findings.append(Finding(module.name, name, sum(map(_lines, parts))))
    return sorted(findings)


def read_modules(source: Path) -> dict[str, Module]:
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = Module(".".join(parts[:-1] if is_package else parts), is_package)
        _read_body(module, ast.parse(path.read_text(encoding="utf-8")).body)
        found[module.name] = module
    return found


def _read_body(module: Module, body: Iterable[ast.stmt]) -> None:
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                module.imported |= dict(_bindings(statement, module))
                module.body.append(statement)
            case ast.If() | ast.Try():
                if isinstance(statement, ast.If):
                    module.body.append(ast.Expr(statement.test))
                for part in (statement.body, statement.orelse):
                    _read_body(module, part)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                module.defined.setdefault(statement.name, []).append(statement)
                plain = all(_is_plain(decorator) for decorator in statement.decorator_list)
                if _is_special(statement.name) or not plain:
                    module.body.append(statement)  # Python calls it, or it is registered somewhere
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                names = list(_assigned(statement))
                for name in names:
                    module.defined.setdefault(name, []).append(statement)
                if not names:
                    module.body.append(statement)
            case _:
                module.body.append(statement)


def _bindings(statement: ast.Import | ast.ImportFrom, module: Module) -> Iterator[tuple[str, Name]]:
    """What an import statement calls by which name."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0], (alias.name, "")
        return
    home = statement.module or ""
    if statement.level:
        above = statement.level - module.is_package
        parts = module.name.split(".")
        package = ".".join(parts[: len(parts) - above])
        home = f"{package}.{home}" if home else package
    for alias in statement.names:
        yield alias.asname or alias.name, (home, alias.name)


def _assigned(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _is_plain(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _PLAIN_DECORATORS


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _lines(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    first: int = min([statement.lineno, *(one.lineno for one in decorators)])
    return (statement.end_lineno or first) - first + 1


def roots(root: Path, modules: dict[str, Module]) -> Iterator[Name]:
    """Where everything begins: commands, public names, and what documentation imports."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for group in (project.get("scripts", {}), *project.get("entry-points", {}).values()):
        for place in group.values():
            module, _, name = place.partition(":")
            yield module, name
    for package in PUBLIC_PACKAGES:
        if package in modules:
            yield from ((package, name) for name in _public_names(modules[package]))
    for name in modules:
        if name.endswith(".__main__"):
            yield name, ""
    for path in _documentation(root):
        yield from _mentioned_in_text(path.read_text(encoding="utf-8"))


def _public_names(package: Module) -> list[str]:
    for statement in package.defined.get("__all__", []):
        if isinstance(statement, ast.Assign):
            return list(ast.literal_eval(statement.value))
    return []


def _documentation(root: Path) -> Iterator[Path]:
    yield from root.glob("README.md")
    yield from root.glob("docs/*.md")
    yield from root.glob("docs/first-hour/*.md")
    yield from root.glob("docs/guarantees/*.md")
    yield from root.glob("examples/**/*.py")


_IMPORT = re.compile(r"from (voile[\w.]*) import (\([^)]*\)|[^\n]*)")


def _mentioned_in_text(text: str) -> Iterator[Name]:
    """Imports in code, and names in full such as `voile.plots.bar`."""
    for module, names in _IMPORT.findall(text):
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            yield module, name
    for module, name in re.findall(r"`(voile[\w.]*)\.(\w+)", text):
        yield module, name


def follow(modules: dict[str, Module], start: Iterable[Name]) -> set[Name]:
    """Everything that can be reached from some names."""
    reached: set[Name] = set()
    waiting = list(start)
    while waiting:
        module_name, name = waiting.pop()
        for one in _resolved(module_name, name, modules):
            if one not in reached:
                reached.add(one)
                waiting += _mentions(*one, modules)
    return reached


def _resolved(module_name: str, name: str, modules: dict[str, Module]) -> Iterator[Name]:
    """What a mention stands for: a module with its packages, a name in it, or both."""
    places = [(module_name, name)]
    if name and f"{module_name}.{name}" in modules:
        places.append((f"{module_name}.{name}", ""))
    for place, inside in places:
        if place in modules:
            parts = place.split(".")
            for length in range(1, len(parts) + 1):
                yield ".".join(parts[:length]), ""
            yield place, inside


def _mentions(module_name: str, name: str, modules: dict[str, Module]) -> Iterator[Name]:
    module = modules[module_name]
    if not name:
        for statement in module.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                yield from ((home, "") for home in _homes(statement, module, modules))
            else:
                yield from _mentioned_by(statement, module)
                if isinstance(statement, _DEFINITIONS):
                    yield module_name, statement.name
    elif name in module.defined:
        for statement in module.defined[name]:
            yield from _mentioned_by(statement, module)
    elif name in module.imported:
        yield module.imported[name]
    elif name == "*":
        yield from ((module_name, public) for public in _public_names(module))


def _homes(
    statement: ast.Import | ast.ImportFrom, module: Module, modules: dict[str, Module]
) -> Iterator[str]:
    """The modules that run when an import statement does."""
    for _, (home, name) in _bindings(statement, module):
        yield f"{home}.{name}" if f"{home}.{name}" in modules else home


def _mentioned_by(statement: ast.stmt, module: Module) -> Iterator[Name]:
    """Every name of ours that a piece of code mentions."""
    known = dict(module.imported)
    for node in ast.walk(statement):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            inside = dict(_bindings(node, module))
            known |= inside
            yield from inside.values()
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name):
                yield known.get(name, (module.name, name))
            case ast.Attribute():
                yield from _mentioned_attribute(node, known)
            case ast.Constant(value=str(text)):
                yield from _mentioned_string(text, module, known)


def _mentioned_attribute(node: ast.Attribute, known: dict[str, Name]) -> Iterator[Name]:
    """Names in imported modules, as in `folder.module.name`."""
    path = _path(node)
    if path and path[0] in known:
        home, name = known[path[0]]
        full = ".".join(part for part in (home, name, *path[1:]) if part)
        yield full.rpartition(".")[0], path[-1]
        yield home.partition(".")[0] + "".join(f".{part}" for part in path[1:-1]), path[-1]


def _path(node: ast.expr) -> list[str]:
    """The parts of `a.b.c`; none of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def _mentioned_string(text: str, module: Module, known: dict[str, Name]) -> Iterator[Name]:
    """Places ("voile.app.init:start") and annotations in quotes."""
    if text.isidentifier():
        yield known.get(text, (module.name, text))
    elif _PLACE.fullmatch(text):
        home, _, name = text.partition(":")
        yield home, name


if __name__ == "__main__":
    sys.exit(main())
