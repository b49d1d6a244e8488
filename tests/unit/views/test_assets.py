"""Vendored files are what they were, and the offline verifier names what it may run."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

import voile
from voile.core.errors import InvalidInput
from voile.views.assets import asset_bytes, find_asset, offline_verifier

VENDORED = [
    Path(voile.__file__).parent / "views" / "vendor" / "htmx",
    Path(__file__).parents[2] / "support" / "vendor" / "axe-core",
]


@pytest.mark.parametrize("folder", VENDORED, ids=lambda folder: folder.name)
def test_a_vendored_file_is_unmodified_and_has_its_licence(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    for line in lines:
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert (folder / "LICENSE").read_text(encoding="utf-8").strip()


def test_the_offline_verifier_runs_its_own_script_and_no_other() -> None:
    page = offline_verifier()
    for tag, source in (("script", "script-src"), ("style", "style-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}'" in page
    assert "http" not in re.sub(
        r"<!--.*?-->", "", page.partition("<body")[2].partition("<script>")[0]
    )


def test_there_are_no_other_files() -> None:
    assert find_asset("../html.py") is None
    with pytest.raises(InvalidInput):
        asset_bytes("html.py")
