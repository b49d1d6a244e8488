"""The package as a whole: what it exports, and what it loads."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import voile

HEAVY = {"torch", "flwr", "shap", "opendp", "dp_accounting", "scipy", "sqlalchemy", "pandas"}
PACKAGES = ["voile"] + [
    found.name for found in pkgutil.walk_packages(voile.__path__, "voile.") if found.ispkg
]


def loaded_after(script: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{script}\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {name.partition(".")[0] for name in run.stderr.split()}


@pytest.mark.parametrize(
    "script",
    [
        "import voile",
        "from voile import cli\ntry:\n    cli.main(['--help'])\nexcept SystemExit:\n    pass",
        "from voile.core.explanation import Explanation",
        "from voile import Explanation, Guarantee, Schema",
        "import voile.plots",
    ],
    ids=["import", "help", "explanation", "names", "plots"],
)
def test_nothing_heavy_is_loaded(script: str) -> None:
    loaded = loaded_after(script)
    assert "voile" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_look_at_loaded_modules_can_fail() -> None:
    assert "scipy" in loaded_after("import scipy")


def test_importing_voile_loads_little() -> None:
    assert loaded_after("import voile").isdisjoint({"numpy", "matplotlib", "typer", "rich"})


# --- exports --------------------------------------------------------------------------------------


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize("name", PACKAGES)
def test_everything_in_all_can_be_imported(name: str) -> None:
    package = module(name)
    exported = getattr(package, "__all__", [])
    assert len(set(exported)) == len(exported)
    for export in exported:
        assert getattr(package, export) is not None
    scope: dict[str, object] = {}
    exec(f"from {name} import *", scope)
    assert set(exported) <= set(scope)


@pytest.mark.parametrize("name", PACKAGES)
def test_everything_public_in_a_package_is_in_all(name: str) -> None:
    """What a package imports from its files is meant for others, so it says so."""
    package = module(name)
    offered = {
        export
        for export, value in vars(package).items()
        if not export.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "").startswith(f"{name}.")
    }
    offered |= set(getattr(package, "_HOME", {}))
    assert offered <= set(getattr(package, "__all__", []))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_what_it_is_for(name: str) -> None:
    assert module(name).__doc__


def test_the_names_of_voile() -> None:
    assert set(voile.__all__) == {*voile._HOME, "__version__", "plots"}
    assert voile.plots is module("voile.plots")
    assert dir(voile) == sorted(voile.__all__)
    for name, home in voile._HOME.items():
        assert getattr(voile, name) is getattr(module(home), name)
        assert f"`{name}`" in (voile.__doc__ or ""), "the tour leaves it out"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match="module 'voile' has no attribute 'explain_everything'"
    ):
        voile.explain_everything  # noqa: B018
    with pytest.raises(ImportError, match="explain_everything"):
        exec("from voile import explain_everything")


def test_pictures_need_no_import_of_their_own() -> None:
    assert "numpy" in loaded_after("import voile\nvoile.plots.bar")
    assert "numpy" not in loaded_after("import voile")


def test_subpackages_can_still_be_reached() -> None:
    script = "import voile.plots, voile.core.errors\nvoile.plots.bar, voile.core.errors.VoileError"
    assert "voile" in loaded_after(script)


def test_the_version_is_the_installed_one() -> None:
    assert voile.__version__ == version("voile")


def test_extras_that_pages_name_exist_and_hold_what_they_say() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"(?:voile|'\.)\[([a-z,]+)\]", text)
    named = {name for extra in found for name in extra.split(",")}
    assert {"demo", "explain"} <= named <= extras.keys()
    assert "pandas and scikit-learn are in `voile[explain]`, and not in" in text
    held = [re.split(r"[^a-z-]", each)[0] for each in extras["explain"]]
    assert {"pandas", "scikit-learn"} <= set(held)
