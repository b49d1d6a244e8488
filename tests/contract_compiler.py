"""The anchor's contract, compiled afresh; run as a program, it writes what is shipped.

python -m tests.contract_compiler
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import voile.records.audit_log

FOLDER = Path(voile.records.audit_log.__file__).parent / "anchor_contract"
SHIPPED = FOLDER / "anchors.json"


def compiled() -> dict[str, Any]:
    """ABI, bytecode that deploys, bytecode that is deployed."""
    import vyper  # type: ignore[import-untyped]

    source = (FOLDER / "anchors.vy").read_text(encoding="utf-8")
    formats = ["abi", "bytecode", "bytecode_runtime"]
    found: dict[str, Any] = vyper.compile_code(source, output_formats=formats)
    return {"vyper": vyper.__version__, **{name: found[name] for name in formats}}


if __name__ == "__main__":
    SHIPPED.write_text(json.dumps(compiled(), indent=1) + "\n", encoding="utf-8")
