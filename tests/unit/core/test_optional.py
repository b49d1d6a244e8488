"""The door for optional packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from voile.core.errors import MissingDependency, VoileError
from voile.core.optional import optional


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package of a name that nobody else has."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "odd_package"
    folder.mkdir()
    for name in list(sys.modules):
        if name.partition(".")[0] == "odd_package":
            monkeypatch.delitem(sys.modules, name)
    return folder


def test_what_is_installed_is_imported() -> None:
    assert optional("json", extra="explain") is json
    assert optional("json.decoder", extra="explain") is json.decoder


@pytest.mark.parametrize("module", ["voile_missing_package", "voile_missing_package.part.of.it"])
def test_what_is_missing_comes_with_the_line_that_installs_it(module: str) -> None:
    with pytest.raises(MissingDependency) as caught:
        optional(module, extra="explain")
    assert "pip install 'voile[explain]'" in str(caught.value)
    assert "'voile_missing_package'" in str(caught.value)
    assert caught.value.name == "voile_missing_package"
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, VoileError)


def test_a_package_that_is_switched_off_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(MissingDependency, match=r"voile\[explain\]"):
        optional("shap", extra="explain")


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("import voile_missing_package", ModuleNotFoundError, "voile_missing_package"),
        ("from odd_package import lost_part", ImportError, "lost_part"),
        ("import odd_package.lost_part", ModuleNotFoundError, "lost_part"),
        ("raise ImportError('libodd.so is broken')", ImportError, "libodd.so is broken"),
        ("1 / 0", ZeroDivisionError, "division by zero"),
    ],
)
def test_an_error_inside_the_package_is_passed_on(
    code: str, kind: type[Exception], message: str, package: Path
) -> None:
    """The package is there: a line that installs it would send people the wrong way."""
    (package / "__init__.py").write_text(code)
    with pytest.raises(kind, match=message) as caught:
        optional("odd_package", extra="explain")
    assert not isinstance(caught.value, MissingDependency)
    assert type(caught.value) is kind


def test_a_part_that_an_installed_package_lacks_is_not_a_missing_package(package: Path) -> None:
    (package / "__init__.py").touch()
    with pytest.raises(ModuleNotFoundError) as caught:
        optional("odd_package.part", extra="explain")
    assert not isinstance(caught.value, MissingDependency)


def test_onnxruntime_reports_to_nobody(tmp_path: Path) -> None:
    """It would keep a number of this machine and events of this process, to be sent."""
    pytest.importorskip("onnxruntime")
    script = "from voile.core.optional import optional; optional('onnxruntime', extra='explain')"
    loud = {**os.environ, "ORT_DISABLE_TELEMETRY": "0", "HOME": str(tmp_path)}
    loud.pop("XDG_CACHE_HOME", None)
    subprocess.run([sys.executable, "-c", script], env=loud, check=True)
    assert not list(tmp_path.iterdir())
