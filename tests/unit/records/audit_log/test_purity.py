"""The verifier needs neither the writing side nor a database, and the package loads lazily."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import voile.records.audit_log
from voile.records.audit_log import verifier

PURE = {"canonical", "merkle", "notes", "policy", "receipt", "verifier"}
FOLDER = Path(verifier.__file__).parent
ALLOWED_EXTERNAL = {
    "cryptography.exceptions",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
}
STANDS_ON_IT = {"row_receipt"}


def imported(module: str) -> set[str]:
    """Every module that a file names in an import, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert node.module is not None
            whole = node.module == "voile.records.audit_log"
            names |= {f"{node.module}.{a.name}" for a in node.names} if whole else {node.module}
    return names


def test_pure_modules_import_the_standard_library_each_other_and_one_primitive() -> None:
    for module in PURE | STANDS_ON_IT:
        for name in imported(module):
            top, *rest = name.split(".")
            if name == "voile.core.toml_text":
                continue  # looked at below
            if top == "voile":
                assert rest[:2] == ["records", "audit_log"], name
                assert rest[2] in PURE, f"{module} imports {name}"
            else:
                assert top in sys.stdlib_module_names or name in ALLOWED_EXTERNAL, name


def test_the_reader_of_toml_imports_the_standard_library_alone() -> None:
    names = imported("../../core/toml_text")
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_only_verification_is_taken_from_the_primitive() -> None:
    source = "".join((FOLDER / f"{module}.py").read_text(encoding="utf-8") for module in PURE)
    assert "Ed25519PublicKey" in source
    assert "PrivateKey" not in source


def test_the_verifier_runs_without_the_writing_side_and_without_storage() -> None:
    code = (
        "import sys; import voile.records.audit_log.verifier; "
        "print(*sorted(n for n in sys.modules if n.startswith('voile') or n in "
        "('numpy', 'sqlite3', 'sqlalchemy', 'psycopg', 'http.server', 'http.client')))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    log = "voile.records.audit_log"
    expected = {"voile", "voile._version", "voile.core", "voile.core.toml_text"}
    expected |= {"voile.core.rendering"}  # names of views, loaded with `voile` itself; no view
    expected |= {"voile.records", log}
    assert set(said.stdout.split()) == expected | {f"{log}.{name}" for name in PURE}


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys; import voile.records.audit_log; print('cryptography' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_every_exported_name_is_there() -> None:
    assert sorted(voile.records.audit_log.__all__) == dir(voile.records.audit_log)
    for name in voile.records.audit_log.__all__:
        assert getattr(voile.records.audit_log, name) is not None


def test_steps_are_numbered_in_the_text_as_in_the_code() -> None:
    assert verifier.__doc__ is not None
    listed = [line.split()[:2] for line in verifier.__doc__.splitlines() if ". " in line[:4]]
    numbers = [int(number.rstrip(".")) for number, _ in listed]
    assert numbers == list(range(1, len(verifier.NAMES) + 1))
